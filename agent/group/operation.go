package group

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// maxPending bounds the operations of which not all ranks, or hosts, have told. Who is slow only never gets so far: a host's words lag by those
// that are not confirmed and those that wait there, and other ranks are ahead of what its ranks have begun by what they have under way.
const maxPending = 1024

const _ uint = maxPending - (maxSaid + 2*memberRoom + maxLazy + 4*MaxUnderWay) // it is more

// startBytes is about what the word to begin takes on the way where it says no more, in bytes.
const startBytes = 140

// A plannedOp is what came of planning operation seq.
type plannedOp struct {
	seq     uint64
	parts   [][]byte
	columns [][]byte // alltoall: by host, what its ranks get from each rank
	number  uint64   // of the plan, if it may be kept
	request Request  // that it was made for, likewise
	info    Planned
	err     error
}

// A pending operation collects what the ranks want.
type pending struct {
	ready   map[int]message // by rank
	given   int             // the first rank that brought a plan, -1 if none has
	even    int             // the first rank of an alltoall without sizes, -1 if there is none
	table   int             // bytes of all rows of sizes
	eager   int             // ranks whose contributions travel by the tree
	hops    int             // and those of them whose blocks go in hops: then all do, or no host gets all
	started bool
	fetch   int                  // the rank whose plan is awaited, -1 if none is
	done    map[string]time.Time // when each host that has finished did, by the coordinator's clock
	begun   time.Time            // when all hosts begin; zero before it is planned
	info    Planned
	standing
}

func newPending() *pending {
	return &pending{
		ready: make(map[int]message), given: -1, even: -1, fetch: -1, done: make(map[string]time.Time),
		standing: standing{with: make(map[string]uint64), called: make(map[string]time.Time)},
	}
}

// ready takes what a rank wants of its next operation. The last rank starts it.
func (c *coordinator) ready(ctx context.Context, host string, m message) {
	op := c.ops[m.Seq]
	if op == nil {
		op = newPending()
		c.ops[m.Seq] = op
	}
	if op.started || op.ready[m.Rank].Kind != "" || m.Size < 0 || len(c.ops) > maxPending {
		c.fail(&Failure{Kind: Internal, Rank: -1, Host: host, Cause: fmt.Sprintf("rank %d: operation %d is out of order", m.Rank, m.Seq)})
		return
	}
	if cause := c.disagreement(op, m); cause != "" {
		c.fail(&Failure{Kind: Mismatch, Rank: m.Rank, Host: host, Cause: cause})
		return
	}
	if err := c.tabled(op, m); err != nil {
		c.fail(&Failure{Kind: Internal, Rank: m.Rank, Host: host, Cause: err.Error()})
		return
	}
	op.ready[m.Rank] = m
	c.foreseen(op, host, &m)
	if m.Eager {
		op.eager++
		if m.Hop != 0 {
			op.hops++
		}
	}
	if m.Plan != "" && op.given < 0 {
		op.given = m.Rank
	}
	if m.Even && op.even < 0 {
		op.even = m.Rank
	}
	for r := range c.left {
		if op.ready[r].Kind == "" {
			c.failLeft(r)
			return
		}
	}
	if len(op.ready) < len(c.roster) {
		return
	}
	op.started = true
	switch {
	case op.eager == len(c.roster) && (op.hops == 0 || op.hops == op.eager):
		delete(c.ops, m.Seq) // every host completes it by itself
		c.allSmall(ctx, m.Seq, op)
	case m.Collective == Barrier:
		c.planned(&plannedOp{seq: m.Seq, parts: make([][]byte, len(c.hosts)), info: Planned{Algorithm: string(Barrier)}})
	case op.given < 0:
		if c.goOn(m.Seq, op); !op.checked {
			c.plan(ctx, m.Seq, op, nil)
		}
	default:
		c.fetchPlan(m.Seq, op)
	}
}

// tabled checks what a rank of an alltoall sends, and that there is room to keep it.
func (c *coordinator) tabled(op *pending, m message) error {
	if m.Collective != plan.Alltoall {
		return nil
	}
	total, err := checkRow(m.Rows, len(c.roster))
	switch {
	case err != nil || len(c.roster) > maxAlltoall:
		return fmt.Errorf("rank %d: %w", m.Rank, errRow)
	case total != m.Size:
		return fmt.Errorf("rank %d has %d bytes in blocks of %d bytes", m.Rank, m.Size, total)
	}
	if op.table += len(m.Rows); op.table > maxTable {
		return fmt.Errorf("the sizes of the blocks of %d ranks take more than %d bytes: let more of them be equal, or take fewer ranks", len(c.roster), maxTable)
	}
	return nil
}

// fetchPlan asks for the plan that ranks have brought: one at this host, if it has, so that
// the plan crosses no network.
func (c *coordinator) fetchPlan(seq uint64, op *pending) {
	op.fetch = op.given
	for r, h := range c.roster {
		if h == c.g.cfg.Self && op.ready[r].Plan != "" {
			op.fetch = r
			break
		}
	}
	host := c.roster[op.fetch]
	b := c.boxes[host]
	if b == nil {
		c.hostLost(host, "its agent is not attached")
		return
	}
	b.send(message{Kind: kindFetch, Seq: seq, Rank: op.fetch})
}

// fetched takes the plan that was asked for.
func (c *coordinator) fetched(ctx context.Context, host string, m message) {
	op := c.ops[m.Seq]
	if op == nil || op.fetch != m.Rank || len(m.Part) > MaxPlan || digest(m.Part) != op.ready[m.Rank].Plan {
		c.fail(&Failure{Kind: Internal, Rank: -1, Host: host, Cause: fmt.Sprintf("rank %d: sent a plan that was not asked for, or another than it had said", m.Rank)})
		return
	}
	op.fetch = -1
	c.plan(ctx, m.Seq, op, m.Part)
}

// plannedAs is what c is planned as.
func plannedAs(c plan.Collective) plan.Collective {
	if c == Broadcast {
		return plan.Allgather // in which one host has bytes
	}
	return c
}

// plan has the operation planned in a goroutine of its own: it may wait for the map. given
// is the plan that the ranks have brought, nil for none.
func (c *coordinator) plan(ctx context.Context, seq uint64, op *pending, given []byte) {
	first := op.ready[0]
	req := Request{
		Group: c.id, Seq: seq, Collective: plannedAs(first.Collective), Hosts: c.hosts,
		Algorithm: first.Algorithm, Options: first.Options, Plan: given,
	}
	at := places(c.roster, c.hosts)
	var rows [][]byte
	if req.Collective == plan.Alltoall {
		for r := range c.roster {
			rows = append(rows, op.ready[r].Rows)
		}
	} else {
		req.Sizes = make([]int64, len(c.hosts))
		for r, m := range op.ready {
			req.Sizes[at[r]] += m.Size
		}
	}
	keep, all := op.keep == len(c.roster), op.kind
	c.g.start(func() {
		p := &plannedOp{seq: seq}
		if rows != nil {
			p.columns, req.Matrix, p.err = cross(rows, at, len(c.hosts))
		}
		if p.err == nil {
			p.parts, p.info, p.err = c.g.cfg.Plan(ctx, req)
		}
		if keep {
			p.request = req
		}
		if p.err == nil && keep {
			p.number = c.g.number(all, p.parts, p.columns)
		}
		c.post(coordEvent{planned: p})
	})
}

func (c *coordinator) planned(p *plannedOp) {
	op := c.ops[p.seq]
	switch {
	case op.sure != nil:
		c.checked(op, p)
		return
	case p.err == nil:
	case op.given >= 0:
		c.fail(&Failure{Kind: RankFailed, Rank: op.given, Host: c.roster[op.given], Cause: bounded("its plan: " + p.err.Error())})
		return
	default:
		c.fail(&Failure{Kind: Internal, Rank: -1, Host: c.g.cfg.Self, Cause: "planning: " + p.err.Error()})
		return
	}
	start := message{Kind: kindStart, Seq: p.seq, Collective: op.ready[0].Collective, Info: &p.info}
	if start.Collective == Barrier {
		start.Info = nil // a short word: it goes to each host through one port
	}
	if start.Collective == plan.Allgather || start.Collective == Broadcast {
		start.Sizes = make([]int64, len(c.roster))
		for r := range start.Sizes {
			start.Sizes[r] = op.ready[r].Size
		}
	}
	c.stands(op, p, &start)
	holds := c.holds(op.ready[0].Options.Together)
	op.info, op.begun = p.info, time.Now().Add(slices.Max(holds))
	for i, h := range c.hosts {
		b := c.boxes[h]
		if b == nil {
			c.hostLost(h, "its agent is not attached")
			return
		}
		start.Part, start.Hold = p.parts[i], holds[i]
		if start.Collective == Barrier && !op.ready[0].Options.Together {
			start.Hold = 0 // nothing follows that would stand before the others' words
		}
		if p.columns != nil {
			start.Rows = p.columns[i]
		}
		b.send(start)
	}
	c.g.log.Debug("operation started", "group", c.id, "seq", p.seq, "collective", string(start.Collective), "algorithm", p.info.Algorithm, "hosts", len(c.hosts))
}

// done notes that host has finished an operation. One that it had begun before the coordinator's word may be over there before the others have called here.
func (c *coordinator) done(host string, m *message) {
	op := c.ops[m.Seq]
	if op == nil || op.begun.IsZero() && op.with[host] == 0 {
		return
	}
	op.done[host] = c.when(host, m)
	c.conclude(m.Seq, op)
}

// when says when a host did what it says that it did, by the coordinator's clock.
func (c *coordinator) when(host string, m *message) time.Time {
	at := time.Now().Add(-min(max(m.Ago, 0), maxAgo))
	if host != c.g.cfg.Self {
		at = at.Add(-c.g.cfg.Latency(host))
	}
	return at
}

// conclude ends an operation if it is over at all hosts.
func (c *coordinator) conclude(seq uint64, op *pending) {
	if len(op.done) < len(c.hosts) || op.begun.IsZero() || op.sure != nil && !op.checked {
		return
	}
	var elapsed time.Duration
	for _, at := range op.done {
		elapsed = max(elapsed, at.Sub(op.begun))
	}
	delete(c.ops, seq)
	if op.sure != nil && op.number != 0 {
		c.tried(op, elapsed)
	}
	if op.number != 0 {
		c.g.shelf.know(known{kind: op.kind, number: op.number, info: op.info})
	}
	if f := c.g.cfg.Finished; f != nil && op.ready[0].Collective != Barrier {
		f(Finished{
			Group: c.id, Seq: seq, Collective: plannedAs(op.ready[0].Collective), Planned: op.info, Hosts: c.hosts, Stale: op.stale,
			Elapsed: elapsed, Spread: op.spread, Ended: op.begun.Add(elapsed),
		})
	}
}

// holds says how long each host waits with its first byte, so that all hosts begin at
// about the same time: when the start message has reached the farthest.
//
// Begun at once, the data of the hosts near the coordinator fills the queue of the site's
// link while the start messages for the other sites still stand before it. Those that
// were dropped there came up to 2.6 s late (grid of 8 + 4 + 8 hosts, 1.25 Mbit/s).
//
// If they are to begin together to what can be known, that words leave one port and share the ways to other sites counts as well.
func (c *coordinator) holds(together bool) []time.Duration {
	holds := make([]time.Duration, len(c.hosts))
	var far, port time.Duration
	ways := make(map[string]time.Duration)
	for i, h := range c.hosts {
		if h != c.g.cfg.Self {
			holds[i] = min(c.g.cfg.Latency(h), maxHold)
		}
		if together && h != c.g.cfg.Self {
			port += c.tree.takes(startBytes)
			holds[i] += port
			if c.g.cfg.Way != nil {
				if w := c.g.cfg.Way(h); w.Rate > 0 {
					ways[w.Site] += time.Duration(startBytes / w.Rate * 1e9)
					holds[i] += max(ways[w.Site]-port, 0)
				}
			}
			holds[i] = min(holds[i], maxHold)
		}
		far = max(far, holds[i])
	}
	for i := range holds {
		holds[i] = far - holds[i]
	}
	return holds
}
