package group

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// ahead is how many operations beyond those that all ranks of this host have begun another host can be: what is over
// anywhere they have begun, and a rank has no more under way. How far that is from the first one that is not over has no bound: any number of
// small ones pass by a large one whose planning takes long, and one host hears sooner than another that it starts.
const ahead = MaxUnderWay

// An eager is what this host knows of one small operation.
type eager struct {
	terms   *message // what the first item was for; nil before
	items   map[int]item
	arrived map[int]time.Time // by rank
	begun   time.Time         // when the last rank so far of this host called
	round   int               // the next one of this host, see rounds.go
	hops    hops              // of an alltoall that goes in hops
	run     int               // of the hosts that it tells of in it, how many are here, as far as they were counted
	spoiled bool              // ranks disagree: the coordinator will say so
	sent    map[string]int64  // payload, by host
	got     map[string]int64
	past    uint64 // the least message.Past of what has come, and of this host's when its ranks called
}

// eligible reports whether the call that ready tells of is small enough to travel at once.
func (m *member) eligible(ready *message) bool {
	t := m.tree
	if t == nil || ready.Algorithm != "" || ready.Plan != "" || ready.Options != (Options{}) {
		return false
	}
	if m.inHops(ready) {
		return true
	}
	size := ready.Size + int64(len(ready.Rows))
	if ready.Collective == plan.Alltoall && size > max(m.passedShare(plan.Alltoall), m.straightShare(plan.Alltoall)*int64(len(m.hosts))/int64(len(m.roster))) {
		return false // ranks of a host have one packet for another host together; what others send may be more, as it was
	}
	return size <= m.share(ready.Collective, ready.Root == ready.Rank)
}

// share is how many bytes a rank, which may be the root, can contribute to a small operation.
func (m *member) share(c plan.Collective, root bool) int64 {
	switch {
	case c == Broadcast && root:
		return max(m.tree.Limit, min(m.tree.Rounds, maxEager)) // which the root sends in each of its rounds
	case c == Broadcast || c == Barrier:
		return 0
	}
	return max(m.passedShare(c), m.straightShare(c))
}

// begunLocked returns how many operations all ranks of this host have begun.
func (m *member) begunLocked() uint64 {
	if len(m.local) < len(m.own) {
		return 0
	}
	least := uint64(math.MaxUint64)
	for _, r := range m.local {
		least = min(least, r.next)
	}
	return least
}

// eagerLocked returns what is known of operation seq; nil if it is over.
func (m *member) eagerLocked(seq uint64) *eager {
	if seq < m.settled && !m.behind[seq] {
		return nil
	}
	e := m.eagers[seq]
	if e == nil {
		e = &eager{items: make(map[int]item), arrived: make(map[int]time.Time), sent: make(map[string]int64), got: make(map[string]int64), past: math.MaxUint64}
		m.eagers[seq] = e
	}
	return e
}

// settleLocked ends what is kept of operation seq, which all ranks of this host have begun: it has its result, or is planned.
func (m *member) settleLocked(seq uint64) {
	for ; m.settled <= seq; m.settled++ {
		m.behind[m.settled] = true
	}
	delete(m.behind, seq)
	delete(m.eagers, seq)
}

// overHereLocked returns the first operation of which this host may still lack contributions.
func (m *member) overHereLocked() uint64 {
	first := m.settled
	for seq := range m.behind {
		first = min(first, seq)
	}
	return first
}

// overEverywhere returns the first operation that may not be over at all hosts. What is settled here all ranks have begun, and a rank that begins one has at most
// [MaxUnderWay] under way, it included; and hosts have said how far they were when they began one that is over here.
func (m *member) overEverywhere() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.settled-min(m.settled, MaxUnderWay), m.past)
}

// contributeLocked enters the item of a rank of this host, and returns what remains to be done
// outside the lock.
func (m *member) contributeLocked(rank int, ready *message, data []byte) (finish func()) {
	e := m.eagerLocked(ready.Seq)
	if e == nil {
		return func() {} // not before this rank has begun it
	}
	e.begun = time.Now()
	m.g.hurry.note(e.begun)
	e.past = min(e.past, m.overHereLocked())
	hops := m.inHops(ready)
	m.enterLocked(e, ready, item{rank: rank, even: ready.Even, rows: ready.Rows, data: data, straight: !hops && m.goesStraight(ready), hops: hops})
	return m.spreadLocked(e, ready.Seq, []int{rank})
}

// enterLocked enters one item for what terms say.
func (m *member) enterLocked(e *eager, terms *message, it item) {
	if !e.sameTerms(terms) || !m.agrees(e, it) {
		e.spoiled = true
	}
	e.items[it.rank] = it
	e.arrived[it.rank] = time.Now()
}

// sameTerms reports whether the operation is what terms say, which the first ones decide.
func (e *eager) sameTerms(terms *message) bool {
	if e.terms == nil {
		e.terms = &message{Seq: terms.Seq, Collective: terms.Collective, Root: terms.Root}
	}
	return e.terms.Collective == terms.Collective && e.terms.Root == terms.Root
}

// agrees is [coordinator.disagreement] for items.
func (m *member) agrees(e *eager, it item) bool {
	if e.terms.Collective != plan.Alltoall {
		return len(it.rows) == 0 && !it.even
	}
	for _, o := range e.items {
		if o.even && it.even {
			return bytes.Equal(o.rows, it.rows) // they agree among themselves
		}
	}
	return true
}

// items takes what the member on host from has sent of a small operation, in a message of that
// kind. The error says what is wrong with it.
func (m *member) items(from string, msg *message) error {
	var items []item
	moved := int64(len(msg.Part)) // of what goes in hops
	if msg.Hop == 0 {
		var err error
		if items, err = readItems(msg.Part, len(m.roster)); err != nil {
			return err
		}
		moved = payload(items)
	}
	host := slices.Index(m.hosts, from)
	finish := func() {}
	defer func() { finish() }() // after the unlock below
	m.mu.Lock()
	defer m.mu.Unlock()
	if host < 0 || m.tree == nil {
		return fmt.Errorf("host %s sent contributions before there was a tree", from)
	}
	if begun := m.begunLocked(); msg.Seq >= begun+ahead {
		return fmt.Errorf("host %s sent a contribution to operation %d, and the ranks here have begun %d", from, msg.Seq, begun)
	}
	e := m.eagerLocked(msg.Seq)
	if e == nil {
		return nil // a second copy, which came by way of the coordinator
	}
	e.got[from] += moved
	e.past = min(e.past, msg.Past)
	if msg.Hop != 0 {
		if err := m.hopsLocked(e, host, msg); err != nil || e.spoiled {
			return err
		}
		m.nextHops(e, msg.Seq)
		finish = m.completeLocked(e, msg.Seq)
		return nil
	}
	var fresh []int
	for _, it := range items {
		at := m.at[it.rank]
		if !m.mayTell(host, at) {
			return fmt.Errorf("host %s sent a contribution of rank %d, which is not its to tell", from, it.rank)
		}
		if it.straight && (host != at || m.straightShare(msg.Collective) == 0) {
			return fmt.Errorf("host %s sent a contribution of rank %d as if it went straight, which it does not", from, it.rank)
		}
		if size := int64(len(it.data) + len(it.rows)); size > m.share(msg.Collective, it.rank == msg.Root) {
			return fmt.Errorf("host %s sent a contribution of rank %d of %d bytes, more than travel with a call", from, it.rank, size)
		}
		if _, known := e.items[it.rank]; known || m.hosts[at] == m.g.cfg.Self {
			continue
		}
		m.enterLocked(e, msg, it)
		fresh = append(fresh, it.rank)
	}
	finish = m.spreadLocked(e, msg.Seq, fresh)
	return nil
}

// mayTell reports whether host from tells this host of the ranks on host of: its own, those of its
// site if it leads it, and all if it leads this host's; or those that it has in a round.
func (m *member) mayTell(from, of int) bool {
	if m.inRounds() {
		return from == of || m.mayTellInRounds(from, of)
	}
	return from == of || m.tree.Leaders[of] == from || m.tree.Leaders[m.self] == from || m.passedBy(from, m.tree.Leaders[of])
}

// spreadLocked passes on what this host is to pass on, now that the items of the ranks fresh are
// there. If none is missing, what it returns has the result made.
func (m *member) spreadLocked(e *eager, seq uint64, fresh []int) (finish func()) {
	if e.spoiled || len(fresh) == 0 {
		return func() {}
	}
	site := m.tree.Leaders[m.at[fresh[0]]] // all of one message are of one site, or this host does not lead
	whole := m.at[fresh[0]] == m.self && e.holds(m.own)
	if whole {
		m.sendStraight(e, seq)
	}
	switch {
	case m.inRounds():
		m.nextHops(e, seq)
		m.nextRounds(e, seq)
	case m.tree.Leaders[m.self] != m.self:
		if whole {
			m.sendItems(e, seq, m.own, []int{m.tree.Leaders[m.self]})
		}
	case site == m.self:
		if ranks := m.siteRanks[site]; e.holds(ranks) {
			m.sendItems(e, seq, ranks, m.passes(site, e.passed(ranks)))
			m.sendItems(e, seq, ranks, m.led)
		}
	default:
		m.sendItems(e, seq, fresh, m.passes(site, e.passed(fresh)))
		m.sendItems(e, seq, fresh, m.led)
	}
	return m.completeLocked(e, seq)
}

// completeLocked returns what has the result of operation seq made, if nothing is missing.
func (m *member) completeLocked(e *eager, seq uint64) (finish func()) {
	o := m.ops[seq]
	if len(e.items) < len(m.roster) || o == nil || o.running && o.early == nil || m.ctx.Err() != nil {
		return func() {}
	}
	m.past = max(m.past, e.past)
	if o.early != nil { // by the plan of a broadcast that was large
		o.early.small = e
		begun := m.sureLocked(o)
		return func() { begun.word <- message{Kind: kindItems} }
	}
	o.running, o.inputs = true, nil
	m.settleLocked(seq)
	return func() { m.launch(o, func() { m.finishEager(o, e) }) }
}

// holds reports whether the items of all ranks are there.
func (e *eager) holds(ranks []int) bool {
	return !slices.ContainsFunc(ranks, func(r int) bool { _, ok := e.items[r]; return !ok })
}

// goBy returns the items of ranks that go by way of others.
func (e *eager) goBy(ranks []int) (items []item) {
	for _, r := range ranks {
		if it := e.items[r]; !it.straight && !it.hops {
			items = append(items, it)
		}
	}
	return items
}

// passed counts their bytes.
func (e *eager) passed(ranks []int) int64 { return payload(e.goBy(ranks)) }

// sendItems queues the items of ranks for hosts, but for those that go straight. The caller holds m.mu: nothing blocks.
func (m *member) sendItems(e *eager, seq uint64, ranks []int, hosts []int) {
	if len(hosts) == 0 {
		return
	}
	msg := message{Kind: kindItems, Seq: seq, Collective: e.terms.Collective, Root: e.terms.Root, Past: e.past}
	items := e.goBy(ranks)
	if len(items) == 0 {
		return
	}
	bytes := payload(items)
	if m.inRounds() {
		slices.SortFunc(items, func(a, b item) int { return a.rank - b.rank })
		msg.Part = appendRuns(nil, items)
	} else {
		msg.Part = appendItems(nil, items)
	}
	for _, h := range hosts {
		e.sent[m.hosts[h]] += bytes
		m.peers[h].send(msg)
	}
}

// finishEager completes an operation for which the items of all ranks are here.
func (m *member) finishEager(o *op, e *eager) {
	m.g.hurry.note(time.Now())
	res, err := m.gather(o.seq, e)
	if err == nil {
		res.info = Planned{Algorithm: "eager", Epoch: m.tree.Epoch, Bound: m.tree.Bound}
		var begun time.Time
		for r, at := range e.arrived { // the last call, as far as it can be told from here
			switch h := m.roster[r]; {
			case h == m.g.cfg.Self:
			case m.inRounds(): // it came by way of others, who knows when
				continue
			default:
				at = at.Add(-m.g.cfg.Latency(h))
			}
			if at.After(begun) {
				begun = at
			}
		}
		res.elapsed = max(0, time.Since(begun))
		res.transfer = e.traffic()
		res.info.Bound = max(res.info.Bound, m.tree.takes(m.needed(e, res)))
	} else {
		m.alarm(message{Kind: kindBroken, Seq: o.seq, Cause: err.Error()})
		<-m.ctx.Done() // the coordinator tells everyone, us too, in the same words
		if cause := context.Cause(m.ctx); cause != nil {
			err = cause
		}
	}
	m.mu.Lock()
	o.inputs, o.result, o.err = nil, res, err
	m.small.over(time.Since(e.begun))
	m.mu.Unlock()
	close(o.finished)
	over := message{Kind: kindOver, Seq: o.seq}
	over.lazy(bookPause)
	m.say(over)
	if err == nil {
		m.tell(o.seq, e)
	}
}
