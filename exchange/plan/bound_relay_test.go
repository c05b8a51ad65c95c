package plan

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// randomGrid is a network of pools with links over three orders of magnitude, some of them missing.
func randomGrid(rng *rand.Rand, pools, most int, gaps bool) *Network {
	n := &Network{Pipe: make([]netmap.BytesPerSec, pools*pools)}
	for k := range pools {
		for range 1 + rng.IntN(most) {
			n.Pool = append(n.Pool, k)
			port := netmap.BytesPerSec(math.Exp(rng.Float64()*5)) * netmap.Mbps
			n.Egress, n.Ingress = append(n.Egress, port), append(n.Ingress, port)
		}
	}
	h := len(n.Pool)
	n.Hosts, n.Latency = hostNames(h), make([]time.Duration, h*h)
	alike := rng.IntN(3) == 0 // as ties that make the simplex method stand still
	for i := range n.Pipe {
		n.Pipe[i] = netmap.Mbps
		if !alike {
			n.Pipe[i] *= netmap.BytesPerSec(math.Exp(rng.Float64() * 7))
		}
		if gaps && rng.IntN(3) == 0 {
			n.Pipe[i] = 0
		}
	}
	n.Ceiling = slices.Repeat([]netmap.BytesPerSec{netmap.Mbps}, h*h)
	return n
}

func randomMatrix(rng *rand.Rand, n int) AlltoallSizes {
	if rng.IntN(2) == 0 {
		return AlltoallSizes{Uniform: 1 + rng.Int64N(1<<20)}
	}
	m := make([][]int64, n)
	for i := range m {
		m[i] = randomSizes(rng, n)
	}
	return AlltoallSizes{Matrix: m}
}

// least is what no routing can be under if it is right, and what r says of itself.
func checkRouting(n *Network, sizes AlltoallSizes, answers []float64, r *Routing) error {
	pools := n.Pools()
	want, load, through := make([]float64, pools*pools), make([]float64, pools*pools), make([]float64, pools)
	own := [2][]float64{make([]float64, pools), make([]float64, pools)}
	ports := [2][]float64{make([]float64, pools), make([]float64, pools)}
	for a := range n.Pool {
		ports[0][n.Pool[a]] += float64(n.Egress[a])
		ports[1][n.Pool[a]] += float64(n.Ingress[a])
		for b := range n.Pool {
			if a != b {
				own[0][n.Pool[a]] += float64(sizes.Of(a, b))
				own[1][n.Pool[b]] += float64(sizes.Of(a, b))
			}
			if n.Pool[a] != n.Pool[b] {
				want[n.Pool[a]*pools+n.Pool[b]] += float64(sizes.Of(a, b))
			}
		}
	}
	for _, p := range r.Paths {
		if len(p.Pools) < 2 || p.Bytes < 0 {
			return fmt.Errorf("path %v of %v bytes", p.Pools, p.Bytes)
		}
		want[p.Pools[0]*pools+p.Pools[len(p.Pools)-1]] -= p.Bytes
		seen := make([]bool, pools)
		for k, at := range p.Pools {
			if seen[at] {
				return fmt.Errorf("path %v turns in a circle", p.Pools)
			}
			seen[at] = true
			if k > 0 {
				link, back := p.Pools[k-1]*pools+at, at*pools+p.Pools[k-1]
				load[link] += p.Bytes
				if answers != nil && n.Pipe[back] > 0 {
					load[back] += answers[link] * p.Bytes
				}
			}
			if k > 0 && k < len(p.Pools)-1 {
				through[at] += p.Bytes
			}
		}
	}
	var seconds float64
	for pair := range load {
		if math.Abs(want[pair]) > 1 {
			return fmt.Errorf("the paths of pools %d→%d miss their bytes by %v", pair/pools, pair%pools, want[pair])
		}
		if load[pair] > 0 {
			seconds = max(seconds, load[pair]/float64(n.Pipe[pair]))
		}
	}
	for k := range pools {
		for way := range own {
			if bytes := through[k] + own[way][k]; bytes > 0 {
				seconds = max(seconds, bytes/ports[way][k])
			}
		}
	}
	if math.Abs(seconds-r.Seconds) > 1e-9*seconds {
		return fmt.Errorf("the routing takes %v s, and says %v", seconds, r.Seconds)
	}
	return nil
}

// TestAlltoallBoundsMeet: cut ≤ relayed ≤ direct, and the relayed bound, which the lengths of
// links prove, is met by a routing that is counted anew here. So both are right.
func TestAlltoallBoundsMeet(t *testing.T) {
	var unreachable, relays, beyond, equal, undirect int
	worst := 0.0
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 61))
		n := randomGrid(rng, 1+rng.IntN(7), 3, rng.IntN(3) == 0)
		sizes := randomMatrix(rng, len(n.Hosts))
		b, err := n.AlltoallBounds(sizes)
		if cut, e := n.AlltoallBound(sizes); (e == nil) != (err == nil) || err == nil && cut.Seconds != b.Cut.Seconds {
			t.Fatalf("seed %d: cut %v, %v; bounds %v", seed, cut, e, err)
		}
		if errors.Is(err, ErrUnreachable) {
			unreachable++
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if b.Direct.Bytes == 0 && b.Relayed.Bytes > 0 {
			undirect++
		} else if b.Direct.Seconds < b.Relayed.Seconds {
			t.Fatalf("seed %d: direct %v under relayed %v", seed, b.Direct, b.Relayed)
		}
		if b.Cut.Seconds > b.Relayed.Seconds {
			t.Fatalf("seed %d: cut %v over relayed %v", seed, b.Cut, b.Relayed)
		}
		if b.Routing == nil {
			continue
		}
		if err := checkRouting(n, sizes, nil, b.Routing); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		ports, _, _ := n.portBound(sizes)
		gap := max(ports.Seconds, b.Routing.Seconds)/b.Relayed.Seconds - 1
		if worst = max(worst, gap); gap > 1e-4 || gap < -1e-9 {
			t.Errorf("seed %d: %d pools: the routing takes %.9g s, proved are %.9g s", seed, n.Pools(), b.Routing.Seconds, b.Relayed.Seconds)
		}
		if b.Direct.Seconds > 1.01*b.Relayed.Seconds {
			relays++
		}
		if b.Relayed.Seconds > 1.001*b.Cut.Seconds {
			beyond++
		}
		if b.Relayed.Links != nil && math.Abs(float64(b.Relayed.Bytes)/float64(b.Relayed.Rate)/b.Relayed.Seconds-1) > 1e-3 && b.Relayed.Bytes > 10000 {
			t.Errorf("seed %d: %v does not explain itself", seed, b.Relayed)
		}
		if b.Direct.Bytes > 0 && b.Direct.Seconds == b.Relayed.Seconds {
			equal++
		}
	}
	t.Logf("unreachable %d, only by relays %d, relays gain %d, above every cut %d, direct is best %d; widest gap %.2g", unreachable, undirect, relays, beyond, equal, worst)
	if unreachable == 0 || undirect == 0 || relays == 0 || beyond == 0 || equal == 0 {
		t.Error("the test does not reach all cases")
	}
}

// TestAlltoallRouting: a routing whose answers cross the links back takes no less than the lengths of links prove, with these answers, and hardly more; without any it is as good as that of the bound.
func TestAlltoallRouting(t *testing.T) {
	count, dearer := 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 62))
		n := randomGrid(rng, 2+rng.IntN(6), 3, rng.IntN(3) == 0)
		sizes := randomMatrix(rng, len(n.Hosts))
		pools := n.Pools()
		none, answers := make([]float64, pools*pools), make([]float64, pools*pools)
		for link := range answers {
			if rng.IntN(2) == 0 {
				answers[link] = rng.Float64() / 5
			}
		}
		b, err := n.AlltoallBounds(sizes)
		r, e := n.AlltoallRouting(sizes, answers)
		if (err == nil) != (e == nil) || errors.Is(err, ErrUnreachable) != errors.Is(e, ErrUnreachable) {
			t.Fatalf("seed %d: bounds %v, routing %v", seed, err, e)
		}
		if err != nil {
			continue
		}
		if (b.Routing == nil) != (r == nil) {
			t.Fatalf("seed %d: routings %v and %v", seed, b.Routing, r)
		}
		if r == nil {
			continue
		}
		count++
		if err := checkRouting(n, sizes, answers, r); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		plain, err := n.AlltoallRouting(sizes, none)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		// That of the bound goes no further than what one host's port takes in any case.
		if took := max(plain.Seconds, b.Cut.Seconds); math.Abs(took-b.Relayed.Seconds) > 1e-4*took || plain.Seconds > b.Routing.Seconds*(1+1e-4) {
			t.Errorf("seed %d: %v s without answers, %v for the bound %v", seed, plain.Seconds, b.Routing.Seconds, b.Relayed)
		}
		// The certificate, anew.
		_, between, _ := n.portBound(sizes)
		program := n.relaying(sizes, between)
		program.answers = answers
		program.solve(0)
		if proved := program.bestLower; r.Seconds < proved*(1-1e-9) || r.Seconds > proved*(1+1e-4) {
			t.Errorf("seed %d: %d pools: the routing takes %.9g s, proved are %.9g s", seed, pools, r.Seconds, proved)
		}
		// That of the bound, with the answers to it.
		old := n.relaying(sizes, between)
		old.answers = answers
		old.initial()
		of := make(map[int][]Path)
		for _, p := range b.Routing.Paths {
			of[p.Pools[0]*pools+p.Pools[len(p.Pools)-1]] = append(of[p.Pools[0]*pools+p.Pools[len(p.Pools)-1]], p)
		}
		if was := old.routing(of).Seconds; was < r.Seconds*(1-1e-4) {
			t.Errorf("seed %d: the routing of the bound takes %v s with its answers, and this one %v", seed, was, r.Seconds)
		} else if was > 1.02*r.Seconds {
			dearer++
		}
	}
	if count < 100 || dearer < 20 {
		t.Errorf("%d routings, of which %d gain something: the test does not reach them", count, dearer)
	}
	n := paperGrid()
	for _, wrong := range [][]float64{nil, make([]float64, 4), {0, 0, 0, 0, -1, 0, 0, 0, 0}, {0, 0, 1, 0, 0, 0, 0, 0, 0}, {math.NaN(), 0, 0, 0, 0, 0, 0, 0, 0}} {
		if _, err := n.AlltoallRouting(AlltoallSizes{Uniform: 1}, wrong); err == nil {
			t.Errorf("answers %v pass", wrong)
		}
	}
}

// TestAlltoallBoundsPaperGrid computes both bounds of the 3-site grid of Gupta & Vadhiyar (Tables
// 1-2) by hand, with 64 KiB a pair. NTH→UT is the slowest link and carries 64 blocks. By way
// of UK, 96 blocks share both links into UT; UT→NTH would still take 26.8 s, so some of
// its blocks go by way of UK, too.
func TestAlltoallBoundsPaperGrid(t *testing.T) {
	n := paperGrid()
	b, err := n.AlltoallBounds(AlltoallSizes{Uniform: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	direct, relayed := 64*65536/(1.16e6/8), 96*65536/(2.44e6/8)
	if math.Abs(b.Direct.Seconds-direct) > 1e-9 || !slices.Equal(b.Direct.Links, [][2]int{{2, 0}}) {
		t.Errorf("direct %v, want %.6f s over NTH→UT", b.Direct, direct)
	}
	if math.Abs(b.Relayed.Seconds-relayed) > 1e-9 || !slices.Equal(b.Relayed.Set, []int{0}) {
		t.Errorf("relayed %v, want %.6f s into UT", b.Relayed, relayed)
	}
	for _, p := range b.Routing.Paths {
		if len(p.Pools) > 2 && !slices.Equal(p.Pools, []int{2, 1, 0}) && !slices.Equal(p.Pools, []int{0, 1, 2}) {
			t.Errorf("%.0f bytes along %v, which gains nothing", p.Bytes, p.Pools)
		}
	}
	if gain := b.Direct.Seconds / b.Relayed.Seconds; gain < 1.40 || gain > 1.41 {
		t.Errorf("relays gain a factor of %.3f", gain)
	}
}

// paperGrid has 8 + 4 + 8 hosts: UT, UK, NTH.
func paperGrid() *Network {
	mbps := func(v ...float64) (rates []netmap.BytesPerSec) {
		for _, r := range v {
			rates = append(rates, netmap.BytesPerSec(r)*netmap.Mbps)
		}
		return rates
	}
	n := &Network{Hosts: hostNames(20), Pipe: mbps(0, 1.44, 1.25, 1.28, 0, 4.75, 1.16, 4.75, 0)}
	for k, hosts := range []int{8, 4, 8} {
		for range hosts {
			n.Pool = append(n.Pool, k)
		}
	}
	n.Egress, n.Ingress = slices.Repeat(mbps(81.86), 20), slices.Repeat(mbps(81.86), 20)
	n.Ceiling, n.Latency = slices.Repeat(mbps(1), 400), make([]time.Duration, 400)
	return n
}

// TestAlltoallBoundsMany: with more pools than the program takes there still is a routing and a proof.
// TestCutsAreThoseOfAllSets: looking at every set by itself gives the same bound, with the same set among equals.
func TestCutsAreThoseOfAllSets(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 63))
		n := randomGrid(rng, 2+rng.IntN(6), 3, seed%3 == 0)
		ports, between, err := n.portBound(AlltoallSizes{Uniform: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if seed%2 == 0 { // links that are alike make equals
			for i := range n.Pipe {
				n.Pipe[i] = 1e4
			}
		}
		got, want := ports, ports
		gotErr, pools := n.cuts(between, &got), n.Pools()
		var wantErr error
		for x := 1; x < 1<<pools-1 && wantErr == nil; x++ {
			wantErr = n.cut(between, pools, func(p int) bool { return x>>p&1 == 1 }, &want)
		}
		if (gotErr == nil) != (wantErr == nil) || gotErr == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %+v, %v, want %+v, %v", seed, got, gotErr, want, wantErr)
		}
	}
}

func TestAlltoallBoundsMany(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 62))
	n := randomGrid(rng, 40, 1, false)
	sizes := AlltoallSizes{Uniform: 1000}
	b, err := n.AlltoallBounds(sizes)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkRouting(n, sizes, nil, b.Routing); err != nil {
		t.Error(err)
	}
	if b.Relayed.Seconds < b.Cut.Seconds || b.Relayed.Seconds > b.Direct.Seconds || b.Cut.Seconds == 0 {
		t.Errorf("cut %v, relayed %v, direct %v", b.Cut, b.Relayed, b.Direct)
	}
}

func BenchmarkAlltoallBounds(b *testing.B) {
	for _, pools := range []int{2, 3, 5, 8, 10, 13, 16} {
		b.Run(fmt.Sprintf("pools=%d", pools), func(b *testing.B) {
			n := randomGrid(rand.New(rand.NewPCG(4, uint64(pools))), pools, 6, false)
			for b.Loop() {
				if _, err := n.AlltoallBounds(AlltoallSizes{Uniform: 1 << 16}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
