package main

import (
	"context"
)

// exchangeFig3 is figure 3 of Tam & Wang (§4.2): the shuffles on two switches.
var exchangeFig3 = experiment{
	id: "exchange-fig3", paper: exchangePaper, where: "§4.2, figure 3",
	title: "The shuffles on two switches, by the cost model",
	about: `The paper measures both shuffles on a cut-through switch with input buffers (8275-326) and on a store-and-forward switch
with shared buffers (8275-416). Its model, which is shown here with the parameters of its table 1, knows their latencies; it
does not know buffers, and nor does the emulation: the head-of-line blocking of the first switch, which made the
synchronous shuffle fail above k = 512 (§4.3), is out of reach here.`,
	more: func(_ context.Context, _ *runner, raw *Raw) error {
		for _, sw := range []string{"326", "416"} {
			modelRecords(raw, costModel(sw), "on "+sw, packets(4, 8, 16, 32, 64, 128, 256, 512, 768))
		}
		return nil
	},
	report: func(raw *Raw, p *page) {
		names := []string{"sync-shuffle on 326", "sync-shuffle on 416", "group-shuffle on 326", "group-shuffle on 416"}
		p.compare(raw, comparison{arena: switchArena, source: Model, draw: names, metric: bandwidth, label: inPackets, x: "message size"})
		sizes := sizesOf(raw, Model, switchArena, names...)
		if len(sizes) == 0 {
			return
		}
		small, large := sizes[0], sizes[len(sizes)-1]
		loss := func(n int64) float64 {
			return raw.mean(Model, switchArena, "group-shuffle on 416", n)/raw.mean(Model, switchArena, "group-shuffle on 326", n) - 1
		}
		p.add(Model, judge(loss(small) > loss(large), false),
			"store-and-forward costs group shuffle time with short messages and next to nothing with long ones",
			"%s at %s, %s at %s", percent(loss(small)), inPackets(small), percent(loss(large)), inPackets(large))
	},
}
