package packed

import (
	"cmp"
	"math"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// firstBytes is what of a piece a host has before it passes on the first of it: a chunk.
const firstBytes = 4 << 10

// A scheduler puts the transfers between pools in order, as if every link carried one piece
// at a time, and chooses the hosts at which pieces enter. The order is what counts: the engine
// serves all pairs of hosts at once.
type scheduler struct {
	*sites
	ends    []int // [host*n+pool]: over how many pairs of hosts a host sends there
	flows   []int // [from*n+to]: how many flows fill a link
	net     *plan.Network
	pools   [][]int
	strands []strand
	behind  [][]float64 // by strand and pool: how long it takes from there until the last pool that gets it from there has it; 0: none does
	first   [][]float64 // by strand and pool: when a chunk is there
	whole   [][]float64 // and when all of it is
	host    [][]int     // and at which host
	exit    [][]int     // and which one sends it on; that one gets it first
	leaves  []float64   // by strand: when it begins to leave the pool where it starts, at most
	free    []float64   // by link
	waiting [][]int     // by link: strands
	ahead   []turn      // by link: what goes next there
	crossed []int64     // by pair of hosts: bytes
	entered []int64     // by host: bytes that it brings into its pool, and its own
	met     []int       // [host*n+pool]: how many pairs with hosts of that pool end at the host
	sends   []int64     // [host*n+pool]: bytes that a host sends there, of what starts in its pool in advance
	gone    []int64     // [host*n+pool]: and of these what has gone
	moves   []move
}

// A turn is what goes next on a link, and when. It is out of date once something has come or gone there.
type turn struct {
	place int
	start float64
	stale bool
}

// A move is a transfer before it has a number.
type move struct {
	src, dst, strand int
	at               float64 // when it starts, in seconds
	hop              int     // how far round a ring; 0 between pools
}

// straight is the hop of a move to the host that sends a piece on: it comes before what that does.
const straight = -1

func newScheduler(s *sites, net *plan.Network, w *widths, pools [][]int, strands []strand) *scheduler {
	hosts := len(net.Pool)
	d := &scheduler{sites: s, ends: w.ends, flows: w.flows, net: net, pools: pools, strands: strands,
		free: make([]float64, s.n*s.n), waiting: make([][]int, s.n*s.n), ahead: make([]turn, s.n*s.n),
		leaves: slices.Repeat([]float64{math.Inf(1)}, len(strands)), crossed: make([]int64, hosts*hosts), entered: make([]int64, hosts), met: make([]int, hosts*s.n), sends: make([]int64, hosts*s.n), gone: make([]int64, hosts*s.n),
	}
	for i := range strands {
		d.behind = append(d.behind, make([]float64, s.n))
		d.first = append(d.first, make([]float64, s.n))
		d.whole = append(d.whole, make([]float64, s.n))
		d.host, d.exit = append(d.host, make([]int, s.n)), append(d.exit, make([]int, s.n))
		root := strands[i].tree.root
		d.look(i, root)
		d.entered[strands[i].block.Origin] += strands[i].bytes
		d.arrive(i, root, strands[i].block.Origin, 0, 0)
		if x := &strands[i]; d.leads(x, root, x.block.Origin, x.exit) {
			d.exit[i][root] = x.exit
		}
		d.leave(i, root)
	}
	return d
}

func (d *scheduler) takes(strand, e int) float64 {
	return float64(d.strands[strand].bytes) / float64(d.capacity[e])
}

// look fills in behind, for pool k and those behind it, and returns that of k.
func (d *scheduler) look(strand, k int) (longest float64) {
	for to, from := range d.strands[strand].tree.parent {
		if from == k {
			e := k*d.n + to
			longest = max(longest, d.latency[e]+d.takes(strand, e)+d.look(strand, to))
		}
	}
	d.behind[strand][k] = longest
	return longest
}

// arrive notes that a strand is in pool k, at host, and lets it wait for the links from there.
func (d *scheduler) arrive(strand, k, host int, first, whole float64) {
	d.host[strand][k], d.exit[strand][k], d.first[strand][k], d.whole[strand][k] = host, host, first, whole
	for to, from := range d.strands[strand].tree.parent {
		if from == k {
			d.waiting[k*d.n+to] = append(d.waiting[k*d.n+to], strand)
			d.ahead[k*d.n+to].stale = true
		}
	}
}

// run puts all transfers between pools in order, by when they can start.
func (d *scheduler) run() {
	for {
		link, place, start := -1, 0, math.Inf(1)
		for e := range d.waiting {
			if len(d.waiting[e]) == 0 {
				continue
			}
			if t := &d.ahead[e]; t.stale {
				t.place, t.start = d.next(e)
				t.stale = false
			}
			if t := d.ahead[e]; link < 0 || t.start < start {
				link, place, start = e, t.place, t.start
			}
		}
		if link < 0 {
			return
		}
		d.take(link, place, start)
	}
}

// next returns the place in the queue of link e of what goes next there, and when: of what is there when the link is free, what others wait for, and of
// that what has the longest way behind the link (Jackson's rule for one machine with delivery times); of what nobody waits for, the largest. How long it takes on the
// link itself does not count: large pieces that go no further went before small ones that do, and the links behind them idled.
func (d *scheduler) next(e int) (place int, start float64) {
	from, to := e/d.n, e%d.n
	place = -1
	for i, s := range d.waiting[e] {
		at := max(d.free[e], d.first[s][from])
		if place >= 0 {
			b := d.waiting[e][place]
			if cmp.Or(cmp.Compare(at, start), d.turns(s, b, e), cmp.Compare(d.behind[b][to], d.behind[s][to]), cmp.Compare(d.strands[b].bytes, d.strands[s].bytes), d.strands[s].block.Piece-d.strands[b].block.Piece, s-b) >= 0 {
				continue
			}
		}
		place, start = i, at
	}
	return place, start
}

// turns compares by how much of what they send over link e the hosts at which two strands leave have sent: hosts of a site send at the same time, each
// at its part of the link. Strands that others have brought there are alike.
func (d *scheduler) turns(a, b, e int) int {
	from, to := e/d.n, e%d.n
	if d.strands[a].tree.root != from || d.strands[b].tree.root != from {
		return 0
	}
	part := func(s int) float64 {
		at := d.exit[s][from]*d.n + to
		return float64(d.gone[at]) / float64(max(d.sends[at], 1))
	}
	return cmp.Compare(part(a), part(b))
}

// take commits what waits at a place of link e.
func (d *scheduler) take(e, place int, start float64) {
	from, to := e/d.n, e%d.n
	s := d.waiting[e][place]
	d.waiting[e] = slices.Delete(d.waiting[e], place, place+1)
	d.ahead[e].stale = true
	takes := d.takes(s, e)
	head := min(1, firstBytes/float64(d.strands[s].bytes)) * takes
	d.free[e] = max(start+takes, d.whole[s][from]+head)
	src := d.exit[s][from]
	dst := d.enter(src, to)
	pair := src*len(d.net.Pool) + dst
	if d.crossed[pair] == 0 {
		d.met[dst*d.n+from]++
	}
	d.crossed[pair] += d.strands[s].bytes
	d.entered[dst] += d.strands[s].bytes
	if from == d.strands[s].tree.root {
		d.gone[src*d.n+to] += d.strands[s].bytes
		d.leaves[s] = min(d.leaves[s], start)
	}
	d.moves = append(d.moves, move{src: src, dst: dst, strand: s, at: start})
	d.arrive(s, to, dst, start+head+d.latency[e], d.free[e]+d.latency[e])
	d.exit[s][to] = d.mate(s, to, dst)
	d.leave(s, to)
}

// leads reports whether a strand that host has can leave pool k, if it goes on from there, by exit.
func (d *scheduler) leads(s *strand, k, host, exit int) bool {
	n := len(d.net.Pool)
	if d.net.Ceiling[host*n+exit] == 0 {
		return false
	}
	for to, from := range s.tree.parent {
		if from == k && !slices.ContainsFunc(d.pools[to], func(h int) bool { return d.net.Ceiling[exit*n+h] > 0 }) {
			return false
		}
	}
	return true
}

// leave notes that a strand goes on from pool k by its exit there.
func (d *scheduler) leave(strand, k int) {
	for to, from := range d.strands[strand].tree.parent {
		if from == k {
			d.sends[d.exit[strand][k]*d.n+to] += d.strands[strand].bytes
		}
	}
}

// mate returns the host by which a strand that comes to pool k at host goes on. That is host, unless by as much as the strand others have less to send over the links that come next and take several
// flows: a host that gets more than its mates would end long after them, alone in a few flows. Of five hosts one had half as much again, and the link stood at a quarter of what it
// carries for a third of the time.
func (d *scheduler) mate(strand, k, host int) int {
	s := &d.strands[strand]
	load := func(h int) (bytes int64) {
		for to, from := range s.tree.parent {
			if from == k && d.flows[k*d.n+to] > 1 {
				bytes += d.sends[h*d.n+to]
			}
		}
		return bytes
	}
	best := host
	for _, h := range d.pools[k] {
		if load(h) < load(best) && d.leads(s, k, host, h) {
			best = h
		}
	}
	if load(host) < load(best)+s.bytes {
		return host
	}
	return best
}

// enter returns the host of pool k at which what src sends enters. A host keeps to a few pairs, and uses them
// evenly: one flow that goes on finds its rate, where many that begin overflow the link's queue.
// New pairs end where the fewest do, and rather where there is one for the way back, whose packets
// then take acknowledgements along.
func (d *scheduler) enter(src, k int) int {
	n := len(d.net.Pool)
	open := 0
	for _, h := range d.pools[k] {
		if d.crossed[src*n+h] > 0 {
			open++
		}
	}
	fresh := open < d.ends[src*d.n+k] // it is to be a pair that has carried nothing
	best := -1
	for _, h := range d.pools[k] {
		switch {
		case d.net.Ceiling[src*n+h] == 0:
		case best < 0, d.rather(src, h, best, fresh):
			best = h
		}
	}
	return best
}

// rather reports whether src sends to a rather than to b: to one that it has sent to before, or to one that it has not.
func (d *scheduler) rather(src, a, b int, fresh bool) bool {
	n, from := len(d.net.Pool), d.net.Pool[src]
	wrong := func(h int) int { // those that are wanted come first
		if fresh == (d.crossed[src*n+h] == 0) {
			return 0
		}
		return 1
	}
	back := func(h int) int64 { return min(1, d.crossed[h*n+src]) }
	return cmp.Or(
		wrong(a)-wrong(b),
		cmp.Compare(d.crossed[src*n+a], d.crossed[src*n+b]),
		d.met[a*d.n+from]-d.met[b*d.n+from],
		cmp.Compare(back(b), back(a)),
		cmp.Compare(d.entered[a], d.entered[b])) < 0
}

// circulate sends every strand round the rings of its pools, from the host that sends it on. rings has the hosts of each pool in the order of its ring.
func (d *scheduler) circulate(rings [][]int) {
	for s := range d.strands {
		for k, order := range rings {
			host, exit, at := d.host[s][k], d.exit[s][k], d.first[s][k]
			if k == d.strands[s].tree.root && d.strands[s].spread {
				at = d.leaves[s]
			}
			if exit != host {
				d.moves = append(d.moves, move{src: host, dst: exit, strand: s, at: at, hop: straight})
			}
			last := exit
			for hop, place := 1, slices.Index(order, exit); hop < len(order); hop++ {
				next := order[(place+hop)%len(order)]
				if next == host {
					continue
				}
				d.moves = append(d.moves, move{src: last, dst: next, strand: s, at: at, hop: hop})
				last = next
			}
		}
	}
}

// transfers numbers the moves in order of their time.
func (d *scheduler) transfers() []plan.Transfer {
	// Of one strand and one time, moves stand in the order of its way.
	slices.SortStableFunc(d.moves, func(a, b move) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.hop, b.hop), cmp.Compare(a.strand, b.strand))
	})
	n := len(d.net.Pool)
	brought := make([]int, len(d.strands)*n) // [strand*n+host]: 1 + the transfer that brings it
	for i, m := range d.moves {
		brought[m.strand*n+m.dst] = i + 1
	}
	all := make([]plan.Transfer, len(d.moves))
	blocks, after := make([]plan.Block, len(d.moves)), make([]int, len(d.moves))
	for i, m := range d.moves {
		blocks[i] = d.strands[m.strand].block
		all[i] = plan.Transfer{ID: i, Src: m.src, Dst: m.dst, Phase: -1, Blocks: blocks[i : i+1 : i+1], After: after[i:i:i]}
		if k := brought[m.strand*n+m.src]; k > 0 {
			after[i] = k - 1
			all[i].After = after[i : i+1 : i+1]
		}
	}
	return all
}
