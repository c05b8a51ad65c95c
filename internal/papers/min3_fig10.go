package main

// min3Fig10 is figure 10 of Gupta & Vadhiyar (§6.3): allgathers on the two European sites.
var min3Fig10 = experiment{
	id: "min3-fig10", paper: min3Paper, where: "§6.3, figure 10",
	title: "Allgather on two European sites, by block size",
	about: `Setup 2 of the paper, 4 hosts in Belfast and 8 in Amsterdam, planned for full-duplex hosts; beside the algorithms of figure 8
those for one cluster: MPICH's (recursive doubling, Bruck's or a ring, by size) and spreading simple. The model has a
link for every pair of hosts; the links of the simulation and emulation hold each flow to 4.75 Mbit/s and have
room for eight, or are one pipe of 4.75 Mbit/s for all.`,
	sweeps: []sweep{
		allgatherSweep("paper-2site-europe", europeContenders, ModelFull, gridSizes, nil),
		allgatherSweep("paper-2site-europe-held", europeContenders, Simulated, gridSizes, gridEmulatedSizes),
		allgatherSweep("paper-2site-europe", europeContenders, Simulated, gridSizes, gridEmulatedSizes),
	},
	report: func(raw *Raw, p *page) {
		for _, c := range []comparison{
			{arena: "paper-2site-europe", source: ModelFull, title: "a link for each pair of hosts"},
			{arena: "paper-2site-europe-held", source: Simulated, title: "links hold each flow"},
			{arena: "paper-2site-europe-held", source: Emulated, title: "links hold each flow"},
			{arena: "paper-2site-europe", source: Simulated, title: "links are pipes for all"},
			{arena: "paper-2site-europe", source: Emulated, title: "links are pipes for all"},
		} {
			c.draw, c.metric = europeContenders, seconds
			p.compare(raw, c)
			rest := others(europeContenders, "min3")
			mean, n, of := improvement(raw, c.source, c.arena, "min3", rest)
			if of == 0 {
				continue
			}
			size, ok := firstWin(raw, c.source, c.arena, "min3", rest)
			p.add(c.source, winsBetween(size, ok, 64<<10+1, 256<<10),
				"Min3 is the fastest above 64 KB, and not below",
				"%s: %s less time than the others on average (faster in %d of %d comparisons); %s", c.title, percent(mean), n, of, winsFrom(size, ok))
		}
	},
}

var europeContenders = append(fullContenders[:len(fullContenders):len(fullContenders)], "mpich", "spreading-simple")
