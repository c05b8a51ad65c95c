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
	block plan.Block
	bytes int64
	tree  *tree
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
		var own []*tree
		var total, smallest int64
		for i := range trees {
			if trees[i].root == k {
				own = append(own, &trees[i])
				total += trees[i].bytes
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
		if slices.ContainsFunc(own, w.several) && smallest >= int64(len(own))*least {
			for _, h := range hosts {
				c.lay([]int{h}, own, total)
			}
		} else {
			c.lay(hosts, own, total)
		}
	}
	slices.SortFunc(c.cuts, func(a, b plan.Cut) int { return a.Origin - b.Origin })
	return c.strands, c.cuts
}

// lay shares out the blocks of hosts, one behind the other, in proportion to the bytes of
// trees, which are total together.
func (c *cutter) lay(hosts []int, trees []*tree, total int64) {
	var all int64
	for _, h := range hosts {
		all += c.sizes[h]
	}
	var upto int64 // of the shares so far
	next := 0      // the tree that takes what comes next
	var ends []int64
	for _, t := range trees {
		upto += t.bytes
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
		var of []*tree
		for from := int64(0); from < size; {
			for next < len(ends)-1 && c.snap(ends[next]-start, from, size) <= from {
				next++
			}
			to := size
			if next < len(ends)-1 {
				to = c.snap(ends[next]-start, from, size)
			}
			for k := c.parts(to-from, h, trees[next]); k > 0; k-- {
				of = append(of, trees[next])
				if from += (to - from) / k; k > 1 {
					from = from / grain * grain
				}
				if from < size {
					at = append(at, from)
				}
			}
		}
		for i, t := range of {
			s := strand{block: plan.Block{Origin: h, Dest: plan.All, Piece: i}, tree: t}
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
func (c *cutter) parts(bytes int64, host int, t *tree) int64 {
	n := int64(1)
	if limit := c.width.limit(t); limit > 0 {
		n = (bytes + limit - 1) / limit
	}
	pairs := c.width.pairs(host, t)
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
