package planner

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/min3"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// gridOf is a grid of n hosts on so many sites, whose links are all different.
func gridOf(b *testing.B, n, sites int) *Problem {
	hosts := make([]netmap.Host, n)
	for i := range hosts {
		hosts[i] = netmap.Host{Name: fmt.Sprintf("host-%03d.example.org", i), Site: fmt.Sprint(i * sites / n)}
	}
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		for j := range n {
			e := netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 100 * time.Microsecond, Bandwidth: 1000 * netmap.Mbps}
			if x, y := i*sites/n, j*sites/n; x != y {
				e.Latency = time.Duration(10+7*(x+y)) * time.Millisecond
				e.Bandwidth = netmap.BytesPerSec(10+10*x+20*y) * netmap.Mbps
			}
			est[i*n+j] = e
		}
	}
	p := &Problem{Snapshot: netmap.NewSnapshot(1, hosts, est), Options: Options{Links: min3.Shared}}
	var err error
	if p.Tree, err = pools.Build(p.Snapshot, pools.Config{}); err != nil {
		b.Fatal(err)
	}
	return p
}

// cpuTime is what the process has used of all processors: on a busy machine the wall clock says little.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSelect is a plan made cold, as the coordinator of an operation makes it: chosen, verified,
// cut into parts and encoded. B/host is what each host is sent, ms-cpu what all of it takes.
func BenchmarkSelect(b *testing.B) {
	for _, sites := range []int{3, 1, 8, 12, 16} {
		sizes := []int{8, 20, 64, 128}
		if sites >= 8 { // of four hosts
			sizes = []int{4 * sites}
		}
		for _, n := range sizes {
			p := gridOf(b, n, sites)
			for _, p.Collective = range []plan.Collective{plan.Allgather, plan.Alltoall} {
				for _, size := range []int64{64, 64 << 10} {
					p.Sizes, p.Alltoall = slices.Repeat([]int64{size}, n), plan.AlltoallSizes{Uniform: size}
					b.Run(fmt.Sprintf("%s/sites=%d/hosts=%d/size=%d", p.Collective, sites, n, size), func(b *testing.B) {
						chunk := exchange.DefaultChunk(size)
						var choosing, verifying, splitting time.Duration
						var bytes int
						name := ""
						cpu := cpuTime()
						for b.Loop() {
							own := *p
							begun := time.Now()
							s, err := Select(&own, int64(chunk), Advice{})
							if err != nil {
								b.Fatal(err)
							}
							chosen := time.Now()
							if err := plan.Verify(s.Plan, plan.Rules{Chunked: !s.Algorithm.Timed}); err != nil {
								b.Fatal(err)
							}
							verified := time.Now()
							parts, err := exchange.Split(s.Plan, exchange.ID{}, chunk, nil)
							if err != nil {
								b.Fatal(err)
							}
							bytes = 0
							for _, part := range parts {
								bytes += len(part.AppendTo(nil))
							}
							choosing += chosen.Sub(begun)
							verifying += verified.Sub(chosen)
							splitting += time.Since(verified)
							name = s.Algorithm.Name
						}
						b.ReportMetric((cpuTime()-cpu).Seconds()*1e3/float64(b.N), "ms-cpu/op")
						b.ReportMetric(choosing.Seconds()*1e3/float64(b.N), "ms-choosing/op")
						b.ReportMetric(verifying.Seconds()*1e3/float64(b.N), "ms-verifying/op")
						b.ReportMetric(splitting.Seconds()*1e3/float64(b.N), "ms-splitting/op")
						b.ReportMetric(float64(bytes)/float64(n), "B/host")
						b.Log(name)
					})
				}
			}
		}
	}
}

// BenchmarkJudge is what it costs to ask whether a plan that is kept is still the best of its candidates.
func BenchmarkJudge(b *testing.B) {
	var x Experience
	at := middle(someClass)
	for size := -1; size <= 1; size++ {
		for _, alg := range Algorithms(plan.Allgather) {
			s := at
			s.Size += size
			for i := range maxSamples {
				x.Add(s, alg.Name, 1, 1+float64(i)/8, false, noon)
			}
		}
	}
	for b.Loop() {
		j := x.Judge(at, noon)
		for _, alg := range Algorithms(plan.Allgather) {
			j.Factor(alg.Name)
		}
	}
}
