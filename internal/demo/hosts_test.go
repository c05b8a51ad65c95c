package demo

import (
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/probe/gridfile"
)

func gridOf(hosts ...int) *gridfile.Grid {
	g := &gridfile.Grid{}
	for i, n := range hosts {
		g.Sites = append(g.Sites, gridfile.Site{Name: string(rune('A' + i)), Hosts: n})
	}
	return g
}

// However many hosts are asked for, they are all given out, no site stays empty, and no
// site is a whole host off its share unless that host is its only one.
func TestWithHostsKeepsProportions(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		hosts := make([]int, 1+rng.IntN(6))
		total := 0
		for i := range hosts {
			hosts[i] = 1 + rng.IntN(40)
			total += hosts[i]
		}
		g := gridOf(hosts...)
		n := len(hosts) + rng.IntN(251-len(hosts))
		out, err := WithHosts(g, n)
		if err != nil {
			t.Fatalf("seed %d: %d hosts over %v: %v", seed, n, hosts, err)
		}
		sum, single := 0, false
		for _, s := range out.Sites {
			sum += s.Hosts
			single = single || s.Hosts == 1
		}
		if sum != n {
			t.Errorf("seed %d: %d hosts over %v became %d", seed, n, hosts, sum)
		}
		for i, s := range out.Sites {
			// In hosts·total, to compare whole numbers.
			off := s.Hosts*total - hosts[i]*n
			if s.Hosts < 1 || !single && (off >= total || off <= -total) {
				t.Errorf("seed %d: site %d of %v has %d of %d hosts", seed, i, hosts, s.Hosts, n)
			}
			if g.Sites[i].Hosts != hosts[i] {
				t.Errorf("seed %d: the grid that was given has changed", seed)
			}
		}
	}
}

func TestWithHostsRefuses(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 251} {
		if _, err := WithHosts(gridOf(8, 4), n); err == nil {
			t.Errorf("%d hosts over 2 sites were accepted", n)
		}
	}
}
