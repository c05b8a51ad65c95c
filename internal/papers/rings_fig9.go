package main

// ringsFig9 is figure 9 of Faraj, Patarasuk & Yuan: LR1, MPICH and LAM/MPI on 16 hosts.
var ringsFig9 = experiment{
	id: "rings-fig9", paper: ringsPaper, where: "§5, figure 9",
	title: "Allgather of 16 hosts on one, two and four switches, by block size",
	about: `LR1, the ring in depth-first order, against what the paper compares it with, all run by our engine: MPICH (recursive
doubling up to where a host ends with 512 KiB, then a ring in rank order) and LAM/MPI (a gather and a binomial
broadcast). Links of 100 Mbit/s. The topologies are our reading of the text, see configs/grids/README.md. ` + portsText,
	sweeps: []sweep{
		ringSweep("allgather-a", ringContenders, ringSizes), ringSweep("allgather-b", ringContenders, ringSizes),
		ringSweep("allgather-c", ringContenders, ringSizes), ringSweep("allgather-d", ringContenders, ringSizes),
	},
	report: func(raw *Raw, p *page) {
		arenas := []string{"allgather-a", "allgather-b", "allgather-c", "allgather-d"}
		for _, a := range arenas {
			for _, s := range []Source{Simulated, Emulated} {
				p.compare(raw, comparison{arena: a, source: s, draw: ringContenders, metric: seconds})
			}
		}
		for _, s := range []Source{Simulated, Emulated} {
			sizes := sizesOf(raw, s, "allgather-d", ringContenders...)
			if len(sizes) == 0 {
				continue
			}
			n := sizes[len(sizes)-1]
			spread := func(name string) (most float64) {
				for _, a := range arenas {
					most = max(most, raw.mean(s, a, name, n)/raw.mean(s, "allgather-a", name, n))
				}
				return most
			}
			lr1, mpich, lam := spread("lr1"), spread("mpich"), spread("lam")
			p.add(s, judge(lr1 < 1.15, lr1 < 1.5), "LR1 is nearly as fast on every topology as on one switch",
				"%s: at most %s the time on one switch", inBytes(n), times(lr1))
			p.add(s, judge(mpich > 1.5, mpich > 1.15), "MPICH's ring in rank order is fast on one switch and significantly slower on the others",
				"%s: up to %s the time on one switch", inBytes(n), times(mpich))
			p.add(s, judge(lam < 1.15, lam < 1.5), "LAM/MPI's trees take almost the same time on all four topologies",
				"%s: up to %s the time on one switch", inBytes(n), times(lam))
			at := func(name string) float64 { return raw.mean(s, "allgather-d", name, n) }
			p.add(s, judge(at("lr1") < at("mpich") && at("lr1") < at("lam"), false), "on topology (d) LR1 is much faster than both",
				"%s: %s MPICH, %s LAM/MPI; %s the bound", inBytes(n), faster(at("lr1"), at("mpich")), faster(at("lr1"), at("lam")), ratioText(raw, s, "allgather-d", "lr1", n))
		}
	},
}
