package probe

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// lossyFlow returns the rate, in packets a round trip, that congestion control leaves of a flow that loses packets at random with probability p, and
// how many it loses of so many: a packet more a round trip, 30 % less at a loss, and one cut for all losses of a window.
func lossyFlow(rng *rand.Rand, p float64, packets int) (rate float64, lost int) {
	window := math.Sqrt(1.7/0.6/p) * (0.7 + 0.6*rng.Float64())
	trips, until := 0.0, 0.0
	for i := range packets {
		trips += 1 / window
		window += 1 / window
		if rng.Float64() < p {
			lost++
			if float64(i) >= until {
				until = float64(i) + window
				window = max(2, 0.7*window)
			}
		}
	}
	return float64(packets) / trips, lost
}

// A flow is known the better the more losses of its link have been counted, by whichever host and probe.
func TestAllLossesTellTheRate(t *testing.T) {
	const rtt = 20 * time.Millisecond
	rate := func(packets float64) float64 { return packets * userPayload / rtt.Seconds() }
	for _, p := range []float64{0.001, 0.01} {
		rng := rand.New(rand.NewPCG(7, uint64(1/p)))
		mean, _ := lossyFlow(rng, p, int(4_000/p))
		truth := rate(mean)
		var direct, pooled, bias float64
		const runs = 40
		for range runs {
			var b flowBelief
			var own lossCount
			b.train(20*truth, 0.02)
			for range 2 { // as a bulk probe of 32 MiB at 0.1 %
				packets := int(25 / p)
				r, lost := lossyFlow(rng, p, packets)
				n := lossCount{float64(packets), float64(lost)}
				b.flowed(rate(r), max(0.05, 0.5/math.Sqrt(n.lost)))
				b.lost(rate(r), lossHeldOf(n, rtt))
				own = own.plus(n)
			}
			var others lossCount
			for range int(150 / p) {
				others.sent++
				if rng.Float64() < p {
					others.lost++
				}
			}
			alone, _ := b.flow(siteFlow{})
			got, spread := b.flow(siteFlow{losses: lossHeldOf(own.plus(others), rtt)})
			direct += (alone/truth - 1) * (alone/truth - 1) / runs
			pooled += (got/truth - 1) * (got/truth - 1) / runs
			bias += (got/truth - 1) / runs
			if spread > 0.10 || math.Abs(got/truth-1) > 3.5*spread {
				t.Errorf("loss %g: %.3g of %.3g, and a spread of %.3f", p, got, truth, spread)
			}
		}
		direct, pooled = math.Sqrt(direct), math.Sqrt(pooled)
		t.Logf("loss %g: off by %.3f alone, %.3f with all losses, %+.3f in the mean", p, direct, pooled, bias)
		if pooled > 0.8*direct || pooled > 0.06 || math.Abs(bias) > 0.04 {
			t.Errorf("loss %g: off by %.3f alone, %.3f with all losses, %+.3f in the mean", p, direct, pooled, bias)
		}
	}
}

// Losses that tell of another rate than bulk probes have read are not those of flows: trains may fill a short queue, or a network
// lose many packets together. What was read counts then; and also where flows follow their link, whatever is lost.
func TestLossesThatFlowsDoNotMeet(t *testing.T) {
	const rtt = 20 * time.Millisecond
	var b flowBelief
	b.train(40e6, 0.02)
	own := lossCount{25_000, 25}
	for range 3 {
		b.flowed(3.3e6, 0.1)
		b.lost(3.3e6, lossHeldOf(own, rtt))
	}
	alone, aloneSpread := b.flow(siteFlow{})
	for _, all := range []lossCount{{}, {1e5, 2000}, {1e6, 5}, {25_000, 3}} {
		if got, spread := b.flow(siteFlow{losses: lossHeldOf(all, rtt)}); got != alone || spread != aloneSpread {
			t.Errorf("%+v lost: %g ± %g, %g ± %g without", all, got, spread, alone, aloneSpread)
		}
	}
	if got, _ := b.flow(siteFlow{losses: lossHeldOf(lossCount{1e5, 100}, rtt)}); apart(got, 3.3e6) > 0.02 {
		t.Errorf("%g where all agree, want 3.3e6", got)
	}
	var full flowBelief
	full.train(4e6, 0.02)
	full.flowed(3.9e6, 0.03)
	full.lost(3.9e6, lossHeldOf(own, rtt))
	alone, _ = full.flow(siteFlow{})
	if got, _ := full.flow(siteFlow{losses: lossHeldOf(own, rtt)}); got != alone {
		t.Errorf("%g of a full link, %g without losses", got, alone)
	}
}

func TestLossesOf(t *testing.T) {
	said := func(from string, sent int, lost float64) claim {
		return claim{from: from, e: netmap.Estimate{Known: netmap.FieldLoss, Loss: lost / float64(sent), LossOf: sent}}
	}
	tests := []struct {
		name   string
		own    lossCount
		claims []claim
		want   lossCount
	}{
		{"alone", lossCount{1000, 1}, nil, lossCount{1000, 1}},
		{"own pairs count whatever they say", lossCount{10_000, 10}, []claim{said("a", 10_000, 100)}, lossCount{20_000, 110}},
		{"another host", lossCount{10_000, 10}, []claim{said("b", 5000, 8), said("b", 5000, 4)}, lossCount{20_000, 22}},
		{"a host that loses far more", lossCount{10_000, 10}, []claim{said("b", 10_000, 100), said("c", 10_000, 12)}, lossCount{20_000, 22}},
		{"a host that says it loses nothing, of very much", lossCount{10_000, 25}, []claim{said("b", netmap.MaxLossOf, 0)}, lossCount{10_000, 25}},
		{"nothing sent here", lossCount{}, []claim{said("b", 1000, 1)}, lossCount{1000, 1}},
		{"of no packets", lossCount{1000, 1}, []claim{{from: "b", e: netmap.Estimate{Known: netmap.FieldLoss, Loss: 0.5}}}, lossCount{1000, 1}},
	}
	for _, c := range tests {
		if got := lossesOf("a", c.own, c.claims); math.Abs(got.sent-c.want.sent) > 1e-3 || math.Abs(got.lost-c.want.lost) > 1e-3 {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What one host says of losses moves the rate of another by what chance explains, and no more.
func TestLossLiar(t *testing.T) {
	const rtt = 20 * time.Millisecond
	own := lossCount{50_000, 50}
	truth := lossHeldOf(own, rtt)
	for share := 1e-6; share < 1; share *= 1.05 {
		for _, sent := range []int{500, 20_000, netmap.MaxLossOf} {
			lie := claim{from: "b", e: netmap.Estimate{Known: netmap.FieldLoss, Loss: share, LossOf: sent}}
			if got := lossHeldOf(lossesOf("a", own, []claim{lie}), rtt); apart(got.rate, truth.rate) > lossOdds*truth.spread {
				t.Errorf("a host that says %g of %d: %g, was %g", share, sent, got.rate, truth.rate)
			}
		}
	}
}

// A path that changes is known after some packets more, however many were counted before.
func TestLossFilterSeesAChange(t *testing.T) {
	for _, c := range []struct {
		before, after float64
		within        int
	}{{0.001, 0.01, 5000}, {0.001, 0.1, 1500}, {0, 0.001, 15_000}, {0.01, 0.001, 8000}, {0.001, 0, 40_000}} {
		t.Run(fmt.Sprintf("%g to %g", c.before, c.after), func(t *testing.T) {
			late := 0
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 9))
				var f lossFilter
				send := func(share float64, packets int) {
					for range packets / 50 {
						lost := 0.0
						for range 50 {
							if rng.Float64() < share {
								lost++
							}
						}
						f.add(50, lost)
					}
				}
				send(c.before, 80_000)
				if was, _ := f.value(); was < 0.6*c.before || was > 1.5*c.before {
					t.Errorf("seed %d: %g before", seed, was)
				}
				send(c.after, c.within)
				if got, _ := f.value(); got < c.after/2 || got > 3*c.after+2e-4 {
					late++
				}
			}
			if late > 3 {
				t.Errorf("%d of 20 do not know it after %d packets", late, c.within)
			}
		})
	}
}
