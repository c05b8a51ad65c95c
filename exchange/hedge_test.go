package exchange

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestDeadLane: a lane that swallows what it is given, and answers nothing without being broken, holds
// an exchange up for some round trips, and not until somebody takes it for dead.
func TestDeadLane(t *testing.T) {
	copied := 0
	for seed := range uint64(20) {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 81))
			const chunk = 500
			b := newPlanner(plan.Allgather, 2)
			b.add(0, 1, plan.Block{Origin: 0, Dest: plan.All})
			b.add(1, 0, plan.Block{Origin: 1, Dest: plan.All})
			b.p.Sizes = []int64{int64(chunk * (3 + rng.IntN(40))), int64(rng.IntN(2000))}
			lanes := 2 + rng.IntN(3)
			dead := 1 + rng.IntN(lanes)
			swallows := 1 + rng.IntN(3000)
			var g *fakeGrid
			g = newFakeGrid(t, b.p.Hosts, func(c *Config) {
				self := c.Self
				c.Lanes = func(string) int { return lanes }
				c.Path = func(string) Path { return Path{RTT: 10 * time.Millisecond, Rate: 1e6, Flows: 1} }
				c.Open = func(ctx context.Context, to string, n int) (Stream, error) {
					if self == "host0" && n == dead {
						s, _ := fakePair(swallows) // whose other end nobody reads
						return s, nil
					}
					return g.open(ctx, self, to)
				}
			})
			g.stream = func(_, _ string, s *fakeStream) {
				d := time.Duration(1+rng.IntN(3)) * time.Millisecond
				s.pause = func() { time.Sleep(d) }
			}
			j := newJob(t, rng, b.p, chunk)
			stats, errs := g.run(t.Context(), j)
			for h, err := range errs {
				if err == nil {
					err = j.check(h)
				}
				if err != nil {
					t.Fatalf("seed %d: host %d: %v", seed, h, err)
				}
			}
			g.accepts.Wait()
			if e := stats[1].Elapsed; e > time.Second {
				t.Errorf("seed %d: lane %d of %d is dead, and %d bytes took %v", seed, dead, lanes, b.p.Sizes[0], e)
			}
			st := stats[0].Peers["host1"]
			if st.Hedged > 0 {
				copied++
			}
			if most := int64(lanes * 10 * chunk); st.Hedged > most {
				t.Errorf("seed %d: %d bytes were copied, want at most %d", seed, st.Hedged, most)
			}
		})
	}
	if copied < 10 {
		t.Errorf("the dead lane got something in %d of 20 worlds only: the test tests little", copied)
	}
}

// TestAllOut: copies need not find the pacer idle once every entry was given to a lane, and not before.
func TestAllOut(t *testing.T) {
	p := &peer{sends: []*send{{unsent: 3, confirmed: true}, {unsent: 0}, {unsent: 1}}}
	if p.allOut() {
		t.Error("an entry waits for a lane, and all are out")
	}
	p.sends[2].unsent = 0
	if !p.allOut() {
		t.Error("what is confirmed keeps others waiting")
	}
	p.sends[2].unsent, p.first = 1, 3
	if !p.allOut() {
		t.Error("sends before the first open one count")
	}
	now := time.Now()
	pace := new(pacers).join("there", Path{RTT: 100 * time.Millisecond, Rate: 1e5, Capacity: 1e6, Loss: 0.02}, 4)
	pace.slot(1<<20, now)
	p = &peer{spare: true, lanes: 1, pacer: pace, sends: []*send{{unsent: 1}}}
	spare := &outLane{n: 1, pacer: pace}
	if !p.rests(spare) {
		t.Error("the spare lane takes fresh data while the pacer has a line")
	}
	p.sends[0].unsent = 0
	if p.rests(spare) {
		t.Error("the spare lane rests though nothing is left but copies")
	}
}
