package main

import (
	"slices"
)

// aapcFig7 is figure 7 of Faraj, Yuan & Patarasuk, §6: the tuned routine against MPICH and LAM.
var aapcFig7 = experiment{
	id: "aapc-fig7", paper: aapcPaper, where: "§6, figure 7",
	title: "Alltoall: the best scheduled exchange, MPICH and LAM/MPI",
	about: `*Tuned* is the fastest of the schemes of table 5 at each size, as the paper's automatic tuning would take it.

` + aapcAbout,
	sweeps: []sweep{
		aapcSweep(1, slices.Concat(schemes(), aapcPeers), aapcSizes, aapcEmulated), aapcSweep(2, slices.Concat(schemes(), aapcPeers), aapcSizes, aapcEmulated),
		aapcSweep(3, slices.Concat(schemes(), aapcPeers), aapcSizes, aapcEmulated), aapcSweep(4, slices.Concat(schemes(), aapcPeers), aapcSizes, aapcEmulated),
	},
	report: func(raw *Raw, p *page) {
		all := withTuned(raw)
		for t := 1; t <= 4; t++ {
			for _, s := range []Source{Simulated, Emulated} {
				a := topology(t)
				p.compare(all, comparison{arena: a, source: s, draw: []string{"aapc tuned", "mpich", "lam"}, also: schemes(), metric: throughput})
				sizes := sizesOf(all, s, a, "aapc tuned", "mpich", "lam")
				if len(sizes) == 0 {
					continue
				}
				n, of := share(sizes, 4<<10+1, func(z int64) bool { return wins(all, s, a, "aapc tuned", aapcPeers, z) })
				ahead, _ := share(sizes, 4<<10+1, func(z int64) bool {
					return all.mean(s, a, "aapc tuned", z)*(1+tie) < min(all.mean(s, a, "mpich", z), all.mean(s, a, "lam", z))
				})
				large := sizes[len(sizes)-1]
				best, _ := tuned(raw, s, a, large)
				peer := min(all.mean(s, a, "mpich", large), all.mean(s, a, "lam", large))
				p.add(s, judge(n == of && 2*ahead >= of, n > 0), "the tuned routine is faster than MPICH and LAM/MPI above 4 KB",
					"%s: by over %s at %d of %d sizes above 4 KiB, and not slower by that at %d; at %s it is %s the better of both and %s the bound (%s)",
					short(a), percent(tie), ahead, of, n, inBytes(large), faster(best.Mean, peer), times(best.ratio()), shown(best.name()))
			}
		}
	},
}
