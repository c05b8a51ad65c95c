package main

import (
	"context"

	"github.com/gridagent/gridagent/exchange/plan"
)

// exchangeFig2 is figure 2 of Tam & Wang (§4.1): the bandwidth that the exchanges reach, by k.
var exchangeFig2 = experiment{
	id: "exchange-fig2", paper: exchangePaper, where: "§4.1, figure 2",
	title: "Complete exchange on one switch, by message length",
	about: `What each of 16 hosts on one switch sends in a second, for messages of k packets of 1492 bytes, k from 4 to 768 as in
the paper. The *model* is the paper's cost formulas (equations 2 to 5) with the parameters of its table 1 for the switch
8275-326. *Simulated* and *emulated* are 16 hosts of 100 Mbit/s on one switch; a plan does not order packets, so the shuffles
are what the engine makes of them: all messages of a round side by side. ` + deepPortsText,
	sweeps: []sweep{{
		arena: switchArena, collective: plan.Alltoall, contenders: shuffleContenders,
		predicted: packets(4, 8, 16, 32, 64, 128, 256, 512, 768),
		emulated:  packets(4, 8, 16, 32, 64, 128, 256, 512, 768),
	}},
	more: func(_ context.Context, _ *runner, raw *Raw) error {
		modelRecords(raw, costModel("326"), "", packets(4, 8, 16, 32, 64, 128, 256, 512, 768))
		return nil
	},
	report: func(raw *Raw, p *page) {
		for _, s := range []Source{Model, Simulated, Emulated} {
			p.compare(raw, comparison{arena: switchArena, source: s, draw: shuffleContenders, metric: bandwidth, label: inPackets, x: "message size"})
			sizes := sizesOf(raw, s, switchArena, shuffleContenders...)
			if len(sizes) < 2 {
				continue
			}
			small, large := sizes[0], sizes[len(sizes)-1]
			at := func(name string, n int64) float64 { return raw.mean(s, switchArena, name, n) }
			gapSmall, gapLarge := at("shift", small)/at("sync-shuffle", small), at("shift", large)/at("sync-shuffle", large)
			p.add(s, judge(gapSmall > 1.1 && gapLarge < gapSmall, gapSmall > gapLarge),
				"shift and pairwise do poorly with short messages and catch up with long ones",
				"at %s shift takes %s and pairwise %s of the time of the synchronous shuffle, at %s %s and %s",
				inPackets(small), times(gapSmall), times(at("pairwise", small)/at("sync-shuffle", small)),
				inPackets(large), times(gapLarge), times(at("pairwise", large)/at("sync-shuffle", large)))
			g := at("group-shuffle ω=5", small)
			p.add(s, judge(g >= at("sync-shuffle", small) && g <= at("pairwise", small), g <= at("pairwise", small)),
				"group shuffle is slightly slower than the synchronous shuffle and much better than pairwise",
				"at %s it is %s the synchronous shuffle and %s pairwise", inPackets(small), faster(g, at("sync-shuffle", small)), faster(g, at("pairwise", small)))
		}
	},
}
