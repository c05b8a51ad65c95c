package main

import (
	"slices"
)

var fullNames = []string{"aapc sender all", "aapc barrier partial & sender (16)", "aapc barrier partial & sender (8)",
	"aapc barrier partial & sender (4)", "aapc barrier all"}

// aapcFig13 is figure 13 of Faraj, Yuan & Patarasuk, §6: fully synchronised schemes, large messages.
var aapcFig13 = schemesFigure("aapc-fig13", "figure 13", "Alltoall: fully synchronised schemes with large messages",
	"Pair-wise synchronisation by the sender, with a barrier after every 16, 8, 4 phases and after each.",
	[]int{2, 4}, fullNames, largeSizes, largeSizes,
	func(raw *Raw, p *page, s Source, a string) {
		sizes := sizesOf(raw, s, a, fullNames...)
		large := sizes[len(sizes)-1]
		order := slices.Clone(fullNames)
		slices.SortStableFunc(order, func(x, y string) int {
			switch d := raw.mean(s, a, x, large) - raw.mean(s, a, y, large); {
			case d < 0:
				return -1
			case d > 0:
				return 1
			}
			return 0
		})
		var words []string
		for _, name := range order {
			words = append(words, shown(name))
		}
		gap := raw.mean(s, a, "aapc barrier all", large) / raw.mean(s, a, "aapc sender all", large)
		p.add(s, judge(slices.Equal(order, fullNames), gap >= 1), "from fast to slow: sender all, barriers with sender every 16, 8, 4 phases, barrier all",
			"%s, %s: %s; barrier all takes %s the time of sender all", short(a), inBytes(large), list(words), times(gap))
	})
