package group

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// attachTimeout is how long the coordinator waits for every host to attach.
const attachTimeout = 15 * time.Second

// A coordinator decides for one group: when an operation starts, and when a rank is
// lost. It runs on rank 0's host, in one goroutine that owns its state; conns'
// readers and the planner only send it events.
type coordinator struct {
	g      *Groups
	id     ID
	roster []string // host of each rank
	hosts  []string // in the order of their lowest rank
	early  []attached
	events chan coordEvent
	ended  chan struct{} // closed when run returns: events are no longer taken

	// Owned by run.
	boxes  map[string]*outbox
	gone   map[string]bool // hosts that have left in good order
	shown  int             // hosts that go by what they are shown, see message.Shown
	left   map[int]string  // ranks that have left, and why they had to
	ops    map[uint64]*pending
	failed *Failure
	late   bool     // no host can attach any more
	names  [32]byte // digest of the roster
	tree   *Tree    // of small operations; nil where there is none
	parked []parked
	recent recent
	offers offers
}

// A coordEvent is a new conn of a host (first), a message from it, its end (err), or a plan.
type coordEvent struct {
	host    string
	conn    conn
	first   bool
	shown   bool // of first: see message.Shown
	m       message
	err     error
	planned *plannedOp
	stale   []uint64 // standing plans that the planner would not make again
	small   *smallOver
	offer   *plannedOffer
}

func newCoordinator(g *Groups, formed message) *coordinator {
	return &coordinator{
		g: g, id: formed.Group, roster: formed.Hosts, hosts: uniqueHosts(formed.Hosts),
		events: make(chan coordEvent), ended: make(chan struct{}),
		boxes: make(map[string]*outbox), gone: make(map[string]bool),
		left: make(map[int]string), ops: make(map[uint64]*pending),
		names: namesOf(formed.Hosts), tree: formed.Tree,
	}
}

// places returns the index in hosts of each rank's host.
func places(roster, hosts []string) []int {
	index := make(map[string]int, len(hosts))
	for i, h := range hosts {
		index[h] = i
	}
	at := make([]int, len(roster))
	for r, h := range roster {
		at[r] = index[h]
	}
	return at
}

// uniqueHosts lists the hosts of a roster in the order of their lowest rank.
func uniqueHosts(roster []string) []string {
	var out []string
	seen := make(map[string]bool, len(roster))
	for _, h := range roster {
		if !seen[h] {
			seen[h] = true
			out = append(out, h)
		}
	}
	return out
}

// post hands an event to run, unless it has ended.
func (c *coordinator) post(e coordEvent) bool {
	select {
	case c.events <- e:
		return true
	case <-c.ended:
		return false
	}
}

// attach gives the coordinator a member's conn and reads it until it ends.
func (c *coordinator) attach(a attached) {
	if !c.post(coordEvent{host: a.host, conn: a.c, first: true, shown: a.shown}) {
		a.c.Abort()
		return
	}
	for {
		m, err := a.c.Recv()
		if !c.post(coordEvent{host: a.host, conn: a.c, m: m, err: err}) || err != nil {
			return
		}
	}
}

func (c *coordinator) run() {
	ctx, cancel := context.WithCancel(c.g.ctx)
	defer cancel()
	defer c.end()
	for _, a := range c.early {
		if !c.g.start(func() { c.attach(a) }) {
			a.c.Abort() // nobody would ever read it
		}
	}
	c.early = nil
	deadline := time.NewTimer(attachTimeout)
	defer deadline.Stop()
	reviews := time.NewTicker(reviewPause)
	defer reviews.Stop()
	for !c.finished() {
		select {
		case e := <-c.events:
			c.handle(ctx, e)
		case <-deadline.C:
			c.attachDeadline()
		case <-reviews.C:
			c.review(ctx)
		case <-ctx.Done():
			c.fail(stopped(c.g.cfg.Self))
			return
		}
	}
}

// finished reports whether no host has anything more to say or hear. A host that attaches
// after the group has failed is yet to be told: without its coordinator, it would find out
// that by silence, and give another reason than the others.
func (c *coordinator) finished() bool {
	if c.failed != nil {
		return c.late || len(c.boxes) == len(c.hosts)
	}
	return len(c.gone) == len(c.hosts)
}

// end lets what was sent arrive and forgets the group.
func (c *coordinator) end() {
	close(c.ended)
	for _, b := range c.boxes {
		b.finish()
	}
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	delete(c.g.coords, c.id)
	if c.failed != nil && c.g.over[c.id] == nil { // the member on this host may know better
		c.g.overLocked(c.id, c.failed)
	}
}

func (c *coordinator) attachDeadline() {
	c.late = true
	for _, h := range c.hosts {
		if c.boxes[h] == nil && !c.gone[h] {
			c.hostLost(h, "its agent did not report to the coordinator in time")
			return
		}
	}
}

func (c *coordinator) handle(ctx context.Context, e coordEvent) {
	switch {
	case e.first:
		if !slices.Contains(c.hosts, e.host) || c.boxes[e.host] != nil {
			e.conn.Abort() // no member of this group, or a second conn
			return
		}
		b := newOutbox(e.conn, outboxRoom, c.g.turn(e.host, 1))
		c.boxes[e.host] = b
		if e.shown {
			c.shown++
		}
		if !c.g.start(b.run) {
			e.conn.Abort()
		}
		if c.failed != nil {
			b.send(message{Kind: kindAbort, Failure: c.failed})
			return
		}
		c.unpark(e.host)
	case c.failed != nil:
		// The group is over, whatever they say.
	case e.stale != nil:
		c.recent.reviewed(c, e.stale)
	case e.planned != nil:
		c.planned(e.planned)
	case e.small != nil:
		c.smallOver(ctx, e.small)
	case e.offer != nil:
		c.offer(e.offer)
	case c.boxes[e.host] == nil || c.boxes[e.host].c != e.conn:
		// What was sent before its conn was refused may still come out of the conn's
		// buffer: it has no say.
	case e.err != nil:
		if !c.gone[e.host] {
			c.hostLost(e.host, "its agent cannot be reached ("+bounded(e.err.Error())+")")
		}
	default:
		c.message(ctx, e.host, e.m)
	}
}

func (c *coordinator) message(ctx context.Context, host string, m message) {
	if slices.Contains([]kind{kindReady, kindPlan, kindLost, kindLeft}, m.Kind) &&
		(m.Rank < 0 || m.Rank >= len(c.roster) || c.roster[m.Rank] != host) {
		c.fail(&Failure{Kind: Internal, Rank: -1, Host: host, Cause: fmt.Sprintf("spoke for rank %d, which is not there", m.Rank)})
		return
	}
	switch m.Kind {
	case kindBeat:
	case kindReady:
		c.ready(ctx, host, m)
	case kindPlan:
		c.fetched(ctx, host, m)
	case kindRelay:
		c.relay(host, m)
	case kindLost:
		c.fail(lost(host, m))
	case kindLeft:
		c.rankLeft(m.Rank, host, bounded(m.Cause))
	case kindDone:
		c.done(host, &m)
	case kindBroken:
		c.fail(&Failure{Kind: Internal, Rank: -1, Host: host, Cause: bounded(m.Cause)})
	default:
		c.fail(&Failure{Kind: Internal, Rank: -1, Host: host, Cause: fmt.Sprintf("unexpected message %q", m.Kind)})
	}
}

// lost is the failure that the member on host reports by m.
func lost(host string, m message) *Failure {
	f := &Failure{Kind: RankLost, Rank: m.Rank, Host: host, Cause: bounded(m.Cause)}
	if m.Failure != nil {
		switch k := m.Failure.Kind; k {
		case HostLost:
			return stopped(host)
		case Cancelled, RankFailed:
			f.Kind = k
		}
	}
	return f
}

// rankLeft notes a rank that has ended in good order, or because of cause. Others that
// still want to start something with it learn so.
func (c *coordinator) rankLeft(rank int, host, cause string) {
	c.left[rank] = cause
	for _, op := range c.ops {
		if !op.started && op.ready[rank].Kind == "" {
			c.failLeft(rank)
			return
		}
	}
	all := true
	for r, h := range c.roster {
		_, left := c.left[r]
		all = all && (h != host || left)
	}
	if all {
		c.gone[host] = true
	}
}

func (c *coordinator) failLeft(rank int) {
	f := &Failure{Kind: RankFailed, Rank: rank, Host: c.roster[rank], Cause: c.left[rank]}
	if f.Cause == "" {
		f.Kind, f.Cause = RankLost, "it has left the group"
	}
	c.fail(f)
}

// hostLost declares the ranks of a host lost; the lowest is named.
func (c *coordinator) hostLost(host, cause string) {
	if r := slices.Index(c.roster, host); r >= 0 {
		c.fail(&Failure{Kind: RankLost, Rank: r, Host: host, Cause: cause})
	}
}

// fail tells every host once; the group is over.
func (c *coordinator) fail(f *Failure) {
	if c.failed != nil {
		return
	}
	c.failed = f
	c.g.log.Info("group failed", "group", c.id, "err", f)
	for _, b := range c.boxes {
		b.send(message{Kind: kindAbort, Failure: f})
	}
}
