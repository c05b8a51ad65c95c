package group

import (
	"context"
	"errors"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// stallTime is for how long an operation that waits for the coordinator's word counts as one that runs.
const stallTime = 2 * time.Second

// An early is an operation that this host has begun by a kept plan, before it knows whether the others have.
type early struct {
	kept  kept
	part  []byte // stamped anew
	since time.Time
	word  chan message // the coordinator's: go, or start; or items, and the operation was small
	small *eager       // with items
	bytes int64        // that this host's ranks give and, of an alltoall, get
}

// stalls reports whether it waits for so long that others are late, and no link is in use.
func (e *early) stalls() bool { return e != nil && time.Since(e.since) > stallTime }

// earlySeq is what operation seq is called on the lanes if it begins before the coordinator's word, by the plan number: it may have to begin once
// more after it, and what others have begun by another plan is another exchange. A name comes again after 65,536 operations, barriers included, and a host
// that still knows it does not begin by it.
func earlySeq(seq, number uint64) uint64 { return 1<<63 | number<<16 | seq&0xffff }

// errVain ends what was begun in vain.
var errVain = errors.New("begun by a plan that is not this operation's: it begins anew")

// keeps reports whether a plan for the call could be kept here: not of one that may need none. In a broadcast only the root
// knows whether it does.
func (m *member) keeps(ready *message) bool {
	return m.g.cfg.Restamp != nil && plain(ready) && (!ready.Eager || ready.Collective == Broadcast && ready.Rank != ready.Root)
}

// kindOf names what this host's ranks ask for.
func (m *member) kindOf(inputs map[int]contribution) callKind {
	return kindOf(m.names, m.own, func(r int) *message { c := inputs[r]; return &c.call })
}

// keep keeps this host's part of a plan that was good for those inputs.
func (m *member) keep(inputs map[int]contribution, start *message, took time.Duration) {
	if start.Standing == 0 || m.g.cfg.Restamp == nil {
		return
	}
	k := kept{kind: m.kindOf(inputs), names: m.names, number: start.Standing, from: m.roster[0], start: *start, borne: time.Now(), took: took}
	k.start.Hold, k.start.Begun, k.start.Given = 0, 0, nil
	if start.Collective == plan.Alltoall {
		for _, r := range m.own {
			k.start.Given = append(k.start.Given, inputs[r].call.Rows)
		}
	}
	m.g.shelf.put(k)
}

// foreseeLocked begins o if its plan is here: all ranks of this host have called, as they did before. It returns nil
// if they have not.
func (m *member) foreseeLocked(o *op) *early {
	if m.g.cfg.Restamp == nil || o.running || len(o.inputs) < len(m.own) {
		return nil
	}
	for _, c := range o.inputs {
		if !c.call.Keep {
			return nil
		}
	}
	now := time.Now()
	k, ok := m.g.shelf.take(m.kindOf(o.inputs), now)
	if !ok || k.from != m.roster[0] {
		return nil
	}
	name := earlySeq(o.seq, k.number)
	if m.g.cfg.Known != nil && m.g.cfg.Known(m.id, name) {
		return nil
	}
	part, err := m.g.cfg.Restamp(k.start.Part, m.id, name)
	if err != nil {
		return nil
	}
	o.running, o.early = true, &early{kept: k, part: part, since: now, word: make(chan message, 1)}
	for _, c := range o.inputs {
		o.early.bytes += 2 * c.call.Size // what an alltoall brings is taken to be as much
	}
	return o.early
}

// sureLocked ends the wait of o for the coordinator's word, which has come. It returns nil if o has not begun before it.
func (m *member) sureLocked(o *op) *early {
	e := o.early
	if e != nil {
		o.early = nil
		m.settleLocked(o.seq)
	}
	return e
}

// refuse turns away what comes of an operation that others had begun and this host never will, if start says so.
func (m *member) refuse(start *message) {
	if start.Begun != 0 && m.g.cfg.Refuse != nil {
		m.g.cfg.Refuse(m.id, earlySeq(start.Seq, start.Begun))
	}
}

// goOn takes the coordinator's word that all hosts have begun with the same plan.
func (m *member) goOn(msg message) {
	m.mu.Lock()
	var e *early
	o := m.ops[msg.Seq]
	if o != nil {
		e = m.sureLocked(o)
	}
	over := o != nil && o.shown || o == nil && msg.Seq < m.begunLocked()
	m.mu.Unlock()
	if over {
		return
	}
	if e == nil || e.kept.number != msg.Begun {
		m.alarm(message{Kind: kindBroken, Seq: msg.Seq, Cause: "told to go on with what has not begun here"})
	}
	if e != nil {
		e.word <- msg
	}
}

// shownLocked notes that o, which is over, has shown that all hosts have begun as e. It reports false where the coordinator has spoken.
func (m *member) shownLocked(o *op, e *early) bool {
	if o.early != e {
		return false
	}
	o.early, o.shown = nil, true
	m.settleLocked(o.seq)
	return true
}

// pauseOf is how long the calls of an operation that begins as e may wait before they are said, 0 if they may not.
func (m *member) pauseOf(e *early) time.Duration {
	start := &e.kept.start
	bytes := int64(0)
	for _, n := range start.Sizes {
		bytes += n
	}
	if start.Collective == plan.Alltoall {
		bytes = e.bytes
	}
	if !start.Shown || bytes > maxLazyBytes {
		return 0
	}
	return callPause(e.kept.took)
}

// ahead runs this host's part of o by a kept plan. Nothing that comes of it counts before the coordinator has spoken: not
// its results, and not its errors, as others may have ended what they began in vain. But for results that have bytes of all others: nobody
// sends any for this plan who has not begun by it.
func (m *member) ahead(o *op, e *early) {
	ctx, cancel := context.WithCancelCause(m.ctx)
	defer cancel(nil)
	start := e.kept.start
	start.Part, start.Seq = e.part, o.seq
	m.mu.Lock()
	inputs := o.inputs
	m.mu.Unlock()
	sure := make(chan struct{})
	var res *result
	var err error
	ended := make(chan struct{})
	go func() { // waited for below
		defer close(ended)
		res, err = m.exchange(ctx, o, &start, inputs, sure)
	}()
	through := ended
	if !start.Shown {
		through = nil
	}
	var word message
	shown := false
	select {
	case word = <-e.word:
	case <-through:
		m.mu.Lock()
		shown = err == nil && m.shownLocked(o, e)
		m.mu.Unlock()
		if !shown {
			select {
			case word = <-e.word:
			case <-m.ctx.Done():
			}
		}
	case <-m.ctx.Done():
	}
	m.hurries(&start)
	if shown || word.Kind == kindGo && word.Begun == e.kept.number {
		begun := e.since // of the others' calls nothing is known but that they were before the end
		if !shown {
			begun = time.Now().Add(-m.g.cfg.Latency(m.roster[0]) - min(max(word.Hold, 0), maxHold))
		}
		close(sure)
		<-ended
		if err == nil {
			res.info.Cached, res.info.Cost = true, 0 // the rest is as it was told with the plan
			m.g.shelf.bear(e.kept.number, time.Since(begun), time.Now())
		}
		m.complete(o, res, err, begun)
		m.finishRun(o, res)
		return
	}
	cancel(errVain)
	<-ended
	if err == nil {
		free(res.bufs)
	}
	switch word.Kind {
	case kindStart:
		m.execute(o, word)
		return
	case kindItems:
		m.finishEager(o, e.small)
		return
	}
	<-m.ctx.Done() // this or another host has said what is wrong
	m.complete(o, nil, context.Cause(m.ctx), time.Time{})
}
