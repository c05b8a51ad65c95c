package ring

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestStudy: what the paper concludes from Figure 11. (1) LR1's paths are much longer than
// LR3's; (2) LR1's depend on the tree: breadth-first trees are best, then random ones, then
// depth-first ones, while LR3's do not; (3) LR3's are around 3, whatever the size.
func TestStudy(t *testing.T) {
	rows, err := Study(context.Background(), StudyConfig{Hosts: []int{128, 512}, Samples: 25, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 6 {
		t.Fatalf("%d rows, want 6", len(rows))
	}
	for i, r := range rows {
		if want := []plan.Spanning{plan.SpanBFS, plan.SpanDFS, plan.SpanRandom}[i%3]; r.Spanning != want || r.Hosts != []int{128, 512}[i/3] {
			t.Errorf("row %d is of %d hosts and %s", i, r.Hosts, r.Spanning)
		}
		if r.LR3 < 2.5 || r.LR3 > 3.3 || r.ThreeHops < 0.85 {
			t.Errorf("lr3's path length is not around 3: %+v", r)
		}
		if r.LR1 < 1.5*r.LR3 || float64(r.WorstLR1) < r.LR1 || float64(r.WorstLR3) < r.LR3 || r.RankLoad < 10 {
			t.Errorf("lr1 is not much worse, or the rank order no worse: %+v", r)
		}
	}
	for _, of := range [][]StudyRow{rows[:3], rows[3:]} {
		bfs, dfs, random := of[0], of[1], of[2]
		if bfs.LR1 >= random.LR1 || random.LR1 >= dfs.LR1 {
			t.Errorf("lr1: breadth first %v, random %v, depth first %v", bfs.LR1, random.LR1, dfs.LR1)
		}
		if spread := max(bfs.LR3, dfs.LR3, random.LR3) - min(bfs.LR3, dfs.LR3, random.LR3); spread > 0.4 {
			t.Errorf("lr3 depends on the tree: %v, %v, %v", bfs.LR3, random.LR3, dfs.LR3)
		}
	}
	one, err := Study(context.Background(), StudyConfig{Hosts: []int{512}, Samples: 25, Seed: 1})
	if err != nil || !reflect.DeepEqual(one, rows[3:]) {
		t.Errorf("another seed's rows, or rows that depend on what is studied beside: %v\n%+v\n%+v", err, one, rows[3:])
	}
	other, err := Study(context.Background(), StudyConfig{Hosts: []int{512}, Samples: 25, Seed: 2})
	if err != nil || reflect.DeepEqual(one, other) {
		t.Errorf("the seed changes nothing (%v)", err)
	}
}

// TestStudyRows pins the rows of one configuration: a seed means the same in every release.
func TestStudyRows(t *testing.T) {
	rows, err := Study(context.Background(), StudyConfig{Hosts: []int{100}, Samples: 10, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	want := []StudyRow{
		{100, 20, plan.SpanBFS, 4.4, 2.9, 5, 3, 1, 25},
		{100, 20, plan.SpanDFS, 12.9, 2.8, 16, 3, 1, 26.6},
		{100, 20, plan.SpanRandom, 8.1, 2.7, 10, 3, 1, 24.4},
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("got\n%+v\nwant\n%+v", rows, want)
	}
}

func TestStudyEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if rows, err := Study(ctx, StudyConfig{}); rows != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v; want context.Canceled", rows, err)
	}
	for _, tt := range []struct {
		cfg  StudyConfig
		want string
	}{
		{StudyConfig{Hosts: []int{0}}, "study: 0 hosts, want 1…4096"},
		{StudyConfig{Hosts: []int{5000}}, "study: 5000 hosts, want"},
		{StudyConfig{HostsPerSwitch: 0.001}, "study: 0.001 hosts per switch make 64000 switches for 64 hosts"},
		{StudyConfig{HostsPerSwitch: -1}, "study: -1 hosts per switch"},
		{StudyConfig{HostsPerSwitch: math.NaN()}, "study: NaN hosts per switch"},
		{StudyConfig{Degree: 1.5}, "study: 1.5 links of a switch on average, want 2…"},
		{StudyConfig{Degree: math.Inf(1)}, "study: +Inf links"},
		{StudyConfig{Samples: -1}, "study: -1 networks of each size"},
	} {
		if _, err := Study(context.Background(), tt.cfg); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.cfg, err, tt.want)
		}
	}
}

// TestUniformTree: each of the 16 trees over 4 switches comes up as often as any other.
func TestUniformTree(t *testing.T) {
	const draws = 16000
	count := map[[4]int]int{} // by the neighbours of each switch, as bits
	rng := rand.New(rand.NewPCG(1, 9))
	for range draws {
		var key [4]int
		for _, l := range uniformTree(rng, 4) {
			key[l[0]] |= 1 << l[1]
			key[l[1]] |= 1 << l[0]
		}
		count[key]++
	}
	if len(count) != 16 {
		t.Fatalf("%d trees, want 16", len(count))
	}
	for key, n := range count {
		if n < 850 || n > 1150 { // 1000, give or take five standard deviations
			t.Errorf("tree %v comes up %d times of %d", key, n, draws)
		}
	}
}

// TestRandomLinks: the average degree is the one asked for, or as near as simple links come to it.
func TestRandomLinks(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 10))
		n, degree := 1+rng.IntN(60), 2+4*rng.Float64()
		links := randomLinks(rng, n, degree)
		want := min(int(math.Round(degree*float64(n)/2)), n*(n-1)/2)
		if len(links) != want {
			t.Fatalf("seed %d: %d links, want %d for %d switches of degree %v", seed, len(links), want, n, degree)
		}
		seen := map[[2]int]bool{}
		for _, l := range links {
			if l[0] >= l[1] || seen[l] {
				t.Fatalf("seed %d: link %v comes twice, or its ends in the wrong order", seed, l)
			}
			seen[l] = true
		}
	}
}

// TestRandomNetwork: sizes are those asked for. That it hangs together is proved by the spanning tree.
func TestRandomNetwork(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 12))
		hosts := 1 + rng.IntN(300)
		g, switches, err := randomNetwork(rng, hosts, 5, 4)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if want := max(1, int(math.Round(float64(hosts)/5))); switches != want {
			t.Errorf("seed %d: %d switches for %d hosts, want %d", seed, switches, hosts, want)
		}
		topo, err := g.SpanningTree(plan.SpanRandom, 0, rng)
		if err != nil || len(topo.Hosts()) != hosts || len(topo.Switches()) != switches {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}
