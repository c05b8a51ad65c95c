package baseline

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// snapshotOf builds a snapshot of n hosts from a function of the ordered pair.
func snapshotOf(n int, link func(from, to int) netmap.Estimate) *netmap.Snapshot {
	hosts := make([]netmap.Host, n)
	est := make([]netmap.Estimate, n*n)
	for i, name := range names(n) {
		hosts[i].Name = name
		for j := range n {
			if i != j {
				est[i*n+j] = link(i, j)
			}
		}
	}
	return netmap.NewSnapshot(1, hosts, est)
}

// even returns the estimate of a link on which 1,000 bytes take the given time, of
// which latency; overhead is os.
func even(latency, thousand, overhead time.Duration) netmap.Estimate {
	return netmap.Estimate{
		Known:        netmap.FieldLatency | netmap.FieldBandwidth | netmap.FieldSendOverhead,
		Latency:      latency,
		Bandwidth:    netmap.BytesPerSec(1000 / (thousand - latency).Seconds()),
		SendOverhead: overhead,
	}
}

// randomSnapshot makes links with few different latencies and rates, so that there are
// ties, and for some seeds gaps and send overheads.
func randomSnapshot(rng *rand.Rand, n int) *netmap.Snapshot {
	logp, spread := rng.IntN(3), 1+rng.IntN(4)
	return snapshotOf(n, func(_, _ int) netmap.Estimate {
		e := even(time.Duration(rng.IntN(spread))*time.Millisecond, time.Duration(10*(1+rng.IntN(spread)))*time.Millisecond, 0)
		if logp > 0 {
			e.SendOverhead = time.Duration(rng.IntN(6)) * time.Millisecond
		}
		if logp > 1 {
			e.Known |= netmap.FieldGap
			e.Gap = time.Duration(rng.IntN(50)) * time.Millisecond
		}
		return e
	})
}

func growFor(t *testing.T, s *netmap.Snapshot, tree *pools.Tree, sizes []int64, opt TreeOptions) (*hostModel, []broadcastTree) {
	t.Helper()
	m, err := newHostModel(s, sizes, opt.Duplex)
	if err != nil {
		t.Fatal(err)
	}
	trees, err := broadcastTrees(m, s.Names(), tree, opt.Kind)
	if err != nil {
		t.Fatal(err)
	}
	return m, trees
}

// parents returns the parent of each host, −1 at the root.
func parents(tree broadcastTree, n int) []int {
	out := slices.Repeat([]int{-1}, n)
	for h := range n {
		for _, kid := range tree.children(int32(h)) {
			out[kid] = h
		}
	}
	return out
}

// TestMinOrderIsLiteral compares BroadcastTrees with the method as the paper says it:
// look at every edge that is possible, take the first to arrive, and again.
func TestMinOrderIsLiteral(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := 1 + rng.IntN(12)
		s, tree, sizes := randomSnapshot(rng, n), randomTree(rng, n), blockSizes(rng, n)
		opt := TreeOptions{
			Kind:   []TreeKind{Binomial, Mateescu, Clustered}[rng.IntN(3)],
			Duplex: []plan.Duplex{plan.FullDuplex, plan.HalfDuplex}[rng.IntN(2)],
		}
		got, err := BroadcastTrees(s, tree, sizes, opt)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		m, trees := growFor(t, s, tree, sizes, opt)
		want, err := newPlan("broadcast-trees", s.Names(), sizes)
		if err != nil {
			t.Fatal(err)
		}
		fill(want, literalOrder(t, m, trees))
		if len(got.Transfers) != len(want.Transfers) || got.Makespan != want.Makespan {
			t.Fatalf("seed %d: %d hosts, %s, %s duplex: %d transfers in %v s, want %d in %v s",
				seed, n, opt.Kind, opt.Duplex, len(got.Transfers), got.Makespan, len(want.Transfers), want.Makespan)
		}
		for i := range got.Transfers {
			if !sameTransfer(got.Transfers[i], want.Transfers[i]) {
				t.Fatalf("seed %d: %d hosts, %s, %s duplex: got %+v, want %+v", seed, n, opt.Kind, opt.Duplex, got.Transfers[i], want.Transfers[i])
			}
		}
	}
}

func literalOrder(t *testing.T, m *hostModel, trees []broadcastTree) []step {
	var steps []step
	for {
		best := offer{time: never}
		for origin, tree := range trees {
			for src := range m.n {
				if m.arrival[src*m.n+origin] == never {
					continue
				}
				for _, dst := range tree.children(int32(src)) {
					if m.arrival[int(dst)*m.n+origin] != never {
						continue
					}
					end := max(m.ready(src, int(dst), origin), m.recv[dst]) + m.transfer(src, int(dst), m.sizes[origin])
					if o := (offer{time: end, origin: int32(origin), src: int32(src), dst: dst}); o.before(best) {
						best = o
					}
				}
			}
		}
		if best.time == never {
			return steps
		}
		start, end, err := m.commit(int(best.src), int(best.dst), int(best.origin))
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step{start, end, best.origin, best.src, best.dst})
	}
}

// TestMateescuIsShortestPaths: where hosts are not busy while they send, a block on an idle
// network reaches each host as early as any path could bring it.
func TestMateescuIsShortestPaths(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 1 + rng.IntN(12)
		s := snapshotOf(n, func(_, _ int) netmap.Estimate {
			return even(time.Duration(rng.IntN(5))*time.Millisecond, time.Duration(10+rng.IntN(100))*time.Millisecond, 0)
		})
		m, trees := growFor(t, s, nil, []int64{1000}, TreeOptions{Kind: Mateescu})
		for origin, tree := range trees {
			dist := slices.Repeat([]time.Duration{time.Hour}, n) // Bellman and Ford
			dist[origin] = 0
			for range n {
				for i := range n {
					for j := range n {
						if i != j {
							dist[j] = min(dist[j], dist[i]+m.transfer(i, j, 1000))
						}
					}
				}
			}
			parent := parents(tree, n)
			for h := range n {
				var got time.Duration
				for v := h; v != origin; v = parent[v] {
					got += m.transfer(parent[v], v, 1000)
				}
				if got != dist[h] {
					t.Fatalf("seed %d: %d reaches %d after %v, the shortest path takes %v", seed, origin, h, got, dist[h])
				}
			}
		}
	}
}

// TestGrowthIsLiteral compares the trees with the growth as [grower.span] says it, over every
// pair of a source and a host of a sub-pool that lacks the block.
func TestGrowthIsLiteral(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		n := 1 + rng.IntN(12)
		s, tree, sizes := randomSnapshot(rng, n), randomTree(rng, n), blockSizes(rng, n)
		m, trees := growFor(t, s, tree, sizes, TreeOptions{})
		for origin := range n {
			want, ready := slices.Repeat([]int{-1}, n), make([]time.Duration, n)
			literalSpan(m, tree.Root, origin, m.sizes[origin], want, ready)
			if got := parents(trees[origin], n); !slices.Equal(got, want) {
				t.Fatalf("seed %d: tree of %d has parents %v, want %v", seed, origin, got, want)
			}
		}
	}
}

func literalSpan(m *hostModel, p *pools.Pool, holder int, size int64, parent []int, ready []time.Duration) {
	subs := subPools(p)
	var sources []int
	entry := map[*pools.Pool]int{}
	for _, sub := range subs {
		if slices.Contains(sub.Hosts, holder) {
			entry[sub], sources = holder, append(sources, holder)
		}
	}
	for len(entry) < len(subs) {
		type send struct {
			end      time.Duration
			from, to int
			sub      *pools.Pool
		}
		var sends []send
		for _, sub := range subs {
			if _, ok := entry[sub]; ok {
				continue
			}
			for _, u := range sources {
				for _, v := range sub.Hosts {
					sends = append(sends, send{ready[u] + m.transfer(u, v, size), u, v, sub})
				}
			}
		}
		best := slices.MinFunc(sends, func(a, b send) int {
			return cmp.Or(cmp.Compare(a.end, b.end), a.from-b.from, a.to-b.to)
		})
		ready[best.from] += m.snap.SendOverhead(best.from, best.to, size)
		ready[best.to], parent[best.to] = best.end, best.from
		entry[best.sub], sources = best.to, append(sources, best.to)
	}
	for _, sub := range subs {
		if len(sub.Hosts) > 1 {
			literalSpan(m, sub, entry[sub], size, parent, ready)
		}
	}
}

// TestBinomialTrees: position v of the turned ranks hears after as many hops as v has bits.
func TestBinomialTrees(t *testing.T) {
	if got, want := binomialTree(6, 4), []int32{4, 0, 4, 2, -1, 4}; !slices.Equal(got, want) {
		t.Errorf("parents of 6 ranks from 4: %v, want %v", got, want)
	}
	for n := 1; n <= 33; n++ {
		for root := range n {
			parent := binomialTree(n, root)
			for v := range n {
				hops := 0
				for h := (root + v) % n; h != root; h = int(parent[h]) {
					hops++
				}
				if want := bits.OnesCount(uint(v)); hops != want {
					t.Fatalf("n=%d, root %d: position %d is %d hops away, want %d", n, root, v, hops, want)
				}
			}
		}
	}
}

// TestBroadcastTreesByHand: three hosts, every transfer takes one second, binomial trees
// (which are stars). A receiver takes one block at a time. Where sending keeps a host busy
// for as long, ties that go to the lowest rank leave host 2 idle at first: a rotation, which
// spreading simple is, would take two seconds.
func TestBroadcastTreesByHand(t *testing.T) {
	for _, tt := range []struct {
		name     string
		overhead time.Duration
		duplex   plan.Duplex
		want     string
	}{
		{"free sender", 0, plan.FullDuplex, `
			0→1 [0] 0-1; 0→2 [0] 0-1; 1→0 [1] 0-1;
			1→2 [1] 1-2; 2→0 [2] 1-2; 2→1 [2] 1-2`},
		{"busy sender", time.Second, plan.FullDuplex, `
			0→1 [0] 0-1; 1→0 [1] 0-1;
			0→2 [0] 1-2; 2→0 [2] 1-2;
			1→2 [1] 2-3; 2→1 [2] 2-3`},
		{"half duplex", time.Second, plan.HalfDuplex, `
			0→1 [0] 0-1; 0→2 [0] 1-2; 1→0 [1] 2-3;
			1→2 [1] 3-4; 2→0 [2] 4-5; 2→1 [2] 5-6`},
	} {
		s := snapshotOf(3, func(_, _ int) netmap.Estimate { return even(0, time.Second, tt.overhead) })
		p, err := BroadcastTrees(s, nil, []int64{1000}, TreeOptions{Kind: Binomial, Duplex: tt.duplex})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tr := range p.Transfers {
			got = append(got, fmt.Sprintf("%d→%d [%d] %v-%v", tr.Src, tr.Dst, tr.Blocks[0].Origin, tr.Start, tr.End))
		}
		if want := strings.Split(strings.Join(strings.Fields(tt.want), " "), "; "); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestBroadcastTreesRefuses(t *testing.T) {
	ok := even(time.Millisecond, time.Second, 0)
	link := func(change func(*netmap.Estimate)) *netmap.Snapshot {
		return snapshotOf(2, func(from, _ int) netmap.Estimate {
			e := ok
			if from == 1 {
				change(&e)
			}
			return e
		})
	}
	good := link(func(*netmap.Estimate) {})
	for _, tt := range []struct {
		name  string
		snap  *netmap.Snapshot
		tree  *pools.Tree
		sizes []int64
		opt   TreeOptions
		want  string
	}{
		{"no snapshot", nil, nil, []int64{1}, TreeOptions{}, "no snapshot"},
		{"no hosts", netmap.NewSnapshot(1, nil, nil), nil, []int64{1}, TreeOptions{}, "no hosts"},
		{"sizes", good, nil, []int64{1, 2, 3}, TreeOptions{}, "3 block sizes for 2 hosts"},
		{"no tree", good, nil, []int64{1}, TreeOptions{}, "no pool tree"},
		{"tree", good, treeOver(3, nil), []int64{1}, TreeOptions{Kind: Clustered}, "pool tree: root: 3 hosts of 2"},
		{"kind", good, nil, []int64{1}, TreeOptions{Kind: "oak"}, `tree "oak": want binomial, mateescu or clustered`},
		{"duplex", good, nil, []int64{1}, TreeOptions{Duplex: 9}, "host model 9"},
		{"bandwidth", link(func(e *netmap.Estimate) { e.Bandwidth = netmap.BytesPerSec(math.NaN()) }), nil, []int64{1}, TreeOptions{}, "link h1→h0: bandwidth NaN"},
		{"slow", link(func(e *netmap.Estimate) { e.Bandwidth = 1e-9 }), nil, []int64{1000}, TreeOptions{}, "link h1→h0: transfer of 1000 bytes"},
		{"latency", link(func(e *netmap.Estimate) { e.Latency = -1 }), nil, []int64{1}, TreeOptions{}, "link h1→h0: latency -1ns"},
		{"overhead", link(func(e *netmap.Estimate) { e.SendOverhead = -1 }), nil, []int64{1}, TreeOptions{}, "link h1→h0: send overhead -1ns"},
		{"gap", link(func(e *netmap.Estimate) { e.Known |= netmap.FieldGap; e.Gap = -1 }), nil, []int64{1}, TreeOptions{}, "link h1→h0: gap -1ns"},
		{"too long in all", link(func(e *netmap.Estimate) { e.Latency, e.SendOverhead = maxTime/2, maxTime }), nil, []int64{1},
			TreeOptions{Kind: Mateescu, Duplex: plan.HalfDuplex}, "block of h1 on h1→h0: the schedule grows beyond"},
	} {
		p, err := BroadcastTrees(tt.snap, tt.tree, tt.sizes, tt.opt)
		if err == nil || p != nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "broadcast-trees: ") {
			t.Errorf("%s: got %v, %v; want an error with %q", tt.name, p, err, tt.want)
		}
	}
	unknown := link(func(e *netmap.Estimate) { e.Known = netmap.FieldLatency })
	if _, err := BroadcastTrees(unknown, nil, []int64{1}, TreeOptions{}); !errors.Is(err, netmap.ErrNotMeasured) {
		t.Errorf("got %v, want ErrNotMeasured", err)
	}
}

func TestParseTreeKind(t *testing.T) {
	for _, k := range []TreeKind{Binomial, Mateescu, Clustered} {
		if got, err := ParseTreeKind(string(k)); got != k || err != nil {
			t.Errorf("%s: got %q, %v", k, got, err)
		}
	}
	if _, err := ParseTreeKind(""); err == nil || !strings.Contains(err.Error(), `tree ""`) {
		t.Errorf("got %v", err)
	}
}
