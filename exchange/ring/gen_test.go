package ring

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// topology makes a tree from the parent of every switch but the first and the number
// of hosts of each; ranks follow the switches. It panics on what is no tree: only tests call it.
func topology(parents []int, hosts []int) *plan.Topology {
	var home []int
	for s, n := range hosts {
		home = append(home, slices.Repeat([]int{s}, n)...)
	}
	return dealt(parents, home)
}

// dealt is topology with the switch of each host.
func dealt(parents []int, home []int) *plan.Topology {
	switches := make([]string, len(parents)+1)
	links := make([][2]int, len(parents))
	for s := range switches {
		switches[s] = fmt.Sprintf("s%d", s)
		if s > 0 {
			links[s-1] = [2]int{parents[s-1], s}
		}
	}
	names := make([]string, len(home))
	for h := range names {
		names[h] = fmt.Sprintf("n%d", h)
	}
	t, err := plan.NewTopology(switches, links, names, home, 100*netmapMbps)
	if err != nil {
		panic(err)
	}
	return t
}

// netmapMbps is 1 Mbit/s in bytes per second.
const netmapMbps = 125_000

// chainOf and starOf give the parents of a chain and a star of n switches.
func chainOf(n int) []int {
	parents := make([]int, n-1)
	for s := range parents {
		parents[s] = s
	}
	return parents
}

func starOf(n int) []int { return make([]int, n-1) }

// randomTree draws one of several shapes of up to maxSwitches switches with 1 to maxHosts
// hosts: chains, stars, random, deep and bushy trees; hosts everywhere, on few switches, or 1 to 3 on each.
func randomTree(rng *rand.Rand, maxSwitches, maxHosts int) *plan.Topology {
	n := 1 + rng.IntN(maxSwitches)
	parents := make([]int, n-1)
	reach := []int{1, n, n, 2, 3}[rng.IntN(5)] // how far back a switch may hang: 1 is a chain
	star := rng.IntN(8) == 0
	for i := range parents {
		if !star {
			parents[i] = i - rng.IntN(min(reach, i+1))
		}
	}
	h := 1 + rng.IntN(maxHosts)
	home := make([]int, h)
	some := 1 + rng.IntN(n) // switches that hosts are dealt to
	for i := range home {
		home[i] = (rng.IntN(some) * 7) % n
		if rng.IntN(2) == 0 && i < n {
			home[i] = n - 1 - i
		}
	}
	rng.Shuffle(h, func(i, j int) { home[i], home[j] = home[j], home[i] })
	return dealt(parents, home)
}

// describe prints a tree so that a failure can be read: parent edges and hosts.
func describe(t *plan.Topology) string {
	var b strings.Builder
	for s := range t.Switches() {
		fmt.Fprintf(&b, "s%d%v:", s, t.Adjacent(s))
		for h := range t.Hosts() {
			if t.Home(h) == s {
				fmt.Fprintf(&b, " n%d", h)
			}
		}
		b.WriteString("; ")
	}
	return b.String()
}

// check fails the test unless order is a ring of all hosts without contention, from
// rank 0, with the given maximum path length.
func check(tb testing.TB, t *plan.Topology, order []int, path int) {
	tb.Helper()
	sorted := slices.Sorted(slices.Values(order))
	for i, h := range sorted {
		if i != h {
			tb.Fatalf("%v is no permutation of the %d hosts of %s", order, len(t.Hosts()), describe(t))
		}
	}
	got, load := Measure(t, order)
	if len(sorted) != len(t.Hosts()) || order[0] != 0 || load > 1 || got != path {
		tb.Fatalf("%v: load %d, path length %d, said to be %d, on %s", order, load, got, path, describe(t))
	}
}
