package min3

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// threeLevels is a grid of n hosts as they are found: continents of sites of hosts,
// about √n hosts a site, every link a little different from its neighbours.
func threeLevels(n int) (*netmap.Snapshot, *pools.Tree) {
	rng := rand.New(rand.NewPCG(uint64(n), 4))
	site := 1
	for site*site < n {
		site++
	}
	continents := 2
	if n >= 64 {
		continents = 4
	}
	sites := (n + site - 1) / site
	perContinent := (sites + continents - 1) / continents
	noise := func() float64 { return 0.95 + 0.1*rng.Float64() }
	s := snapshot(n, func(i, j int) netmap.Estimate {
		a, b := i/site, j/site
		rate, latency := 100*netmap.Mbps, 60*time.Microsecond
		switch {
		case a/perContinent != b/perContinent:
			rate, latency = 2*netmap.Mbps, 50*time.Millisecond
		case a != b:
			rate, latency = 10*netmap.Mbps, 10*time.Millisecond
		}
		return measured(time.Duration(float64(latency)*noise()), netmap.BytesPerSec(float64(rate)*noise()))
	})
	var top []*pools.Pool
	for c := 0; c*perContinent*site < n; c++ {
		var within []*pools.Pool
		for k := c * perContinent; k < (c+1)*perContinent && k*site < n; k++ {
			within = append(within, leaf(k*site, min((k+1)*site, n)))
		}
		top = append(top, join(within...))
	}
	return s, &pools.Tree{Root: join(top...)}
}

// BenchmarkSchedule shows the growth with the hosts on three-level grids.
func BenchmarkSchedule(b *testing.B) {
	for _, duplex := range models {
		for _, n := range []int{20, 64, 128, 256} {
			s, tree := threeLevels(n)
			b.Run(fmt.Sprintf("%v/n=%d", duplex, n), func(b *testing.B) {
				benchmark(b, s, tree, []int64{65536}, Options{Duplex: duplex})
			})
		}
	}
}

// BenchmarkSchedulePaperGrid is the grid for which the paper reports 283 ms.
func BenchmarkSchedulePaperGrid(b *testing.B) {
	s, tree := paperGrid()
	for _, duplex := range models {
		b.Run(duplex.String(), func(b *testing.B) {
			benchmark(b, s, tree, []int64{65536}, Options{Duplex: duplex})
		})
	}
}

// BenchmarkScheduleHard are the inputs that are worst for the search: one pool of n hosts,
// with equal links (everything ties) or different ones, and blocks of n sizes.
func BenchmarkScheduleHard(b *testing.B) {
	for _, n := range []int{64, 128, 256} {
		flat := &pools.Tree{Root: leaf(0, n)}
		equal := snapshot(n, func(int, int) netmap.Estimate { return measured(time.Millisecond, 100*netmap.Mbps) })
		mixed, tree := threeLevels(n)
		sizes := make([]int64, n)
		for i := range sizes {
			sizes[i] = 1 << 16 * int64(1+i*7%n)
		}
		one := []int64{1 << 16}
		for _, duplex := range models {
			b.Run(fmt.Sprintf("flat-equal/%v/n=%d", duplex, n), func(b *testing.B) { benchmark(b, equal, flat, one, Options{Duplex: duplex}) })
			b.Run(fmt.Sprintf("flat-mixed/%v/n=%d", duplex, n), func(b *testing.B) { benchmark(b, mixed, flat, one, Options{Duplex: duplex}) })
			b.Run(fmt.Sprintf("flat-sizes/%v/n=%d", duplex, n), func(b *testing.B) { benchmark(b, mixed, flat, sizes, Options{Duplex: duplex}) })
			b.Run(fmt.Sprintf("sizes/%v/n=%d", duplex, n), func(b *testing.B) { benchmark(b, mixed, tree, sizes, Options{Duplex: duplex}) })
		}
	}
}

func benchmark(b *testing.B, s *netmap.Snapshot, tree *pools.Tree, sizes []int64, opt Options) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Schedule(s, tree, sizes, opt); err != nil {
			b.Fatal(err)
		}
	}
}
