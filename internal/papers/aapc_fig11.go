package main

var barrierNames = []string{"aapc barrier all", "aapc barrier partial & none (4)", "aapc barrier partial & sender (4)",
	"aapc barrier partial & receiver (4)", "aapc no-sync", "aapc sender all"}

// aapcFig11 is figure 11 of Faraj, Yuan & Patarasuk, §6: barriers.
var aapcFig11 = schemesFigure("aapc-fig11", "figure 11", "Alltoall: schemes with barriers",
	"A barrier after every phase, and after every four phases with different synchronisation in between.",
	[]int{2, 4}, barrierNames, aapcSizes, aapcEmulated,
	func(raw *Raw, p *page, s Source, a string) {
		sizes := sizesOf(raw, s, a, barrierNames...)
		n, of := share(sizes, 0, func(z int64) bool {
			hybrid := min(raw.mean(s, a, "aapc barrier partial & sender (4)", z), raw.mean(s, a, "aapc barrier partial & receiver (4)", z))
			return hybrid >= 0.99*min(raw.mean(s, a, "aapc barrier all", z), raw.mean(s, a, "aapc sender all", z))
		})
		p.add(s, judge(n == of, n > 0),
			"barriers with pair-wise synchronisation in between never beat both barrier all and sender all",
			"%s: at %d of %d sizes they do not, by more than 1 %%", short(a), n, of)
		if of == 0 {
			return
		}
		large := sizes[len(sizes)-1]
		x, y := raw.mean(s, a, "aapc barrier partial & none (4)", large), raw.mean(s, a, "aapc no-sync", large)
		p.add(s, judge(x/y > 0.9 && x/y < 1.1, x/y > 0.75 && x/y < 1.33),
			"for large messages barriers with nothing in between do as no-sync does",
			"%s, %s: %s no-sync", short(a), inBytes(large), faster(x, y))
	})
