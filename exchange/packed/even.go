package packed

import (
	"cmp"
	"slices"
)

// even deals what a host sends to a pool out anew over the pairs of hosts that it uses there, the largest pieces first, each to the pair that has least
// so far (the LPT rule of Graham, SIAM J. Appl. Math. 17, 1969), where that leaves the fullest pair with less. In the order in which they leave, five pieces of one
// block went over two pairs as 649 and 392 KB: where something holds each flow the first ended alone, long after the other.
//
// A piece that goes on from that pool still does so by the host that was chosen for it.
func (d *scheduler) even() {
	var wan []int // moves
	for i, m := range d.moves {
		if d.net.Pool[m.src] != d.net.Pool[m.dst] {
			wan = append(wan, i)
		}
	}
	way := func(i int) (src, to int) { return d.moves[i].src, d.net.Pool[d.moves[i].dst] }
	slices.SortStableFunc(wan, func(a, b int) int {
		srcA, toA := way(a)
		srcB, toB := way(b)
		return cmp.Or(cmp.Compare(srcA, srcB), cmp.Compare(toA, toB))
	})
	for len(wan) > 0 {
		src, to := way(wan[0])
		n := slices.IndexFunc(wan, func(i int) bool { s, t := way(i); return s != src || t != to })
		if n < 0 {
			n = len(wan)
		}
		d.deal(wan[:n], to)
		wan = wan[n:]
	}
}

// deal is even for the moves of one host to pool k.
func (d *scheduler) deal(moves []int, k int) {
	var hosts []int // of pool k, in the order in which they get something
	var before []int64
	for _, i := range moves {
		m := d.moves[i]
		at := slices.Index(hosts, m.dst)
		if at < 0 {
			at, hosts, before = len(hosts), append(hosts, m.dst), append(before, 0)
		}
		before[at] += d.strands[m.strand].bytes
	}
	if len(hosts) < 2 {
		return
	}
	sorted := slices.Clone(moves)
	slices.SortStableFunc(sorted, func(a, b int) int {
		return cmp.Compare(d.strands[d.moves[b].strand].bytes, d.strands[d.moves[a].strand].bytes)
	})
	after, dst := make([]int64, len(hosts)), make([]int, len(sorted))
	for j, i := range sorted {
		m := d.moves[i]
		at := slices.Index(hosts, m.dst)
		for h := range hosts {
			if after[h] < after[at] && d.hands(m.strand, k, hosts[h]) {
				at = h
			}
		}
		after[at] += d.strands[m.strand].bytes
		dst[j] = hosts[at]
	}
	if slices.Max(after) >= slices.Max(before) {
		return
	}
	for j, i := range sorted {
		m := &d.moves[i]
		if !d.goesOn(m.strand, k) {
			d.exit[m.strand][k] = dst[j]
		}
		m.dst, d.host[m.strand][k] = dst[j], dst[j]
	}
}

// goesOn reports whether a strand leaves pool k for another one.
func (d *scheduler) goesOn(strand, k int) bool {
	return slices.Contains(d.strands[strand].tree.parent, k)
}

// hands reports whether host can have the host of pool k by which a strand goes on send it.
func (d *scheduler) hands(strand, k, host int) bool {
	exit := d.exit[strand][k]
	return !d.goesOn(strand, k) || exit == host || d.net.Ceiling[host*len(d.net.Pool)+exit] > 0
}
