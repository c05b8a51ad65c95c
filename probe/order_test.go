package probe

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func randomCandidates(rng *rand.Rand, now time.Time) []candidate {
	var cs []candidate
	for i := range rng.IntN(20) {
		c := candidate{Peer: Peer{Name: fmt.Sprint(i)}, spread: rng.Float64(), important: 2 * rng.Float64()}
		if rng.IntN(2) == 0 {
			c.measured = now.Add(-time.Duration(rng.IntN(5000)) * time.Second)
		}
		if rng.IntN(3) == 0 {
			c.notBefore = now.Add(time.Duration(1+rng.IntN(5000)) * time.Millisecond)
		}
		c.suspect = rng.IntN(8) == 0
		cs = append(cs, c)
	}
	return cs
}

// A suspect goes before all others, what was never measured before what was, and nobody is
// chosen while another is worth more than twice as much, or is to be left alone.
func TestChoose(t *testing.T) {
	now := time.Unix(1e9, 0)
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cs := randomCandidates(rng, now)
		got, ok := choose(cs, fmt.Sprint(rng.IntN(20)), now, time.Minute, rng)
		ready := 0
		for _, c := range cs {
			if now.Before(c.notBefore) && !c.suspect {
				if ok && c == got {
					t.Fatalf("seed %d: %+v is to be left alone", seed, c)
				}
				continue
			}
			ready++
			switch {
			case !ok:
			case c.suspect && !got.suspect, c.suspect == got.suspect && c.worth(now, time.Minute) > 2.001*got.worth(now, time.Minute):
				t.Fatalf("seed %d: %+v chosen before %+v", seed, got, c)
			}
		}
		if ok != (ready > 0) {
			t.Fatalf("seed %d: chosen: %v, and %d are ready", seed, ok, ready)
		}
	}
}

// Worth grows with age, spread and importance, within bounds, whatever the caller says.
func TestWorth(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := candidate{measured: now.Add(-time.Minute), spread: 0.05, important: 1}
	if w := c.worth(now, time.Minute); math.Abs(w-1) > 1e-9 {
		t.Errorf("an ordinary pair as old as the interval is worth %g, want 1", w)
	}
	for name, change := range map[string]func(*candidate){
		"older":          func(c *candidate) { c.measured = now.Add(-2 * time.Minute) },
		"uncertain":      func(c *candidate) { c.spread = 0.3 },
		"important":      func(c *candidate) { c.important = 3 },
		"never measured": func(c *candidate) { c.measured = time.Time{} },
	} {
		d := c
		change(&d)
		if d.worth(now, time.Minute) <= c.worth(now, time.Minute) {
			t.Errorf("%s is worth no more", name)
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), -1, 0, 1e300} {
		c.important, c.spread = x, math.Abs(x)
		if w := c.worth(now, time.Minute); !(w > 0 && w < 1e9) {
			t.Errorf("importance and spread %g: worth %g", x, w)
		}
		if c.measured.After(now.Add(-time.Minute)) {
			t.Error("changed")
		}
	}
}

// Hosts that see the same must not all choose the same peer.
func TestChooseSpreadsTies(t *testing.T) {
	chosen := make(map[string]int)
	for seed := range uint64(400) {
		var cs []candidate
		for _, n := range []string{"a", "b", "c", "d"} {
			cs = append(cs, candidate{Peer: Peer{Name: n}, important: 1})
		}
		c, _ := choose(cs, "", time.Unix(1e9, 0), time.Minute, rand.New(rand.NewPCG(seed, 2)))
		chosen[c.Name]++
	}
	for _, n := range []string{"a", "b", "c", "d"} {
		if chosen[n] < 50 {
			t.Errorf("%s was first %d times in 400", n, chosen[n])
		}
	}
}
