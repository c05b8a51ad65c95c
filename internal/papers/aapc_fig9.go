package main

// aapcFig9 is figure 9 of Faraj, Yuan & Patarasuk, §6: four mechanisms of synchronisation.
var aapcFig9 = schemesFigure("aapc-fig9", "figure 9", "Alltoall: none, dummy, pair-wise and barrier synchronisation",
	"Four ways to keep phases apart, from none to barriers.",
	[]int{2, 3}, []string{"aapc no-sync", "aapc dummy", "aapc sender all", "aapc barrier all"}, aapcSizes, aapcEmulated,
	func(raw *Raw, p *page, s Source, a string) {
		sizes := sizesOf(raw, s, a, "aapc no-sync", "aapc dummy", "aapc sender all", "aapc barrier all")
		if len(sizes) == 0 {
			return
		}
		small, large := sizes[0], sizes[len(sizes)-1]
		at := func(name string, z int64) float64 { return raw.mean(s, a, "aapc "+name, z) }
		full := min(at("sender all", large), at("barrier all", large))
		p.add(s, judge(at("no-sync", large) > full*1.05 && at("dummy", large) > full*1.05, at("no-sync", large) > full || at("dummy", large) > full),
			"without synchronisation, and with dummies, throughput is much lower than fully synchronised",
			"%s, %s: no-sync is %s and dummy %s the better of sender all and barrier all",
			short(a), inBytes(large), faster(at("no-sync", large), full), faster(at("dummy", large), full))
		p.add(s, judge(at("barrier all", small) > 1.2*at("sender all", small) && at("barrier all", large) >= 0.99*at("sender all", large),
			at("barrier all", small) > at("sender all", small)),

			"barriers cost very much for small messages and are slightly worse than pair-wise synchronisation even for large ones",
			"%s: barrier all is %s sender all at %s and %s it at %s",
			short(a), faster(at("barrier all", small), at("sender all", small)), inBytes(small), faster(at("barrier all", large), at("sender all", large)), inBytes(large))
	})
