package gridnet

import "time"

// A pacer holds each flow of a pipe to a rate: packets of a flow are let go no
// closer than size/rate; those that come too early wait in a queue of their flow.
type pacer struct {
	rate  Rate
	limit int // packets that may wait in each flow
	flows map[flowKey]*flow
	sweep int // number of flows at which idle ones are looked for
}

type flowKey struct{ src, dst endpoint }

// A flow is remembered while a packet waits or was let go less than its own time ago.
// An idle one has no state worth keeping: its credit does not grow.
type flow struct {
	free    time.Duration // when the next packet may go
	head    *packet       // the next to go: in the heap, with at = free
	waiting fifo          // those behind it
}

// maxFlows bounds the memory of a pipe; packets of further flows are dropped.
const maxFlows = 1 << 16

// verdict is what a pacer does with a packet.
type verdict uint8

const (
	letGo verdict = iota
	held
	refused
)

// offer says whether p may go on at once; a held one comes back at stagePaced.
func (a *pacer) offer(ev *agenda, now time.Duration, p *packet) verdict {
	key := flowKey{p.src, p.dst}
	f := a.flows[key]
	if f == nil {
		if a.rate == 0 {
			return letGo
		}
		if len(a.flows) >= a.sweep {
			a.forget(now)
		}
		if len(a.flows) >= maxFlows {
			return refused
		}
		f = &flow{}
		a.flows[key] = f
	}
	switch {
	case f.head == nil && f.free <= now:
		f.free = now + a.rate.time(p.size)
		return letGo
	case f.waiting.len >= a.limit:
		return refused
	}
	p.flow = f
	if f.head == nil {
		a.hold(ev, f, p)
	} else {
		f.waiting.push(p)
	}
	return held
}

// hold makes p the head of f: the one whose time is in the heap.
func (a *pacer) hold(ev *agenda, f *flow, p *packet) {
	f.head = p
	p.stage, p.at = stagePaced, f.free
	ev.push(p)
}

// release lets go of p, the head of its flow, whose time has come.
func (a *pacer) release(ev *agenda, p *packet) {
	f := p.flow
	p.flow, f.head = nil, nil
	f.free = p.at + a.rate.time(p.size)
	if q := f.waiting.pop(); q != nil {
		a.hold(ev, f, q)
	}
}

// setRate changes the ceiling from now on; what is left of each wait is scaled.
func (a *pacer) setRate(ev *agenda, now time.Duration, rate Rate) {
	old := a.rate
	a.rate = rate
	for _, f := range a.flows {
		if f.free <= now {
			continue
		}
		f.free = now + time.Duration(float64(f.free-now)*float64(rate.time(MTU))/float64(old.time(MTU)))
		if f.head != nil {
			f.head.at = f.free
			ev.fix(f.head)
		}
	}
}

// forget drops idle flows. It runs again when their number has doubled, so that its
// cost is spread over the flows that came in between.
func (a *pacer) forget(now time.Duration) {
	for key, f := range a.flows {
		if f.head == nil && f.free <= now {
			delete(a.flows, key)
		}
	}
	a.sweep = max(64, 2*len(a.flows))
}
