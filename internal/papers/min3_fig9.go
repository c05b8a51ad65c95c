package main

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/gantt"
)

// min3Fig9 is figure 9 of Gupta & Vadhiyar (§6.3): how many transfers cross between sites at a time.
var min3Fig9 = experiment{
	id: "min3-fig9", paper: min3Paper, where: "§6.3, figure 9",
	title: "Simultaneous transfers over the wide area, over time",
	about: `How many transfers between sites are under way, as in the paper from the start and end of each: of the model's
transfers, and of the emulated ones as their receivers saw them, over links that hold each flow to the rate of Table 2.
Full duplex, blocks of 256 and 512 KiB.`,
	sweeps: []sweep{
		fig9Sweep("paper-3site", ModelFull, fig9Sizes, nil),
		fig9Sweep("paper-3site-held", Simulated, nil, fig9Sizes),
	},
	report: func(raw *Raw, p *page) {
		t := table{title: "Transfers between sites", head: []string{"", "size", "transfers", "most at a time", "mean at a time", "first begins after", "time without any", "ends after"}}
		for _, s := range []Source{ModelFull, Emulated} {
			for _, n := range fig9Sizes {
				d := panel{title: fmt.Sprintf("%s, %s", s, inBytes(n)), x: axis{label: "time (s)", zero: true}, y: axis{label: "transfers", log: true}}
				var of [3]activity
				found := 0
				for i, name := range fig9Contenders {
					k := slices.IndexFunc(raw.Timelines, func(x Timeline) bool { return x.Source == s && x.Name == name && x.SizeBytes == n })
					if k < 0 {
						continue
					}
					found++
					line := raw.Timelines[k]
					whole := raw.mean(s, line.Grid, name, n)
					of[i] = activityOf(line.Steps, whole)
					xy := series{name: shown(name), step: true}
					for _, st := range line.Steps {
						xy.xy = append(xy.xy, point(st.At, max(none, float64(st.Count))))
					}
					d.series = append(d.series, xy)
					t.rows = append(t.rows, []string{fmt.Sprintf("%s, %s", shown(name), s), inBytes(n), fmt.Sprint(line.Transfers), fmt.Sprint(of[i].most),
						digits(of[i].mean, 3), duration(of[i].first), percent(of[i].idle), duration(whole)})
				}
				if found == 0 {
					continue
				}
				p.panels = append(p.panels, d)
				if found < len(of) {
					continue
				}
				own, trees, magpie := of[0], of[1], of[2]
				p.add(s, judge(own.mean > magpie.mean && trees.mean > magpie.mean, own.mean > magpie.mean),
					"Min3 and Mateescu's trees have more transfers over the wide area at a time than MagPIe",
					"%s: %s, %s and %s at a time on average", inBytes(n), digits(own.mean, 3), digits(trees.mean, 3), digits(magpie.mean, 3))
				p.add(s, judge(magpie.first > own.first && magpie.first > trees.first, magpie.first > own.first),
					"MagPIe's transfers over the wide area begin later: its local phase comes first",
					"%s: after %s, against %s for Min3 and %s for Mateescu's trees", inBytes(n), duration(magpie.first), duration(own.first), duration(trees.first))
				p.add(s, judge(own.end < trees.end && own.end < magpie.end, own.end < trees.end || own.end < magpie.end),
					"Min3 ends first; Mateescu's trees send blocks over a link several times",
					"%s: Min3 is %s Mateescu's trees and %s MagPIe", inBytes(n), faster(own.end, trees.end), faster(own.end, magpie.end))
			}
		}
		p.tables = append(p.tables, t)
	},
}

var (
	fig9Sizes      = []int64{256 << 10, 512 << 10}
	fig9Contenders = []string{"min3", "mateescu", "magpie"}
)

func fig9Sweep(arena string, s Source, predicted, emulated []int64) sweep {
	w := allgatherSweep(arena, fig9Contenders, s, predicted, emulated)
	w.timeline = true
	return w
}

// none stands for no transfers on a logarithmic scale.
const none = 0.7

// An activity sums up a timeline.
type activity struct {
	most             int
	mean             float64 // while there is any
	first, end, idle float64 // seconds until the first begins and the collective ends; share of the time without any
}

// activityOf sums up the steps of a collective that takes whole seconds.
func activityOf(steps []gantt.Step, whole float64) activity {
	a := activity{end: whole}
	if len(steps) == 0 {
		return a
	}
	a.first = steps[0].At
	busy, area := 0.0, 0.0
	for i := 1; i < len(steps); i++ {
		a.most = max(a.most, steps[i-1].Count)
		if d := steps[i].At - steps[i-1].At; steps[i-1].Count > 0 {
			busy += d
			area += d * float64(steps[i-1].Count)
		}
	}
	if busy > 0 {
		a.mean = area / busy
	}
	if whole > 0 {
		a.idle = max(0, 1-busy/whole)
	}
	return a
}
