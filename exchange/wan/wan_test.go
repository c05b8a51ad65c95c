package wan

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/shuffle"
	"github.com/gridagent/gridagent/probe/netmap"
)

// randomGrid has LANs that are faster than the links between them, of which one flow gets a
// part, and hosts of pools in any order.
func randomGrid(rng *rand.Rand, pools, most int) *plan.Network {
	n := &plan.Network{Pipe: make([]netmap.BytesPerSec, pools*pools)}
	for k := range pools {
		for range 1 + rng.IntN(most) {
			n.Pool = append(n.Pool, k)
		}
	}
	rng.Shuffle(len(n.Pool), func(i, j int) { n.Pool[i], n.Pool[j] = n.Pool[j], n.Pool[i] })
	h := len(n.Pool)
	n.Ceiling, n.Latency = make([]netmap.BytesPerSec, h*h), make([]time.Duration, h*h)
	for i := range h {
		n.Hosts = append(n.Hosts, fmt.Sprintf("n%d", i))
		n.Egress, n.Ingress = append(n.Egress, 200*netmap.Mbps), append(n.Ingress, 200*netmap.Mbps)
	}
	latency, share := make([]time.Duration, pools*pools), make([]float64, pools*pools)
	for i := range n.Pipe {
		n.Pipe[i] = netmap.Mbps * netmap.BytesPerSec(math.Exp(rng.Float64()*3))
		latency[i], share[i] = time.Duration(5+rng.IntN(60))*time.Millisecond, 1/float64(1+rng.IntN(4))
	}
	for i := range h {
		for j := range h {
			at, link := i*h+j, n.Pool[i]*pools+n.Pool[j]
			n.Ceiling[at], n.Latency[at] = 200*netmap.Mbps, 50*time.Microsecond
			if n.Pool[i] != n.Pool[j] {
				n.Ceiling[at], n.Latency[at] = n.Pipe[link]*netmap.BytesPerSec(share[link]), latency[link]
			}
		}
	}
	return n
}

func randomSizes(rng *rand.Rand, n int) plan.AlltoallSizes {
	m := make([][]int64, n)
	for i := range m {
		m[i] = make([]int64, n)
		for j := range m[i] {
			if rng.IntN(4) > 0 {
				m[i][j] = rng.Int64N(1 << uint(rng.IntN(18)))
			}
		}
	}
	return plan.AlltoallSizes{Matrix: m}
}

// made makes the plan of sizes on n and proves it.
func made(t *testing.T, seed uint64, n *plan.Network, sizes plan.AlltoallSizes, local []*plan.Plan, opts Options) (*plan.Plan, *plan.AlltoallBounds) {
	t.Helper()
	bounds, err := n.AlltoallBounds(sizes)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	p, err := Alltoall(n, sizes, bounds, local, opts)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if err := plan.Verify(p, plan.Rules{}); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return p, bounds
}

// simulated returns what the engine is predicted to take.
func simulated(t *testing.T, seed uint64, p *plan.Plan, n *plan.Network, chunk int64) float64 {
	t.Helper()
	sim, err := plan.Simulate(p, n, plan.SimOptions{Chunk: chunk, Overtake: true, Notice: true})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return sim.Makespan
}

// TestAnyGrid proves plans of all sizes and shapes, those with nothing to send included, and that
// the same problem gives the same plan.
func TestAnyGrid(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 70))
		n := randomGrid(rng, 2+rng.IntN(4), []int{1, 2, 3, 5, 7, 13}[seed%6])
		sizes := randomSizes(rng, len(n.Hosts))
		if rng.IntN(3) == 0 {
			sizes = plan.AlltoallSizes{Uniform: rng.Int64N(3)}
		}
		p, bounds := made(t, seed, n, sizes, nil, Options{Direct: rng.IntN(4) == 0})
		if len(n.Hosts) <= 12 {
			if took := simulated(t, seed, p, n, 0); took < bounds.Relayed.Seconds {
				t.Fatalf("seed %d: %v s, under the bound %v", seed, took, bounds.Relayed)
			}
		}
		again, _ := made(t, seed, n, sizes, nil, Options{})
		twice, _ := made(t, seed, n, sizes, nil, Options{})
		if fmt.Sprint(again) != fmt.Sprint(twice) {
			t.Fatalf("seed %d: two plans of one problem", seed)
		}
	}
}

// TestNearBound: where every link carries many blocks, the plan takes little more than the relayed
// bound and the longest way of a byte; direct ones no less than the direct bound.
func TestNearBound(t *testing.T) {
	var sum, worst, gained float64
	count := 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 71))
		n := randomGrid(rng, 2+rng.IntN(3), 1)
		n = grown(n, 5+rng.IntN(3))
		sizes := plan.AlltoallSizes{Uniform: 256 << 10}
		p, bounds := made(t, seed, n, sizes, nil, Options{})
		took := simulated(t, seed, p, n, 16<<10)
		ratio := took / bounds.Relayed.Seconds
		straight, _ := made(t, seed, n, sizes, nil, Options{Direct: true})
		direct := simulated(t, seed, straight, n, 16<<10)
		if direct < bounds.Direct.Seconds {
			t.Errorf("seed %d: %v s without relays, under the direct bound %v", seed, direct, bounds.Direct)
		}
		if took > 1.03*direct {
			t.Errorf("seed %d: %v s with relays, %v without", seed, took, direct)
		}
		sum, worst, gained = sum+ratio, max(worst, ratio), max(gained, direct/took)
		count++
		if ratio > 1.15 {
			t.Errorf("seed %d: %d pools: %v s, %.3f x the relayed bound %v", seed, n.Pools(), took, ratio, bounds.Relayed)
		}
	}
	t.Logf("ratio to the relayed bound: mean %.3f, worst %.3f; relays gain up to a factor of %.2f", sum/float64(count), worst, gained)
	if mean := sum / float64(count); mean > 1.06 {
		t.Errorf("mean ratio %.3f", mean)
	}
	if gained < 1.3 {
		t.Errorf("relays gain a factor of %.2f at most: the test does not reach them", gained)
	}
}

// grown has so many hosts for every one of n.
func grown(n *plan.Network, times int) *plan.Network {
	g := &plan.Network{Pipe: n.Pipe}
	h := len(n.Hosts)
	for i := range h * times {
		g.Hosts = append(g.Hosts, fmt.Sprintf("g%d", i))
		g.Pool = append(g.Pool, n.Pool[i%h])
		g.Egress, g.Ingress = append(g.Egress, n.Egress[i%h]), append(g.Ingress, n.Ingress[i%h])
		for j := range h * times {
			at := i%h*h + j%h
			g.Ceiling, g.Latency = append(g.Ceiling, n.Ceiling[at]), append(g.Latency, n.Latency[at])
		}
	}
	return g
}

// TestTransit bounds what a host relays: the rest goes straight.
func TestTransit(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 72))
	n := grown(randomGrid(rng, 3, 1), 4)
	slow := n.Pool[0]*3 + n.Pool[1] // hosts 0 and 1 are of different pools
	n.Pipe[slow] /= 50
	sizes := plan.AlltoallSizes{Uniform: 1 << 16}
	through := func(p *plan.Plan) (most, all int64) {
		held := make([]int64, len(n.Hosts))
		for _, tr := range p.Transfers {
			for _, b := range tr.Blocks {
				if n.Pool[b.Dest] != n.Pool[tr.Dst] && n.Pool[b.Origin] != n.Pool[tr.Dst] {
					held[tr.Dst] += p.Size(b)
					all += p.Size(b)
				}
			}
		}
		return slices.Max(held), all
	}
	free, _ := made(t, 3, n, sizes, nil, Options{})
	most, all := through(free)
	if all < 8<<16 || most > all/3 {
		t.Fatalf("%d bytes are relayed, %d by one host: want at least 8 blocks, by several hosts", all, most)
	}
	bound, _ := made(t, 3, n, sizes, nil, Options{Transit: 1 << 16})
	if most, all := through(bound); most > 1<<16 || all == 0 {
		t.Errorf("%d bytes are relayed, %d by one host of at most %d", all, most, 1<<16)
	}
	none, _ := made(t, 3, n, sizes, nil, Options{Direct: true})
	if _, all := through(none); all != 0 {
		t.Errorf("%d bytes are relayed without relays", all)
	}
}

// TestOnlyByRelay has two pools without a link between them.
func TestOnlyByRelay(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 73))
	n := grown(randomGrid(rng, 3, 1), 3)
	n.Pipe[0*3+1] = 0
	for i := range n.Hosts {
		for j := range n.Hosts {
			if n.Pool[i] == 0 && n.Pool[j] == 1 {
				n.Ceiling[i*len(n.Hosts)+j] = 0
			}
		}
	}
	p, bounds := made(t, 4, n, plan.AlltoallSizes{Uniform: 1000}, nil, Options{Direct: true, Transit: 1})
	if bounds.Direct.Bytes != 0 {
		t.Errorf("direct bound %v without a direct link", bounds.Direct)
	}
	for _, tr := range p.Transfers {
		if n.Pool[tr.Src] == 0 && n.Pool[tr.Dst] == 1 {
			t.Fatalf("transfer %d→%d over a link that is not there", tr.Src, tr.Dst)
		}
	}
	simulated(t, 4, p, n, 0)
}

// TestLocalPlans takes plans of pools over, with hosts in an order of their own, and refuses others.
func TestLocalPlans(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 74))
	n := grown(randomGrid(rng, 2, 1), 4)
	sizes := randomSizes(rng, len(n.Hosts))
	bounds, err := n.AlltoallBounds(sizes)
	if err != nil {
		t.Fatal(err)
	}
	local := func(hosts ...int) *plan.Plan {
		var names []string
		for _, h := range hosts {
			names = append(names, n.Hosts[h])
		}
		p, err := shuffle.Group(names, sizes.Among(hosts), 2)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, b := n.Pool[0], n.Pool[1]
	if a == b {
		t.Fatal("hosts 0 and 1 should be of different pools")
	}
	p, _ := made(t, 5, n, sizes, []*plan.Plan{local(6, 0, 4, 2), local(1, 3, 5, 7)}, Options{})
	if !slices.ContainsFunc(p.Transfers, func(tr plan.Transfer) bool { return tr.Src == 6 && tr.Dst == 0 && len(tr.After) == 0 }) {
		t.Error("the shuffle does not begin with its first pair")
	}
	strange := local(0, 2, 4, 6)
	strange.Hosts = []string{"n0", "n2", "x", "n6"}
	for name, wrong := range map[string][]*plan.Plan{
		"two pools":  {local(0, 1)},
		"some hosts": {local(0, 2)},
		"twice":      {local(0, 2, 4, 6), local(0, 2, 4, 6)},
		"unknown":    {strange},
	} {
		if _, err := Alltoall(n, sizes, bounds, wrong, Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Alltoall(n, sizes, bounds, nil, Options{Lines: make([]netmap.BytesPerSec, 3)}); err == nil {
		t.Error("3 lines between 2 pools: no error")
	}
	one := grown(randomGrid(rng, 1, 1), 3)
	if bounds, err = one.AlltoallBounds(plan.AlltoallSizes{Uniform: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := Alltoall(one, plan.AlltoallSizes{Uniform: 1}, bounds, nil, Options{}); !errors.Is(err, ErrOnePool) {
		t.Errorf("one pool: %v", err)
	}
}

// TestLanes: where blocks take turns, a link carries as many at a time as fill it.
func TestLanes(t *testing.T) {
	n := grown(randomGrid(rand.New(rand.NewPCG(6, 75)), 2, 1), 8)
	for i := range n.Pipe {
		n.Pipe[i] = 10 * netmap.Mbps
	}
	for i := range n.Latency {
		n.Latency[i] = 5 * time.Millisecond
	}
	flow := func(rate netmap.BytesPerSec) {
		for i := range n.Ceiling {
			n.Ceiling[i] = rate
		}
	}
	free := func(lines netmap.BytesPerSec) (k int) {
		p, _ := made(t, 6, n, plan.AlltoallSizes{Uniform: 1 << 16}, nil, Options{Transit: 1, Lines: slices.Repeat([]netmap.BytesPerSec{lines}, 4)})
		for _, tr := range p.Transfers {
			if n.Pool[tr.Src] == 0 && n.Pool[tr.Dst] == 1 && len(tr.After) == 0 {
				k++
			}
		}
		return k
	}
	flow(10 * netmap.Mbps)
	if k := free(0); k < leastLanes || k > leastLanes+2 { // lanes of as many legs each
		t.Errorf("%d at a time where one fills the link", k)
	}
	if k := free(80 * netmap.Mbps); k < 11 || k > 16 {
		t.Errorf("%d at a time where the line has 8 times what is known", k)
	}
	flow(netmap.Mbps)
	if k := free(0); k < 10 || k > 16 {
		t.Errorf("%d at a time where ten fill the link", k)
	}
}

func BenchmarkAlltoall(b *testing.B) {
	for _, hosts := range []int{8, 20, 64, 128} {
		b.Run(fmt.Sprintf("n=%d", hosts), func(b *testing.B) {
			n := grown(randomGrid(rand.New(rand.NewPCG(1, 76)), 4, 1), hosts/4)
			sizes := plan.AlltoallSizes{Uniform: 1 << 16}
			b.ReportAllocs()
			for b.Loop() {
				bounds, err := n.AlltoallBounds(sizes)
				if err == nil {
					_, err = Alltoall(n, sizes, bounds, nil, Options{})
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
