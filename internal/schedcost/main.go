package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	check := flag.Bool("check", false, "measure two sizes once and write nothing: does all of it still work?")
	limit := flag.Duration("limit", 10*time.Second, "leave sizes out of which one run would take longer")
	memory := flag.Float64("memory", 2, "leave sizes out of which one run would allocate more, in GiB")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	lim := limits{*limit, *memory * (1 << 30)}
	if err := cost(ctx, *check, lim); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "schedcost:", err)
		os.Exit(1)
	}
}

// cost measures all and writes the page. It runs in the root of the module.
func cost(ctx context.Context, check bool, lim limits) error {
	tmp, err := os.MkdirTemp("", "schedcost")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	t, err := build(ctx, filepath.Join("internal", "schedcost"), tmp)
	if err != nil {
		return err
	}
	// What is made before the clock starts, such as the plan that is then simulated, takes time as well.
	t.benchTime, t.patience = "30ms", 6*lim.time
	ns := sizes
	if check {
		t.benchTime, ns = "1x", sizes[:3]
	}
	page, err := measureAll(ctx, t, ns, lim)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	page.write(&text)
	if check {
		fmt.Printf("scheduling cost: %d series measured at %v hosts, %d bytes of page not written\n", len(page.rows), ns, text.Len())
		return nil
	}
	return os.WriteFile(filepath.Join("docs", "scheduling-cost.md"), text.Bytes(), 0o644)
}

func measureAll(ctx context.Context, t *tool, ns []int, lim limits) (*page, error) {
	all, err := allSeries()
	if err != nil {
		return nil, err
	}
	p := &page{limits: lim, sizes: ns, machine: machine{
		date: time.Now().UTC(), goVersion: runtime.Version(), cores: runtime.NumCPU(), load: loadAverage(),
	}}
	for _, s := range all {
		points, left, err := climb(ns, lim, t.of(ctx, s))
		if err != nil {
			return nil, err
		}
		last := points[len(points)-1]
		fmt.Fprintf(os.Stderr, "%-40s n=%d: %s s\n", s.path(), last.n, digits(last.seconds))
		p.rows = append(p.rows, row{s, points, left})
	}
	if p.paper, err = t.run(ctx, []string{"BenchmarkPaper"}, repeats); err != nil {
		return nil, err
	}
	p.machine.config = t.config
	return p, nil
}

// loadAverage returns how many processes wanted a core in the last minute, "" where the
// system does not tell.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
