package planner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/min3"
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
	p := &Problem{Snapshot: snap, Tree: tree}
	declareSome(t, rng, p)
	fill(rng, p)
	return p
}

// declareSome declares the switch trees of some of the sites, with hosts that take no part, too.
func declareSome(t *testing.T, rng *rand.Rand, p *Problem) {
	t.Helper()
	var trees []*plan.Topology
	for _, site := range []string{"0", "1", "2", "3"} {
		if rng.IntN(2) == 0 {
			continue
		}
		hosts, home := []string{"idle" + site}, []int{0}
		for _, h := range p.Snapshot.Hosts() {
			if h.Site == site {
				hosts, home = append(hosts, h.Name), append(home, rng.IntN(3))
			}
		}
		topo, err := plan.NewTopology([]string{"s0", "s1", "s2"}, [][2]int{{0, 1}, {1, 2}}, hosts, home, netmap.BytesPerSec(rng.IntN(2)*90)*netmap.Mbps)
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, topo)
	}
	if err := p.Declare(trees...); err != nil {
		t.Fatal(err)
	}
}

// TestDeclare: hosts of one site, scattered over two switches, are run in LR3's order, whether they
// are all of a job or its share of one site; a tree that lacks a host of a cluster is not used.
func TestDeclare(t *testing.T) {
	hosts := []string{"a0", "a1", "a2", "a3", "b0", "b1"}
	sites := []string{"A", "A", "A", "A", "B", "B"}
	topo, err := plan.NewTopology([]string{"left", "right"}, [][2]int{{0, 1}}, []string{"a0", "a1", "a2", "a3", "a4"}, []int{0, 1, 0, 1, 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	lacking, err := plan.NewTopology([]string{"only"}, nil, []string{"a0", "a1", "b0"}, []int{0, 0, 0}, 0)
	if err != nil {
		t.Fatal(err)
	}
	of := func(n int) *Problem {
		p := &Problem{Sizes: make([]int64, n), Options: Options{Links: min3.Shared}}
		hs, est := make([]netmap.Host, n), make([]netmap.Estimate, n*n)
		for i := range n {
			p.Sizes[i] = 100_000
			hs[i] = netmap.Host{Name: hosts[i], Site: sites[i]}
			for j := range n {
				e := netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 50 * time.Microsecond, Bandwidth: 20 * netmap.Mbps}
				if sites[i] != sites[j] {
					e.Latency, e.Bandwidth = 20*time.Millisecond, 2*netmap.Mbps
				}
				est[i*n+j] = e
			}
		}
		p.Snapshot = netmap.NewSnapshot(1, hs, est)
		if p.Tree, err = pools.Build(p.Snapshot, pools.Config{}); err != nil {
			t.Fatal(err)
		}
		if err := p.Declare(lacking, topo); err != nil {
			t.Fatal(err)
		}
		return p
	}
	// crossings counts how often the transfers inside A pass between its switches.
	crossings := func(p *Problem) (n int) {
		alg, err := Named(plan.Allgather, "min3+ring")
		if err != nil {
			t.Fatal(err)
		}
		s, err := Schedule(alg, p, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range s.Plan.Transfers {
			if tr.Src < 4 && tr.Dst < 4 && tr.Src%2 != tr.Dst%2 {
				n += len(tr.Blocks)
			}
		}
		return n
	}
	alone, shared := of(4), of(6)
	if alone.Topology == nil || len(alone.LANs) != 0 || shared.Topology != nil || len(shared.LANs) != 1 {
		t.Fatalf("of all hosts: %v, %d; of a site: %v, %d", alone.Topology != nil, len(alone.LANs), shared.Topology != nil, len(shared.LANs))
	}
	if rate, ok := alone.Topology.Bandwidth(); !ok || rate != 20*netmap.Mbps {
		t.Errorf("links of %v, measured were 20 Mbit/s", rate)
	}
	// A ring of four passes between two switches twice; each block takes three of its four hops.
	if n := crossings(alone); n > 2*4 {
		t.Errorf("%d blocks pass between the switches, want at most 8", n)
	}
	if n := crossings(shared); n > 2*6 {
		t.Errorf("with another site %d blocks pass between the switches, want at most 12", n)
	}
}

// fill draws the sizes of an allgather and of an alltoall, and options.
func fill(rng *rand.Rand, p *Problem) {
	n := len(p.Hosts())
	for range n {
		p.Sizes = append(p.Sizes, int64(rng.IntN(3))*int64(rng.IntN(100_000)))
	}
	p.Alltoall.Uniform = int64(rng.IntN(3)) * int64(rng.IntN(100_000))
	if rng.IntN(2) == 0 {
		p.Alltoall = plan.AlltoallSizes{Matrix: make([][]int64, n)}
		for i := range p.Alltoall.Matrix {
			for range n {
				p.Alltoall.Matrix[i] = append(p.Alltoall.Matrix[i], int64(rng.IntN(3))*int64(rng.IntN(100_000)))
			}
		}
	}
	p.Duplex = []plan.Duplex{0, plan.HalfDuplex, plan.FullDuplex}[rng.IntN(3)]
	p.Links = []min3.Links{min3.Separate, min3.Shared}[rng.IntN(2)]
	p.AAPC.Sync = phase.Sync(rng.IntN(5))
}

// randomTree is the problem over a chain of up to four switches with up to five hosts each.
func randomTree(t *testing.T, rng *rand.Rand) *Problem {
	var switches, hosts []string
	var links [][2]int
	var home []int
	for s := range 1 + rng.IntN(4) {
		switches = append(switches, fmt.Sprintf("s%d", s))
		if s > 0 {
			links = append(links, [2]int{s - 1, s})
		}
		for h := range 1 + rng.IntN(5) {
			hosts = append(hosts, fmt.Sprintf("s%dh%d", s, h))
			home = append(home, s)
		}
	}
	topology, err := plan.NewTopology(switches, links, hosts, home, 100*netmap.Mbps)
	if err != nil {
		t.Fatal(err)
	}
	p := OnTopology(topology)
	fill(rng, p)
	return p
}

// refuses says which algorithms may refuse p, as the flags of gridagent plan do.
func refuses(name string, p *Problem, err error) bool {
	switch name {
	case "lr1", "lr2", "lr3", "aapc", "open-shop": // of several pools the switches are not known; lr2 does not fit every tree
		return len(p.Clusters()) > 1 || name == "lr2" && p.Topology != nil
	case "wan": // nothing crosses a link between sites
		return len(p.Clusters()) == 1
	case "neighbour-exchange":
		return len(p.Hosts())%2 == 1
	}
	return false
}

// TestEveryAlgorithmIsRightAndNotUnderTheBound is what the agent relies on before it
// hands parts out: whatever the planner returns passes the verifier.
func TestEveryAlgorithmIsRightAndNotUnderTheBound(t *testing.T) {
	made := make(map[string]int)
	for seed := range uint64(72) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := randomProblem(t, rng)
		if seed%3 == 0 {
			p = randomTree(t, rng)
		}
		for _, p.Collective = range []plan.Collective{plan.Allgather, plan.Alltoall} {
			for _, alg := range Algorithms(p.Collective) {
				chunk := []int64{0, 4096}[rng.IntN(2)]
				s, err := Schedule(alg, p, chunk)
				if err != nil && refuses(alg.Name, p, err) {
					continue
				}
				if err != nil {
					t.Fatalf("seed %d, %s: %v", seed, alg.Name, err)
				}
				made[string(p.Collective)+" "+alg.Name]++
				check(t, seed, p, alg, s, chunk)
			}
		}
	}
	for _, c := range []plan.Collective{plan.Allgather, plan.Alltoall} {
		for _, name := range Names(c) {
			if made[string(c)+" "+name] < 10 {
				t.Errorf("%s %s was made %d times: the seeds try too little", c, name, made[string(c)+" "+name])
			}
		}
	}
}

func check(t *testing.T, seed uint64, p *Problem, alg Algorithm, s *Scheduled, chunk int64) {
	t.Helper()
	var rules plan.Rules
	switch alg.Name {
	case "packed":
		rules.Pools = p.Clusters()
	case "min3+ring":
		rules.Pools = p.min3Tree().Leaves()
	case "min3":
		rules.Pools = p.Tree.Sets()
		if p.Links == min3.Shared {
			rules.Pools = p.min3Tree().Leaves()
		}
		fallthrough
	case "broadcast-trees":
		rules.Snapshot, rules.Duplex = p.Snapshot, p.Duplex
		if p.Duplex == plan.DuplexUnchecked {
			rules.Duplex = plan.FullDuplex
		}
	case "aapc", "lr1", "lr2", "lr3":
		rules.Topology = p.Topology
	}
	if err := plan.Verify(s.Plan, rules); err != nil {
		t.Fatalf("seed %d, %s %s, chunk %d: %v", seed, p.Collective, alg.Name, chunk, err)
	}
	if s.Sim.Makespan < s.Bound.Seconds*(1-1e-9) {
		t.Fatalf("seed %d, %s %s: simulated %v s, bound %v s", seed, p.Collective, alg.Name, s.Sim.Makespan, s.Bound.Seconds)
	}
	if s.Plan.Bound != s.Bound.Seconds || s.Plan.Algorithm != alg.Name || s.Plan.Collective != p.Collective {
		t.Fatalf("seed %d: %s %s with bound %v is not the %s %s asked for, of bound %v", seed,
			s.Plan.Algorithm, s.Plan.Collective, s.Plan.Bound, alg.Name, p.Collective, s.Bound.Seconds)
	}
}

// TestWithoutRates: of a switch tree without rates the plans have no times, and what
// needs rates says so.
func TestWithoutRates(t *testing.T) {
	topology, err := plan.NewTopology([]string{"s"}, nil, []string{"a", "b", "c"}, []int{0, 0, 0}, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := OnTopology(topology)
	p.Sizes = []int64{1, 2, 3}
	p.Alltoall.Uniform = 7
	for c, want := range map[plan.Collective]string{plan.Allgather: "lr3", plan.Alltoall: "aapc"} {
		p.Collective = c
		chosen, err := Choose(p, 0, nil)
		if err != nil || chosen.Algorithm.Name != want || chosen.Sim != nil || chosen.Plan.Makespan != 0 {
			t.Errorf("%s: chose %+v, %v; want %s without times", c, chosen, err, want)
		}
		for _, alg := range Algorithms(c) {
			s, err := Schedule(alg, p, 0)
			if slices.Contains([]string{"packed", "min3", "min3+ring", "broadcast-trees", "wan"}, alg.Name) {
				if !errors.Is(err, ErrNoRates) {
					t.Errorf("%s: %v, want %v", alg.Name, err, ErrNoRates)
				}
				continue
			}
			if err != nil && alg.Name == "neighbour-exchange" {
				continue // three hosts
			}
			if err != nil {
				t.Errorf("%s: %v", alg.Name, err)
				continue
			}
			if err := plan.Verify(s.Plan, plan.Rules{}); err != nil {
				t.Errorf("%s: %v", alg.Name, err)
			}
		}
	}
}

func TestUnknownAlgorithmIsNamedWithThoseThatExist(t *testing.T) {
	_, err := Named(plan.Alltoall, "min4")
	var unknown *UnknownError
	if !errors.As(err, &unknown) || !strings.Contains(err.Error(), "min4") || !strings.Contains(err.Error(), "aapc, shift") {
		t.Errorf("got %v", err)
	}
}
