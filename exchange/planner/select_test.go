package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestSelectTakesTheFastest compares Select with each algorithm by itself: nothing that applies is
// predicted faster by more than a tie, and what was passed over without a forecast could not have been.
func TestSelectTakesTheFastest(t *testing.T) {
	chosen := make(map[string]int)
	passed := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 11))
		p := randomProblem(t, rng)
		p.Collective = []plan.Collective{plan.Allgather, plan.Alltoall}[rng.IntN(2)]
		chunk := []int64{0, 4096}[rng.IntN(2)]
		factors := make(map[string]float64)
		for _, name := range Names(p.collective()) {
			factors[name] = 0.5 + rng.Float64()
		}
		advice := Advice{Factor: func(name string) float64 { return factors[name] }}
		if rng.IntN(2) == 0 {
			advice = Advice{}
		}
		s, err := Select(p, chunk, advice)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		chosen[s.Algorithm.Name]++
		if s.Taken.Why != "" || s.Taken.Algorithm != s.Algorithm.Name || len(s.Candidates) != len(Algorithms(p.collective())) {
			t.Errorf("seed %d: took %+v of %d", seed, s.Taken, len(s.Candidates))
		}
		for i, alg := range Algorithms(p.collective()) {
			c := s.Candidates[i]
			if c.Algorithm != alg.Name || (c.Why == "") != (alg.Name == s.Algorithm.Name) {
				t.Fatalf("seed %d: candidate %d is %+v, want %s", seed, i, c, alg.Name)
			}
			if strings.HasPrefix(c.Why, "it crowds") || strings.HasPrefix(c.Why, "it is for links") || strings.HasPrefix(c.Why, "it makes the plan") {
				continue
			}
			alone, err := SelectNamed(alg, p, chunk, advice)
			if err != nil {
				if !refuses(alg.Name, p, err) {
					t.Fatalf("seed %d, %s: %v", seed, alg.Name, err)
				}
				continue
			}
			if got := alone.Taken.Predicted(); !(got >= 0) || s.Taken.Predicted() > got*(1+tie)*(1+1e-9) {
				t.Errorf("seed %d: took %s with %v s, but %s has %v s (%s)", seed, s.Algorithm.Name, s.Taken.Predicted(), alg.Name, got, c.Why)
			}
			if c.Forecast == 0 {
				passed++
			}
		}
		check(t, seed, p, s.Algorithm, assessed(t, p, s, chunk), chunk)
	}
	if len(chosen) < 3 || passed < 20 {
		t.Errorf("the seeds compare too little: %v taken, %d passed over", chosen, passed)
	}
}

// assessed is s as Schedule returns it. The plan is first judged with the times of the forecast.
func assessed(t *testing.T, p *Problem, s *Selection, chunk int64) *Scheduled {
	t.Helper()
	if err := plan.Verify(s.Plan, plan.Rules{Chunked: !s.Algorithm.Timed}); err != nil {
		t.Fatalf("%s with the times of the forecast: %v", s.Algorithm.Name, err)
	}
	out, err := Assess(s.Algorithm, p, s.Plan, chunk)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTunedSynchronisation: the alltoall that agents choose on a switch tree has a lead in its
// synchronisations, and passes the verifier with the times of the forecast.
func TestTunedSynchronisation(t *testing.T) {
	for _, size := range []int64{1, 4 << 10, 64 << 10, 1 << 20} {
		for seed := range uint64(5) {
			p := randomTree(t, rand.New(rand.NewPCG(seed, 14)))
			p.Collective, p.Tuned, p.Alltoall = plan.Alltoall, true, plan.AlltoallSizes{Uniform: size}
			s, err := Select(p, int64(exchange.DefaultChunk(size)), Advice{})
			if err != nil {
				t.Fatalf("seed %d, %d bytes: %v", seed, size, err)
			}
			assessed(t, p, s, int64(exchange.DefaultChunk(size)))
			aapc, err := Named(plan.Alltoall, "aapc")
			if err != nil {
				t.Fatal(err)
			}
			if s, err = SelectNamed(aapc, p, int64(exchange.DefaultChunk(size)), Advice{}); err != nil {
				t.Fatalf("seed %d, %d bytes: %v", seed, size, err)
			}
			assessed(t, p, s, int64(exchange.DefaultChunk(size)))
		}
	}
}

// TestPhasesOrShift: on a declared tree of four switches phases are taken where they take no longer than a shift exchange, which has less to synchronise; and no longer where they have
// been seen to take three times as long as forecast. Nothing that sends to several hosts at a time is taken for either.
func TestPhasesOrShift(t *testing.T) {
	const n = 32
	hosts, home := make([]string, n), make([]int, n)
	for i := range hosts {
		hosts[i], home[i] = fmt.Sprintf("n%d", i), i/8
	}
	tree, err := plan.NewTopology([]string{"s0", "s1", "s2", "s3"}, [][2]int{{0, 1}, {0, 2}, {0, 3}}, hosts, home, 100*netmap.Mbps)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		size        int64
		disappoints string
		want        string
	}{{4 << 10, "", "shift"}, {16 << 10, "", "aapc"}, {64 << 10, "", "aapc"}, {64 << 10, "aapc", "shift"}, {4 << 10, "shift", "aapc"}} {
		p := OnTopology(tree)
		p.Collective, p.Tuned, p.Alltoall = plan.Alltoall, true, plan.AlltoallSizes{Uniform: tt.size}
		s, err := Select(p, int64(exchange.DefaultChunk(tt.size)), Advice{Factor: func(name string) float64 {
			if name == tt.disappoints {
				return 3
			}
			return 1
		}})
		if err != nil {
			t.Fatal(err)
		}
		if s.Algorithm.Name != tt.want {
			t.Errorf("%d bytes, %q disappoints: %s, want %s", tt.size, tt.disappoints, s.Algorithm.Name, tt.want)
		}
	}
}

// TestCrowdsFitQueues: over a way that holds as much, what all pairs of hosts send at once is no candidate where a queue has no room for it.
func TestCrowdsFitQueues(t *testing.T) {
	for size, want := range map[int64]bool{256: true, 1024: false} { // 64 pairs, whose links have 125 KB under way
		p := ofGrid(t, paperGrid(t, "paper-3site-loss"))
		p.Collective, p.Alltoall = plan.Alltoall, plan.AlltoallSizes{Uniform: size}
		s, err := newSelector(p, 4096, Advice{})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.fitsPath(); got != want {
			t.Errorf("blocks of %d bytes fit: %v, want %v", size, got, want)
		}
	}
}

// TestSelectRefuses checks that the error of a problem that nothing solves is the first
// algorithm's own.
func TestSelectRefuses(t *testing.T) {
	p := randomProblem(t, rand.New(rand.NewPCG(1, 11)))
	p.Sizes[0] = -1
	if s, err := Select(p, 0, Advice{}); err == nil {
		t.Errorf("chose %v", s)
	}
}

// TestSelectHasNoCliffs: over sizes from 1 B to 4 MiB the predicted time of what is taken never falls
// as the size grows, but for a tie, and is never above that of any algorithm alone.
func TestSelectHasNoCliffs(t *testing.T) {
	taken := make(map[string]bool)
	for seed := range uint64(6) {
		for _, c := range []plan.Collective{plan.Allgather, plan.Alltoall} {
			var last float64
			for size := int64(1); size <= 4<<20; size *= 4 {
				p := randomProblem(t, rand.New(rand.NewPCG(seed, 12))) // the same but for the size
				p.Collective = c
				p.Sizes = slices.Repeat([]int64{size}, len(p.Sizes))
				p.Alltoall = plan.AlltoallSizes{Uniform: size}
				chunk := int64(exchange.DefaultChunk(size))
				s, err := Select(p, chunk, Advice{})
				if err != nil {
					t.Fatalf("seed %d, %s of %d: %v", seed, c, size, err)
				}
				taken[s.Algorithm.Name] = true
				if got := s.Taken.Predicted(); got < last*(1-tie) {
					t.Errorf("seed %d, %s: %d bytes take %v s by %s, a quarter of them %v s", seed, c, size, got, s.Algorithm.Name, last)
				}
				last = s.Taken.Predicted()
			}
		}
	}
	if len(taken) < 5 {
		t.Errorf("only %v were ever taken: the sizes try too little", taken)
	}
}

// TestFewMessagesWinWhereLatencyDominates: between two hosts a message of no bytes has its price, so
// that of blocks of one byte few and large messages go; of large ones those that send each block once.
func TestFewMessagesWinWhereLatencyDominates(t *testing.T) {
	hosts := make([]netmap.Host, 32)
	names := make([]string, len(hosts))
	est := make([]netmap.Estimate, len(hosts)*len(hosts))
	for i := range hosts {
		hosts[i] = netmap.Host{Name: string(rune('a'+i%26)) + string(rune('a'+i/26)), Site: "x"}
		names[i] = hosts[i].Name
	}
	for i := range est {
		est[i] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 20e3, Bandwidth: 1000 * netmap.Mbps}
	}
	at := func(size int64) (string, int) {
		p := &Problem{Snapshot: netmap.NewSnapshot(1, hosts, est)}
		p.Tree = p.flatTree()
		p.Sizes = slices.Repeat([]int64{size}, len(hosts))
		s, err := Select(p, int64(exchange.DefaultChunk(size)), Advice{})
		if err != nil {
			t.Fatal(err)
		}
		return s.Algorithm.Name, len(s.Plan.Transfers)
	}
	small, few := at(1)
	large, many := at(1 << 20)
	if few > 5*32 { // recursive doubling, or what makes the same messages
		t.Errorf("1 byte: %s in %d messages, want one that sends few", small, few)
	}
	if large != "lr3" || many != 32*31 {
		t.Errorf("1 MiB: %s in %d messages, want lr3", large, many)
	}
}

// TestChains: over a slow link with one host at one end and three at the other, steps that wait for what others bring over it are taken to be slower than they are forecast, and what
// sends each block once is chosen, though its three messages cost a little more.
func TestChains(t *testing.T) {
	hosts := []netmap.Host{{Name: "a0", Site: "a"}, {Name: "b0", Site: "b"}, {Name: "b1", Site: "b"}, {Name: "b2", Site: "b"}}
	n := len(hosts)
	est := make([]netmap.Estimate, n*n)
	for i := range est {
		est[i] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 140 * time.Microsecond, Bandwidth: 86 * netmap.Mbps}
		if hosts[i/n].Site != hosts[i%n].Site {
			est[i] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: time.Millisecond, Bandwidth: 1.94 * netmap.Mbps}
		}
	}
	p := &Problem{Snapshot: netmap.NewSnapshot(1, hosts, est), Sizes: slices.Repeat([]int64{1 << 10}, n)}
	var err error
	if p.Tree, err = pools.Build(p.Snapshot, pools.Config{}); err != nil {
		t.Fatal(err)
	}
	chosen, err := Select(p, 1<<10, Advice{})
	if err != nil {
		t.Fatal(err)
	}
	if !chosen.Algorithm.Across {
		t.Errorf("%s: %s", chosen.Algorithm.Name, chosen.Reason())
	}
	s, err := newSelector(p, 1<<10, Advice{})
	if err != nil {
		t.Fatal(err)
	}
	for _, alg := range Algorithms(plan.Allgather) {
		made, err := alg.Make(p)
		if err != nil {
			continue // rings of switches
		}
		if got := s.comesBack(made); got == alg.Across {
			t.Errorf("%s sends what is there already: %v", alg.Name, got)
		}
	}
}
