package agent

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
)

// TestAlone: what operations taught, of which each comes as soon as the one before it is through, though news of that comes later than the next one begins; and of which
// some share the links.
func TestAlone(t *testing.T) {
	const second = time.Second
	for _, tt := range []struct {
		name                string
		from, to            time.Duration // of the second operation; the first takes the first second
		newsFirst, newsNext time.Duration // when it is heard that each is over
		spread              time.Duration // of both
		learnt              int
	}{
		{"one after the other", 1100 * time.Millisecond, 2 * second, 1050 * time.Millisecond, 2 * second, 0, 2},
		{"late news", second, 2 * second, 1100 * time.Millisecond, 2100 * time.Millisecond, 0, 2},
		{"late news, and a little of both at a time", 970 * time.Millisecond, 2 * second, 1100 * time.Millisecond, 2100 * time.Millisecond, 0, 2},
		{"beside each other", second / 2, 2 * second, 1100 * time.Millisecond, 2100 * time.Millisecond, 0, 0},
		{"inside the other, and over before", second / 4, second / 2, 1100 * time.Millisecond, second / 2, 0, 0},
		{"hosts begin apart", 1200 * time.Millisecond, 2 * second, 1100 * time.Millisecond, 2 * second, 120 * time.Millisecond, 2},
		{"hosts begin far apart", 1600 * time.Millisecond, 2 * second, 1100 * time.Millisecond, 2 * second, 300 * time.Millisecond, 0},
	} {
		a := new(Agent)
		start := time.Now()
		spot := planner.Spot{Class: planner.Class{Collective: plan.Allgather, Sites: "A", Hosts: 4, Size: 8}, Within: 0.5}
		type op struct {
			id             exchange.ID
			seq            uint64
			from, to, news time.Duration
		}
		first, next := op{seq: 1, to: second, news: tt.newsFirst}, op{seq: 2, from: tt.from, to: tt.to, news: tt.newsNext}
		first.id, next.id = exchangeID(group.ID{}, 1), exchangeID(group.ID{}, 2)
		a.plans.begin(first.id, spot, "ring", 0.5, start)
		ends := []op{first, next}
		if next.news < first.news {
			ends = []op{next, first}
		}
		begun := false
		for _, o := range ends {
			if !begun && o.news >= next.from {
				a.plans.begin(next.id, spot, "ring", 0.5, start.Add(next.from))
				begun = true
			}
			a.finished(group.Finished{Seq: o.seq, Planned: group.Planned{Algorithm: "ring"}, Elapsed: o.to - o.from, Spread: tt.spread, Ended: start.Add(o.to)})
			if !begun {
				a.plans.begin(next.id, spot, "ring", 0.5, start.Add(next.from))
				begun = true
			}
		}
		learnt := 0
		for _, c := range a.plans.experience.Corrections(time.Now()) {
			learnt += c.Samples
		}
		if learnt != tt.learnt {
			t.Errorf("%s: %d operations taught something, want %d", tt.name, learnt, tt.learnt)
		}
		if n := len(a.plans.running); n != 0 {
			t.Errorf("%s: %d operations are said to run", tt.name, n)
		}
	}
}
