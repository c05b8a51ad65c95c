package planner

import (
	"cmp"
	"os"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/wan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestLikened: a link whose capacity nobody has measured is taken to be like the one back, never
// faster than that one, never slower than what one flow gets, and one that is known stays.
func TestLikened(t *testing.T) {
	const mbps = netmap.Mbps
	for _, c := range []struct {
		name             string
		there, back      netmap.BytesPerSec // what one flow gets
		pipe             netmap.BytesPerSec // of the link back
		blind, blindBack bool
		want             netmap.BytesPerSec // of the link there
		raised           bool
		trains           [2]netmap.BytesPerSec // there and back; 0: as one flow
	}{
		{"as many times", 1 * mbps, 2 * mbps, 20 * mbps, true, false, 10 * mbps, true, [2]netmap.BytesPerSec{}},
		{"no faster than back", 4 * mbps, 2 * mbps, 20 * mbps, true, false, 20 * mbps, true, [2]netmap.BytesPerSec{}},
		{"no slower than a flow", 30 * mbps, 2 * mbps, 20 * mbps, true, false, 30 * mbps, false, [2]netmap.BytesPerSec{}},
		{"one flow fills the link back", 1 * mbps, 2 * mbps, 2 * mbps, true, false, 1 * mbps, false, [2]netmap.BytesPerSec{}},
		{"known", 1 * mbps, 2 * mbps, 20 * mbps, false, false, 1 * mbps, false, [2]netmap.BytesPerSec{}},
		{"both unknown", 1 * mbps, 2 * mbps, 20 * mbps, true, true, 1 * mbps, false, [2]netmap.BytesPerSec{}},
		{"no link back", 1 * mbps, 0, 0, true, false, 1 * mbps, false, [2]netmap.BytesPerSec{}},
		{"losses hold the flows back", 1 * mbps, 2 * mbps, 20 * mbps, true, false, 1 * mbps, false, [2]netmap.BytesPerSec{0, 19 * mbps}},
		{"losses hold the flows of both", 1 * mbps, 2 * mbps, 20 * mbps, true, false, 8 * mbps, true, [2]netmap.BytesPerSec{8 * mbps, 19 * mbps}},
		{"a limit holds the flows back, which trains read", 1 * mbps, 2 * mbps, 20 * mbps, true, false, 10 * mbps, true, [2]netmap.BytesPerSec{1 * mbps, 2.5 * mbps}},
	} {
		net := &plan.Network{
			Hosts: []string{"a", "b"}, Pool: []int{0, 1},
			Pipe:    []netmap.BytesPerSec{0, c.there, c.pipe, 0},
			Ceiling: []netmap.BytesPerSec{0, c.there, c.back, 0},
		}
		trains := []netmap.BytesPerSec{0, cmp.Or(c.trains[0], c.there), cmp.Or(c.trains[1], c.back), 0}
		if got := likened(net, []bool{false, c.blind, c.blindBack, false}, trains); got != c.raised || net.Pipe[1] != c.want || net.Pipe[2] != c.pipe {
			t.Errorf("%s: raised %t, %v there and %v back, want %t, %v and %v", c.name, got, net.Pipe[1], net.Pipe[2], c.raised, c.want, c.pipe)
		}
	}
}

// TestBlind: a link is blind until somebody has measured what several flows get of it. What trains read and what exchanges were seen to get is less than that.
func TestBlind(t *testing.T) {
	const rated = netmap.FieldLatency | netmap.FieldBandwidth
	for _, c := range []struct {
		name  string
		known netmap.Field // of a→b, beside the rate of a flow
		blind bool
	}{
		{"a flow", 0, true},
		{"a flow and the line", netmap.FieldLine, true},
		{"what exchanges got", netmap.FieldCarried, true},
		{"what several get", netmap.FieldCapacity | netmap.FieldLanes | netmap.FieldLine, false},
		{"declared", netmap.FieldCapacity, false},
	} {
		one := netmap.Estimate{Known: rated, Latency: 50e6, Bandwidth: netmap.Mbps, Line: netmap.Mbps, Carried: 4 * netmap.Mbps, Capacity: 8 * netmap.Mbps, Lanes: 8, Source: netmap.SourceProbed}
		there, back := one, one
		there.Known |= c.known
		p := &Problem{Snapshot: netmap.NewSnapshot(1, []netmap.Host{{Name: "a", Site: "A"}, {Name: "b", Site: "B"}}, []netmap.Estimate{{}, there, back, {}})}
		if got := p.blind(&plan.Network{Hosts: []string{"a", "b"}, Pool: []int{0, 1}, Pipe: make([]netmap.BytesPerSec, 4)}); !slices.Equal(got, []bool{false, c.blind, true, false}) {
			t.Errorf("%s: blind %v, want %t there", c.name, got, c.blind)
		}
	}
}

// TestHalfKnown: of the paper's grid where something holds each flow to an eighth, every subset of the links is known for what several flows get; agents
// find out one after the other. An alltoall crosses as wan at any time, and its plan takes 2.6 to 4.8 s over the
// true links: forecast by the map as it stands, it lost to shuffles and rings in 29 of these 64.
func TestHalfKnown(t *testing.T) {
	full := ofGrid(t, paperGrid(t, "paper-3site-held"))
	n := full.Snapshot.N()
	for known := range 1 << 6 {
		est := make([]netmap.Estimate, n*n)
		for i := range est {
			e := full.Snapshot.Estimate(i/n, i%n)
			sites := [2]string{full.Snapshot.Host(i / n).Site, full.Snapshot.Host(i % n).Site}
			links := [][2]string{{"UT", "UK"}, {"UK", "UT"}, {"UT", "NTH"}, {"NTH", "UT"}, {"UK", "NTH"}, {"NTH", "UK"}}
			if k := slices.Index(links, sites); k >= 0 && known>>k&1 == 0 {
				e.Known &^= netmap.FieldCapacity | netmap.FieldLine
			}
			est[i] = e
		}
		p := &Problem{Snapshot: netmap.NewSnapshot(1, full.Snapshot.Hosts(), est), Tree: full.Tree, Collective: plan.Alltoall, Alltoall: plan.AlltoallSizes{Uniform: 64 << 10}}
		s, err := Select(p, 4096, Advice{})
		if err != nil {
			t.Fatal(err)
		}
		// What is carried out is the plan, over the true links.
		truth, err := full.network()
		if err != nil {
			t.Fatal(err)
		}
		sim, err := plan.Simulate(s.Plan, truth, plan.SimOptions{Chunk: 4096, Overtake: true, Notice: true})
		if err != nil {
			t.Fatal(err)
		}
		if s.Algorithm.Name != "wan" || sim.Makespan > 6 {
			t.Errorf("links %06b known: %s, expected %.2f s, takes %.2f s over the true links", known, s.Algorithm.Name, s.Taken.Forecast, sim.Makespan)
		}
	}
}

// TestOpen: a link of which a pair of hosts got what its ports take is not blind, but nobody knows what many pairs get of it.
func TestOpen(t *testing.T) {
	hosts := []netmap.Host{{Name: "a", Site: "a"}, {Name: "b", Site: "b"}}
	est := func(known netmap.Field) netmap.Estimate {
		return netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth | known, Latency: 5e6, Bandwidth: 9e6, Capacity: 1e7, Carried: 2e7}
	}
	net := &plan.Network{Hosts: []string{"a", "b"}, Pool: []int{0, 1}, Pipe: make([]netmap.BytesPerSec, 4)}
	for _, c := range []struct {
		known       netmap.Field
		blind, open bool
	}{{0, true, true}, {netmap.FieldCarried, true, true}, {netmap.FieldCapacity, false, false}, {netmap.FieldCapacity | netmap.FieldCarried, false, true}} {
		p := &Problem{Snapshot: netmap.NewSnapshot(1, hosts, []netmap.Estimate{{}, est(c.known), est(netmap.FieldCapacity), {}})}
		if got := p.blind(net); !slices.Equal(got, []bool{false, c.blind, false, false}) {
			t.Errorf("%v: blind %v", c, got)
		}
		if got := p.open(net); !slices.Equal(got, []bool{false, c.open, false, false}) {
			t.Errorf("%v: open %v", c, got)
		}
	}
}

// TestBoundOfRaised: the bound of an alltoall is that of the map, whichever algorithm is asked for first. wan plans by links that are taken to be
// like the ones back.
func TestBoundOfRaised(t *testing.T) {
	full := ofGrid(t, paperGrid(t, "paper-3site-held"))
	n := full.Snapshot.N()
	est := make([]netmap.Estimate, n*n)
	for i := range est {
		if est[i] = full.Snapshot.Estimate(i/n, i%n); full.Snapshot.Host(i/n).Site == "UT" {
			est[i].Known &^= netmap.FieldCapacity | netmap.FieldLine
		}
	}
	p := Problem{Snapshot: netmap.NewSnapshot(1, full.Snapshot.Hosts(), est), Tree: full.Tree, Collective: plan.Alltoall, Alltoall: plan.AlltoallSizes{Uniform: 64 << 10}}
	if b, err := p.believed(); err != nil || !b.raised {
		t.Fatalf("no link is raised (%v): this tests nothing", err)
	}
	var bounds []float64
	for _, name := range []string{wan.Name, "pairwise"} {
		own := p
		alg, err := Named(plan.Alltoall, name)
		if err != nil {
			t.Fatal(err)
		}
		made, err := alg.Make(&own)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Assess(alg, &own, made, 4096)
		if err != nil {
			t.Fatal(err)
		}
		bounds = append(bounds, s.Bound.Seconds)
	}
	if bounds[0] != bounds[1] || bounds[0] <= 0 {
		t.Errorf("bound %v s beside wan, %v beside pairwise", bounds[0], bounds[1])
	}
}

// paperGrid is one of the paper's grids: in "paper-3site-held" something holds each flow to an eighth.
func paperGrid(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../configs/grids/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
