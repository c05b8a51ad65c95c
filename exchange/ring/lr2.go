package ring

import (
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Breakers returns the switches that keep t from having a ring of two hops, ascending:
// those with fewer hosts than neighbouring switches. If there are none, [LR2] succeeds; if
// there are, every ring without contention has a message over three switches or more
// (Theorem 2, §4.2.1).
//
// Leaf switches without hosts are taken away first, again and again: they carry nothing,
// and counted as neighbours they would break the theorem.
func Breakers(t *plan.Topology) []int {
	return newTree(t).trim().breakers()
}

func (k *tree) breakers() []int {
	var broken []int
	for s, hosts := range k.hosts {
		if !k.gone[s] && len(hosts) < k.degree[s] {
			broken = append(broken, s)
		}
	}
	return broken
}

// LR2 returns the ring of Algorithm 2 (§4.2.1) and its maximum path length, which is 2, or
// 1 if all hosts hang on one switch, or 0 if there is one host. The ring begins with rank
// 0 and follows the file where the paper leaves the order open, as [LR1] does. The error
// names the first of [Breakers].
func LR2(t *plan.Topology) (order []int, path int, err error) {
	k := newTree(t).trim()
	if broken := k.breakers(); len(broken) > 0 {
		s := broken[0]
		return nil, 0, fmt.Errorf("lr2: switch %s has fewer hosts (%d) than neighbouring switches (%d), "+
			"so there is no ring of two hops; use lr3",
			t.Switches()[s], len(k.hosts[s]), k.degree[s])
	}
	order = k.hang(t.Home(0)).array(make([]int, 0, len(t.Hosts())), t.Home(0))
	path, _ = Measure(t, order)
	return order, path, nil
}

// array appends the array of the subtree of s (Figure 4): a host, the first subtree, a
// host, the second subtree …, and the hosts that are left. Below the root s has a host
// more than children, so its array begins and ends at s itself. At the root the array
// closes to a ring.
func (r *rooted) array(order []int, s int) []int {
	hosts := r.hosts[s]
	for _, child := range r.children[s] {
		order = append(order, hosts[0])
		hosts = hosts[1:]
		order = r.array(order, child)
	}
	return append(order, hosts...)
}
