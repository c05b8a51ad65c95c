package group

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// peerQueue is how many messages can wait for one host. Of an operation there is one for each
// site at most, and of operations that are small, and not over there, no more than its ranks have under way and [ahead].
const peerQueue = 1024

// A peer is another host of the group to which this one sends contributions. Its stream
// carries them one way.
type peer struct {
	host  string
	queue chan *message
	// full is closed when a message found no place: what is missing then can only be had again.
	full chan struct{}
}

// send queues a message. The caller holds the member's lock.
func (p *peer) send(msg message) {
	select {
	case p.queue <- &msg:
	default:
		select {
		case <-p.full:
		default:
			close(p.full)
		}
	}
}

// grow takes the group's tree, nil for none, and says which hosts this one sends to. The tree has
// passed check.
func (m *member) grow(t *Tree) {
	m.at = places(m.roster, m.hosts)
	m.self = slices.Index(m.hosts, m.g.cfg.Self)
	m.peers, m.siteRanks, m.ranksOf = make(map[int]*peer), make(map[int][]int), make([][]int, len(m.hosts))
	for r, h := range m.at {
		m.ranksOf[h] = append(m.ranksOf[h], r)
		if h == m.self {
			m.own = append(m.own, r)
		}
	}
	if m.tree = t; t == nil {
		return
	}
	for r, h := range m.at {
		m.siteRanks[t.Leaders[h]] = append(m.siteRanks[t.Leaders[h]], r)
	}
	to := []int{t.Leaders[m.self]}
	if m.inRounds() {
		to = nil
		m.arrange(t)
		for _, r := range m.rounds {
			to = append(to, m.hostAt(m.self, r.distance))
		}
	} else if t.Leaders[m.self] == m.self {
		for h, l := range t.Leaders {
			switch {
			case h == m.self:
			case l == m.self:
				m.led = append(m.led, h)
			case l == h:
				m.leaders = append(m.leaders, h)
			}
		}
		to = slices.Concat(m.leaders, m.led)
		m.passings = t.passings(m.self)
	}
	for _, h := range to {
		m.peerLocked(h) // which nobody else has yet
	}
}

// feed sends what is queued for p until the group is over for this host, what is queued by then
// included, and stays until p has read it. What a stream that breaks had taken may be lost: it goes again
// by way of the coordinator, as does all that follows.
func (m *member) feed(p *peer) {
	var log sentLog
	c, err := m.openPeer(p.host)
	if err != nil {
		m.g.log.Debug("contributions go by way of the coordinator", "group", m.id, "peer", p.host, "err", err)
	} else {
		defer c.Close()
		defer context.AfterFunc(m.ctx, c.Abort)() // a group that has failed waits for no window
	}
	deliver := func(msg message) {
		if err != nil {
			m.relay(p.host, msg)
			return
		}
		if msg.Kind == kindItems {
			log.forget(m.overEverywhere())
			log.add(msg)
		}
		if err = c.Send(msg); err == nil {
			return
		}
		m.g.log.Debug("contributions go by way of the coordinator", "group", m.id, "peer", p.host, "err", err)
		for _, old := range log.all() {
			m.relay(p.host, old)
		}
		log = sentLog{}
	}
	beat := time.NewTicker(beatPause)
	defer beat.Stop()
	for {
		select {
		case msg := <-p.queue:
			deliver(*msg)
		case <-beat.C: // the connection would else end after a time without words
			if err == nil {
				deliver(message{Kind: kindBeat})
			}
		case <-p.full:
			m.alarm(message{Kind: kindBroken, Cause: "contributions for host " + p.host + " found no place"})
			return
		case <-m.leaving:
			for {
				select {
				case msg := <-p.queue:
					deliver(*msg)
					continue
				default:
				}
				break
			}
			if err == nil && c.finish() != nil {
				for _, old := range log.all() { // nobody is here to send it when somebody misses it
					m.relay(p.host, old)
				}
			}
			return
		case <-m.ctx.Done():
			return
		}
	}
}

func (m *member) openPeer(host string) (*streamConn, error) {
	ctx, cancel := context.WithTimeout(m.ctx, attachTimeout)
	defer cancel()
	s, err := m.g.cfg.Open(ctx, host)
	if err != nil {
		return nil, err
	}
	c := newStreamConn(s)
	c.brief = m.tree.brief()
	if err := c.Send(message{Kind: kindPeer, Group: m.id}); err != nil {
		c.Abort()
		return nil, err
	}
	return c, nil
}

// relay sends a message for another member to the coordinator.
func (m *member) relay(to string, msg message) {
	if msg.Kind == kindItems {
		msg.Kind, msg.Host = kindRelay, to
		m.say(msg)
	}
}

// servePeer reads what the member on host sends of small operations, until its stream or the
// group ends. A stream that its sender has ended is ended in turn, which says that all was read; any other end
// says that it may not have been.
func (g *Groups) servePeer(host string, id ID, c conn) {
	m := g.awaitMember(id)
	if m == nil {
		c.Abort()
		return
	}
	over := context.AfterFunc(m.ctx, c.Abort)
	if m.hear(host, c) && over() {
		c.Close()
		return
	}
	c.Abort()
	over()
}

// hear takes what the member on host sends. It reports whether that member had no more to say.
func (m *member) hear(host string, c conn) bool {
	for {
		msg, err := c.Recv()
		switch {
		case err != nil:
			return errors.Is(err, io.EOF) // else what is missing comes by way of the coordinator
		case msg.Kind == kindBeat:
		case msg.Kind == kindItems:
			if err := m.items(host, &msg); err != nil {
				m.alarm(message{Kind: kindBroken, Seq: msg.Seq, Cause: err.Error()})
				return false
			}
		default:
			m.alarm(message{Kind: kindBroken, Cause: "unexpected message " + string(msg.Kind) + " from the member on host " + host})
			return false
		}
	}
}

// awaitMember returns this host's member of a group. It may come later than what another
// host sends, which has heard sooner that the group has formed. It is nil if it does not come, or
// if too many wait.
func (g *Groups) awaitMember(id ID) *member {
	limit := time.NewTimer(attachTimeout)
	defer limit.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.awaiting++
	defer func() { g.awaiting-- }()
	for {
		m := g.members[id]
		if m != nil || g.closed || g.awaiting > maxEarly {
			return m
		}
		entered, late := g.entered, false
		g.mu.Unlock()
		select {
		case <-entered:
		case <-limit.C:
			late = true
		case <-g.ctx.Done():
			late = true
		}
		g.mu.Lock()
		if late {
			return nil
		}
	}
}
