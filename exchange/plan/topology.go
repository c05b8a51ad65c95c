package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Topology is a tree of switches with hosts as leaves, immutable once made. Every
// cable is full duplex and counts as two directed links (Faraj & Yuan, IPDPS 2005, §2).
//
// Nodes are numbered hosts first, in rank order, then switches; directed links are
// numbered 0…NumLinks-1, so that both can index slices.
type Topology struct {
	hosts, switches []string
	neighbours      [][]int // per switch: adjacent switches, in the order of the file
	home            []int   // per host: its switch
	bandwidth       netmap.BytesPerSec

	// The tree hung from switch 0: per node its parent (-1 at the root) and depth.
	// Link 2v leads from node v up to its parent, 2v+1 down again.
	parent, depth []int
}

// A LinkID numbers one directed link of a [Topology].
type LinkID int

// NewTopology makes a tree from names of switches, cables between them (pairs of
// indices), names of hosts in rank order and the switch of each host. bandwidth is
// that of every link, 0 where it is not known. It refuses loops, naming the first in
// the order of links, and switches that the rest cannot reach.
func NewTopology(switches []string, links [][2]int, hosts []string, home []int, bandwidth netmap.BytesPerSec) (*Topology, error) {
	t := &Topology{hosts: hosts, switches: switches, home: home, bandwidth: bandwidth}
	if err := t.checkNames(); err != nil {
		return nil, err
	}
	if b := float64(bandwidth); math.IsNaN(b) || math.IsInf(b, 0) || b < 0 {
		return nil, flawed("bandwidth_mbps", -1, "%v Mbit/s is not a rate", bandwidth.Mbps())
	}
	if err := t.connect(links); err != nil {
		return nil, err
	}
	return t, t.hang()
}

func (t *Topology) checkNames() error {
	if len(t.switches) == 0 || len(t.switches) > maxHosts {
		return flawed("switches", -1, "%d switches, want 1…%d", len(t.switches), maxHosts)
	}
	if len(t.hosts) == 0 || len(t.hosts) > maxHosts {
		return flawed("hosts", -1, "%d hosts, want 1…%d", len(t.hosts), maxHosts)
	}
	if len(t.home) != len(t.hosts) {
		return flawed("hosts", -1, "%d switches for %d hosts", len(t.home), len(t.hosts))
	}
	seen := make(map[string]string)
	for _, list := range []struct {
		field, kind string
		names       []string
	}{{"switches", "switch", t.switches}, {"hosts", "host", t.hosts}} {
		for i, name := range list.names {
			if name == "" {
				return flawed(list.field, i, "the name is empty")
			}
			if kind, ok := seen[name]; ok {
				return flawed(list.field, i, "%q is already the name of a %s", name, kind)
			}
			seen[name] = list.kind
		}
	}
	for i, s := range t.home {
		if s < 0 || s >= len(t.switches) {
			return flawed("hosts", i, "%q hangs on switch %d, which is none of the %d switches", t.hosts[i], s, len(t.switches))
		}
	}
	return nil
}

// connect adds the cables one by one; the one whose ends are connected already closes a loop.
func (t *Topology) connect(links [][2]int) error {
	t.neighbours = make([][]int, len(t.switches))
	for i, l := range links {
		for _, s := range l {
			if s < 0 || s >= len(t.switches) {
				return flawed("links", i, "%d is none of the %d switches", s, len(t.switches))
			}
		}
		a, b := l[0], l[1]
		if a == b {
			return flawed("links", i, "loop: switch %s is linked to itself", t.switches[a])
		}
		if route := t.route(a, b); route != nil {
			names := make([]string, 0, len(route)+1)
			for _, s := range route {
				names = append(names, t.switches[s])
			}
			names = append(names, t.switches[a])
			return flawed("links", i, "loop: %s", strings.Join(names, " – "))
		}
		t.neighbours[a] = append(t.neighbours[a], b)
		t.neighbours[b] = append(t.neighbours[b], a)
	}
	return nil
}

// route returns the switches from a to b over the cables so far, nil where none lead there.
func (t *Topology) route(a, b int) []int {
	from := make([]int, len(t.switches))
	for i := range from {
		from[i] = -1
	}
	from[b] = b
	for queue := []int{b}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		if s == a {
			route := []int{a}
			for s != b {
				s = from[s]
				route = append(route, s)
			}
			return route
		}
		for _, next := range t.neighbours[s] {
			if from[next] < 0 {
				from[next] = s
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// hang roots the tree at switch 0 and numbers parents and depths.
func (t *Topology) hang() error {
	n := len(t.hosts)
	t.parent = make([]int, n+len(t.switches))
	t.depth = make([]int, len(t.parent))
	for i := range t.parent {
		t.parent[i] = -2
	}
	t.parent[n] = -1
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		for _, next := range t.neighbours[s] {
			if t.parent[n+next] == -2 {
				t.parent[n+next] = n + s
				t.depth[n+next] = t.depth[n+s] + 1
				queue = append(queue, next)
			}
		}
	}
	if lost := slices.Index(t.parent[n:], -2); lost >= 0 {
		return flawed("links", -1, "no link leads from switch %s to switch %s", t.switches[0], t.switches[lost])
	}
	for h, s := range t.home {
		t.parent[h] = n + s
		t.depth[h] = t.depth[n+s] + 1
	}
	return nil
}

// Hosts returns the host names in rank order. The caller must not modify the slice.
func (t *Topology) Hosts() []string { return t.hosts }

// Switches returns the switch names. The caller must not modify the slice.
func (t *Topology) Switches() []string { return t.switches }

// Adjacent returns the switches that switch s is cabled to, in the order of the file.
// The caller must not modify the slice.
func (t *Topology) Adjacent(s int) []int { return t.neighbours[s] }

// Home returns the switch that host h hangs on.
func (t *Topology) Home(h int) int { return t.home[h] }

// Bandwidth returns the rate of every link, if the file says it.
func (t *Topology) Bandwidth() (netmap.BytesPerSec, bool) { return t.bandwidth, t.bandwidth > 0 }

// WithBandwidth returns t with links of this rate, finite, whatever the file says:
// the shape of a cluster of the papers can be run on machines that cannot carry its rate. 0 is one that is not known.
func (t *Topology) WithBandwidth(bandwidth netmap.BytesPerSec) *Topology {
	c := *t
	c.bandwidth = bandwidth
	return &c
}

// NumLinks is the bound of [LinkID].
func (t *Topology) NumLinks() int { return 2 * len(t.parent) }

// Path appends the directed links from host src to host dst to buf: the way up to
// their lowest common ancestor, then down. It is empty where src is dst.
func (t *Topology) Path(buf []LinkID, src, dst int) []LinkID {
	a, b := src, dst
	top := len(buf)
	var down [16]LinkID // enough for most trees without a second allocation
	falls := down[:0]
	for a != b {
		if t.depth[a] >= t.depth[b] {
			buf = append(buf, LinkID(2*a))
			a = t.parent[a]
			top++
		} else {
			falls = append(falls, LinkID(2*b+1))
			b = t.parent[b]
		}
	}
	buf = append(buf, falls...)
	slices.Reverse(buf[top:])
	return buf
}

// Ends returns the names of the nodes that link l leads from and to.
func (t *Topology) Ends(l LinkID) (from, to string) {
	v := int(l) / 2
	if v < 0 || v >= len(t.parent) || t.parent[v] < 0 {
		return "?", "?"
	}
	from, to = t.name(v), t.name(t.parent[v])
	if l%2 == 1 {
		return to, from
	}
	return from, to
}

func (t *Topology) name(node int) string {
	if node < len(t.hosts) {
		return t.hosts[node]
	}
	return t.switches[node-len(t.hosts)]
}

// indices maps the hosts of a plan to ranks of the topology, by name.
func (t *Topology) indices(hosts []string) ([]int, error) {
	rank := make(map[string]int, len(t.hosts))
	for i, h := range t.hosts {
		rank[h] = i
	}
	out := make([]int, len(hosts))
	for i, h := range hosts {
		r, ok := rank[h]
		if !ok {
			return nil, fmt.Errorf("host %q of the plan is not in the topology", h)
		}
		out[i] = r
	}
	return out, nil
}
