package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/ring"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A cabling is what estimates of one LAN are drawn of: the switch of each host, and how often a way over a cable is found to have
// a half or a third, since another pair was measured beside it. Ports have 10 Mbit/s.
type cabling struct {
	home   []int
	shared float64 // how often, 0 to 1
	astray float64 // how often others are read so
	noise  float64 // of all readings, relative
}

// dealt has n hosts on so many switches, in turns.
func dealt(n, switches int) []int {
	home := make([]int, n)
	for i := range home {
		home[i] = i % switches
	}
	return home
}

func (c cabling) snapshot(rng *rand.Rand) *netmap.Snapshot {
	n := len(c.home)
	hosts, est := make([]netmap.Host, n), make([]netmap.Estimate, n*n)
	for i := range n {
		hosts[i] = netmap.Host{Name: fmt.Sprintf("h%03d", i), Site: "S"}
		for j := range n {
			rate, often := 10., c.astray
			if c.home[i] != c.home[j] {
				often = c.shared
			}
			if rng.Float64() < often {
				rate /= float64(2 + rng.IntN(2))
			}
			est[i*n+j] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 50 * time.Microsecond, Source: netmap.SourceProbed,
				Bandwidth: netmap.BytesPerSec(rate*(1+c.noise*rng.NormFloat64())) * netmap.Mbps}
		}
	}
	return netmap.NewSnapshot(0, hosts, est)
}

// crossings returns how many messages of a ring enter each switch from others, on the switch with the most.
func (c cabling) crossings(order []int) int {
	into := make(map[int]int)
	for i, h := range order {
		if to := c.home[order[(i+1)%len(order)]]; to != c.home[h] {
			into[to]++
		}
	}
	most := 0
	for _, k := range into {
		most = max(most, k)
	}
	return most
}

// TestGuess: where cables between switches are seen to be shared, the ring of the guessed tree crosses them once or twice (in a young map thrice, or there is no guess), in each of many
// draws, where the ring of the ranks does eight times; and where nothing is seen, or chance alone makes readings low, there is no guess.
func TestGuess(t *testing.T) {
	for _, tt := range []struct {
		name string
		cabling
		least int // draws with a guess, of 30; 0: none at all
		most  int // crossings
	}{
		{"four switches, young map", cabling{dealt(32, 4), 0.3, 0.005, 0.01}, 15, 3},
		{"four switches", cabling{dealt(32, 4), 0.4, 0.005, 0.01}, 30, 2},
		{"four switches, old map", cabling{dealt(32, 4), 0.5, 0.01, 0.01}, 30, 2},
		{"four switches, busy cables", cabling{dealt(32, 4), 0.75, 0.05, 0.01}, 30, 2},
		{"two switches", cabling{dealt(24, 2), 0.5, 0.01, 0.01}, 30, 1},
		{"a large and a small switch", cabling{append(make([]int, 20), 1, 1, 1, 1, 1, 1), 0.5, 0, 0.01}, 30, 1},
		{"one switch", cabling{dealt(24, 1), 0, 0, 0.01}, 0, 0},
		{"one switch, noisy", cabling{dealt(24, 1), 0, 0.03, 0.05}, 0, 0},
		{"one switch, very noisy", cabling{dealt(24, 1), 0, 0.2, 0.1}, 0, 0},
		{"cables that nobody else uses", cabling{dealt(32, 4), 0, 0, 0.01}, 0, 0},
		{"too few hosts", cabling{dealt(4, 2), 1, 0, 0}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			guesses := 0
			for seed := range uint64(30) {
				snap := tt.snapshot(rand.New(rand.NewPCG(seed, 7)))
				hosts := make([]int, snap.N())
				for i := range hosts {
					hosts[i] = i
				}
				g := guess(snap, hosts)
				if g == nil {
					continue
				}
				guesses++
				order, _ := ring.LR3(g)
				if got := tt.crossings(order); got > tt.most {
					t.Errorf("seed %d: the ring enters a switch %d times, want %d at most: %v", seed, got, tt.most, order)
				}
			}
			if guesses < tt.least || tt.least == 0 && guesses > 0 {
				t.Errorf("a guess in %d of 30 draws, want %d at least, 0: none", guesses, tt.least)
			}
		})
	}
}

// TestSelectOnGuessedSwitches: over switches that nobody has declared, an allgather takes a ring that keeps to them, though single pairs are
// measured at a third of what they have.
func TestSelectOnGuessedSwitches(t *testing.T) {
	for seed := range uint64(10) {
		c := cabling{dealt(32, 4), 0.4, 0.005, 0.01}
		snap := c.snapshot(rand.New(rand.NewPCG(seed, 8)))
		tree, err := pools.Build(snap, pools.Config{})
		if err != nil {
			t.Fatal(err)
		}
		sizes := make([]int64, 32)
		for i := range sizes {
			sizes[i] = 64 << 10
		}
		got, err := Select(&Problem{Sizes: sizes, Snapshot: snap, Tree: tree}, 16<<10, Advice{})
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Verify(got.Plan, plan.Rules{Chunked: true}); err != nil {
			t.Fatal(err)
		}
		order := make([]int, 0, 32)
		next := make(map[int]int)
		for _, x := range got.Plan.Transfers {
			if x.Phase == 0 {
				next[x.Src] = x.Dst
			}
		}
		for h := 0; !slices.Contains(order, h) && len(order) < 32; h = next[h] {
			order = append(order, h)
		}
		if len(order) != 32 || c.crossings(order) > 2 {
			t.Errorf("seed %d: %s in the order %v", seed, got.Algorithm.Name, order)
		}
	}
}

// TestSamePlan: on one switch the logical rings are one plan (baseline.Ring waits for more). It is forecast once, and where experience speaks against its first name, no other name of it is taken.
func TestSamePlan(t *testing.T) {
	snap := cabling{home: dealt(8, 1)}.snapshot(rand.New(rand.NewPCG(1, 9)))
	tree, err := pools.Build(snap, pools.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := &Problem{Sizes: []int64{64 << 10, 64 << 10, 64 << 10, 64 << 10, 64 << 10, 64 << 10, 64 << 10, 64 << 10}, Snapshot: snap, Tree: tree}
	advice := Advice{Factor: func(name string) float64 {
		if name == "lr3" {
			return 3
		}
		return 1
	}}
	got, err := Select(p, 16<<10, advice)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range got.Candidates {
		if c.Algorithm == "lr2" || c.Algorithm == "lr1" {
			if c.Forecast != 0 || c.Why != "it makes the plan of lr3" {
				t.Errorf("%s: forecast %v, %q", c.Algorithm, c.Forecast, c.Why)
			}
		}
	}
	if slices.Contains([]string{"lr1", "lr2", "lr3"}, got.Algorithm.Name) {
		t.Errorf("took %s", got.Algorithm.Name)
	}
}
