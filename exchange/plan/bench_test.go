package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/probe/netmap"
)

// direct is the alltoall in which every host sends each block itself, nearest rank first.
func direct(n int, m int64) *Plan {
	p := alltoall(n, m)
	for k := 1; k < n; k++ {
		for i := range n {
			p.add(i, (i+k)%n, []Block{{Origin: i, Dest: (i + k) % n}})
		}
	}
	return p
}

func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{20, 256} {
		for _, p := range []*Plan{ring(n, 1<<16), direct(n, 1<<16)} {
			b.Run(fmt.Sprintf("%s/n=%d", p.Collective, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := Verify(p, Rules{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkVerifyChain is the hard case of the causality search: no deliverer is in
// After, all transfers are in one chain.
func BenchmarkVerifyChain(b *testing.B) {
	for _, n := range []int{20, 256} {
		p := randomAllgather(rand.New(rand.NewPCG(1, 12)), n, [][]int{rand.New(rand.NewPCG(1, 13)).Perm(n)}, make([]int64, n))
		for i := range p.Transfers {
			p.Transfers[i].After = []int{max(i-1, 0)}
		}
		p.Transfers[0].After = nil
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := Verify(p, Rules{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	data, err := ring(256, 1<<16).AppendJSON(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSimulate(b *testing.B) {
	for _, n := range []int{20, 64, 256} {
		chunks := int64(16)
		if n == 256 {
			chunks = 1
		}
		rng := rand.New(rand.NewPCG(1, 9))
		pools := make([][]int, 3)
		for h := range n {
			pools[h*3/n] = append(pools[h*3/n], h)
		}
		net, err := NetworkOf(randomSnapshot(rng, n, pools), pools, 1)
		if err != nil {
			b.Fatal(err)
		}
		plans := []*Plan{ring(n, 1<<16), direct(n, 1<<16)}
		if n < 256 { // with unlike rates everywhere each chunk redivides thousands of flows
			plans = append(plans, randomAllgather(rng, n, pools, slices.Repeat([]int64{1 << 16}, n)))
		}
		for _, p := range plans {
			b.Run(fmt.Sprintf("%s-%s/n=%d/chunks=%d", p.Collective, p.Algorithm, n, chunks), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Simulate(p, net, SimOptions{Chunk: 1 << 16 / chunks}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkBound(b *testing.B) {
	for _, n := range []int{3, 20, 100} {
		rng := rand.New(rand.NewPCG(1, 10))
		in := BoundInput{Bytes: make([]int64, n), Capacity: make([][]netmap.BytesPerSec, n)}
		for a := range n {
			in.Bytes[a] = 1 << 16
			in.Capacity[a] = make([]netmap.BytesPerSec, n)
			for c := range n {
				in.Capacity[a][c] = netmap.BytesPerSec(math.Exp(rng.Float64() * 10))
			}
		}
		b.Run(fmt.Sprintf("pools=%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := AllgatherBound(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
