package group

import (
	"math/bits"
	"slices"
)

// In a group inside one site small contributions go in rounds (Hensgen, Finkel & Manber, Two algorithms for barrier synchronization, 1988; Bruck et al., Efficient
// algorithms for all-to-all communications in multiport message-passing systems, 1997): in each round a host sends to another one, as far behind it in the order of the
// hosts for all of them, what it has and that one has not, as soon as it has all of that. After ⌈log₂ n⌉ rounds each host has all, each item came once, and no host sends or gets more than another.
// By way of a leader it takes two steps, and its port carries everything n times: of 24 hosts with 5 Mbit/s that took 19 ms of 8 bytes.
//
// The papers' rounds go to the nearest host first, and in the last one, which has half of all bytes, everybody sends to the farthest. Here they go half way round first, then half as far, rounded up ([Tree.FarFirst]): hosts
// that follow one another often hang at one switch, and of 32 on four switches the first two rounds alone cross all cables, with a block or two. As many messages and bytes as before,
// of which a third cross a cable.

// A round is what each host does in one.
type round struct {
	distance int   // to the host that it sends to
	behind   []int // whose contributions: of the hosts so far behind it, itself 0; ascending
}

// roundsOf returns the rounds of n hosts.
func roundsOf(n int) []round {
	distances := make([]int, bits.Len(uint(n-1)))
	half := n
	for k := range distances {
		half = (half + 1) / 2
		distances[k] = half
	}
	return roundsOver(n, distances)
}

// roundsOver returns the rounds of n hosts in which each sends so far, one after the other.
func roundsOver(n int, distances []int) []round {
	held := make([]bool, n)
	held[0] = true
	out := make([]round, len(distances))
	for k, distance := range distances {
		r := round{distance: distance}
		for b := range n {
			if held[b] && !held[(b+distance)%n] {
				r.behind = append(r.behind, b)
			}
		}
		for _, b := range r.behind {
			held[(b+distance)%n] = true
		}
		out[k] = r
	}
	return out
}

// An eager's round is the next one of this host; what it sends in it follows from what is here, so that nothing need come in order.

// inRounds reports whether contributions go in rounds, but for those that go straight.
func (m *member) inRounds() bool { return m.tree.Rounds > 0 }

// arrange sets the order of the hosts, and their rounds.
func (m *member) arrange(t *Tree) {
	n := len(m.hosts)
	m.order, m.place = t.Order, make([]int, n)
	if len(m.order) == 0 {
		m.order = make([]int, n)
		for i := range m.order {
			m.order[i] = i
		}
	}
	for i, h := range m.order {
		m.place[h] = i
	}
	m.rounds = roundsOf(n)
}

// hostAt names the host d behind another one, in the order of the hosts, of which the first follows the last.
func (m *member) hostAt(from, d int) int {
	n := len(m.hosts)
	return m.order[((m.place[from]+d)%n+n)%n]
}

// distance says how far a host is behind another one.
func (m *member) distance(from, to int) int {
	n := len(m.hosts)
	return (m.place[to] - m.place[from] + n) % n
}

// RoundsLoad returns how many contributions the fullest of links carries, each from one host, when all hosts give one and it goes in rounds, farthest first: path lists the links
// from one place in the order of the n hosts to another, numbered from 0 to links-1.
func RoundsLoad(n, links int, path func(from, to int) []int) int {
	load := make([]int, links)
	for _, r := range roundsOf(n) {
		for i := range n {
			for _, l := range path(i, (i+r.distance)%n) {
				load[l] += len(r.behind)
			}
		}
	}
	return slices.Max(append(load, 0))
}

// mayTellInRounds is [member.mayTell] for what does not go straight.
func (m *member) mayTellInRounds(from, of int) bool {
	for _, r := range m.rounds {
		if r.distance == m.distance(from, m.self) {
			_, ok := slices.BinarySearch(r.behind, m.distance(of, from))
			return ok
		}
	}
	return false
}

// nextRounds sends what there is to send of operation seq. The caller holds m.mu.
func (m *member) nextRounds(e *eager, seq uint64) {
	for ; e.round < len(m.rounds); e.round++ {
		r := m.rounds[e.round]
		for ; e.run < len(r.behind); e.run++ {
			if !e.holds(m.ranksOf[m.hostAt(m.self, -r.behind[e.run])]) {
				return
			}
		}
		e.run = 0
		var ranks []int
		for _, b := range r.behind {
			ranks = append(ranks, m.ranksOf[m.hostAt(m.self, -b)]...)
		}
		m.sendItems(e, seq, ranks, []int{m.hostAt(m.self, r.distance)})
	}
}
