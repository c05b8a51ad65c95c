package main

import (
	"context"
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/ring"
)

// ringsFig11 is figure 11 of Faraj, Patarasuk & Yuan: path lengths on random networks.
var ringsFig11 = experiment{
	id: "rings-fig11", paper: ringsPaper, where: "§5, figure 11",
	title: "Path lengths of logical rings on random networks",
	about: `The longest path, in switches, on rings by LR1 and LR3 over breadth-first, depth-first and random spanning trees of random
networks: five hosts a switch, four links a switch on average, 50 networks of each size. The paper has its networks from
GT-ITM; ours are uniform random trees with random links added. Its text does not say the sizes. "Ranks" is a ring that knows of no
switches: how many messages share its most loaded link in every step, which is how many times as long it takes.`,
	more: func(ctx context.Context, r *runner, raw *Raw) error {
		cfg := ring.StudyConfig{Seed: 1}
		if r.quick {
			cfg.Hosts = []int{64, 128}
		}
		rows, err := ring.Study(ctx, cfg)
		raw.Study = rows
		return err
	},
	report: func(raw *Raw, p *page) {
		hosts := axis{label: "hosts", counts: true}
		lr1 := panel{title: "LR1", x: hosts, y: axis{label: "longest path (switches)", log: true}}
		lr3 := panel{title: "LR3", x: hosts, y: axis{label: "longest path (switches)", zero: true}}
		t := table{title: "Means over the networks", head: []string{"spanning tree", "hosts", "switches", "LR1", "longest LR1", "LR3", "longest LR3", "LR3 of 3 or less", "ranks: load"}}
		by := make(map[plan.Spanning]int) // index of the series
		largest := make(map[plan.Spanning]ring.StudyRow)
		three, count, spread := 0.0, 0, 0.0
		for _, r := range raw.Study {
			i, ok := by[r.Spanning]
			if !ok {
				i = len(by)
				by[r.Spanning] = i
				name := spanningNames[r.Spanning]
				lr1.series, lr3.series = append(lr1.series, series{name: name}), append(lr3.series, series{name: name})
			}
			lr1.series[i].xy = append(lr1.series[i].xy, point(float64(r.Hosts), r.LR1))
			lr3.series[i].xy = append(lr3.series[i].xy, point(float64(r.Hosts), r.LR3))
			t.rows = append(t.rows, []string{spanningNames[r.Spanning], fmt.Sprint(r.Hosts), fmt.Sprint(r.Switches), digits(r.LR1, 3), fmt.Sprint(r.WorstLR1),
				digits(r.LR3, 3), fmt.Sprint(r.WorstLR3), percent(r.ThreeHops), digits(r.RankLoad, 3)})
			largest[r.Spanning] = r
			three += r.ThreeHops
			spread = max(spread, r.LR3)
			count++
		}
		p.panels = append(p.panels, lr1, lr3)
		p.tables = append(p.tables, t)
		if count == 0 {
			return
		}
		bfs, dfs, random := largest[plan.SpanBFS], largest[plan.SpanDFS], largest[plan.SpanRandom]
		p.add(Simulated, judge(bfs.LR1 > bfs.LR3 && dfs.LR1 > dfs.LR3 && random.LR1 > random.LR3, false), "LR1's paths are much longer than LR3's",
			"%d hosts: %s against %s over breadth-first, %s against %s over depth-first trees",
			bfs.Hosts, digits(bfs.LR1, 3), digits(bfs.LR3, 3), digits(dfs.LR1, 3), digits(dfs.LR3, 3))
		p.add(Simulated, judge(bfs.LR1 < random.LR1 && random.LR1 < dfs.LR1, bfs.LR1 < dfs.LR1),
			"for LR1 breadth-first trees are best, then random ones, then depth-first ones",
			"%d hosts: %s, %s and %s", bfs.Hosts, digits(bfs.LR1, 3), digits(random.LR1, 3), digits(dfs.LR1, 3))
		p.add(Simulated, judge(three/float64(count) > 0.9, three/float64(count) > 0.5),
			"LR3's longest path is 3 with very high probability, whatever the size and the tree",
			"3 or less in %s of all cases; the largest mean is %s", percent(three/float64(count)), digits(spread, 3))
	},
}

var spanningNames = map[plan.Spanning]string{plan.SpanBFS: "breadth first", plan.SpanDFS: "depth first", plan.SpanRandom: "random"}
