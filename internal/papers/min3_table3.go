package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/min3"
	"github.com/gridagent/gridagent/pools"
)

// min3Table3 is table 3 of Gupta & Vadhiyar (§6.3): what making a schedule costs.
var min3Table3 = experiment{
	id: "min3-table3", paper: min3Paper, where: "§6.3, table 3",
	title: "What making a Min3 schedule costs",
	about: `From a measured map to a plan, blocks of 64 KiB, wall clock of this machine, the fastest of many runs: the pool tree (the paper's sorting,
thresholds and pools) and the schedule. The paper says neither which of its machines, of 933 to 1532 MHz, nor which host
model its times are of. How this grows with the number of hosts: docs/scheduling-cost.md.`,
	more: measureTable3,
	report: func(raw *Raw, p *page) {
		t := table{title: "Scheduling", head: []string{"", "hosts", "paper: pools", "paper: schedule", "here: pools", "here: half duplex", "here: full duplex", "paper / here"}}
		least, most, share := 0.0, 0.0, 0.0 // how many times faster; the share of the pools, at most
		for _, s := range table3 {
			r, _ := raw.find(Timed, s.arena, "min3 pools", 0)
			halves, _ := raw.find(Timed, s.arena, "min3 schedule, half duplex", 0)
			fulls, _ := raw.find(Timed, s.arena, "min3 schedule, full duplex", 0)
			pool, half, full := r.Min, halves.Min, fulls.Min
			if pool == 0 || half == 0 || full == 0 {
				continue
			}
			ratio := s.total * 1e-6 / (pool + max(half, full))
			if least == 0 || ratio < least {
				least = ratio
			}
			most = max(most, ratio)
			share = max(share, pool/(pool+max(half, full)))
			t.rows = append(t.rows, []string{s.name, fmt.Sprint(r.Hosts), duration((s.sort + s.thres + s.pools) * 1e-6), duration(s.sched * 1e-6),
				duration(pool), duration(half), duration(full), digits(ratio, 3)})
		}
		p.tables = append(p.tables, t)
		if least > 0 {
			p.add(Timed, costVerdict(least, most), "scheduling costs 0.1 to 0.3 s for 8 to 20 hosts",
				"it costs %s to %s times less, on a machine of another time", digits(least, 3), digits(most, 3))
			p.add(Timed, judge(share < 0.1, share < 0.5), "nearly all of that is the schedule itself",
				"the pools are up to %s of it; in the paper up to %s", percent(share), percent(paperShare()))
		}
	},
}

// table3 are the numbers of table 3, in microseconds.
var table3 = []struct {
	name, arena                      string
	sort, thres, pools, sched, total float64
}{
	{"setup 1, three sites", "paper-3site", 326.86, 15.71, 392.29, 282270, 283010},
	{"setup 2, two sites", "paper-2site-europe", 50.7, 9.3, 85.8, 166780, 166920},
	{"setup 3, one site", "paper-1site-nth", 36.75, 9, 19.25, 108930, 108990},
}

// costVerdict judges costs that are so many times less than the paper's. What is within a factor of two of them
// agrees, and within one of ten partly: machines are others.
func costVerdict(least, most float64) verdict {
	within := func(factor float64) bool { return least >= 1/factor && most <= factor }
	return judge(within(2), within(10))
}

// paperShare is the largest part of the costs that is not the schedule's in table 3.
func paperShare() float64 {
	share := 0.0
	for _, s := range table3 {
		share = max(share, 1-s.sched/s.total)
	}
	return share
}

func measureTable3(ctx context.Context, r *runner, raw *Raw) error {
	for _, s := range table3 {
		a, err := arenaOf(s.arena)
		if err != nil {
			return err
		}
		record := Record{Source: Timed, Tool: "gridagent", Collective: string(plan.Allgather), Algorithm: "min3", Grid: a.name, Hosts: a.hosts(), Verified: true}
		add := func(variant string, once func() error) error {
			times, err := timed(ctx, once)
			if err != nil {
				return err
			}
			x := record.of(times)
			x.Variant = variant
			raw.Records = append(raw.Records, x)
			return nil
		}
		err = add("pools", func() error { _, err := pools.Build(a.problem.Snapshot, pools.Config{}); return err })
		for _, d := range []plan.Duplex{plan.HalfDuplex, plan.FullDuplex} {
			if err == nil {
				err = add(fmt.Sprintf("schedule, %v duplex", d), func() error {
					_, err := min3.Schedule(a.problem.Snapshot, a.problem.Tree, []int64{64 << 10}, min3.Options{Duplex: d})
					return err
				})
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// timed returns the seconds of many runs of once, after some to warm up.
func timed(ctx context.Context, once func() error) ([]float64, error) {
	var times []float64
	for i := range 220 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := once(); err != nil {
			return nil, err
		}
		if i >= 20 {
			times = append(times, time.Since(began).Seconds())
		}
	}
	return times, nil
}
