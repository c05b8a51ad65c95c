package probe

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
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
		{name: "a full link", trains: []float64{20}, bulks: []float64{19}, rate: 19, next: wantsCapacity},
		{name: "held", trains: []float64{20}, bulks: []float64{2.5}, rate: 2.5, next: wantsCapacity},
		{name: "like pairs fill it", trains: []float64{20}, like: siteFlow{part: 0.95, rate: 30, spread: 0.05, pairs: 2}, rate: 19},
		{name: "like pairs are held", trains: []float64{20}, like: siteFlow{part: 0.125, rate: 2.5, spread: 0.05, pairs: 2}, rate: 2.5},
		{name: "held above a thin link of its own", trains: []float64{2}, like: siteFlow{part: 0.125, rate: 2.5, spread: 0.05, pairs: 2}, rate: 2},
		{name: "like pairs are contested", trains: []float64{20}, like: siteFlow{part: 0.95, rate: 30, spread: 0.05, pairs: 2, contested: true}, rate: 19, next: wantsBulk},
		{name: "own probe of a contested link", trains: []float64{20}, bulks: []float64{19}, like: siteFlow{part: 0.95, rate: 30, spread: 0.05, pairs: 2, contested: true}, rate: 19, next: wantsCapacity},
		{name: "own probe before that of others", trains: []float64{20}, bulks: []float64{19}, like: siteFlow{part: 0.1, rate: 2, spread: 0.05, pairs: 1}, rate: 19, next: wantsBulk},
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

// On a path with jitter trains are off by half: a pair's own bulk probe holds what is believed of its flow, and that of others
// what is believed of theirs. A fall to a quarter is seen all the same.
func TestJitter(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		noisy := func(rate float64) (float64, float64) {
			return rate * (1 + 0.6*(rng.Float64()-0.5)), 0.2 + rng.Float64()
		}
		for name, like := range map[string]siteFlow{"own": {}, "others'": {part: 0.9 + 0.3*rng.Float64(), rate: 4.9, spread: 0.1, pairs: 1}} {
			var b flowBelief
			b.train(noisy(5))
			if name == "own" {
				b.flowed(4.9, 0.02)
			}
			for range 10 {
				b.train(noisy(5))
				rate, spread := b.flow(like)
				if math.Abs(rate/4.9-1) > 0.06 || spread > 0.15 {
					t.Fatalf("seed %d, %s bulk probe: %g ± %.2f, want 4.9; trains %.3g ± %.2f", seed, name, rate, spread, b.line.rates, b.line.spreads)
				}
			}
			for range 7 {
				if b.train(noisy(1.25)) {
					b.linkChanged()
				}
			}
			if rate, _ := b.flow(like); rate > 1.25*1.4 {
				t.Errorf("seed %d, %s bulk probe: %g after a fall to 1.25; trains %.3g ± %.2f", seed, name, rate, b.line.rates, b.line.spreads)
			}
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

// TestPooled: the values of the pairs of a site pair, which all publish what they have pooled, settle at
// about the mean of all readings, and one that really differs stays itself.
func TestPooled(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 13))
		const line, truth = 85.0, 27.0
		pairs := 2 + int(seed%5)
		beliefs := make([]flowBelief, pairs)
		published := make([]netmap.Estimate, pairs)
		var mean float64
		for i := range beliefs {
			beliefs[i].train(line, 0.01)
			for range 2 {
				x := truth * (1 + 0.1*rng.NormFloat64())
				mean += x / float64(2*pairs)
				beliefs[i].flowed(x, 0.1)
			}
		}
		odd := pairs > 2 && rng.IntN(3) == 0
		if odd { // the last one is held by something else
			beliefs[pairs-1] = flowBelief{}
			beliefs[pairs-1].train(line, 0.01)
			beliefs[pairs-1].flowed(5, 0.05)
			beliefs[pairs-1].flowed(5.2, 0.05)
		}
		for range 60 {
			for i := range beliefs {
				rate, spread := beliefs[i].flow(siteFlowOf(append(published[:i:i], published[i+1:]...)))
				published[i] = netmap.Estimate{
					Known: netmap.FieldBandwidth | netmap.FieldLine, Bandwidth: netmap.BytesPerSec(rate), Line: line,
					Spread: spread, Source: netmap.SourceProbed,
				}
			}
		}
		for i, e := range published {
			switch {
			case odd && i == pairs-1:
				if math.Abs(float64(e.Bandwidth)-5.1) > 0.2 {
					t.Fatalf("seed %d: a pair that gets 5.1 says %g", seed, e.Bandwidth)
				}
			case !odd && pairs > 3 && math.Abs(float64(e.Bandwidth)/mean-1) > 0.09, math.Abs(float64(e.Bandwidth)/truth-1) > 0.3:
				// Of few pairs one that is surer weighs more than its part.
				t.Fatalf("seed %d: pair %d says %g, the mean of all is %g", seed, i, e.Bandwidth, mean)
			case !odd && apart(float64(e.Bandwidth), float64(published[0].Bandwidth)) > 0.05:
				t.Fatalf("seed %d: pair %d says %g, and pair 0 %g", seed, i, e.Bandwidth, published[0].Bandwidth)
			}
		}
	}
}

// TestDoubt: losses that trains have seen make an estimate unsure that no bulk probe has confirmed, and nothing else does.
func TestDoubt(t *testing.T) {
	held := HeldRate(0.001, 20*time.Millisecond)
	if math.Abs(held*8/26.7e6-1) > 0.05 { // what one lane gets in the accuracy benchmark's world
		t.Errorf("a flow gets %.3g Mbit/s over 20 ms at a loss of 0.1 %%, by formula %.3g", 26.7, held*8/1e6)
	}
	var b flowBelief
	b.train(10*held, 0.01)
	if d := b.doubt(siteFlow{}, 10*held, held); math.Abs(d-0.9) > 1e-9 {
		t.Errorf("a tenth is to be feared: %g", d)
	}
	for name, d := range map[string]float64{
		"no loss":       b.doubt(siteFlow{}, 10*held, HeldRate(0, time.Millisecond)),
		"no round trip": b.doubt(siteFlow{}, 10*held, HeldRate(0.1, 0)),
		"not a number":  b.doubt(siteFlow{}, 10*held, HeldRate(math.NaN(), time.Second)),
		"known by like": b.doubt(siteFlow{part: 0.5}, 10*held, held),
		"a slow link":   b.doubt(siteFlow{}, held/2, held),
	} {
		if d != 0 {
			t.Errorf("%s: doubted by %g", name, d)
		}
	}
	b.flowed(held, 0.1)
	if d := b.doubt(siteFlow{}, 10*held, held); d != 0 {
		t.Errorf("measured, and doubted by %g", d)
	}
}

// TestSiteFlowIsSure: what peers say never makes a value that is none.
func TestSiteFlowIsSure(t *testing.T) {
	values := []float64{0, -1, math.NaN(), math.Inf(1), 1e-300, 1e300, 5}
	for _, b := range values {
		for _, l := range values {
			for _, s := range values {
				e := netmap.Estimate{Known: netmap.FieldBandwidth | netmap.FieldLine, Bandwidth: netmap.BytesPerSec(b), Line: netmap.BytesPerSec(l), Spread: s, Source: netmap.SourceProbed}
				var f flowBelief
				f.train(20, 0.01)
				f.flowed(10, 0.1)
				f.flowed(10, 0.1)
				if rate, spread := f.flow(siteFlowOf([]netmap.Estimate{e, e})); !(rate > 0 && rate <= 20) || !(spread > 0) {
					t.Errorf("bandwidth %g, line %g, spread %g: %g, %g", b, l, s, rate, spread)
				}
			}
		}
	}
}
