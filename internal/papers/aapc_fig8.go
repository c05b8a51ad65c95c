package main

// aapcFig8 is figure 8 of Faraj, Yuan & Patarasuk, §6: who tells the next sender.
var aapcFig8 = schemesFigure("aapc-fig8", "figure 8", "Alltoall: synchronisation by the sender and by the receiver",
	"Who tells the next sender: the one before it, when its data have left, or the receiver, when they have arrived.",
	[]int{1, 3}, []string{"aapc sender all", "aapc receiver all"}, aapcSizes, aapcEmulated,
	func(raw *Raw, p *page, s Source, a string) {
		sizes := sizesOf(raw, s, a, "aapc sender all", "aapc receiver all")
		ratio := func(z int64) float64 {
			return raw.mean(s, a, "aapc sender all", z) / raw.mean(s, a, "aapc receiver all", z)
		}
		small, large := sizes[0], sizes[len(sizes)-1]
		p.add(s, judge(ratio(small) > 1 && ratio(large) < 1, ratio(small) > 1 || ratio(large) < 1),
			"by the receiver is better for small messages, by the sender for large ones",
			"%s: by the sender takes %s the time of by the receiver at %s and %s at %s", short(a), times(ratio(small)), inBytes(small), times(ratio(large)), inBytes(large))
	})
