package group

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A standing is what the coordinator knows of the standing plan of an operation, see standing.go.
type standing struct {
	keep   int                  // ranks whose call can be kept
	with   map[string]uint64    // the plan with which each host has begun
	called map[string]time.Time // when the last rank so far of each host called, by the coordinator's clock
	kind   callKind             // of all ranks, once all have called; zero before
	number uint64               // of the plan that is to be kept, or that has been; 0: none

	sure    *known // all have begun with it; nil: the coordinator has planned
	checked bool   // with sure: the planner has said whether it would do the same again, or is about to say it of another operation
	stale   bool   // with sure: the planner would do something else
	spread  time.Duration
}

// foreseen notes what a rank's call says of standing plans.
func (c *coordinator) foreseen(op *pending, host string, m *message) {
	if m.Keep || c.keepsSmall(m) {
		op.keep++
	}
	if m.Begun != 0 {
		op.with[host] = m.Begun
	}
	op.called[host] = c.when(host, m)
	if op.keep == len(c.roster) {
		op.kind = kindOf(c.names, ranksUpTo(len(c.roster)), func(r int) *message { m := op.ready[r]; return &m })
	}
}

// loose names calls of op's kind, whatever their sizes.
func (c *coordinator) loose(op *pending) callKind {
	first := op.ready[0]
	return c.looseOf(first.Collective, first.Root)
}

func (c *coordinator) looseOf(collective plan.Collective, root int) callKind {
	return kindOf(c.names, []int{0}, func(int) *message { return &message{Collective: collective, Root: root} })
}

// goOn tells all hosts to go on, if all ranks have called and all hosts have begun with one plan. Each of them has kept it for what its ranks
// ask for, so it is one for what all do. Some may be through: that all have begun shows in what comes to them. So nothing else
// may become of the operation, even if the plan has been taken back or is not known here any more.
func (c *coordinator) goOn(seq uint64, op *pending) {
	if op.keep < len(c.roster) || len(op.with) < len(c.hosts) {
		return
	}
	number := op.with[c.hosts[0]]
	for _, h := range c.hosts {
		if op.with[h] != number || c.boxes[h] == nil {
			return
		}
	}
	k, ok := c.g.shelf.lookup(op.kind)
	if !ok || k.number != number {
		k = known{number: number}
	}
	var first, last time.Time
	for _, at := range op.called {
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	c.g.shelf.right(c.loose(op), op.kind)
	op.checked = c.asks(k.number)
	op.sure, op.number, op.spread = &k, k.number, last.Sub(first)
	if k.kind != op.kind {
		op.number = 0 // until the planner says that it is its own
	}
	op.info, op.begun = k.info, last
	op.info.Cached, op.info.Cost = true, 0
	word := message{Kind: kindGo, Seq: seq, Begun: k.number, Hold: max(0, time.Since(last))} // short: it goes to each host, over slow ports
	for _, h := range c.hosts {
		if op.done[h].IsZero() {
			c.boxes[h].send(word)
		}
	}
	c.g.log.Debug("operation goes on by a standing plan", "group", c.id, "seq", seq, "algorithm", op.info.Algorithm, "spread", op.spread)
}

// asks reports whether the planner is being asked about the standing plan number. It may wait for the map, and operations that go on by the
// plan meanwhile neither wait nor ask again.
func (c *coordinator) asks(number uint64) bool {
	for _, o := range c.ops {
		if o.sure != nil && o.sure.number == number && !o.checked {
			return true
		}
	}
	return false
}

// checked takes what the planner would do for an operation that goes on by a standing plan. If that is
// something else the plan stands no longer; this operation ends as it has begun.
func (c *coordinator) checked(op *pending, p *plannedOp) {
	op.checked = true
	c.recent.note(op.kind, p.request, time.Now())
	switch {
	case p.err != nil || p.number != op.sure.number:
		c.recall(op.sure.number)
	case op.sure.kind != op.kind: // it was not known here
		op.number, op.info = p.number, p.info
	}
	c.conclude(p.seq, op)
}

// stands says in the start message of an operation that was planned whether the plan is to be kept.
func (c *coordinator) stands(op *pending, p *plannedOp, start *message) {
	thought := slices.Compact(slices.Sorted(maps.Values(op.with)))
	for _, n := range thought {
		start.Begun = n // the last, if there are several: what comes for the others waits until it gives up
	}
	if op.keep < len(c.roster) {
		return
	}
	keep, wrong := c.g.shelf.planned(c.loose(op), op.kind, thought)
	for _, n := range wrong { // who began by it has given it up, and the others would wait for him
		c.recall(n)
	}
	if keep {
		op.number, start.Standing = p.number, p.number
		start.Shown = c.shown == len(c.hosts) && op.ready[0].Collective != Broadcast && p.request.shows()
		c.recent.note(op.kind, p.request, time.Now())
	}
}

// shows reports whether each host gets bytes of all others.
func (r *Request) shows() bool {
	if slices.Contains(r.Sizes, 0) {
		return false
	}
	for i, row := range r.Matrix {
		for j, n := range row {
			if i != j && n == 0 {
				return false
			}
		}
	}
	return true
}

// rowsShow is shows for an alltoall of ranks on such hosts to which each sends what its row says.
func rowsShow(rows [][]byte, hosts []int) bool {
	for s, b := range rows {
		r := runReader{b: b}
		for d := range hosts {
			if size, err := r.next(); err != nil || size == 0 && hosts[s] != hosts[d] {
				return false
			}
		}
	}
	return true
}

// recall takes a standing plan back, also from operations that go on by it.
func (c *coordinator) recall(number uint64) {
	c.g.shelf.withdraw(number)
	c.offers.recalled(number)
	c.parked = slices.DeleteFunc(c.parked, func(p parked) bool { return p.m.Kind == kindOffer && p.m.Standing == number })
	for _, op := range c.ops {
		if op.sure != nil && op.sure.number == number {
			op.number, op.stale = 0, true // it is not the planner's latest that took so long
		}
	}
	for _, b := range c.boxes {
		b.send(message{Kind: kindRecall, Begun: number})
	}
}

const (
	// reviewPause is how often a coordinator asks whether what it has last planned would be planned so again. Between an operation and
	// the next a link may fall, and the first one after that would begin by the plan of before.
	reviewPause = 5 * time.Second
	// maxRecent bounds the kinds of operations that it asks about.
	maxRecent = 8
)

// A recent is what a group's operations have asked for lately.
type recent struct {
	kinds  []recentKind // the latest last
	asking bool
}

type recentKind struct {
	kind    callKind
	request Request
	at      time.Time
}

// note notes that r was asked for.
func (r *recent) note(kind callKind, req Request, at time.Time) {
	r.kinds = slices.DeleteFunc(r.kinds, func(k recentKind) bool { return k.kind == kind || at.Sub(k.at) > standingTime })
	r.kinds = append(r.kinds, recentKind{kind, req, at})
	r.kinds = r.kinds[max(0, len(r.kinds)-maxRecent):]
}

// reviewed takes the standing plans that stand no longer.
func (r *recent) reviewed(c *coordinator, stale []uint64) {
	r.asking = false
	for _, n := range stale {
		c.recall(n)
	}
}

// review asks the planner about the plans that stand, in a goroutine of its own.
func (c *coordinator) review(ctx context.Context) {
	if c.g.cfg.Stands == nil || c.recent.asking || c.failed != nil {
		return
	}
	now := time.Now()
	var ask []recentKind
	for _, k := range c.recent.kinds {
		if now.Sub(k.at) <= standingTime && c.g.shelf.standing(k.kind) != 0 {
			ask = append(ask, k)
		}
	}
	if len(ask) == 0 {
		return
	}
	c.recent.asking = c.g.start(func() {
		stale := []uint64{}
		for _, k := range ask {
			if n := c.g.shelf.standing(k.kind); n != 0 && ctx.Err() == nil && !c.g.cfg.Stands(k.request) {
				stale = append(stale, n)
			}
		}
		c.post(coordEvent{stale: stale})
	})
}
