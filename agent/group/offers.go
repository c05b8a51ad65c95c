package group

import (
	"context"
	"math"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Plans that are offered. A small allgather travels with its call because a plan costs a round trip to the coordinator. What comes
// again needs none: by a plan that stands (standing.go) each host's bytes go straight to where they are needed, over the links that are the
// shortest by the map, and do not wait at leaders for those of others. So when a small allgather between sites is over, its coordinator has a plan made, beside
// whatever runs, and offers it to all hosts for the same call later on (offered.go). If it is expected to be faster they begin by it, as
// by any plan that stands; until then, and where the sizes are others, the call travels as ever.
//
// Alltoalls likewise: those whose blocks go straight take the links between each two sites, however slow, and a plan goes round by others.
//
// All hosts must turn to the plan at the same call, or that one is planned anew, as for any hosts that disagree. So an offer names the first operation
// by it: one that no host can have begun when the offer arrives, as far as can be foreseen.

const (
	// offerWorth is what an offered plan may take at most by its model, as a part of what the call takes without. It may be more: what a host says to
	// another at once and is longer than a few packets goes at the pace of a congestion window, of which that knows nothing.
	offerWorth = 1.1
	// alltoallWorth is offerWorth for alltoalls: their plans have more transfers, each of which takes processors more time than a word does.
	alltoallWorth = 0.85
	// slowerWorth is what it may take in the mean of offerTries operations, likewise; else it is taken back, for as long as plans stand.
	slowerWorth = 1.15
	offerTries  = 4
	// offerSlack is added to how long an offer is on its way.
	offerSlack = 20 * time.Millisecond
	// maxOfferAhead bounds how many operations ahead the first one by an offer is.
	maxOfferAhead = 64
)

// A smallOver tells the coordinator of a small operation that is over at its own host.
type smallOver struct {
	seq        uint64
	collective plan.Collective // plan.Allgather or plan.Alltoall
	sizes      []int64         // by rank, of an allgather
	straight   bool            // blocks of an alltoall went straight from host to host
	took       time.Duration   // since the ranks of that host called: at most this
	at         time.Time
}

// A plannedOffer is what came of planning for it.
type plannedOffer struct {
	of      *smallOver
	without time.Duration // what the operation takes without it, as far as is known
	kind    callKind
	request Request
	rows    [][]byte // of an alltoall: what each rank gives
	columns [][]byte // of an alltoall: by host, what its ranks get
	parts   [][]byte
	info    Planned
	number  uint64
	err     error
}

// offers are what a coordinator knows of those in its group.
type offers struct {
	made   map[callKind]offered
	asking bool          // the planner
	last   *smallOver    // before the latest one
	latest *plannedOffer // that was made
	spans  map[uint64]smallSpan
}

// A smallSpan is what is known of a small operation, until both are.
type smallSpan struct {
	op     *pending   // what all ranks have asked for
	called time.Time  // with op: when the last one did
	over   *smallOver // at the coordinator's host
}

// maxSpans bounds them: more are not under way.
const maxSpans = 4 * MaxUnderWay

type offered struct {
	number uint64
	from   uint64 // the first operation by it
}

// An offer is a plan that a member keeps for operations from the one numbered from on.
type offer struct {
	from uint64
	kept kept
}

// keepsSmall reports whether what is planned for a small call can be kept where some other's is not small.
func (c *coordinator) keepsSmall(m *message) bool { return m.Eager && c.tree.offersFor(m.Collective) }

// kindOfSizes names the allgather to which the ranks give so much.
func (c *coordinator) kindOfSizes(sizes []int64) callKind {
	return kindOf(c.names, ranksUpTo(len(sizes)), func(r int) *message { return &message{Collective: plan.Allgather, Size: sizes[r]} })
}

func ranksUpTo(n int) []int {
	ranks := make([]int, n)
	for r := range ranks {
		ranks[r] = r
	}
	return ranks
}

// smallOver takes that a small operation is over here. What all ranks gave to an allgather is known then, and of an alltoall when their calls have been heard of.
func (c *coordinator) smallOver(ctx context.Context, s *smallOver) {
	c.span(ctx, s.seq, smallSpan{over: s})
	if s.collective != plan.Allgather {
		return
	}
	req := Request{Group: c.id, Seq: s.seq, Collective: s.collective, Hosts: c.hosts, Sizes: make([]int64, len(c.hosts)), Ahead: true}
	for r, h := range places(c.roster, c.hosts) {
		req.Sizes[h] += s.sizes[r]
	}
	if !req.shows() { // who gives nothing shows nobody that he has begun: hosts would wait for the coordinator's word
		return
	}
	c.askFor(ctx, &plannedOffer{of: s, without: s.took, kind: c.kindOfSizes(s.sizes), request: req})
}

// alltoallOver is the rest of smallOver for an alltoall, which took so long.
func (c *coordinator) alltoallOver(ctx context.Context, s *smallOver, op *pending, took time.Duration) {
	o := &plannedOffer{of: s, without: took, kind: op.kind, rows: make([][]byte, len(c.roster))}
	for r := range o.rows {
		o.rows[r] = op.ready[r].Rows
	}
	if !rowsShow(o.rows, places(c.roster, c.hosts)) {
		return
	}
	o.request = Request{Group: c.id, Seq: s.seq, Collective: s.collective, Hosts: c.hosts, Ahead: true}
	c.askFor(ctx, o)
}

// askFor has a plan made for what has just been over, if one is worth it.
func (c *coordinator) askFor(ctx context.Context, o *plannedOffer) {
	if made, ok := c.offers.made[o.kind]; ok && o.of.seq < made.from {
		c.sooner(o.of, made)
		return
	}
	if c.offers.asking {
		return
	}
	if !c.g.shelf.wantsOffer(c.looseOf(o.of.collective, 0), o.kind, o.of.at) {
		return
	}
	c.offers.asking = c.g.start(func() {
		if o.rows != nil {
			o.columns, o.request.Matrix, o.err = cross(o.rows, places(c.roster, c.hosts), len(c.hosts))
		}
		if o.err == nil {
			if c.g.cfg.Small != nil {
				o.without = max(o.without, c.g.cfg.Small(o.request, c.tree.Leaders, o.of.straight))
			}
			o.parts, o.info, o.err = c.g.cfg.Plan(ctx, o.request)
		}
		if o.err == nil {
			o.number = c.g.number(o.kind, o.parts, o.columns)
		}
		c.post(coordEvent{offer: o})
	})
}

// span notes what is known of the small operation seq.
func (c *coordinator) span(ctx context.Context, seq uint64, s smallSpan) {
	known := c.offers.spans[seq]
	if known.op == nil {
		known.op, known.called = s.op, s.called
	}
	if known.over == nil {
		known.over = s.over
	}
	if known.op == nil || known.over == nil {
		if c.offers.spans == nil || len(c.offers.spans) >= maxSpans {
			c.offers.spans = make(map[uint64]smallSpan)
		}
		c.offers.spans[seq] = known
		return
	}
	delete(c.offers.spans, seq)
	took := max(0, known.over.at.Sub(known.called))
	c.g.shelf.took(c.loose(known.op), known.op.kind, took)
	if known.over.collective == plan.Alltoall {
		c.alltoallOver(ctx, known.over, known.op, took)
	}
}

// allSmall notes when the last rank called of a small operation, of which all ranks have told.
func (c *coordinator) allSmall(ctx context.Context, seq uint64, op *pending) {
	if op.keep < len(c.roster) {
		return // nor is any plan offered
	}
	var last time.Time
	for _, at := range op.called {
		if at.After(last) {
			last = at
		}
	}
	c.span(ctx, seq, smallSpan{op: op, called: last})
}

// offer offers a plan to all hosts.
func (c *coordinator) offer(o *plannedOffer) {
	c.offers.asking = false
	last, of := c.offers.last, c.looseOf(o.of.collective, 0)
	c.offers.last = o.of
	worth := offerWorth
	if o.of.collective == plan.Alltoall {
		worth = alltoallWorth
	}
	switch {
	case o.err != nil || o.number == 0 || o.info.Predicted == 0 || float64(o.info.Predicted) > worth*float64(o.without):
		c.g.log.Debug("no plan is offered", "group", c.id, "seq", o.of.seq, "predicted", o.info.Predicted, "without", o.without, "err", o.err)
		c.g.shelf.pass(of, o.kind, time.Now().Add(reviewPause))
		return
	}
	c.g.shelf.atLeast(of, o.kind, o.without)
	if len(c.offers.made) >= maxKept {
		clear(c.offers.made)
	}
	c.sendOffer(o, c.firstBy(o.of, last))
	c.g.shelf.know(known{kind: o.kind, number: o.number, info: o.info})
	c.recent.note(o.kind, o.request, time.Now())
}

// sendOffer tells all hosts of an offer that is for operations from the one numbered from on.
func (c *coordinator) sendOffer(o *plannedOffer, from uint64) {
	word := message{Kind: kindOffer, Seq: from, Collective: o.of.collective, Sizes: o.of.sizes, Info: &o.info, Standing: o.number}
	word.Shown = true // the request shows, and whoever knows offers goes by that, also if he has yet to attach
	if c.offers.made == nil {
		c.offers.made = make(map[callKind]offered)
	}
	c.offers.made[o.kind] = offered{o.number, from}
	for i, h := range c.hosts {
		word.Part = o.parts[i]
		if o.rows != nil {
			word.Rows, word.Given = o.columns[i], nil
			for r, on := range c.roster {
				if on == h {
					word.Given = append(word.Given, o.rows[r])
				}
			}
		}
		switch b := c.boxes[h]; {
		case c.gone[h]:
		case b != nil:
			b.send(word)
		case len(c.parked) < peerQueue: // a small operation can be over before its host has attached
			c.parked = append(c.parked, parked{h, word})
		}
	}
	c.offers.latest = o
	c.g.log.Debug("plan offered", "group", c.id, "from", from, "algorithm", o.info.Algorithm, "predicted", o.info.Predicted, "without", o.without)
}

// sooner makes the latest offer once more, for an earlier operation, where that was for a later one than need be: of a first operation nobody knows how far it is from the next.
// Now s, another one of the kind, is over as well.
func (c *coordinator) sooner(s *smallOver, made offered) {
	if o := c.offers.latest; o != nil && o.number == made.number && s.seq > o.of.seq {
		if from := c.firstBy(s, o.of); from < made.from {
			c.sendOffer(o, from)
		}
	}
}

// firstBy is the first operation that no host will have begun when an offer arrives that is sent now, after s, and before that last; nil for none. Operations
// are as far apart as they were; of the first it is not known how long others waited for the ranks here, but that it took a way, and how many have been begun since.
func (c *coordinator) firstBy(s, last *smallOver) uint64 {
	begun := max(c.begunHere(), s.seq+1)
	apart := max(s.took, c.tree.Bound, time.Since(s.at)/time.Duration(begun-s.seq))
	if last != nil && s.seq > last.seq {
		apart = s.at.Sub(last.at) / time.Duration(s.seq-last.seq)
	}
	var far time.Duration
	for _, h := range c.hosts {
		if h == c.g.cfg.Self || c.gone[h] {
			continue
		}
		way := c.g.cfg.Latency(h)
		if c.boxes[h] == nil {
			way *= 3 // its word that it attaches is on its way
		}
		far = max(far, way)
	}
	ahead := math.Ceil(float64(far+offerSlack) / float64(max(apart, time.Millisecond)))
	return begun + uint64(min(ahead, maxOfferAhead))
}

// begunHere is how many operations the ranks of the coordinator's own host have begun.
func (c *coordinator) begunHere() uint64 {
	c.g.mu.Lock()
	m := c.g.members[c.id]
	c.g.mu.Unlock()
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begunLocked()
}

// recalled forgets an offer that is taken back.
func (o *offers) recalled(number uint64) {
	for kind, of := range o.made {
		if of.number == number {
			delete(o.made, kind)
		}
	}
	if o.latest != nil && o.latest.number == number {
		o.latest = nil
	}
}

// tried notes how long an operation took by a plan that stands. One that was offered and is slower than what it replaced is taken back.
func (c *coordinator) tried(op *pending, took time.Duration) {
	if c.g.shelf.tried(c.loose(op), op.kind, took, time.Now()) {
		c.g.log.Debug("an offered plan is slow", "group", c.id, "took", took)
		c.recall(op.number)
	}
}
