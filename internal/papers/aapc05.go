package main

import (
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Faraj & Yuan, IPDPS 2005, §6, figures 6 to 8: the generated routine against LAM/MPI and MPICH.
var aapc05Experiments = []experiment{
	aapc05("aapc05-fig6", "figure 6", "aapc-conf-a", [][3]float64{
		{29.7, 30.7, 56.5}, {61.4, 58.1, 71.4}, {128.2, 117.6, 86.0}, {468.8, 309.7, 217.7}, {633.7, 410.0, 398.0}, {1157, 721, 715},
	}),
	aapc05("aapc05-fig7", "figure 7", "aapc-conf-b", [][3]float64{
		{199, 155, 212}, {403, 308, 341}, {848, 613, 632}, {1827, 1374, 1428}, {3338, 2989, 2595}, {6550, 5405, 4836},
	}),
	aapc05("aapc05-fig8", "figure 8", "aapc-conf-c", [][3]float64{
		{242, 238, 271}, {495, 476, 443}, {1034, 958, 868}, {2127, 2061, 1700}, {4080, 4379, 3372}, {8375, 8210, 6396},
	}),
}

var (
	aapc05Sizes      = []int64{8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10}
	aapc05Contenders = []string{"aapc sender all", "mpich", "lam"}
)

// aapc05 is the experiment of one figure; theirs are its completion times in ms, for aapc05Sizes: LAM,
// MPICH, theirs.
func aapc05(id, figure, arena string, theirs [][3]float64) experiment {
	return experiment{
		id: id, paper: aapc05Paper, where: "§6, " + figure,
		title: fmt.Sprintf("Alltoall on %s: scheduled, MPICH and LAM/MPI", titleOf(arena)),
		about: `The scheduled exchange with synchronisations by the sender, as the paper's generated routine has them, against the
algorithms of MPICH and LAM/MPI, all run by our engine, on links of 100 Mbit/s. *Paper* are the completion times that it prints;
its machines are others: compare ratios. Topologies are our reading of the text, see configs/grids/README.md. ` + portsText,
		sweeps: []sweep{{arena: arena, collective: plan.Alltoall, contenders: aapc05Contenders, predicted: aapc05Sizes, emulated: aapc05Sizes}},
		report: func(raw *Raw, p *page) {
			printed := paperRecords(arena, theirs)
			for _, r := range raw.of(Simulated, arena) { // the bound is the same for all
				for i := range printed {
					if printed[i].SizeBytes == r.SizeBytes {
						printed[i].Bound = r.Bound
					}
				}
			}
			both := &Raw{Records: append(printed, raw.Records...)}
			sources := []Source{Paper, Simulated, Emulated}
			for _, s := range sources {
				p.compare(both, comparison{arena: arena, source: s, draw: aapc05Contenders, metric: throughput})
			}
			for _, s := range sources[1:] {
				agree, count, theirWins, ourWins := 0, 0, 0, 0
				for _, n := range sizesOf(raw, s, arena, aapc05Contenders...) {
					own, they := wins(raw, s, arena, "aapc sender all", aapcPeers, n), wins(both, Paper, arena, "aapc sender all", aapcPeers, n)
					count++
					if own == they {
						agree++
					}
					if own {
						ourWins++
					}
					if they {
						theirWins++
					}
				}
				if count == 0 {
					continue
				}
				p.add(s, judge(agree == count, agree*2 >= count),
					fmt.Sprintf("the scheduled routine is the fastest of the three, or within %s of it, at %d of %d sizes, the large ones", percent(tie), theirWins, count),
					"at %d of %d sizes; the same answer as in the paper at %d", ourWins, count, agree)
				n := aapc05Sizes[len(aapc05Sizes)-1]
				if own := raw.mean(s, arena, "aapc sender all", n); own > 0 {
					gain := func(r *Raw, s Source) float64 {
						return min(r.mean(s, arena, "mpich", n), r.mean(s, arena, "lam", n)) / r.mean(s, arena, "aapc sender all", n)
					}
					x, _ := both.find(Paper, arena, "aapc sender all", n)
					p.add(s, judge(standing(gain(raw, s)) == standing(gain(both, Paper)), standing(gain(raw, s))*standing(gain(both, Paper)) == 0),
						fmt.Sprintf("at %s the better of MPICH and LAM/MPI takes %s its time; it takes %s the bound", inBytes(n), times(gain(both, Paper)), times(x.ratio())),
						"%s its time; %s the bound", times(gain(raw, s)), ratioText(raw, s, arena, "aapc sender all", n))
				}
			}
		},
	}
}

// paperRecords are printed completion times in ms as records.
func paperRecords(arena string, rows [][3]float64) []Record {
	var out []Record
	hosts := 32
	if arena == "aapc-conf-a" {
		hosts = 24
	}
	for i, row := range rows {
		for k, who := range []struct{ algorithm, variant string }{{"lam", ""}, {"mpich", ""}, {"aapc", "sender all"}} {
			r := Record{Source: Paper, Tool: "paper", Collective: string(plan.Alltoall),
				Algorithm: who.algorithm, Variant: who.variant, Grid: arena, Hosts: hosts, SizeBytes: aapc05Sizes[i]}
			out = append(out, r.one(row[k]/1e3))
		}
	}
	return out
}

// standing is 1 where a ratio of a peer's time to ours is a win, -1 where it is a loss, and 0 in between.
func standing(ratio float64) int {
	switch {
	case ratio > 1+tie:
		return 1
	case ratio < 1-tie:
		return -1
	}
	return 0
}
