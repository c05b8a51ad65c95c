package probe

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestRank(t *testing.T) {
	now := time.Unix(1e9, 0)
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var cs []candidate
		ready := 0
		for i := range rng.IntN(20) {
			c := candidate{Peer: Peer{Name: fmt.Sprint(i)}, siblings: rng.IntN(4)}
			if rng.IntN(2) == 0 {
				c.measured = now.Add(-time.Duration(rng.IntN(5)) * time.Minute)
			}
			if rng.IntN(3) == 0 {
				c.notBefore = now.Add(time.Duration(1+rng.IntN(5000)) * time.Millisecond)
			} else {
				ready++
			}
			cs = append(cs, c)
		}
		due, wait := rank(cs, now, time.Second, rng)
		if len(due) != ready || wait <= 0 || wait > time.Second {
			t.Fatalf("seed %d: %d of %d due, wait %v", seed, len(due), ready, wait)
		}
		for i := 1; i < len(due); i++ {
			a, b := due[i-1], due[i]
			switch {
			case a.measured.IsZero() && b.measured.IsZero():
				if a.siblings > b.siblings {
					t.Fatalf("seed %d: %+v before %+v", seed, a, b)
				}
			case b.measured.IsZero():
				t.Fatalf("seed %d: measured %+v before %+v", seed, a, b)
			case a.measured.After(b.measured):
				t.Fatalf("seed %d: younger %+v before %+v", seed, a, b)
			}
		}
	}
}

// Hosts that see the same must not all choose the same peer.
func TestRankSpreadsTies(t *testing.T) {
	chosen := make(map[string]int)
	for seed := range uint64(400) {
		cs := []candidate{{Peer: Peer{Name: "a"}}, {Peer: Peer{Name: "b"}}, {Peer: Peer{Name: "c"}}, {Peer: Peer{Name: "d"}}}
		due, _ := rank(cs, time.Unix(1e9, 0), time.Second, rand.New(rand.NewPCG(seed, 2)))
		chosen[due[0].Name]++
	}
	for _, n := range []string{"a", "b", "c", "d"} {
		if chosen[n] < 50 {
			t.Errorf("%s was first %d times in 400", n, chosen[n])
		}
	}
}
