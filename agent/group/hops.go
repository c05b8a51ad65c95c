package group

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Small blocks of an alltoall inside one site go in hops (Bruck et al., Efficient algorithms for all-to-all communications in multiport message-passing systems,
// 1997): a block for the host that is d behind its own is passed on by 2^k in each round k whose bit d has, together with all others that a host has for
// that round. That is ⌈log₂ n⌉ messages of each host in place of n - 1, for which a block is sent as often as d has bits, about half as many times. Straight a
// message carries one block, and its headers and the CPU time for it are what small ones cost.
//
// All ranks have to give blocks of one size, so that what is in a message needs no words. One that gives sizes goes another way, and then no host gets all: the
// coordinator hears from each rank how it goes, and plans what not all do alike.

// hopsBlock is how large such a block is at most, in bytes.
const hopsBlock = 4 << 10

// HopsLimit is [Tree.Hops] for so many hosts of one site, each of which takes in rate bytes a second: as long as the bytes that go more than once take less than the messages that are spared.
func HopsLimit(hosts int, rate float64) int64 {
	more := 0 // blocks that a host sends in hops, and not straight
	for d := 1; d < hosts; d++ {
		more += bits.OnesCount(uint(d)) - 1
	}
	if more == 0 { // two hosts
		return 0
	}
	spared := float64(hosts - 1 - bits.Len(uint(hosts-1)))
	block := min(hopsBlock, spared*(messageBytes+rate*messageTime.Seconds())/float64(more))
	return min(maxHops, int64(block)*int64(hosts)*int64(hosts))
}

// inHops reports whether what a rank contributes goes so, if it travels with the call.
func (m *member) inHops(ready *message) bool {
	return ready.Collective == plan.Alltoall && ready.Even && m.tree.Hops > 0 && m.inRounds() && len(m.hosts) > 1 && ready.Size <= m.tree.Hops/int64(len(m.roster))
}

// hops is what is known of an alltoall in hops.
type hops struct {
	size  int64      // what each rank gives
	round int        // the next one of this host
	got   [][][]byte // what came in each round: pieces by the order of their distances; nil: nothing has
}

// sameSize reports whether each rank gives size bytes, which the first that is known to decides, and makes room for so many rounds.
func (h *hops) sameSize(rounds int, size int64) bool {
	if h.got == nil {
		h.got, h.size = make([][][]byte, rounds), size
	}
	return h.size == size
}

// A piece is the blocks of all ranks on one host for all ranks on another one, rank by rank.
type piece struct {
	distance int // from the first host to the other
	from, to int
	bytes    int64
}

// piecesOf lists what host h sends in round k, by distance, where each rank gives size bytes.
func (m *member) piecesOf(h, k int, size int64) (out []piece) {
	block := size / int64(len(m.roster))
	for d := 1 << k; d < len(m.hosts); d = (d + 1) | 1<<k {
		from := m.hostAt(h, -(d & (1<<k - 1)))
		to := m.hostAt(from, d)
		out = append(out, piece{d, from, to, block * int64(len(m.ranksOf[from])*len(m.ranksOf[to]))})
	}
	return out
}

// placeOf is where among the pieces of its last round before k that is which has distance d; round is negative where there is none.
func placeOf(d, k int) (round, place int) {
	round = bits.Len(uint(d&(1<<k-1))) - 1
	if round < 0 {
		return round, 0
	}
	return round, d>>(round+1)<<round | d&(1<<round-1)
}

// hopsLocked takes what the member on host from sends in a round.
func (m *member) hopsLocked(e *eager, from int, msg *message) error {
	k := msg.Hop - 1
	n := int64(len(m.roster))
	switch {
	case msg.Collective != plan.Alltoall || m.tree.Hops == 0 || !m.inRounds() || msg.Size < 0 || msg.Size > m.tree.Hops/n || msg.Size%n != 0:
		return fmt.Errorf("host %s sent blocks in hops that do not go so", m.hosts[from])
	case k < 0 || k >= len(m.rounds) || from != m.hostAt(m.self, -(1<<k)):
		return fmt.Errorf("host %s sent blocks of hop %d, which are not its to send", m.hosts[from], msg.Hop)
	}
	if !e.sameTerms(msg) || !e.hops.sameSize(len(m.rounds), msg.Size) {
		e.spoiled = true
		return nil
	}
	if e.hops.got[k] != nil {
		return nil // a second copy
	}
	pieces := m.piecesOf(from, k, msg.Size)
	got, rest := make([][]byte, len(pieces)), msg.Part
	for i, p := range pieces {
		if p.bytes > int64(len(rest)) {
			return fmt.Errorf("host %s sent %d bytes in hop %d, which are too few", m.hosts[from], len(msg.Part), msg.Hop)
		}
		got[i], rest = rest[:p.bytes:p.bytes], rest[p.bytes:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("host %s sent %d bytes in hop %d, which are too many", m.hosts[from], len(msg.Part), msg.Hop)
	}
	e.hops.got[k] = got
	return nil
}

// nextHops sends what there is to send of operation seq, and enters what the ranks of other hosts give those of this one when all of it is there. The caller holds m.mu.
func (m *member) nextHops(e *eager, seq uint64) {
	if !e.holds(m.own) || slices.ContainsFunc(m.own, func(r int) bool { return !e.items[r].hops }) {
		return
	}
	if slices.ContainsFunc(m.own, func(r int) bool { return !e.hops.sameSize(len(m.rounds), int64(len(e.items[r].data))) }) {
		e.spoiled = true // the coordinator says so
		return
	}
	for ; e.hops.round < len(m.rounds); e.hops.round++ {
		k := e.hops.round
		if k > 0 && e.hops.got[k-1] == nil {
			return
		}
		m.sendHop(e, seq, k)
	}
	if e.hops.got[len(m.rounds)-1] == nil {
		return
	}
	block := e.hops.size / int64(len(m.roster))
	rows := e.items[m.own[0]].rows
	for d := 1; d < len(m.hosts); d++ {
		round, place := placeOf(d, len(m.rounds))
		all := e.hops.got[round][place]
		each := block * int64(len(m.own))
		for _, r := range m.ranksOf[m.hostAt(m.self, -d)] {
			m.enterLocked(e, e.terms, item{rank: r, even: true, rows: rows, data: all[:each:each], straight: true})
			all = all[each:]
		}
	}
}

// sendHop queues what this host sends in round k.
func (m *member) sendHop(e *eager, seq uint64, k int) {
	to := m.hostAt(m.self, 1<<k)
	next := m.peerLocked(to)
	if next == nil {
		return
	}
	pieces := m.piecesOf(m.self, k, e.hops.size)
	block := e.hops.size / int64(len(m.roster))
	var bytes int64
	for _, p := range pieces {
		bytes += p.bytes
	}
	part := make([]byte, 0, bytes)
	for _, p := range pieces {
		if round, place := placeOf(p.distance, k); round >= 0 {
			part = append(part, e.hops.got[round][place]...)
			continue
		}
		for _, r := range m.own {
			for _, d := range m.ranksOf[p.to] {
				part = append(part, e.items[r].data[int64(d)*block:int64(d+1)*block]...)
			}
		}
	}
	e.sent[next.host] += bytes
	next.send(message{Kind: kindItems, Seq: seq, Collective: e.terms.Collective, Root: e.terms.Root, Past: e.past, Hop: k + 1, Size: e.hops.size, Part: part})
}
