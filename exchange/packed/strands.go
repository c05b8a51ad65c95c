package packed

import (
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Where blocks are cut.
const (
	// grain is what pieces are multiples of, in bytes: about what a packet carries.
	grain = 1 << 10
	// least is the smallest piece, in bytes. Below it a piece costs more in headers and answers
	// than a link gains by being balanced.
	least = 2 << 10
)

// A strand is a piece of a block with the tree that it takes.
type strand struct {
	block  plan.Block
	bytes  int64
	tree   *tree
	exit   int  // host that sends it to other pools
	spread bool // mates send for each other: what leaves late goes round the ring late as well
}

// A share is what a tree takes of the blocks of a pool, or a part of that for one host to send.
type share struct {
	tree  *tree
	bytes int64
	exit  int // that host; -1: each host sends its own
}

// A cutter lays the shares of trees over the blocks of pools.
type cutter struct {
	sizes   []int64
	width   *widths
	cuts    []plan.Cut
	strands []strand
}

// shareOut gives the blocks of every pool to its trees, in pieces where a share ends inside a
// block. Shares follow each other along the blocks of a pool, so that there are few pieces; where several flows fill
// a link on the way every block is shared out by itself: all hosts of a pool send at the same time to all others, and what is relayed does not
// come by way of one host alone, whose one pair would carry it on.
func shareOut(pools [][]int, sizes []int64, trees []tree, w *widths) ([]strand, []plan.Cut) {
	c := &cutter{sizes: sizes, width: w}
	for k, hosts := range pools {
		var own []share
		var total, smallest int64
		spread := false
		for i := range trees {
			if t := &trees[i]; t.root == k {
				own = append(own, share{t, t.bytes, -1})
				total += t.bytes
				spread = spread || w.turns(t, hosts) > 0
			}
		}
		if len(own) == 0 {
			continue
		}
		smallest = total
		for _, h := range hosts {
			if sizes[h] > 0 {
				smallest = min(smallest, sizes[h])
			}
		}
		several := func(s share) bool { return w.several(s.tree) }
		switch {
		case spread:
			c.lay(hosts, c.spread(hosts, own), total)
		case slices.ContainsFunc(own, several) && smallest >= int64(len(own))*least:
			for _, h := range hosts {
				c.lay([]int{h}, own, total)
			}
		default:
			c.lay(hosts, own, total)
		}
	}
	slices.SortFunc(c.cuts, func(a, b plan.Cut) int { return a.Origin - b.Origin })
	return c.strands, c.cuts
}

// What a host sends for others over one pair of hosts comes in up to so many parts, of so many bytes at least: what it is to send to one pool would else wait for
// all that it is to send to another.
const (
	morsels = 4
	morsel  = 32 << 10
)

// spread cuts shares into parts of one size, some for each pair over which each host sends: a host with one large block would have a few flows, which find their
// rate late and end after all others, and a port for all that its pool sends. A host sends what it has itself as far as that is no more than what its mates send.
func (c *cutter) spread(hosts []int, shares []share) (parts []share) {
	var start int64 // of the share
	for _, s := range shares {
		turns := c.width.turns(s.tree, hosts)
		if turns == 0 { // each host sends its own
			parts = append(parts, s)
			start += s.bytes
			continue
		}
		turns *= int(max(1, min(s.bytes/int64(turns*len(hosts))/morsel, morsels)))
		m := max(1, min(int64(turns*len(hosts)), s.bytes/(2*least)))
		holder, has := make([]int, m), make([]int, len(hosts))
		for i := range holder {
			holder[i] = c.holder(hosts, start+s.bytes*(2*int64(i)+1)/(2*m))
			has[holder[i]]++
		}
		seen, kept, given := make([]int, len(hosts)), make([]int, len(hosts)), make([]int, len(hosts))
		next := 0 // who is to take what its holder does not keep
		for i, at := range holder {
			to := at
			// Those that it keeps are as far from each other as they can be.
			if keep := min(turns, has[at]); kept[at]*has[at] <= seen[at]*keep && kept[at] < keep {
				kept[at]++
			} else {
				for given[next] >= turns-min(turns, has[next]) {
					next = (next + 1) % len(hosts)
				}
				given[next]++
				to, next = next, (next+1)%len(hosts)
			}
			seen[at]++
			from, end := s.bytes*int64(i)/m, s.bytes*int64(i+1)/m
			parts = append(parts, share{s.tree, end - from, hosts[to]})
		}
		start += s.bytes
	}
	return parts
}

// holder returns the place of the host that has the byte at offset at of the blocks of hosts.
func (c *cutter) holder(hosts []int, at int64) int {
	for i, h := range hosts {
		if at -= c.sizes[h]; at < 0 {
			return i
		}
	}
	return len(hosts) - 1
}

// lay shares out the blocks of hosts, one behind the other, in proportion to the bytes of
// shares, which are total together.
func (c *cutter) lay(hosts []int, shares []share, total int64) {
	var all int64
	for _, h := range hosts {
		all += c.sizes[h]
	}
	var upto int64 // of the shares so far
	next := 0      // the share that takes what comes next
	var ends []int64
	for _, s := range shares {
		upto += s.bytes
		ends = append(ends, int64(float64(upto)/float64(total)*float64(all)+0.5))
	}
	ends[len(ends)-1] = all
	var start int64 // of the block
	for _, h := range hosts {
		size := c.sizes[h]
		if size == 0 {
			continue
		}
		var at []int64
		var of []share
		for from := int64(0); from < size; {
			for next < len(ends)-1 && c.snap(ends[next]-start, from, size) <= from {
				next++
			}
			to := size
			if next < len(ends)-1 {
				to = c.snap(ends[next]-start, from, size)
			}
			for k := c.parts(to-from, h, shares[next]); k > 0; k-- {
				of = append(of, shares[next])
				if from += (to - from) / k; k > 1 {
					from = from / grain * grain
				}
				if from < size {
					at = append(at, from)
				}
			}
		}
		for i, own := range of {
			s := strand{block: plan.Block{Origin: h, Dest: plan.All, Piece: i}, tree: own.tree, exit: own.exit, spread: own.exit >= 0}
			if s.exit < 0 {
				s.exit = h
			}
			from, to := int64(0), size
			if i > 0 {
				from = at[i-1]
			}
			if i < len(at) {
				to = at[i]
			}
			s.bytes = to - from
			c.strands = append(c.strands, s)
		}
		if len(at) > 0 {
			c.cuts = append(c.cuts, plan.Cut{Origin: h, Dest: plan.All, At: at})
		}
		start += size
	}
}

// maxParts bounds the pieces that one share of a block becomes.
const maxParts = 16

// parts returns how many pieces a share of so many bytes of the block of host becomes: as many as the host has
// pairs for it or a multiple of that, which no pair of hosts takes too long for, and none that is too small.
func (c *cutter) parts(bytes int64, host int, s share) int64 {
	if s.exit >= 0 {
		return 1
	}
	n := int64(1)
	if limit := c.width.limit(s.tree); limit > 0 {
		n = (bytes + limit - 1) / limit
	}
	pairs := c.width.pairs(host, s.tree)
	n = min((n+pairs-1)/pairs, max(1, maxParts/pairs)) * pairs
	return max(1, min(n, bytes/(2*least)))
}

// snap moves the end of a share, an offset in a block of size bytes of which a piece begins at from, to
// where a cut may be: a multiple of grain that leaves no piece too small, or an edge.
func (c *cutter) snap(end, from, size int64) int64 {
	end = (end + grain/2) / grain * grain
	switch {
	case end-from < least/2 || end <= from:
		return from
	case size-end < least/2 || end >= size:
		return size
	case size-from < 2*least:
		if end-from < size-end {
			return from
		}
		return size
	}
	return min(max(end, from+least), size-least)
}
