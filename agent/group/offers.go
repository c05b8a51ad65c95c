package group

import (
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Plans that are offered. A small allgather travels with its call because a plan costs a round trip to the coordinator. What comes
// again needs none: by a plan that stands (standing.go) each host's bytes go straight to where they are needed, over the links that are the
// shortest by the map, and do not wait at leaders for those of others. So when a small allgather between sites is over, its coordinator has a plan made, beside
// whatever runs, and offers it to all hosts for the same call later on. If it is expected to be faster they begin by it, as
// by any plan that stands; until then, and where the sizes are others, the call travels as ever.
//
// All hosts must turn to the plan at the same call, or that one is planned anew, as for any hosts that disagree. So an offer names the first operation
// by it: one that no host can have begun when the offer arrives, as far as can be foreseen.

const (
	// offerWorth is what an offered plan may take at most by its model, as a part of what the call takes without. It may be more: what a host says to
	// another at once and is longer than a few packets goes at the pace of a congestion window, of which that knows nothing.
	offerWorth = 1.1
	// slowerWorth is what it may take in the mean of offerTries operations, likewise; else it is taken back, for as long as plans stand.
	slowerWorth = 1.15
	offerTries  = 4
	// offerSlack is added to how long an offer is on its way.
	offerSlack = 20 * time.Millisecond
	// maxOfferAhead bounds how many operations ahead the first one by an offer is.
	maxOfferAhead = 64
)

// A smallOver tells the coordinator of a small allgather that is over at its own host.
type smallOver struct {
	seq   uint64
	sizes []int64       // by rank
	took  time.Duration // since the ranks of that host called: at most this
	at    time.Time
}

// A plannedOffer is what came of planning for it.
type plannedOffer struct {
	of      *smallOver
	without time.Duration // what the operation takes without it, as far as is known
	kind    callKind
	request Request
	parts   [][]byte
	info    Planned
	number  uint64
	err     error
}

// offers are what a coordinator knows of those in its group.
type offers struct {
	made   map[callKind]offered
	asking bool       // the planner
	last   *smallOver // before the latest one
	spans  map[uint64]smallSpan
}

// A smallSpan is what is known of how long a small allgather took, until both are.
type smallSpan struct {
	called, over time.Time // when the last rank called, and when it was over at the coordinator's host
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
func (c *coordinator) keepsSmall(m *message) bool {
	return m.Eager && m.Collective == plan.Allgather && c.tree != nil && c.tree.Offers
}

// kindOfSizes names the allgather to which the ranks give so much.
func (c *coordinator) kindOfSizes(sizes []int64) callKind {
	return kindOf(c.names, ranksUpTo(len(sizes)), func(r int) *message { return &message{Collective: plan.Allgather, Size: sizes[r]} })
}

// allgathers names allgathers of any sizes.
func (c *coordinator) allgathers() callKind { return c.looseOf(plan.Allgather, 0) }

func ranksUpTo(n int) []int {
	ranks := make([]int, n)
	for r := range ranks {
		ranks[r] = r
	}
	return ranks
}

// tell has the coordinator told of a small allgather that is over, if it is at this host.
func (m *member) tell(seq uint64, e *eager) {
	if m.tree == nil || !m.tree.Offers || m.roster[0] != m.g.cfg.Self || e.terms.Collective != plan.Allgather {
		return
	}
	now := time.Now()
	s := &smallOver{seq: seq, sizes: make([]int64, len(m.roster)), took: now.Sub(e.begun), at: now}
	for r, it := range e.items {
		s.sizes[r] = int64(len(it.data))
	}
	m.g.mu.Lock()
	c := m.g.coords[m.id]
	m.g.mu.Unlock()
	if c != nil {
		c.post(coordEvent{small: s})
	}
}

// smallOver has a plan made for what has just been over, if one is worth it.
func (c *coordinator) smallOver(ctx context.Context, s *smallOver) {
	kind := c.kindOfSizes(s.sizes)
	c.span(s.seq, kind, smallSpan{over: s.at})
	if o, ok := c.offers.made[kind]; ok && s.seq < o.from || c.offers.asking {
		return // it is on its way
	}
	req := Request{Group: c.id, Seq: s.seq, Collective: plan.Allgather, Hosts: c.hosts, Sizes: make([]int64, len(c.hosts)), Ahead: true}
	for r, h := range places(c.roster, c.hosts) {
		req.Sizes[h] += s.sizes[r]
	}
	if !req.shows() { // who gives nothing shows nobody that he has begun: hosts would wait for the coordinator's word
		return
	}
	if !c.g.shelf.wantsOffer(c.allgathers(), kind, s.at) {
		return
	}
	c.offers.asking = c.g.start(func() {
		o := &plannedOffer{of: s, without: s.took, kind: kind, request: req}
		if c.g.cfg.Small != nil {
			o.without = max(o.without, c.g.cfg.Small(c.hosts, c.tree.Leaders, req.Sizes))
		}
		if o.parts, o.info, o.err = c.g.cfg.Plan(ctx, req); o.err == nil {
			o.number = c.g.number(kind, o.parts, nil)
		}
		c.post(coordEvent{offer: o})
	})
}

// span notes what is known of how long the small allgather seq took, of that kind.
func (c *coordinator) span(seq uint64, kind callKind, s smallSpan) {
	known := c.offers.spans[seq]
	if known.called.IsZero() {
		known.called = s.called
	}
	if known.over.IsZero() {
		known.over = s.over
	}
	if known.called.IsZero() || known.over.IsZero() {
		if c.offers.spans == nil || len(c.offers.spans) >= maxSpans {
			c.offers.spans = make(map[uint64]smallSpan)
		}
		c.offers.spans[seq] = known
		return
	}
	delete(c.offers.spans, seq)
	c.g.shelf.took(c.allgathers(), kind, max(0, known.over.Sub(known.called)))
}

// allSmall notes when the last rank called of a small operation, of which all ranks have told.
func (c *coordinator) allSmall(seq uint64, op *pending) {
	if op.keep < len(c.roster) {
		return // nor is any plan offered
	}
	var last time.Time
	for _, at := range op.called {
		if at.After(last) {
			last = at
		}
	}
	c.span(seq, op.kind, smallSpan{called: last})
}

// offer offers a plan to all hosts.
func (c *coordinator) offer(o *plannedOffer) {
	c.offers.asking = false
	last := c.offers.last
	c.offers.last = o.of
	switch {
	case o.err != nil || o.number == 0 || o.info.Predicted == 0 || float64(o.info.Predicted) > offerWorth*float64(o.without):
		c.g.log.Debug("no plan is offered", "group", c.id, "seq", o.of.seq, "predicted", o.info.Predicted, "without", o.without, "err", o.err)
		c.g.shelf.pass(c.allgathers(), o.kind, time.Now().Add(reviewPause))
		return
	}
	c.g.shelf.atLeast(c.allgathers(), o.kind, o.without)
	word := message{Kind: kindOffer, Seq: c.firstBy(o.of, last), Collective: plan.Allgather, Sizes: o.of.sizes, Info: &o.info, Standing: o.number}
	word.Shown = true // the request shows, and whoever knows offers goes by that, also if he has yet to attach
	if len(c.offers.made) >= maxKept {
		clear(c.offers.made)
	}
	if c.offers.made == nil {
		c.offers.made = make(map[callKind]offered)
	}
	c.offers.made[o.kind] = offered{o.number, word.Seq}
	for i, h := range c.hosts {
		word.Part = o.parts[i]
		switch b := c.boxes[h]; {
		case c.gone[h]:
		case b != nil:
			b.send(word)
		case len(c.parked) < peerQueue: // a small operation can be over before its host has attached
			c.parked = append(c.parked, parked{h, word})
		}
	}
	c.g.shelf.know(known{kind: o.kind, number: o.number, info: o.info})
	c.recent.note(o.kind, o.request, time.Now())
	c.g.log.Debug("plan offered", "group", c.id, "from", word.Seq, "algorithm", o.info.Algorithm, "predicted", o.info.Predicted, "without", o.without)
}

// firstBy is the first operation that no host will have begun when an offer arrives that is sent now, after s, and before that last; nil for none. Operations
// are as far apart as they were; of the first it is not known how long others waited for the ranks here, but that it took a way.
func (c *coordinator) firstBy(s, last *smallOver) uint64 {
	apart := max(s.took, c.tree.Bound)
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
	return max(c.begunHere(), s.seq+1) + uint64(min(ahead, maxOfferAhead))
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
}

// tried notes how long an operation took by a plan that stands. One that was offered and is slower than what it replaced is taken back.
func (c *coordinator) tried(op *pending, took time.Duration) {
	if c.g.shelf.tried(c.loose(op), op.kind, took, time.Now()) {
		c.g.log.Debug("an offered plan is slow", "group", c.id, "took", took)
		c.recall(op.number)
	}
}

// offer keeps a plan that the coordinator offers.
func (m *member) offer(msg message) {
	if m.g.cfg.Restamp == nil || len(msg.Sizes) != len(m.roster) || msg.Standing == 0 || msg.Info == nil || msg.Collective != plan.Allgather {
		return
	}
	kind := kindOf(m.names, m.own, func(r int) *message { return &message{Collective: msg.Collective, Size: msg.Sizes[r]} })
	start := message{Kind: kindStart, Collective: msg.Collective, Sizes: msg.Sizes, Info: msg.Info, Part: msg.Part, Standing: msg.Standing, Shown: msg.Shown}
	k := kept{kind: kind, names: m.names, number: msg.Standing, from: m.roster[0], start: start, borne: time.Now(), took: msg.Info.Predicted}
	if k.bytes() > maxKeptPart {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offers = slices.DeleteFunc(m.offers, func(o offer) bool { return o.kept.kind == kind })
	if len(m.offers) < maxKept {
		m.offers = append(m.offers, offer{msg.Seq, k})
	}
}

// recalled forgets a plan that the coordinator takes back.
func (m *member) recalled(number uint64) {
	m.g.shelf.recall(m.roster[0], number)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offers = slices.DeleteFunc(m.offers, func(o offer) bool { return o.kept.number == number })
}

// offered reports whether the rank's next call, which is small, goes by a plan that stands.
func (r *Rank) offered(ready *message) bool {
	m := r.m
	if ready.Collective != plan.Allgather || m.tree == nil || !m.tree.Offers {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offers = slices.DeleteFunc(m.offers, func(o offer) bool {
		if r.next < o.from {
			return false
		}
		m.g.shelf.put(o.kept)
		return true
	})
	return m.g.shelf.serves(m.names, m.roster[0], r.rank, ready.Size, time.Now())
}

// hurries has probes stand back for an operation that begins or ends by a plan, if it is small.
func (m *member) hurries(start *message) {
	if start.Collective != plan.Allgather || m.tree == nil || !m.tree.Offers {
		return
	}
	total := int64(0)
	for _, n := range start.Sizes {
		total += n
	}
	if total <= m.tree.Limit {
		m.g.hurry.note(time.Now())
	}
}

// serves reports whether a plan is kept for an allgather of a roster to which rank gives size bytes. Ranks of one host ask for themselves: if they give
// what is of two plans, theirs is planned.
func (s *shelf) serves(names [sha256.Size]byte, from string, rank int, size int64, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.kept, func(k kept) bool {
		return k.start.Collective == plan.Allgather && k.names == names && k.from == from && rank < len(k.start.Sizes) && k.start.Sizes[rank] == size && now.Sub(k.borne) <= standingTime
	})
}

// wantsOffer notes that a call was small, and reports whether a plan of its kind is to be made, to be offered. Each one that nobody has begun by
// doubles how often the next call must have been the same.
func (s *shelf) wantsOffer(of, kind callKind, now time.Time) bool {
	keep, _ := s.planned(of, kind, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.moodOf(of)
	h := m.habitOf(kind)
	if !keep || !h.right && h.planned < 1<<m.unused || now.Before(h.rest) {
		return false
	}
	m.unused = min(m.unused+1, maxMistrust)
	return true
}

// atLeast notes what a small call takes at least, in which its coordinator is not the last to have all.
func (s *shelf) atLeast(of, kind callKind, without time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moodOf(of).habitOf(kind).least = without
}

// took notes how long a call took that was small, at its coordinator's host.
func (s *shelf) took(of, kind callKind, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moodOf(of).habitOf(kind).small.add(took)
}

// pass has no plan offered for calls of a kind until then.
func (s *shelf) pass(of, kind callKind, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moodOf(of).habitOf(kind).rest = until
}

// tried notes that an operation of a kind took so long by a plan, and reports whether that is worse than without.
func (s *shelf) tried(of, kind callKind, took time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.moodOf(of).habitOf(kind)
	if h.small.n == 0 {
		return false
	}
	h.large.add(took)
	if h.large.n < offerTries || h.large.mean <= slowerWorth*max(h.small.mean, float64(h.least)) {
		return false
	}
	h.rest, h.large = now.Add(standingTime), times{}
	return true
}

// times are how long operations took, the latest of which count most.
type times struct {
	n    int     // up to timesKept
	mean float64 // nanoseconds
}

// timesKept is how many of them count.
const timesKept = 8

func (t *times) add(took time.Duration) {
	t.n = min(t.n+1, timesKept)
	t.mean += (float64(took) - t.mean) / float64(t.n)
}
