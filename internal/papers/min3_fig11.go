package main

// min3Fig11 is figure 11 of Gupta & Vadhiyar (§6.3): allgathers on one cluster.
var min3Fig11 = experiment{
	id: "min3-fig11", paper: min3Paper, where: "§6.3, figure 11",
	title: "Allgather on one site, by block size",
	about: `Setup 3 of the paper, the 8 hosts in Amsterdam, planned for full-duplex hosts. MagPIe and MPICH-G2 are for grids and
not compared.`,
	sweeps: []sweep{
		allgatherSweep("paper-1site-nth", clusterContenders, ModelFull, gridSizes, nil),
		allgatherSweep("paper-1site-nth", clusterContenders, Simulated, gridSizes, gridEmulatedSizes),
	},
	report: func(raw *Raw, p *page) {
		for _, s := range []Source{ModelFull, Simulated, Emulated} {
			p.compare(raw, comparison{arena: "paper-1site-nth", source: s, draw: clusterContenders, metric: seconds, title: "8 hosts in Amsterdam"})
			sizes := sizesOf(raw, s, "paper-1site-nth", clusterContenders...)
			if len(sizes) == 0 {
				continue
			}
			n, slower := sizes[len(sizes)-1], 0
			for _, z := range sizes {
				if best := min(raw.mean(s, "paper-1site-nth", "mpich", z), raw.mean(s, "paper-1site-nth", "spreading-simple", z)); raw.mean(s, "paper-1site-nth", "min3", z) > best {
					slower++
				}
			}
			own := raw.mean(s, "paper-1site-nth", "min3", n)
			p.add(s, judge(slower == len(sizes), slower > 0),
				"algorithms for homogeneous networks do much better than Min3 on one cluster",
				"at %s Min3 is %s MPICH's and %s spreading simple; the better of both beats it at %d of %d sizes", inBytes(n),
				faster(own, raw.mean(s, "paper-1site-nth", "mpich", n)), faster(own, raw.mean(s, "paper-1site-nth", "spreading-simple", n)), slower, len(sizes))
		}
	},
}

var clusterContenders = []string{"min3", "clustered", "mateescu", "mpich", "spreading-simple"}
