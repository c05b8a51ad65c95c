package probe

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

func TestFlowBelief(t *testing.T) {
	// trains and bulks of a link, and what is believed then.
	for _, tc := range []struct {
		name          string
		trains, bulks []float64
		like          siteFlow
		rate          float64
		capacity      float64
		lanes         int
		next          wants
	}{
		{name: "nothing"},
		{name: "a train", trains: []float64{20}, rate: 20, next: wantsBulk},
		{name: "a full link", trains: []float64{20}, bulks: []float64{19}, rate: 19, capacity: 19, lanes: 1},
		{name: "held", trains: []float64{20}, bulks: []float64{2.5}, rate: 2.5, next: wantsCapacity},
		{name: "like pairs fill it", trains: []float64{20}, like: siteFlow{0.95, 30}, rate: 19},
		{name: "like pairs are held", trains: []float64{20}, like: siteFlow{0.125, 2.5}, rate: 2.5},
		{name: "held above a thin link of its own", trains: []float64{2}, like: siteFlow{0.125, 2.5}, rate: 2},
		{name: "own probe before that of others", trains: []float64{20}, bulks: []float64{19}, like: siteFlow{0.1, 2}, rate: 19, capacity: 19, lanes: 1},
	} {
		var b flowBelief
		for _, r := range tc.trains {
			b.train(r, 0.01)
		}
		for _, r := range tc.bulks {
			b.flowed(r, 0.02)
		}
		rate, _ := b.flow(tc.like)
		c, lanes := b.capacityOf()
		if !near(rate, tc.rate) || !near(c, tc.capacity) || lanes != tc.lanes || b.wants(tc.like) != tc.next {
			t.Errorf("%s: %g, capacity %g on %d lanes, wants %d; want %g, %g on %d, %d", tc.name, rate, c, lanes, b.wants(tc.like), tc.rate, tc.capacity, tc.lanes, tc.next)
		}
	}
}

// TestLinkFalls: two trains tell of a link that has fallen to a quarter, of a flow that filled it
// and of one that is held.
func TestLinkFalls(t *testing.T) {
	for _, tc := range []struct{ bulk, then float64 }{
		{19, 4.75}, // filled: follows the link
		{2.5, 2.5}, // held to less than what is left
		{8, 5},     // held to more than what is left
	} {
		var b flowBelief
		for range 5 {
			b.train(20, 0.01)
		}
		b.flowed(tc.bulk, 0.02)
		b.several(18, 8)
		if b.train(5, 0.01) {
			t.Fatal("one train changed the link")
		}
		if !b.train(5, 0.01) {
			t.Fatal("two trains did not change the link")
		}
		b.linkChanged()
		if rate, _ := b.flow(siteFlow{}); !near(rate, tc.then) {
			t.Errorf("a flow of %g on 20: %g on 5, want %g", tc.bulk, rate, tc.then)
		}
	}
}

// TestAtLeast: what a flow gets beside others raises what is believed, with the second such
// sample where more was known, and never lowers it.
func TestAtLeast(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var b flowBelief
		line := 1 + 100*rng.Float64()
		for range 3 {
			b.train(line, 0.02)
			b.flowed(line*(0.2+0.8*rng.Float64()), 0.02)
		}
		before, _ := b.flow(siteFlow{})
		for range 20 {
			b.atLeast(before*1.1*rng.Float64(), siteFlow{})
		}
		if v, _ := b.flow(siteFlow{}); v < before*(1-1e-12) {
			t.Fatalf("seed %d: %g after lower bounds below it, %g before", seed, v, before)
		}
		more := line * 3
		for range 3 {
			b.atLeast(more, siteFlow{})
		}
		if v, _ := b.flow(siteFlow{}); v < 0.9*more {
			t.Fatalf("seed %d: %g after three samples of %g", seed, v, more)
		}
	}
}
