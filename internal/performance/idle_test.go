package main

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// measureIdle: Cell.Runs agents at ten sites all start at one instant and are left alone for Cell.Settle, and then watched for as long. What they take in all goes to each in equal
// parts, and holds what the emulated network takes, and a bubble's clock: a fifth of the start, of 60 agents. CPU time is the machine's.
func measureIdle(t *testing.T, r *Reading) {
	sites := make([]int, 10)
	for i := range sites {
		sites[i] = r.Cell.Runs / len(sites)
	}
	n, settle := float64(r.Cell.Runs), r.Cell.Settle
	cfg := gridtest.Config{Grid: gridtest.Sites(t, "4Mbps", "20ms", sites...), Seed: r.Cell.Seed, Early: true, Patience: time.Hour}
	begin := cpuTime(t)
	gridtest.Run(t, cfg, func(cl *gridtest.Cluster) {
		if err := cl.WaitMembers(cl.Ctx); err != nil {
			cl.T.Fatal(err)
		}
		r.check("CPU seconds of an agent until all see all", (cpuTime(t)-begin).Seconds()/n, 0)
		time.Sleep(settle)
		before, sent := cpuTime(t), egress(cl)
		time.Sleep(settle)
		r.check("CPU ms a second of an agent after "+settle.String(), 1e3*(cpuTime(t)-before).Seconds()/settle.Seconds()/n, 0)
		r.check("kB a second that it sends", float64(egress(cl)-sent)/1e3/settle.Seconds()/n, 0)
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		r.check("MB of heap", float64(m.HeapAlloc)/1e6/n, 0)
		r.check("MB of stacks", float64(m.StackInuse)/1e6/n, 0)
		r.check("goroutines", float64(runtime.NumGoroutine())/n, 0)
	})
}

// egress is what all hosts have sent, in bytes of IP.
func egress(cl *gridtest.Cluster) (n int64) {
	for _, h := range cl.Net.Stats().Hosts {
		n += int64(h.Egress.Delivered.Bytes)
	}
	return n
}

// cpuTime is what this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
