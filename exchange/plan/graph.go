package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Graph is a network of switches with hosts as leaves in which there may be more than
// one way between two switches. It is immutable once made. Algorithms work on a
// [Topology]: a spanning tree of it is enough to do an allgather as fast as any
// network can (Faraj, Patarasuk & Yuan, §1).
type Graph struct {
	hosts, switches []string
	home            []int    // per host: its switch
	links           [][2]int // in the order of the file
	cables          [][]int  // per switch: its links, in the order of the file
	bandwidth       netmap.BytesPerSec
}

// NewGraph makes a graph from what [NewTopology] makes a tree from. Two switches may be
// linked more than once. It refuses a link from a switch to itself, and switches that
// the rest cannot reach, naming the first. The caller must not modify the slices afterwards.
func NewGraph(switches []string, links [][2]int, hosts []string, home []int, bandwidth netmap.BytesPerSec) (*Graph, error) {
	g := &Graph{hosts: hosts, switches: switches, home: home, links: links, cables: make([][]int, len(switches)), bandwidth: bandwidth}
	for i, l := range links {
		for _, s := range l {
			if s < 0 || s >= len(switches) {
				return nil, flawed("links", i, "%d is none of the %d switches", s, len(switches))
			}
		}
		if l[0] == l[1] {
			return nil, flawed("links", i, "switch %s is linked to itself", switches[l[0]])
		}
		g.cables[l[0]] = append(g.cables[l[0]], i)
		g.cables[l[1]] = append(g.cables[l[1]], i)
	}
	// Whatever else a tree refuses, it refuses in every spanning tree.
	if _, err := g.tree(g.breadthFirst(0)); err != nil {
		return nil, err
	}
	return g, nil
}

// ReadGraph reads a switch-tree file (docs/formats.md) whose links may form loops. The order
// of the keys of "hosts" is the rank order. Errors are [*ParseError] with name, line and reason.
func ReadGraph(name string, data []byte) (*Graph, error) {
	r, err := readSwitchFile(name, data)
	if err != nil {
		return nil, err
	}
	links, home, err := r.resolve()
	if err != nil {
		return nil, err
	}
	g, err := NewGraph(r.switches, links, r.hosts, home, r.bandwidth)
	if err != nil {
		return nil, locate(r.Cursor, err, r.at, r.elements)
	}
	return g, nil
}

// Switches returns the switch names. The caller must not modify the slice.
func (g *Graph) Switches() []string { return g.switches }

// Spanning names a way to choose a spanning tree (Faraj, Patarasuk & Yuan, §5).
type Spanning string

// The ways to choose a spanning tree.
const (
	SpanBFS    Spanning = "bfs"    // breadth first from a root: low trees
	SpanDFS    Spanning = "dfs"    // depth first from a root: tall trees
	SpanRandom Spanning = "random" // links in random order, each if it closes no loop
)

// SpanningTree returns g without the links that kind leaves out. Neighbours are visited, and
// the links of the tree stand, in the order of the file, so that of a graph without
// loops every kind makes the topology that [ReadTopology] makes. root, the number of a
// switch, is where breadth-first and depth-first search begin; rng is drawn from for
// [SpanRandom] only. It fails for an unknown kind, a root that is no switch, and if rng is
// missing.
func (g *Graph) SpanningTree(kind Spanning, root int, rng *rand.Rand) (*Topology, error) {
	if root < 0 || root >= len(g.switches) {
		return nil, fmt.Errorf("spanning tree: root %d is none of the %d switches", root, len(g.switches))
	}
	switch kind {
	case SpanBFS:
		return g.tree(g.breadthFirst(root))
	case SpanDFS:
		return g.tree(g.depthFirst(root))
	case SpanRandom:
		if rng == nil {
			return nil, errors.New("spanning tree: a random one needs a source of randomness")
		}
		return g.tree(g.randomLinks(rng))
	}
	return nil, fmt.Errorf("spanning tree: no kind %q; there are %s, %s and %s", kind, SpanBFS, SpanDFS, SpanRandom)
}

// tree returns the topology of the links that are kept.
func (g *Graph) tree(kept []bool) (*Topology, error) {
	var links [][2]int
	for i, l := range g.links {
		if kept[i] {
			links = append(links, l)
		}
	}
	return NewTopology(g.switches, links, g.hosts, g.home, g.bandwidth)
}
