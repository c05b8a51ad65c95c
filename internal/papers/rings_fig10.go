package main

import (
	"fmt"
)

// ringsFig10 is figure 10 of Faraj, Patarasuk & Yuan: 32 hosts, ranks in order and scattered.
var ringsFig10 = experiment{
	id: "rings-fig10", paper: ringsPaper, where: "§5, figure 10",
	title: "Allgather of 32 hosts on four switches, ranks in order and scattered",
	about: `The same cables twice: in topology (e) ranks follow the switches, in (f) they are scattered, so that a ring in rank order
crosses switches in every step. LR1 looks at the switches and does not care. Links of 100 Mbit/s; contenders as in figure 9. ` + portsText,
	sweeps: []sweep{ringSweep("allgather-e", ringContenders, ringSizes), ringSweep("allgather-f", ringContenders, ringSizes)},
	report: func(raw *Raw, p *page) {
		for _, a := range []string{"allgather-e", "allgather-f"} {
			for _, s := range []Source{Simulated, Emulated} {
				p.compare(raw, comparison{arena: a, source: s, draw: ringContenders, metric: seconds})
			}
		}
		const n = 128 << 10
		t := table{title: fmt.Sprintf("Topology (f) at %s", inBytes(n)), head: []string{"", "paper", "paper: over LR1", "simulated", "simulated: over LR1", "emulated", "emulated: over LR1"}}
		for _, x := range paperRingsF {
			row := []string{x.name, duration(x.ms / 1e3), times(x.ms / paperRingsF[0].ms)}
			for _, s := range []Source{Simulated, Emulated} {
				own, lr1 := raw.mean(s, "allgather-f", x.name, n), raw.mean(s, "allgather-f", "lr1", n)
				if own == 0 || lr1 == 0 {
					row = append(row, "–", "–")
					continue
				}
				row = append(row, duration(own), times(own/lr1))
			}
			t.rows = append(t.rows, row)
		}
		p.tables = append(p.tables, t)
		for _, s := range []Source{Simulated, Emulated} {
			lr1e, mpichE := raw.mean(s, "allgather-e", "lr1", n), raw.mean(s, "allgather-e", "mpich", n)
			lr1f, mpichF, lamF := raw.mean(s, "allgather-f", "lr1", n), raw.mean(s, "allgather-f", "mpich", n), raw.mean(s, "allgather-f", "lam", n)
			if lr1e == 0 || lr1f == 0 {
				continue
			}
			p.add(s, judge(mpichE/lr1e < 1.1, false), "in rank order MPICH's ring is as good as LR1", "%s: MPICH is %s LR1", inBytes(n), faster(mpichE, lr1e))
			p.add(s, judge(mpichF/lr1f > 4, mpichF/lr1f > 1.5),
				fmt.Sprintf("scattered, MPICH takes %s and LAM/MPI %s the time of LR1 at 128 KB", times(paperRingsF[1].ms/paperRingsF[0].ms), times(paperRingsF[2].ms/paperRingsF[0].ms)),
				"%s and %s", times(mpichF/lr1f), times(lamF/lr1f))
		}
	},
}

// paperRingsF are the completion times of §5 for 128 KB on topology (f), in ms.
var paperRingsF = []struct {
	name string
	ms   float64
}{{"lr1", 473.7}, {"mpich", 3595}, {"lam", 5346}}
