package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func kept(p *Problem, parts int) *Kept {
	return &Kept{
		Collective: p.collective(), Hosts: p.Snapshot.N(), Bytes: p.LargestBlock(), Shape: "tree 1", Basis: p.basis(),
		Selection: Summary{Algorithm: "ring", Forecast: 1, Candidates: []Candidate{{Algorithm: "ring", Forecast: 1}, {Algorithm: "bruck", Forecast: 1.2}}},
		Parts:     [][]byte{make([]byte, parts)},
	}
}

// TestKeyIsExact: whatever differs between two operations is in their keys, and the same twice is the same.
func TestKeyIsExact(t *testing.T) {
	seen := make(map[Key]string)
	for _, change := range []struct {
		name string
		of   func(*Problem) string
	}{
		{"as it is", func(p *Problem) string { return "" }},
		{"another algorithm", func(p *Problem) string { return "ring" }},
		{"a byte more", func(p *Problem) string { p.Sizes[0]++; return "" }},
		{"alltoall", func(p *Problem) string {
			p.Collective = plan.Alltoall
			p.Alltoall = plan.AlltoallSizes{Uniform: 5}
			return ""
		}},
		{"alltoall, a matrix", func(p *Problem) string {
			p.Collective = plan.Alltoall
			n := p.Snapshot.N()
			p.Alltoall = plan.AlltoallSizes{Matrix: make([][]int64, n)}
			for i := range p.Alltoall.Matrix {
				p.Alltoall.Matrix[i] = make([]int64, n)
			}
			return ""
		}},
		{"options", func(p *Problem) string { p.Fanout = 3; return "" }},
		{"another order", func(p *Problem) string {
			order := make([]int, p.Snapshot.N())
			for i := range order {
				order[i] = len(order) - 1 - i
			}
			p.Snapshot = p.Snapshot.Subset(order)
			return ""
		}},
	} {
		for range 2 {
			p := randomProblem(t, rand.New(rand.NewPCG(3, 31)))
			p.Topology, p.Options = nil, Options{}
			if p.Snapshot.N() < 3 {
				t.Fatal("too few hosts")
			}
			asked := change.of(p)
			key := KeyOf(p.Hosts(), p, asked)
			if before, ok := seen[key]; ok && before != change.name {
				t.Errorf("%q has the key of %q", change.name, before)
			}
			seen[key] = change.name
		}
	}
	if len(seen) != 7 {
		t.Errorf("%d keys for 7 operations", len(seen))
	}
}

// TestCacheDropsWhatNoLongerHolds walks one plan through what can happen to it.
func TestCacheDropsWhatNoLongerHolds(t *testing.T) {
	p := randomProblem(t, rand.New(rand.NewPCG(3, 31)))
	p.Topology = nil
	key := KeyOf(p.Hosts(), p, "")
	var c Cache
	moved, asked, outdone := "", 0, ""
	checks := Checks{
		Shape:   "tree 1",
		Moved:   func(*Kept) string { asked++; return moved },
		Outdone: func(*Kept) string { return outdone },
	}
	now := noon
	look := func(want bool) {
		t.Helper()
		if _, ok := c.Lookup(key, now, checks); ok != want {
			t.Fatalf("found %v, want %v; %+v", ok, want, c.Stats())
		}
	}
	look(false)
	c.Keep(key, kept(p, 100), now)
	look(true)
	if asked != 0 {
		t.Error("a plan that was just made is compared with the map")
	}
	now = now.Add(2 * checkPause)
	look(true)
	look(true)
	if asked != 1 {
		t.Errorf("in one second the map was asked for %d times, want once", asked)
	}
	now, moved = now.Add(2*checkPause), "a→b: from 10 to 5"
	look(false)
	look(false)
	c.Keep(key, kept(p, 100), now)
	outdone = "bruck is faster"
	look(false)
	outdone = ""
	c.Keep(key, kept(p, 100), now)
	checks.Shape = "tree 2"
	look(false)
	s := c.Stats()
	if s.Hits != 3 || s.Misses != 5 || len(s.Plans) != 0 || s.Bytes != 0 {
		t.Errorf("%d hits, %d misses, %d plans in %d bytes", s.Hits, s.Misses, len(s.Plans), s.Bytes)
	}
	var kinds []string
	for _, d := range s.Drops {
		kinds = append(kinds, d.Kind)
	}
	if !slices.Equal(kinds, []string{DropShape, DropExperience, DropMap}) || s.Dropped[DropMap] != 1 {
		t.Errorf("dropped %v, %v", kinds, s.Dropped)
	}
}

// TestOutdonePlansWait: a plan that another outdoes is there again when it is the better one after all, unless it does not hold any more.
func TestOutdonePlansWait(t *testing.T) {
	p := randomProblem(t, rand.New(rand.NewPCG(3, 31)))
	p.Topology = nil
	key := KeyOf(p.Hosts(), p, "")
	var c Cache
	var outdone []string // algorithms
	moved := ""
	checks := Checks{
		Shape: "tree 1",
		Moved: func(*Kept) string { return moved },
		Outdone: func(k *Kept) string {
			if slices.Contains(outdone, k.Selection.Algorithm) {
				return "another is faster"
			}
			return ""
		},
	}
	now := noon
	look := func(want string) {
		t.Helper()
		now = now.Add(2 * checkPause)
		k, ok := c.Lookup(key, now, checks)
		if ok != (want != "") || ok && k.Selection.Algorithm != want {
			t.Fatalf("%v, %v; want %q", k, ok, want)
		}
	}
	keep := func(algorithm string) {
		k := kept(p, 1000)
		k.Selection.Algorithm = algorithm
		c.Keep(key, k, now)
	}
	keep("ring")
	outdone = []string{"ring"}
	look("") // the trial's plan is made
	keep("bruck")
	look("bruck")
	outdone = []string{"bruck"}
	look("ring")
	look("ring")
	outdone = []string{"ring"}
	look("bruck")
	outdone = []string{"ring", "bruck"}
	look("")
	keep("direct")
	outdone = []string{"ring", "direct"}
	look("bruck")
	s := c.Stats()
	if s.Hits != 5 || s.Misses != 2 || s.Dropped[DropExperience] != 5 {
		t.Errorf("%d hits, %d misses, dropped %v", s.Hits, s.Misses, s.Dropped)
	}
	var listed []string
	bytes := 0
	for _, k := range s.Plans {
		listed = append(listed, fmt.Sprint(k.Selection.Algorithm, " ", k.Aside))
		bytes += k.Size
	}
	if want := []string{"bruck false", "ring true", "direct true"}; !slices.Equal(listed, want) || bytes != s.Bytes {
		t.Errorf("%v are listed, with %d of %d bytes; want %v", listed, bytes, s.Bytes, want)
	}
	outdone, moved = []string{"bruck"}, "a→b: from 10 to 5"
	look("") // what waits does not hold either
	moved = ""
	look("")
	keep("bruck")
	outdone = []string{"direct"}
	look("bruck")
	if s := c.Stats(); s.Bytes != s.Plans[0].Size {
		t.Errorf("%d bytes are counted, for one plan of %d", s.Bytes, s.Plans[0].Size)
	}

	outdone = []string{"ring"}
	for i := range 3 * maxAside {
		p.Sizes[0] = int64(1000 + i)
		key = KeyOf(p.Hosts(), p, "")
		keep("ring")
		look("")
	}
	size := kept(p, 1000).size()
	if s := c.Stats(); s.Bytes != s.Plans[0].Size+maxAside*size {
		t.Errorf("%d bytes are counted, for a plan and %d that wait, of %d each", s.Bytes, maxAside, size)
	}
	for i := range 5 {
		p.Sizes[0] = -int64(i)
		c.Keep(KeyOf(p.Hosts(), p, ""), kept(p, maxKeptBytes/5), now)
	}
	if s := c.Stats(); s.Bytes > maxKeptBytes || len(s.Plans) < 4 {
		t.Errorf("%d plans in %d bytes: what waits makes room for those that are used", len(s.Plans), s.Bytes)
	}
}

// TestCacheIsBounded: plans without end leave the ones that were used last, and the counts fit.
func TestCacheIsBounded(t *testing.T) {
	p := randomProblem(t, rand.New(rand.NewPCG(3, 31)))
	p.Topology = nil
	var c Cache
	now := noon
	var first Key
	for i := range 2 * maxKept {
		p.Sizes[0] = int64(i)
		key := KeyOf(p.Hosts(), p, "")
		if i == 0 {
			first = key
		}
		now = now.Add(time.Millisecond)
		c.Keep(key, kept(p, 1000), now)
		if _, ok := c.Lookup(first, now, Checks{Shape: "tree 1"}); !ok {
			t.Fatalf("the plan that is used all the time is gone after %d", i)
		}
	}
	s := c.Stats()
	if len(s.Plans) != maxKept || s.Dropped[DropRoom] != maxKept || len(s.Drops) != maxDrops {
		t.Errorf("%d plans kept, %d dropped, %d told of", len(s.Plans), s.Dropped[DropRoom], len(s.Drops))
	}
	total := 0
	for _, k := range s.Plans {
		total += k.Size
	}
	if total != s.Bytes {
		t.Errorf("plans of %d bytes, counted %d", total, s.Bytes)
	}
	c.Keep(first, kept(p, maxKeptBytes), now) // larger than all others may be
	for i := range 20 {
		p.Sizes[0] = -int64(i)
		c.Keep(KeyOf(p.Hosts(), p, ""), kept(p, maxKeptBytes/8), now)
	}
	if s := c.Stats(); s.Bytes > maxKeptBytes {
		t.Errorf("%d bytes kept, at most %d", s.Bytes, maxKeptBytes)
	}
}

// TestBasisMoves: by how much each kind of estimate may move between sites.
func TestBasisMoves(t *testing.T) {
	of := func(latency time.Duration, bandwidth, capacity float64) *Problem {
		e := netmap.Estimate{
			Known:   netmap.FieldLatency | netmap.FieldBandwidth | netmap.FieldCapacity,
			Latency: latency, Bandwidth: netmap.BytesPerSec(bandwidth), Capacity: netmap.BytesPerSec(capacity),
		}
		s := netmap.NewSnapshot(1, []netmap.Host{{Name: "a", Site: "A"}, {Name: "b", Site: "B"}}, []netmap.Estimate{{}, e, e, {}})
		p := &Problem{Snapshot: s, Sizes: []int64{1, 1}}
		p.Tree = p.flatTree()
		return p
	}
	b := of(20*time.Millisecond, 1e6, 4e6).basis()
	for _, test := range []struct {
		p    *Problem
		says string
	}{
		{of(20*time.Millisecond, 1e6, 4e6), ""},
		{of(24*time.Millisecond, 1.1e6, 3.6e6), ""},
		{of(20*time.Millisecond, 0.8e6, 4e6), "a→b: from 8 Mbit/s to 6.4 Mbit/s a flow"},
		{of(20*time.Millisecond, 1e6, 5e6), "in all"},
		{of(40*time.Millisecond, 1e6, 4e6), "a→b: from 20 ms to 40 ms one way"},
	} {
		if got := b.Moved(test.p.Snapshot); got != test.says && (test.says == "" || !strings.HasSuffix(got, test.says)) {
			t.Errorf("moved: %q, want %q", got, test.says)
		}
	}
}

// TestBasisOfALAN: single readings of pairs move nothing, what a host has does, and so do readings that suggest switches.
func TestBasisOfALAN(t *testing.T) {
	const n = 12
	lan := func(change func(i, j int, e *netmap.Estimate)) *Problem {
		var hosts []netmap.Host
		var est []netmap.Estimate
		for i := range n {
			hosts = append(hosts, netmap.Host{Name: fmt.Sprintf("n%d", i), Site: "A"})
			for j := range n {
				e := netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 20 * time.Microsecond, Bandwidth: 12e6}
				change(i, j, &e)
				est = append(est, e)
			}
		}
		s := netmap.NewSnapshot(1, hosts, est)
		p := &Problem{Snapshot: s, Sizes: make([]int64, n)}
		p.Tree = p.flatTree()
		return p
	}
	b := lan(func(int, int, *netmap.Estimate) {}).basis()
	for _, test := range []struct {
		name   string
		change func(i, j int, e *netmap.Estimate)
		says   string
	}{
		{"nothing", func(i, j int, e *netmap.Estimate) {}, ""},
		{"a slow reading of each host, and a late one", func(i, j int, e *netmap.Estimate) {
			if j == (i+1)%n {
				e.Bandwidth, e.Latency = e.Bandwidth/3, 5*time.Millisecond
			}
		}, ""},
		{"one reading beyond all reason", func(i, j int, e *netmap.Estimate) {
			if i == 2 && j == 3 {
				e.Bandwidth *= 20
			}
		}, ""},
		{"all are as late", func(i, j int, e *netmap.Estimate) { e.Latency = 480 * time.Microsecond }, ""},
		{"a slower port", func(i, j int, e *netmap.Estimate) {
			if i == 2 {
				e.Bandwidth /= 2
			}
		}, "n2: from 96 Mbit/s to 48 Mbit/s to its LAN"},
		{"faster ports", func(i, j int, e *netmap.Estimate) { e.Bandwidth *= 2 }, "n0: from 96 Mbit/s to 192 Mbit/s to its LAN"},
		{"late ones", func(i, j int, e *netmap.Estimate) { e.Latency = time.Millisecond }, "n0: from 20 µs to 1 ms to its LAN, one way"},
		{"switches", func(i, j int, e *netmap.Estimate) {
			if i/6 != j/6 && (i+j)%2 == 0 {
				e.Bandwidth /= 2
			}
		}, "its hosts seem to hang at 2 switches, it was 1"},
	} {
		if got := b.Moved(lan(test.change).Snapshot); got != test.says {
			t.Errorf("%s: %q, want %q", test.name, got, test.says)
		}
	}
}

// TestOutdone: a plan goes when experience puts another candidate before it by more than a tie, and by so much that it
// is worth the planning.
func TestOutdone(t *testing.T) {
	s := kept(randomProblem(t, rand.New(rand.NewPCG(3, 31))), 0).Selection
	for _, test := range []struct {
		slow, cost float64
		gone       bool
	}{{1, 0, false}, {1.21, 0, false}, {1.3, 0, true}, {1.3, 11, false}, {1.5, 11, true}} {
		s.Cost = test.cost
		why := s.Outdone(func(name string) float64 {
			if name == "ring" {
				return test.slow
			}
			return 1
		})
		if (why != "") != test.gone {
			t.Errorf("ring takes %g times as long as forecast, planning %g s: %q", test.slow, test.cost, why)
		}
	}
}

// TestDisappointing: a plan beside which no other was forecast goes when it takes more than twice its forecast and half as long again as it was expected to; one beside which all were does not.
func TestDisappointing(t *testing.T) {
	for _, test := range []struct {
		then, now, other float64
		gone             bool
	}{{1, 1.9, 0, false}, {1, 2.1, 0, true}, {1.6, 2.3, 0, false}, {1.6, 2.5, 0, true}, {1, 2.1, 3, false}} {
		s := Summary{Algorithm: "lr3", Forecast: 1, Candidates: []Candidate{{Algorithm: "lr3", Forecast: 1, Factor: test.then}, {Algorithm: "bruck", Forecast: test.other, Factor: 1}}}
		why := s.Outdone(func(name string) float64 {
			if name == "lr3" {
				return test.now
			}
			return 1
		})
		if (why != "") != test.gone {
			t.Errorf("%+v: %q", test, why)
		}
	}
}

func BenchmarkCache(b *testing.B) {
	p := gridOf(b, 64, 3)
	p.Sizes = slices.Repeat([]int64{64 << 10}, 64)
	var c Cache
	c.Keep(KeyOf(p.Hosts(), p, ""), kept(p, 100_000), noon)
	hosts := p.Hosts()
	b.Run("lookup/hosts=64", func(b *testing.B) {
		for b.Loop() {
			if _, ok := c.Lookup(KeyOf(hosts, p, ""), noon, Checks{Shape: "tree 1"}); !ok {
				b.Fatal("gone")
			}
		}
	})
	basis := p.basis()
	b.Run("moved/hosts=64", func(b *testing.B) {
		for b.Loop() {
			if why := basis.Moved(p.Snapshot); why != "" {
				b.Fatal(why)
			}
		}
	})
}
