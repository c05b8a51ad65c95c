package main

import (
	"slices"
)

// aapcFig12 is figure 12 of Faraj, Yuan & Patarasuk, §6: sender all against the tuned routine.
var aapcFig12 = experiment{
	id: "aapc-fig12", paper: aapcPaper, where: "§6, figure 12",
	title: "Alltoall: sender all and the best scheme",
	about: `*Tuned* is the fastest of the schemes of table 5 at each size.

` + aapcAbout,
	sweeps: []sweep{
		aapcSweep(1, slices.Concat(schemes(), aapcPeers), aapcSizes, aapcEmulated), aapcSweep(3, slices.Concat(schemes(), aapcPeers), aapcSizes, aapcEmulated),
	},
	report: func(raw *Raw, p *page) {
		all := withTuned(raw)
		for _, t := range []int{1, 3} {
			for _, s := range []Source{Simulated, Emulated} {
				a := topology(t)
				p.compare(all, comparison{arena: a, source: s, draw: []string{"aapc tuned", "aapc sender all"}, also: aapcPeers, metric: throughput})
				worst := 0.0
				for _, z := range sizesOf(all, s, a, "aapc tuned", "aapc sender all") {
					if z > 16<<10 {
						worst = max(worst, all.mean(s, a, "aapc sender all", z)/all.mean(s, a, "aapc tuned", z))
					}
				}
				if worst > 0 {
					p.add(s, judge(worst < 1.1, worst < 1.25),
						"above 16 KB sender all is very close to the tuned routine",
						"%s: at most %s its time", short(a), times(worst))
				}
			}
		}
	},
}
