package ring

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/gridagent/gridagent/exchange/plan"
)

// randomNetwork draws a connected network of switches with hosts, and returns it with
// the number of switches. Every host hangs on any switch with the same probability (§5),
// so that some switches have none.
func randomNetwork(rng *rand.Rand, hosts int, hostsPerSwitch, degree float64) (*plan.Graph, int, error) {
	n := max(1, int(math.Round(float64(hosts)/hostsPerSwitch)))
	links := randomLinks(rng, n, degree)
	home := make([]int, hosts)
	for h := range home {
		home[h] = rng.IntN(n)
	}
	g, err := plan.NewGraph(numbered("s", n), links, numbered("n", hosts), home, 0)
	return g, n, err
}

// randomLinks draws links that connect n switches, degree/2 for each of them on average as
// far as there is room for different ones.
//
// The paper takes them from GT-ITM and says no more than their average number. Here they are a
// tree that is equally likely to be any of those over the switches, and further links,
// each equally likely to be any that is not there yet. (Random links alone hardly ever
// connect a network at degree 4: of 200 switches three or four would have none.)
func randomLinks(rng *rand.Rand, n int, degree float64) [][2]int {
	links := uniformTree(rng, n)
	there := make(map[[2]int]bool)
	for _, l := range links {
		there[l] = true
	}
	want := min(int(math.Round(degree*float64(n)/2)), n*(n-1)/2)
	for len(links) < want {
		a, b := rng.IntN(n), rng.IntN(n)
		l := [2]int{min(a, b), max(a, b)}
		if a != b && !there[l] {
			there[l] = true
			links = append(links, l)
		}
	}
	// Searches try links in this order: those of the tree must not come first.
	rng.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
	return links
}

// uniformTree draws a tree over n switches by a random walk that keeps the step by which it
// first enters each (Aldous and Broder). A link has its lower end first.
func uniformTree(rng *rand.Rand, n int) [][2]int {
	links := make([][2]int, 0, n-1)
	entered := make([]bool, n)
	at := rng.IntN(n)
	entered[at] = true
	for len(links) < n-1 {
		next := rng.IntN(n)
		if !entered[next] {
			entered[next] = true
			links = append(links, [2]int{min(at, next), max(at, next)})
		}
		at = next
	}
	return links
}

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i)
	}
	return names
}
