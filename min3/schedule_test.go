package min3

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// clockOf returns the unit of time in which Schedule counts.
func clockOf(sc scenario) clock {
	sizes, err := perHost(sc.sizes, sc.s.N())
	if err != nil {
		panic(err)
	}
	c, err := newCosts(sc.s, sizes)
	if err != nil {
		panic(err)
	}
	return c.clock
}

// read turns predicted seconds back into the ticks that they were made of. A float64
// holds them exactly up to 2⁵³: two hours in picoseconds, 104 days in nanoseconds.
func (c clock) read(seconds float64) ticks {
	return ticks(math.Round(seconds * 1e9 * float64(c.perNano)))
}

// prove checks p against the definition of an allgather, equations 1-3 and the
// pool tree. It knows nothing of the greedy.
func prove(sc scenario, p *plan.Plan) error {
	n := sc.s.N()
	half := sc.opt.Duplex == Half
	costs := oracle{s: sc.s, clock: clockOf(sc)}
	read := costs.read
	send, recv := make([]ticks, n), make([]ticks, n)
	if half {
		recv = send
	}
	link := map[[2]int]ticks{}
	brought := map[[2]int]int{} // host, block -> transfer
	var last, makespan ticks
	for i, t := range p.Transfers {
		if t.ID != i || len(t.Blocks) != 1 || t.Blocks[0].Dest != plan.All || t.Phase != -1 || t.Src == t.Dst {
			return fmt.Errorf("transfer %d is malformed: %+v", i, t)
		}
		b := t.Blocks[0]
		if _, ok := brought[[2]int{t.Dst, b.Origin}]; ok || t.Dst == b.Origin {
			return fmt.Errorf("transfer %d brings block %d to host %d again", i, b.Origin, t.Dst)
		}
		var want []int
		var arrival ticks
		if t.Src != b.Origin {
			k, ok := brought[[2]int{t.Src, b.Origin}]
			if !ok {
				return fmt.Errorf("transfer %d sends block %d, which host %d does not hold", i, b.Origin, t.Src)
			}
			want, arrival = []int{k}, read(p.Transfers[k].End)
		}
		if t.After == nil || !slices.Equal(t.After, want) {
			return fmt.Errorf("transfer %d is after %v, want %v", i, t.After, want)
		}
		e := sc.s.Estimate(t.Src, t.Dst)
		cost := costs.of(e.Latency) + costs.moves(e, p.Size(b))
		// Replaying the ports in the plan's own order gives the predicted times.
		pair := [2]int{t.Src, t.Dst}
		start := max(link[pair], send[t.Src], recv[t.Dst], arrival)
		end := start + cost
		if read(t.Start) != start || read(t.End) != end {
			return fmt.Errorf("transfer %d: predicted %v … %v, the ports allow %v … %v", i, read(t.Start), read(t.End), start, end)
		}
		if start < last {
			return fmt.Errorf("transfer %d starts at %v, before the one above it at %v", i, start, last)
		}
		last, makespan = start, max(makespan, end)
		link[pair] = start + costs.gap(t.Src, t.Dst, p.Size(b))
		send[t.Src] = start + costs.of(sc.s.SendOverhead(t.Src, t.Dst, p.Size(b)))
		recv[t.Dst] = end
		brought[[2]int{t.Dst, b.Origin}] = i
	}
	if len(brought) != n*(n-1) {
		return fmt.Errorf("%d deliveries for %d hosts, want %d", len(brought), n, n*(n-1))
	}
	if read(p.Makespan) != makespan {
		return fmt.Errorf("makespan %v, the last transfer ends at %v", read(p.Makespan), makespan)
	}
	return proveWideArea(sc.tree.Root, p)
}

// proveWideArea checks that every block enters every pool once (§5.1).
func proveWideArea(pool *pools.Pool, p *plan.Plan) error {
	entered := map[int]int{}
	for _, t := range p.Transfers {
		if !slices.Contains(pool.Hosts, t.Src) && slices.Contains(pool.Hosts, t.Dst) {
			entered[t.Blocks[0].Origin]++
		}
	}
	for origin := range p.Hosts {
		want := 1
		if slices.Contains(pool.Hosts, origin) {
			want = 0
		}
		if entered[origin] != want {
			return fmt.Errorf("block %d enters pool %v %d times, want %d", origin, pool.Hosts, entered[origin], want)
		}
	}
	for _, c := range pool.Children {
		if err := proveWideArea(c, p); err != nil {
			return err
		}
	}
	return nil
}

func TestScheduleProperties(t *testing.T) {
	for seed := range uint64(800) {
		sc := randomScenario(rand.New(rand.NewPCG(seed, 5)), 24)
		p, err := Schedule(sc.s, sc.tree, sc.sizes, sc.opt)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := prove(sc, p); err != nil {
			t.Fatalf("seed %d: n=%d %v duplex: %v", seed, sc.s.N(), sc.opt.Duplex, err)
		}
		// A host takes its blocks one after the other, each over its best link at most.
		for r := range sc.s.N() {
			var least float64 // seconds
			for d := range sc.s.N() {
				if d == r {
					continue
				}
				best := math.Inf(1)
				for s := range sc.s.N() {
					if s != r {
						cost, _ := sc.s.TransferTime(s, r, p.Size(plan.Block{Origin: d, Dest: plan.All}))
						best = min(best, cost.Seconds()-1e-9)
					}
				}
				least += best
			}
			if p.Makespan < least {
				t.Fatalf("seed %d: makespan %v s is under the %v s that host %d needs to receive", seed, p.Makespan, least, r)
			}
		}
	}
}

// TestScheduleIgnoresTreeOrder: the order in which a tree lists sub-pools changes nothing.
func TestScheduleIgnoresTreeOrder(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 6))
		sc := randomScenario(rng, 16)
		want, err := Schedule(sc.s, sc.tree, sc.sizes, sc.opt)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := Schedule(sc.s, &pools.Tree{Root: shuffled(rng, sc.tree.Root)}, sc.sizes, sc.opt)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: a tree in another order gives another plan", seed)
		}
	}
}

func shuffled(rng *rand.Rand, p *pools.Pool) *pools.Pool {
	q := &pools.Pool{Threshold: p.Threshold, Hosts: p.Hosts}
	for _, c := range p.Children {
		q.Children = append(q.Children, shuffled(rng, c))
	}
	rng.Shuffle(len(q.Children), func(i, j int) { q.Children[i], q.Children[j] = q.Children[j], q.Children[i] })
	return q
}

// TestUniformSizes: one size, and the same size n times, are the same plan.
func TestUniformSizes(t *testing.T) {
	s, tree := paperGrid()
	one, err := Schedule(s, tree, []int64{1000}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	each, err := Schedule(s, tree, slices.Repeat([]int64{1000}, 20), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(one, each) || one.MessageBytes != 1000 || one.Sizes != nil {
		t.Errorf("sizes {1000} and 20 × 1000 give different plans (message %d bytes, sizes %v)", one.MessageBytes, one.Sizes)
	}
}

func TestOneHost(t *testing.T) {
	p, err := Schedule(snapshot(1, nil), &pools.Tree{Root: leaf(0, 1)}, []int64{7}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Transfers) != 0 || p.Transfers == nil || p.Makespan != 0 || len(p.Hosts) != 1 {
		t.Errorf("got %+v, want an empty plan of one host", p)
	}
}

func TestScheduleRefuses(t *testing.T) {
	good := measured(time.Millisecond, netmap.Mbps)
	with := func(change func(*netmap.Estimate)) *netmap.Snapshot {
		return snapshot(3, func(i, j int) netmap.Estimate {
			e := good
			if i == 1 && j == 2 {
				change(&e)
			}
			return e
		})
	}
	fine := with(func(*netmap.Estimate) {})
	flat := leaf(0, 3)
	tests := []struct {
		name  string
		s     *netmap.Snapshot
		root  *pools.Pool
		sizes []int64
		opt   Options
		want  string
	}{
		{"no hosts", snapshot(0, nil), flat, []int64{1}, Options{}, "no hosts"},
		{"model", fine, flat, []int64{1}, Options{Duplex: 7}, "host model 7"},
		{"sizes", fine, flat, []int64{1, 2}, Options{}, "2 block sizes for 3 hosts"},
		{"negative size", fine, flat, []int64{1, -5, 2}, Options{}, "host h1: size -5"},
		{"no root", fine, nil, []int64{1}, Options{}, "pool tree without a root"},
		{"few hosts", fine, leaf(0, 2), []int64{1}, Options{}, "pool tree: root: 2 hosts of 3"},
		{"overlap", fine, join(leaf(0, 2), leaf(1, 3)), []int64{1}, Options{}, "pool tree: root"},
		{"children miss one", fine, &pools.Pool{Hosts: []int{0, 1, 2}, Children: []*pools.Pool{leaf(0, 1), leaf(1, 2)}}, []int64{1}, Options{}, "pool tree: root"},
		{"no bandwidth", with(func(e *netmap.Estimate) { e.Known = netmap.FieldLatency }), flat, []int64{1}, Options{}, "h1→h2: not measured"},
		{"no latency", with(func(e *netmap.Estimate) { e.Known = netmap.FieldBandwidth }), flat, []int64{1}, Options{}, "h1→h2: not measured"},
		{"zero bandwidth", with(func(e *netmap.Estimate) { e.Bandwidth = 0 }), flat, []int64{1}, Options{}, "h1→h2: bandwidth 0"},
		{"NaN bandwidth", with(func(e *netmap.Estimate) { e.Bandwidth = netmap.BytesPerSec(math.NaN()) }), flat, []int64{1}, Options{}, "h1→h2: bandwidth NaN"},
		{"tiny bandwidth", with(func(e *netmap.Estimate) { e.Bandwidth = 1e-300 }), flat, []int64{1}, Options{}, "h1→h2: 1 bytes at 1e-300 B/s"},
		{"negative latency", with(func(e *netmap.Estimate) { e.Latency = -1 }), flat, []int64{1}, Options{}, "h1→h2: latency -1ns"},
		{"negative gap", with(func(e *netmap.Estimate) { e.Known |= netmap.FieldGap; e.Gap = -1 }), flat, []int64{1}, Options{}, "h1→h2: gap -1ns"},
		{"endless overhead", with(func(e *netmap.Estimate) {
			e.Known |= netmap.FieldSendOverhead
			e.SendOverhead = math.MaxInt64
		}), flat, []int64{1}, Options{}, "h1→h2: send overhead"},
		{"endless schedule", snapshot(3, func(int, int) netmap.Estimate { return measured(maxTime, netmap.Mbps) }), flat, []int64{1}, Options{}, "schedule grows beyond"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Schedule(tt.s, &pools.Tree{Root: tt.root}, tt.sizes, tt.opt)
			if err == nil || p != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got plan %v, error %v; want an error with %q", p, err, tt.want)
			}
			if strings.Count(err.Error(), "min3:") != 1 {
				t.Errorf("%q does not name the package once", err)
			}
			if unmeasured := strings.Contains(tt.want, "not measured"); errors.Is(err, netmap.ErrNotMeasured) != unmeasured {
				t.Errorf("errors.Is(%v, ErrNotMeasured) = %v", err, !unmeasured)
			}
		})
	}
	if _, err := Schedule(nil, &pools.Tree{Root: flat}, []int64{1}, Options{}); err == nil {
		t.Error("a nil snapshot is accepted")
	}
	if _, err := Schedule(fine, nil, []int64{1}, Options{}); err == nil {
		t.Error("a nil tree is accepted")
	}
	for _, names := range [][]string{{"h0", "h2", "h1"}, {"h0", "h1", "h2", "h3"}} {
		other := &pools.Tree{Root: flat}
		for _, name := range names {
			other.Hosts = append(other.Hosts, netmap.Host{Name: name})
		}
		if _, err := Schedule(fine, other, []int64{1}, Options{}); err == nil || !strings.Contains(err.Error(), "other hosts") {
			t.Errorf("a tree of the hosts %v is accepted for %v: %v", names, fine.Hosts(), err)
		}
	}
}

func TestDuplexWords(t *testing.T) {
	for _, d := range models {
		if got, err := ParseDuplex(d.String()); err != nil || got != d {
			t.Errorf("ParseDuplex(%q) = %v, %v", d, got, err)
		}
	}
	if _, err := ParseDuplex("Full"); err == nil || !strings.Contains(err.Error(), `"Full"`) {
		t.Errorf("ParseDuplex(Full): %v", err)
	}
}

// FuzzSchedule feeds estimates, sizes and a tree made of raw bytes: a plan that
// proves, or an error.
func FuzzSchedule(f *testing.F) {
	f.Add(uint8(3), uint8(1), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add(uint8(5), uint8(0), []byte{0xff, 0xf0, 0, 0, 0, 0, 0, 0, 0x7f, 0xf0})
	f.Fuzz(func(t *testing.T, hosts, duplex uint8, raw []byte) {
		n := int(hosts % 7)
		var at int
		word := func() (w uint64) {
			for range 8 {
				w <<= 8
				if at < len(raw) {
					w |= uint64(raw[at])
					at++
				}
			}
			return w
		}
		s := snapshot(n, func(int, int) netmap.Estimate {
			return netmap.Estimate{
				Known:        netmap.FieldLatency | netmap.FieldBandwidth | netmap.Field(word()>>48)&netmap.FieldGap,
				Latency:      time.Duration(word()),
				Bandwidth:    netmap.BytesPerSec(math.Float64frombits(word())),
				Gap:          time.Duration(word()),
				SendOverhead: time.Duration(word()),
			}
		})
		sizes := make([]int64, n)
		for i := range sizes {
			sizes[i] = int64(word())
		}
		root := leaf(0, n)
		if k := int(word() >> 56); k < n {
			root = join(leaf(0, k), leaf(k, n)) // empty for k = 0: refused
		}
		sc := scenario{s: s, tree: &pools.Tree{Root: root}, sizes: sizes, opt: Options{Duplex: plan.Duplex(duplex)}}
		p, err := Schedule(sc.s, sc.tree, sc.sizes, sc.opt)
		if err != nil {
			return
		}
		// What is beyond the ticks that a float64 holds cannot be read back exactly.
		if p.Makespan*1e9*float64(clockOf(sc).perNano) > 1<<53 {
			return
		}
		if err := prove(sc, p); err != nil {
			t.Fatal(err)
		}
		sc.opt.Links = Shared
		if p, err = Schedule(sc.s, sc.tree, sc.sizes, sc.opt); err != nil {
			return
		}
		model, _ := sc.opt.duplex() // Schedule has taken it
		// A float64 of seconds holds nanoseconds; sizes beyond those of plan are refused there.
		if p.Makespan < 1e6 && p.Check() == nil {
			if err := plan.Verify(p, plan.Rules{Duplex: model, Snapshot: sc.s, Pools: sc.tree.Leaves()}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
