package group

import (
	"fmt"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Inside one site a leader's port is where small operations wait: of an allgather of eight ranks it sends what all give seven times. So what is more than
// travels by the tree, and still little ([Tree.Straight]), goes straight: from each host to each of the others, and of an alltoall only what is for the ranks
// there. That is one way in place of two, each port carries what it has to and no more, and nobody waits for the coordinator. It is another message for each pair
// of hosts, so what is very small goes by the tree.
//
// Between sites alltoalls go so whose blocks are larger than half of what a message takes beside them, and small enough to be there sooner than a coordinator's word.
//
// How an item travels is said in it: its own host decides by its size, and a leader passes on what is not straight.

// messageTime is about the CPU time that it takes a host to send a message and to get one, and messageBytes what headers and acknowledgements of it take on the wire. The 552 messages of an
// alltoall of 1 KiB between 24 hosts in a lab of two processors and 100 Mbit/s took 56 to 66 ms of them. What goes in hops by that and went straight with half of it took 0.4 to 0.8 of the time; with
// 200 µs it was 0.8 to 1.3.
const (
	messageTime  = 120 * time.Microsecond
	messageBytes = 250
)

// goesStraight reports whether what a rank contributes goes so, if it travels with the call.
func (m *member) goesStraight(ready *message) bool {
	return m.straightShare(ready.Collective) > 0 && ready.Size+int64(len(ready.Rows)) > m.passedShare(ready.Collective)
}

// passedShare is how many bytes of a rank travel by way of others: by the tree, or in rounds. In an alltoall all hosts get what is for one, so what can go
// straight does sooner.
func (m *member) passedShare(c plan.Collective) int64 {
	limit := m.tree.Limit
	switch {
	case m.tree.Straight == 0 && m.straightShare(c) > limit/int64(len(m.roster)): // between sites leaders send each other all blocks, so only those go by them that are less than half of what a message takes beside them
		return min(limit/int64(len(m.roster)), int64(len(m.hosts))*messageBytes/2)
	case !m.inRounds():
	case c == plan.Alltoall && m.straightShare(c) > 0:
		spared := float64(len(m.hosts) - 1 - len(m.rounds)) // messages
		limit = max(limit, min(m.tree.Rounds, int64(spared*(messageBytes+m.tree.Rate*messageTime.Seconds()))))
	default:
		limit = m.tree.Rounds
	}
	return limit / int64(len(m.roster))
}

// straightShare is how many bytes of a rank can go straight: so many that no host gets more than the tree says.
func (m *member) straightShare(c plan.Collective) int64 {
	switch c {
	case plan.Allgather:
		return m.tree.Straight / int64(len(m.roster))
	case plan.Alltoall:
		return max(m.tree.Straight, m.tree.Across)
	}
	return 0
}

// sendStraight queues for each other host what the ranks of this one, which are all there, give its ranks.
func (m *member) sendStraight(e *eager, seq uint64) {
	var own []item
	for _, r := range m.own {
		if it := e.items[r]; it.straight {
			own = append(own, it)
		}
	}
	if len(own) == 0 {
		return
	}
	msg := message{Kind: kindItems, Seq: seq, Collective: e.terms.Collective, Root: e.terms.Root, Past: e.past}
	same := e.terms.Collective == plan.Allgather
	if same {
		msg.Part = appendItems(nil, own)
	}
	for k := 1; k < len(m.hosts); k++ { // each host another one first
		h := (m.self + k) % len(m.hosts)
		p := m.peerLocked(h)
		if p == nil {
			return
		}
		bytes := payload(own)
		if !same {
			parts, err := m.partsFor(h, own)
			if err != nil { // it has been checked: see Rank.prepare
				e.spoiled = true
				return
			}
			msg.Part, bytes = appendItems(nil, parts), payload(parts)
		}
		e.sent[p.host] += bytes
		p.send(msg)
	}
}

// partsFor returns of each item what it has for the ranks on host h.
func (m *member) partsFor(h int, items []item) ([]item, error) {
	out := make([]item, len(items))
	for i, it := range items {
		sizes, err := readRows(it.rows, 1, len(m.roster))
		if err != nil {
			return nil, err
		}
		out[i] = it
		out[i].data = nil
		rest := it.data
		for d, size := range sizes[0] {
			if size > int64(len(rest)) {
				return nil, fmt.Errorf("rank %d: %w", it.rank, errRow)
			}
			switch own := rest[:size:size]; {
			case m.at[d] != h:
			case out[i].data == nil: // most hosts have one rank, and nothing is copied
				out[i].data = own
			default:
				out[i].data = append(out[i].data, own...)
			}
			rest = rest[size:]
		}
	}
	return out, nil
}

// peerLocked returns the peer on host h, whose stream is opened when something is first sent to it; nil where the group is over here.
func (m *member) peerLocked(h int) *peer {
	p := m.peers[h]
	if p == nil && !m.sealed {
		p = &peer{host: m.hosts[h], queue: make(chan *message, peerQueue), full: make(chan struct{})}
		m.peers[h] = p
		if m.feeding {
			m.feeds.Go(func() { m.feed(p) })
		}
	}
	return p
}

// feedAll begins to send to the peers that there are, and to those that are yet to come.
func (m *member) feedAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.feeding = true
	for _, p := range m.peers {
		m.feeds.Go(func() { m.feed(p) })
	}
}

// awaitFeeds returns when all is sent, or given up. No peer is added from then on.
func (m *member) awaitFeeds() {
	m.mu.Lock()
	m.sealed = true
	m.mu.Unlock()
	m.feeds.Wait()
}
