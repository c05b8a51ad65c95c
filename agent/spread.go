package agent

import (
	"math"
	"slices"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/exchange/ring"
	"github.com/gridagent/gridagent/probe/netmap"
)

// leastEager is what all ranks may contribute together to an operation that travels with its call
// whatever the map says: less than a packet's worth a host, where even slow links lose nothing.
const leastEager = 1 << 10

// tree says how small operations over hosts travel: group.Config.Tree.
//
// Hosts are led by the first of their site's: sites are what is near. To wait for the
// coordinator's plan costs a round trip to the farthest host; so long may the bytes take that
// travel at once and not by the best schedule.
func (a *Agent) tree(hosts []string) group.Tree { return a.treeOver(a.snapshotOf(hosts)) }

// treeOver is tree for the hosts of snap.
func (a *Agent) treeOver(snap *netmap.Snapshot) group.Tree {
	t := group.Tree{Leaders: leaders(snap), Epoch: snap.Epoch()}
	var far, from time.Duration // between any two, and to or from the coordinator
	const coordinator = 0
	ways := waysOf(snap, t.Leaders)
	for i := range snap.N() {
		for j := range snap.N() {
			e := snap.Estimate(i, j)
			if i == j || !e.Has(netmap.FieldLatency) {
				continue
			}
			far = max(far, ways.between(t.Leaders[i], t.Leaders[j], e.Latency))
			if i == coordinator || j == coordinator {
				from = max(from, e.Latency)
			}
		}
	}
	t.Bound, t.Via = far, ways.via
	t.Limit = eagerLimit(snap, t.Leaders, 2*from)
	t.Rate = fastest(snap)
	if slices.Max(t.Leaders) > 0 {
		t.Across = farLimit(lossesIn(snap), t.Leaders, 2*from)
		return t
	}
	w := a.wiringOf(snap)
	t.Order = w.order()
	t.Straight, t.Rounds = w.straightLimit(t.Rate), w.roundsLimit(t)
	if t.Straight > 0 {
		t.Across = max(t.Straight, w.acrossLimit(t.Rate))
	}
	t.Hops = group.HopsLimit(snap.N(), t.Rate)
	return t
}

// A wiring is what is known of the switches between the hosts of a group of one site.
type wiring struct {
	n    int            // hosts
	tree *plan.Topology // of these hosts, in their order: declared, or what measurements suggest; nil: one switch, as far as is known
	ring []int          // the hosts, from switch to switch; nil with tree
}

// over returns the wiring of n hosts over tree, nil for none.
func over(tree *plan.Topology, n int) wiring {
	w := wiring{n: n, tree: tree}
	if tree != nil {
		w.ring, _ = ring.LR1(tree)
	}
	return w
}

// wiringOf returns the wiring of the hosts of snap. A declaration overrules what measurements suggest.
func (a *Agent) wiringOf(snap *netmap.Snapshot) wiring {
	var tree *plan.Topology
	trees, _ := a.switches.current()
	site := snap.Hosts()[0].Site
	i := slices.IndexFunc(trees, func(t siteTree) bool { return t.site == site })
	switch {
	case i < 0:
		tree = planner.GuessSwitches(snap)
	case len(trees[i].Switches()) > 1:
		if t, err := trees[i].Subset(snap.Names()); err == nil && spread(t) { // else it has not all of them, and says little
			tree = t
		}
	}
	return over(tree, snap.N())
}

// spread reports whether the hosts of t hang at more than one switch.
func spread(t *plan.Topology) bool {
	for h := range t.Hosts() {
		if t.Home(h) != t.Home(0) {
			return true
		}
	}
	return false
}

// order returns the hosts as they stand in the tree, from switch to switch, nil where they do in their own order.
func (w wiring) order() []int {
	if slices.IsSorted(w.ring) {
		return nil
	}
	return w.ring
}

// load returns how many times as much as a host's port the fullest cable carries when contributions go in rounds; at least 1.
func (w wiring) load() float64 {
	if w.tree == nil || w.n < 2 {
		return 1
	}
	var buf []plan.LinkID
	var path []int
	most := group.RoundsLoad(w.n, w.tree.NumLinks(), func(from, to int) []int {
		buf, path = w.tree.Path(buf[:0], w.ring[from], w.ring[to]), path[:0]
		for _, l := range buf {
			path = append(path, int(l))
		}
		return path
	})
	return max(1, float64(most)/float64(w.n-1))
}

const (
	// straightBytes is what a host sends another at most in an operation whose contributions go straight: one packet. What is larger needs an order, or the ports of
	// those that come last are where all of them wait: 4 KiB from each of eight hosts took 5.3 ms so, and 3.5 by a plan.
	straightBytes = 1100
	// maxStraight is how many hosts such a group has at most: each sends to each other.
	maxStraight = 32
)

// straightLimit returns [group.Tree.Straight], for few hosts whose ports carry rate.
func (w wiring) straightLimit(rate float64) int64 {
	switch {
	case w.n > maxStraight:
		return 0
	case w.tree != nil:
		return int64(min(float64(straightBytes*w.n), rate*cableTime.Seconds()))
	}
	return int64(straightBytes * w.n)
}

const (
	// acrossTime is how long what a host gets in such an alltoall may take its port, and acrossBytes how much of it one host sends at most: the more it is, the longer ports wait for each
	// other that get several at once, and a plan's order is what counts. In a lab of two processors alltoalls took of the time that plans took, between 24 hosts: with ports of 100 Mbit/s
	// 12 KiB 0.63 and 0.79, 16 KiB 0.84 and 0.90; of 20 Mbit/s 3 KiB 0.78 and 0.63, 6 KiB 0.71 and 0.67; of 5 Mbit/s 1,500 bytes 0.77 and 0.70; of 1 Gbit/s 16 KiB 0.71, 32 KiB 1.0. Between
	// 8 hosts, where processors are not what is slow, of 20 Mbit/s: 6 KiB 0.88 and 0.81, 9 KiB 0.77 and 0.85, 16 KiB 0.97 and 0.93.
	acrossTime  = 64 * time.Millisecond
	acrossBytes = 17 << 10
	// cableTime takes the place of acrossTime where there are several switches, or measurements suggest some, whose cables have to hold what all hosts of one send at once: between 32 hosts on four of
	// them, with 100 Mbit/s, alltoalls of 3 KiB took 0.67 of the time that plans took, and of 4 KiB up to twice as long, as ends of messages were lost. (Later 0.9 for 6 KiB and 0.7 to 1.0 for 8 to 16 KiB, where a
	// plan took 0.2 to 0.6 s.)
	cableTime = 8500 * time.Microsecond
)

// acrossLimit returns [group.Tree.Across], where ports carry rate.
func (w wiring) acrossLimit(rate float64) int64 {
	t := acrossTime
	if w.tree != nil {
		t = cableTime
	}
	return int64(min(float64(w.n)*acrossBytes, rate*t.Seconds()))
}

const (
	// farBytes is what a host sends another at most in an alltoall that goes straight between sites, and farBurst what all hosts of a site send at once to those of another:
	// what a queue in between holds.
	farBytes = 4 * straightBytes
	farBurst = 64 << 10
	// farHead is what headers of such a message take.
	farHead = 150
	// farRisk is how likely a packet of such an operation may be lost on one link: whoever waits for that one waits for two round trips or more.
	farRisk = 0.1
)

// farLimit returns [group.Tree.Across] for hosts of several sites, led by leaders: what is through the links in the time that a plan's words would take, in even blocks. Over links
// that lose packets no more go so than farRisk allows, and those twice ([wordStream]).
func farLimit(snap *netmap.Snapshot, leaders []int, saved time.Duration) int64 {
	n := snap.N()
	if n > maxStraight {
		return 0
	}
	type link struct{ pairs, rate, loss float64 }
	links := make(map[siteWay]link)
	for i, l := range leaders {
		for j, m := range leaders {
			if l == m {
				continue
			}
			e, w := snap.Estimate(i, j), links[siteWay{l, m}]
			w.pairs++
			if e.TellsLoss() {
				w.loss = max(w.loss, e.Loss)
			}
			if e.Has(netmap.FieldBandwidth) {
				w.rate = max(w.rate, float64(e.Bandwidth))
			}
			if e.Has(netmap.FieldCapacity) {
				w.rate = max(w.rate, float64(e.Capacity))
			}
			links[siteWay{l, m}] = w
		}
	}
	block := float64(farBytes)
	for _, w := range links {
		burst := min(farBurst, w.rate*saved.Seconds())
		if w.loss >= lossyWords {
			burst /= 2
			block = min(block, straightBytes*math.Floor(farRisk/(w.loss*w.pairs)))
		}
		block = min(block, burst/w.pairs-farHead)
	}
	return max(0, int64(block)*int64(n))
}

const (
	// roundsTime is what a host gives may take its port, at most: the last rounds have most of the bytes, and nobody passes on what he does not have whole. In a lab with 24 hosts on
	// one switch of 5 Mbit/s an allgather of 256 bytes took 18 ms in rounds and 33 planned, of 1 KiB 72 and 52; with 8 hosts of 50 Mbit/s one of 4 KiB 7.3 and 7.8, of 8 KiB 13.5 and 12.6; of
	// 1 Gbit/s one of 8 KiB 4.0 and 4.7. With 24 of 100 Mbit/s one of 4 KiB took 33 to 40 and 39 to 41, of 6 KiB 51 to 56 and 41 to 59; with 1 Gbit/s one of 4 KiB 18 and 28, of 8 KiB 23
	// and 35, and beyond [group.MaxRounds] one of 16 KiB 53 and 42 to 47.
	roundsTime = 450 * time.Microsecond
	// cableRounds is how many times as much as a port a cable between switches may carry of that.
	cableRounds = 2
)

// roundsLimit returns [group.Tree.Rounds]. Where cables are fuller than ports they bound it.
func (w wiring) roundsLimit(t group.Tree) int64 {
	most := roundsTime.Seconds() * min(1, cableRounds/w.load())
	return max(t.Limit, int64(min(group.MaxRounds, float64(w.n)*t.Rate*most)))
}

// fastest returns what is known to get from one host to another, in bytes a second: what a host takes in, where several send to it. A tenth of the pairs may have more: in a
// young map single readings are of what a port lets through at first, and the most of 992 pairs of 100 Mbit/s was 2 Gbit/s.
func fastest(snap *netmap.Snapshot) float64 {
	var rates []float64
	for i := range snap.N() {
		for j := range snap.N() {
			if e := snap.Estimate(i, j); i != j && e.Has(netmap.FieldBandwidth) {
				rates = append(rates, float64(e.Bandwidth))
			}
		}
	}
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return rates[(len(rates)-1)*9/10]
}

// leaders returns the first host of each host's site.
func leaders(snap *netmap.Snapshot) []int {
	out := make([]int, snap.N())
	first := make(map[string]int)
	for i, h := range snap.Hosts() {
		if _, ok := first[h.Site]; !ok {
			first[h.Site] = i
		}
		out[i] = first[h.Site]
	}
	return out
}

// eagerLimit returns how many bytes every leader can send to all of its hosts, and to each other
// leader, within the time saved.
func eagerLimit(snap *netmap.Snapshot, leaders []int, saved time.Duration) int64 {
	led := make(map[int]float64)
	for i, l := range leaders {
		if i != l {
			led[l]++
		}
	}
	limit := float64(leastEager << 6)
	for i, l := range leaders {
		for j, m := range leaders {
			copies := 1.0
			switch {
			case i == j || l != i: // it sends to its leader only
				continue
			case m == i:
				copies = led[i]
			case m != j:
				continue
			}
			if e := snap.Estimate(i, j); e.Has(netmap.FieldBandwidth) {
				limit = min(limit, float64(e.Bandwidth)*saved.Seconds()/copies)
			} else {
				limit = 0
			}
		}
	}
	return max(leastEager, int64(limit))
}
