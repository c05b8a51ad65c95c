package planner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// randomProblem makes up to four sites of up to five hosts: fast inside, slow between,
// with a many-flow capacity of up to eight times what one flow gets.
func randomProblem(t *testing.T, rng *rand.Rand) *Problem {
	var hosts []netmap.Host
	for s := range 1 + rng.IntN(4) {
		for h := range 1 + rng.IntN(5) {
			hosts = append(hosts, netmap.Host{Name: fmt.Sprintf("s%dh%d", s, h), Site: fmt.Sprint(s)})
		}
	}
	n := len(hosts)
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		for j := range n {
			e := netmap.Estimate{
				Known:     netmap.FieldLatency | netmap.FieldBandwidth | netmap.FieldCapacity,
				Latency:   time.Duration(rng.IntN(100)) * time.Microsecond,
				Bandwidth: netmap.BytesPerSec(80+rng.IntN(3)*100) * netmap.Mbps,
			}
			e.Capacity = e.Bandwidth
			if hosts[i].Site != hosts[j].Site {
				e.Latency = time.Duration(10+rng.IntN(90)) * time.Millisecond
				e.Bandwidth = netmap.BytesPerSec(1+rng.Float64()*5) * netmap.Mbps
				e.Capacity = e.Bandwidth * netmap.BytesPerSec(1+rng.IntN(8))
			}
			est[i*n+j] = e
		}
	}
	snap := netmap.NewSnapshot(1, hosts, est)
	tree, err := pools.Build(snap, pools.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := &Problem{Snapshot: snap, Tree: tree, Duplex: plan.FullDuplex}
	for range n {
		p.Sizes = append(p.Sizes, int64(rng.IntN(3))*int64(rng.IntN(100_000)))
	}
	return p
}

// TestEveryAlgorithmIsRightAndNotUnderTheBound is what the agent relies on before it
// hands parts out: whatever the planner returns passes the verifier.
func TestEveryAlgorithmIsRightAndNotUnderTheBound(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := randomProblem(t, rng)
		for _, alg := range Allgathers() {
			chunk := []int64{0, 4096}[rng.IntN(2)]
			s, err := Schedule(alg, p, chunk)
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, alg.Name, err)
			}
			rules := plan.Rules{Chunked: chunk > 0 && !alg.Timed}
			if alg.Name == "min3" {
				rules.Pools = p.Tree.Sets()
				rules.Duplex, rules.Snapshot = p.Duplex, p.Snapshot
			}
			if err := plan.Verify(s.Plan, rules); err != nil {
				t.Fatalf("seed %d, %s, chunk %d: %v", seed, alg.Name, chunk, err)
			}
			if s.Sim.Makespan < s.Bound.Seconds*(1-1e-9) {
				t.Fatalf("seed %d, %s: simulated %v s, bound %v s", seed, alg.Name, s.Sim.Makespan, s.Bound.Seconds)
			}
			if s.Plan.Bound != s.Bound.Seconds {
				t.Fatalf("seed %d, %s: plan's bound is %v, not %v", seed, alg.Name, s.Plan.Bound, s.Bound.Seconds)
			}
		}
	}
}

func TestUnknownAlgorithmIsNamedWithThoseThatExist(t *testing.T) {
	_, err := Named("min4")
	var unknown *UnknownError
	if !errors.As(err, &unknown) || !strings.Contains(err.Error(), "min4") || !strings.Contains(err.Error(), "min3, magpie") {
		t.Errorf("got %v", err)
	}
}
