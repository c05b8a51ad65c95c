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
		{"hosts begin far apart", 1600 * time.Millisecond, 2 * second, 1100 * time.Millisecond, 2 * second, 700 * time.Millisecond, 0},
	} {
		a := new(Agent)
		start := time.Now()
		spot := planner.Spot{Class: planner.Class{Collective: plan.Allgather, Sites: "A", Hosts: 4, Size: 8}, Within: 0.5}
		ring := run{spot, "ring", 0.5}
		type op struct {
			id             exchange.ID
			seq            uint64
			from, to, news time.Duration
		}
		first, next := op{seq: 1, to: second, news: tt.newsFirst}, op{seq: 2, from: tt.from, to: tt.to, news: tt.newsNext}
		first.id, next.id = exchangeID(group.ID{}, 1), exchangeID(group.ID{}, 2)
		a.plans.begin(first.id, ring, start)
		ends := []op{first, next}
		if next.news < first.news {
			ends = []op{next, first}
		}
		begun := false
		for _, o := range ends {
			if !begun && o.news >= next.from {
				a.plans.begin(next.id, ring, start.Add(next.from))
				begun = true
			}
			a.finished(group.Finished{Seq: o.seq, Planned: group.Planned{Algorithm: "ring"}, Elapsed: o.to - o.from, Spread: tt.spread, Ended: start.Add(o.to)})
			if !begun {
				a.plans.begin(next.id, ring, start.Add(next.from))
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

// TestStalePlansTeach: an operation that hosts had begun by a plan that stood, when experience chose another algorithm, tells of the plan's own; one whose plan the map has
// overtaken tells of nothing.
func TestStalePlansTeach(t *testing.T) {
	spot := planner.Spot{Class: planner.Class{Collective: plan.Allgather, Sites: "A", Hosts: 4, Size: 8}, Within: 0.5}
	old, made := run{spot, "lr3", 1}, run{spot, "bruck", 0.8}
	for _, tt := range []struct {
		name     string
		replaced bool // by experience
		ran      string
		stale    bool
		learnt   string
	}{
		{"experience chose another", true, "lr3", true, "lr3"},
		{"hosts had not begun", true, "bruck", false, "bruck"},
		{"the map chose another", false, "lr3", true, ""},
		{"the map chose the same", false, "bruck", true, ""},
		{"neither the one nor the other", true, "simple", true, ""},
		{"unknown where it began", true, "", true, ""},
	} {
		a := new(Agent)
		start := time.Now()
		id := exchangeID(group.ID{}, 1)
		if tt.replaced {
			a.plans.replaced(id, old, start)
		}
		a.plans.begin(id, made, start.Add(time.Millisecond))
		a.finished(group.Finished{Seq: 1, Planned: group.Planned{Algorithm: tt.ran}, Stale: tt.stale, Elapsed: 2 * time.Second, Ended: start.Add(2 * time.Second)})
		got := ""
		for _, r := range a.plans.experience.Records() {
			got += r.Algorithm
			if want := 2 / map[string]float64{"lr3": 1, "bruck": 0.8}[r.Algorithm]; r.Samples[0].Ratio != want {
				t.Errorf("%s: %s took %.3g times its forecast, want %.3g", tt.name, r.Algorithm, r.Samples[0].Ratio, want)
			}
		}
		if got != tt.learnt || len(a.plans.running) != 0 {
			t.Errorf("%s: learnt of %q, want %q; %d still run", tt.name, got, tt.learnt, len(a.plans.running))
		}
	}
}

// TestOutdonePlanIsNoted: an operation may have begun by the plan that stood, and by none of those that this one had outdone before.
func TestOutdonePlanIsNoted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		asked   []string // algorithms of the plans that are asked about
		outdone string   // the one of these that is
		noted   string
	}{
		{"it stands", []string{"lr3"}, "", ""},
		{"another is made", []string{"lr3"}, "lr3", "lr3"},
		{"another waits", []string{"lr3", "bruck"}, "lr3", "lr3"},
		{"another waits and is outdone as well", []string{"lr3", "lr3"}, "lr3", "lr3"},
		{"one that waits is outdone", []string{"bruck", "lr3"}, "lr3", ""},
	} {
		var s plans
		id := exchangeID(group.ID{}, 1)
		checks := s.noting(planner.Checks{Outdone: func(k *planner.Kept) string {
			if k.Selection.Algorithm == tt.outdone {
				return "another is faster"
			}
			return ""
		}}, id, time.Now())
		for i, name := range tt.asked {
			checks.Outdone(&planner.Kept{Selection: planner.Summary{Algorithm: name, Forecast: float64(1 + i)}})
		}
		got := ""
		if r := s.running[id]; r != nil {
			got = r.before.algorithm
			if r.before.forecast != 1 {
				t.Errorf("%s: a plan that is forecast to take %g s was noted", tt.name, r.before.forecast)
			}
		}
		if got != tt.noted {
			t.Errorf("%s: %q is noted, want %q", tt.name, got, tt.noted)
		}
	}
}
