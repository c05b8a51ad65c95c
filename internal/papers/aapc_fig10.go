package main

import (
	"slices"
)

var partialNames = []string{"aapc no-sync", "aapc sender partial (16)", "aapc sender partial (8)", "aapc sender partial (2)", "aapc sender all"}

// aapcFig10 is figure 10 of Faraj, Yuan & Patarasuk, §6: partial synchronisation.
var aapcFig10 = schemesFigure("aapc-fig10", "figure 10", "Alltoall: partial synchronisation by the sender",
	"Synchronisation between blocks of 2, 8 and 16 phases only, which limits contention.",
	[]int{1, 4}, partialNames, aapcSizes, aapcEmulated,
	func(raw *Raw, p *page, s Source, a string) {
		sizes := sizesOf(raw, s, a, partialNames...)
		best := func(z int64) string {
			who := partialNames[0]
			for _, name := range partialNames {
				if raw.mean(s, a, name, z) < raw.mean(s, a, who, z) {
					who = name
				}
			}
			return who
		}
		n, of := share(sizes, 32<<10, func(z int64) bool {
			return raw.mean(s, a, "aapc sender all", z) <= 1.01*raw.mean(s, a, best(z), z)
		})
		if of > 0 {
			p.add(s, judge(n == of, n > 0),
				"the fully synchronised scheme is best from 32 KB on",
				"%s: within 1 %% of the best at %d of %d sizes; at %s the best is %s", short(a), n, of, inBytes(sizes[len(sizes)-1]), shown(best(sizes[len(sizes)-1])))
		}
		medium := slices.DeleteFunc(slices.Clone(sizes), func(z int64) bool { return z > 16<<10 })
		n, of = share(medium, 2<<10, func(z int64) bool {
			return best(z) != "aapc sender all" && best(z) != "aapc no-sync"
		})
		if of > 0 {
			p.add(s, judge(n == of, n > 0), "for 2 to 16 KB partial synchronisation beats both none and full", "%s: at %d of %d sizes", short(a), n, of)
		}
	})
