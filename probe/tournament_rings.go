package probe

import (
	"cmp"
	"slices"
)

// ringSeed names the order of a ring in a round. The rings do not change together.
func ringSeed(round int64, ring int) uint64 {
	era := (round + int64(ring)*ringLife/rings) / ringLife
	return uint64(era)*rings + uint64(ring) + 1 // 0 is the order of the players
}

// ringMeeting returns whom the host of this rank, of n, meets in a colour of its ring. Neighbours
// meet in colour 0 or 1, by the parity of the first; where the ring is odd its last and first in 2.
func ringMeeting(before, after string, rank, n, colour int) string {
	of := func(i int) int { // the colour of host i and the next
		if i == n-1 && n%2 == 1 {
			return 2
		}
		return i % 2
	}
	switch colour {
	case of(rank):
		return after
	case of((rank + n - 1) % n):
		return before
	}
	return ""
}

// neighbours returns who stands before and after host in the ring of names that the seed
// orders (see shuffled), and how many stand before it.
func neighbours(names []string, host string, seed uint64) (before, after string, rank int) {
	own := marked{mix(host, seed), host}
	least, most := own, own
	prev, next := own, own
	for _, n := range names {
		m := marked{mix(n, seed), n}
		if m.less(least) {
			least = m
		}
		if most.less(m) {
			most = m
		}
		switch {
		case m.less(own):
			rank++
			if prev == own || prev.less(m) {
				prev = m
			}
		case own.less(m) && (next == own || m.less(next)):
			next = m
		}
	}
	if prev == own {
		prev = most
	}
	if next == own {
		next = least
	}
	return prev.name, next.name, rank
}

// A marked name has a place among others by its hash.
type marked struct {
	mark uint64
	name string
}

func (a marked) less(b marked) bool { return a.mark < b.mark || a.mark == b.mark && a.name < b.name }

// shuffled returns the names in an order that the seed decides, each name's place by
// itself: who comes or goes moves nobody else.
func shuffled(names []string, seed uint64) []string {
	ms := make([]marked, len(names))
	for i, n := range names {
		ms[i] = marked{mix(n, seed), n}
	}
	slices.SortFunc(ms, func(a, b marked) int {
		return cmp.Or(cmp.Compare(a.mark, b.mark), cmp.Compare(a.name, b.name))
	})
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.name
	}
	return out
}

// mix hashes a name with a seed: FNV-1a, and the finaliser of SplitMix64, since FNV leaves
// the high bits of like names alike. All agents must agree on it.
func mix(name string, seed uint64) uint64 {
	x := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		x = (x ^ uint64(name[i])) * 0x100000001b3
	}
	x += seed * 0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
