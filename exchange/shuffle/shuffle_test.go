package shuffle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("h%d", i)
	}
	return out
}

// crossbar is the switch of the paper with n hosts on it.
func crossbar(t testing.TB, n int) *plan.Topology {
	tree, err := plan.NewTopology([]string{"s"}, nil, names(n), make([]int, n), 0)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// An algorithm is one of the four, with the fan-out and the slots that it should have for p hosts.
type algorithm struct {
	name   string
	make   func(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error)
	fanout func(p int) int
	slots  func(p int) int
}

func chromatic(p int) int { return p - 1 + p%2 } // of p ≥ 2

func algorithms(fanouts ...int) []algorithm {
	one := func(int) int { return 1 }
	others := func(p int) int { return p - 1 }
	all := []algorithm{
		{"shift", Shift, one, others},
		{"pairwise", Pairwise, one, chromatic},
		{"sync-shuffle", Synchronous, others, others},
	}
	for _, w := range fanouts {
		all = append(all, algorithm{"group-shuffle",
			func(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) { return Group(hosts, sizes, w) },
			func(int) int { return w }, chromatic})
	}
	return all
}

// randomMatrix has one block in three empty.
func randomMatrix(rng *rand.Rand, n int) [][]int64 {
	m := make([][]int64, n)
	for i := range m {
		m[i] = make([]int64, n)
		for j := range m[i] {
			m[i][j] = int64(rng.IntN(3)) * rng.Int64N(1<<20)
		}
	}
	return m
}

// rounds returns the round of each transfer: how many stand in the longest chain before it.
func rounds(p *plan.Plan) []int {
	depth := make([]int, len(p.Transfers))
	for i, t := range p.Transfers {
		for _, a := range t.After {
			depth[i] = max(depth[i], depth[a]+1)
		}
	}
	return depth
}

// TestPlans: for every number of hosts the four plans are valid, every slot is free of
// contention on a crossbar, every message is one transfer, a round covers fan-out slots, and a
// transfer comes after exactly what its source did in the round before.
func TestPlans(t *testing.T) {
	for n := 1; n <= 65; n++ {
		rng := rand.New(rand.NewPCG(uint64(n), 7))
		sizes := plan.AlltoallSizes{Uniform: int64(rng.IntN(2)) << 16}
		if n%2 == 0 || n < 8 {
			sizes = plan.AlltoallSizes{Matrix: randomMatrix(rng, n)}
		}
		rules := plan.Rules{Topology: crossbar(t, n)}
		for _, a := range algorithms(1, 2, 5, 1+rng.IntN(n), math.MaxInt) {
			p, err := a.make(names(n), sizes)
			if err != nil {
				t.Fatalf("%s n=%d: %v", a.name, n, err)
			}
			where := fmt.Sprintf("%s n=%d fan-out %d", a.name, n, a.fanout(n))
			if err := plan.Verify(p, rules); err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			if len(p.Transfers) != n*(n-1) || p.Algorithm != a.name {
				t.Fatalf("%s: %q with %d transfers", where, p.Algorithm, len(p.Transfers))
			}
			if n > 1 {
				checkRounds(t, where, p, a.fanout(n), a.slots(n))
			}
		}
	}
}

func checkRounds(t *testing.T, where string, p *plan.Plan, fanout, slots int) {
	t.Helper()
	if p.Phases != slots {
		t.Errorf("%s: %d phases, want %d", where, p.Phases, slots)
	}
	depth := rounds(p)
	latest := make([][]int, len(p.Hosts)) // per host: what it did in the round that it last took part in
	now := make([][]int, len(p.Hosts))
	round := 0
	for i, tr := range p.Transfers {
		if r := tr.Phase / fanout; r != round {
			round = r
			for h := range now {
				if len(now[h]) > 0 {
					latest[h], now[h] = now[h], nil
				}
			}
		}
		if !slices.Equal(tr.After, latest[tr.Src]) || (tr.Sync == plan.SyncSender) != (len(tr.After) > 0) || tr.After == nil {
			t.Fatalf("%s: transfer %d of slot %d is after %v (%q), want %v", where, i, tr.Phase, tr.After, tr.Sync, latest[tr.Src])
		}
		if depth[i] > round {
			t.Fatalf("%s: transfer %d of slot %d stands in round %d, want %d at most", where, i, tr.Phase, depth[i], round)
		}
		now[tr.Src], now[tr.Dst] = append(now[tr.Src], i), append(now[tr.Dst], i)
	}
	if want := (slots - 1) / fanout; round != want {
		t.Errorf("%s: %d rounds, want %d", where, round+1, want+1)
	}
}

// TestSmallPlans holds plans that fit on a page: "src→dst slot [after]".
func TestSmallPlans(t *testing.T) {
	tests := []struct {
		name string
		make func([]string, plan.AlltoallSizes) (*plan.Plan, error)
		n    int
		want string
	}{
		{"shift", Shift, 3, `0→1 0 []; 1→2 0 []; 2→0 0 [];
			0→2 1 [0 2]; 1→0 1 [0 1]; 2→1 1 [1 2]`},
		// Host 2 idles first, host 1 next: 2 waits for nothing, 1 waits for round 1.
		{"pairwise", Pairwise, 3, `0→1 0 []; 1→0 0 [];
			0→2 1 [0 1]; 2→0 1 [];
			1→2 2 [0 1]; 2→1 2 [2 3]`},
		{"sync", Synchronous, 3, `0→1 0 []; 1→2 0 []; 2→0 0 [];
			0→2 1 []; 1→0 1 []; 2→1 1 []`},
		{"group of 2", algorithms(2)[3].make, 4, `0→1 0 []; 1→0 0 []; 2→3 0 []; 3→2 0 [];
			0→2 1 []; 1→3 1 []; 2→0 1 []; 3→1 1 [];
			0→3 2 [0 1 4 6]; 1→2 2 [0 1 5 7]; 2→1 2 [2 3 4 6]; 3→0 2 [2 3 5 7]`},
	}
	for _, tt := range tests {
		p, err := tt.make(names(tt.n), plan.AlltoallSizes{Uniform: 1})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tr := range p.Transfers {
			got = append(got, fmt.Sprintf("%d→%d %d %v", tr.Src, tr.Dst, tr.Phase, tr.After))
		}
		want := strings.Split(strings.Join(strings.Fields(tt.want), " "), "; ")
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestGroupEnds: at its ends group shuffle is pairwise exchange, and one round.
func TestGroupEnds(t *testing.T) {
	for n := 1; n <= 20; n++ {
		pair, err := Pairwise(names(n), plan.AlltoallSizes{Uniform: 1})
		if err != nil {
			t.Fatal(err)
		}
		one, _ := Group(names(n), plan.AlltoallSizes{Uniform: 1}, 1)
		one.Algorithm = pair.Algorithm
		if !one.Equal(pair) {
			t.Errorf("n=%d: fan-out 1 is not the pairwise exchange", n)
		}
		all, _ := Group(names(n), plan.AlltoallSizes{Uniform: 1}, max(1, colours(n)))
		if i := slices.IndexFunc(all.Transfers, func(t plan.Transfer) bool { return len(t.After) > 0 }); i >= 0 {
			t.Errorf("n=%d: fan-out χ′, but transfer %d waits for %v", n, i, all.Transfers[i].After)
		}
	}
}

func TestRefuses(t *testing.T) {
	short := plan.AlltoallSizes{Matrix: [][]int64{{0, 1}, {1, 0}}}
	for _, a := range algorithms(3) {
		for _, tt := range []struct {
			hosts []string
			sizes plan.AlltoallSizes
			want  string
		}{
			{nil, plan.AlltoallSizes{}, "0 hosts"},
			{names(3), plan.AlltoallSizes{Uniform: -1}, "-1"},
			{names(3), short, "2 rows for 3 hosts"},
			{[]string{"a", "a"}, plan.AlltoallSizes{}, `"a" is already host 0`},
		} {
			p, err := a.make(tt.hosts, tt.sizes)
			if err == nil || p != nil || !strings.HasPrefix(err.Error(), a.name+": ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v, %v; want an error with %q", a.name, p, err, tt.want)
			}
		}
	}
	for _, w := range []int{0, -5} {
		if _, err := Group(names(3), plan.AlltoallSizes{}, w); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("fan-out %d,", w)) {
			t.Errorf("fan-out %d: %v", w, err)
		}
	}
}

// network is a crossbar of n hosts with ports of rate B/s and one-way latency. Where
// rng is given, ports and latencies differ by up to five times.
func network(n int, rate netmap.BytesPerSec, latency time.Duration, rng *rand.Rand) *plan.Network {
	vary := func() float64 {
		if rng == nil {
			return 1
		}
		return 1 + 4*rng.Float64()
	}
	net := &plan.Network{Hosts: names(n), Pool: make([]int, n), Pipe: []netmap.BytesPerSec{0}}
	for range n {
		net.Egress = append(net.Egress, rate*netmap.BytesPerSec(vary()))
		net.Ingress = append(net.Ingress, rate*netmap.BytesPerSec(vary()))
		for range n {
			net.Ceiling = append(net.Ceiling, 5*rate)
			net.Latency = append(net.Latency, time.Duration(float64(latency)*vary()))
		}
	}
	return net
}

// TestFanout: however unequal hosts and blocks are, so that hosts drift apart, none
// sends more than fan-out messages at once.
func TestFanout(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := 2 + rng.IntN(12)
		net := network(n, 1e6, 20*time.Millisecond, rng)
		sizes := plan.AlltoallSizes{Matrix: randomMatrix(rng, n)}
		for _, a := range algorithms(2, 3, 5) {
			p, err := a.make(names(n), sizes)
			if err != nil {
				t.Fatal(err)
			}
			sim, err := plan.Simulate(p, net, plan.SimOptions{Notice: true})
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, a.name, err)
			}
			left := make([]float64, len(p.Transfers)) // when the last byte went out
			for i, tr := range p.Transfers {
				left[i] = sim.End[i] - net.Latency[tr.Src*n+tr.Dst].Seconds()
			}
			for i, tr := range p.Transfers {
				sending := 0
				for j, other := range p.Transfers {
					if other.Src == tr.Src && sim.Start[j] <= sim.Start[i] && sim.Start[i] < left[j]-1e-9 {
						sending++
					}
				}
				if sending > a.fanout(n) {
					t.Fatalf("seed %d: %s n=%d: host %d sends %d messages at once, fan-out is %d", seed, a.name, n, tr.Src, sending, a.fanout(n))
				}
			}
		}
	}
}
