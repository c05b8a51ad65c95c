package baseline

import (
	"math"
	"time"
)

// never is the time of what does not happen.
const never = time.Duration(math.MaxInt64)

// none is the port of an offer that waits for none.
const none = -1

// An offer is a tree edge that could be scheduled next.
type offer struct {
	time             time.Duration // when the block would arrive, or what its heap is ordered by
	origin, src, dst int32
	port             int32 // that it waits for
}

// before orders offers by time, origin, source, destination.
func (o offer) before(p offer) bool {
	switch {
	case o.time != p.time:
		return o.time < p.time
	case o.origin != p.origin:
		return o.origin < p.origin
	case o.src != p.src:
		return o.src < p.src
	}
	return o.dst < p.dst
}

// offers is a binary heap, the first in order on top. container/heap would box
// each of the N² offers.
type offers []offer

func (h *offers) push(o offer) {
	*h = append(*h, o)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *offers) pop() offer {
	s := *h
	top := s[0]
	last := len(s) - 1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		least := i
		for _, k := range [2]int{2*i + 1, 2*i + 2} {
			if k < last && s[k].before(s[least]) {
				least = k
			}
		}
		if least == i {
			return top
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}

// An ordering is the state of the min-based method.
//
// Ports and links only get later, so a time computed once is a lower bound for good: the
// offer on top of a heap is computed again, and is the best if it still holds. But each
// transfer delays all others from its source and to its destination, and computing each of
// those again would take N³ steps. So offers that wait for a port stand in a heap of that port,
// ordered by how long they last, which does not change, and only the first of each port
// competes with the others. An offer moves when its other port becomes the later one. Stars over
// equal links with a send overhead make many move back and forth, and N³ after all: 2 s for 256
// hosts, where other trees take a tenth.
type ordering struct {
	m       *hostModel
	waiting []offers // by port: [h] to send from h, [n+h] to receive at h; time: duration
	posted  []offer  // by port: the first of waiting when it was last looked at; time never if none
	// queue holds all that was posted, void if it is no longer in posted, and the offers
	// that wait for no port but for the block or the link.
	queue offers
}

// minOrder returns the transfers of all trees in the order of Gupta & Vadhiyar §6.1: always
// the possible one that arrives first.
func minOrder(m *hostModel, trees []broadcastTree) ([]step, error) {
	o := &ordering{m: m, waiting: make([]offers, 2*m.n), posted: make([]offer, 2*m.n)}
	for port := range o.posted {
		o.posted[port].time = never
	}
	for origin, tree := range trees {
		o.enter(tree, int32(origin), int32(origin))
	}
	steps := make([]step, 0, m.n*(m.n-1))
	for len(o.queue) > 0 {
		e := o.queue.pop()
		if !o.holds(e) {
			continue
		}
		start, end, err := m.commit(int(e.src), int(e.dst), int(e.origin))
		if err != nil {
			return nil, err
		}
		steps = append(steps, step{start: start, end: end, origin: e.origin, src: e.src, dst: e.dst})
		if e.port != none {
			o.waiting[e.port].pop()
			o.post(e.port)
		}
		o.enter(trees[e.origin], e.origin, e.dst)
	}
	return steps, nil
}

// enter offers the edges from src, which now has the block of origin.
func (o *ordering) enter(tree broadcastTree, origin, src int32) {
	for _, dst := range tree.children(src) {
		o.place(offer{origin: origin, src: src, dst: dst})
	}
}

// place puts e where what it waits for longest decides.
func (o *ordering) place(e offer) {
	src, dst := int(e.src), int(e.dst)
	lasts := o.m.transfer(src, dst, o.m.sizes[e.origin])
	data := max(o.m.arrival[src*o.m.n+int(e.origin)], o.m.link[src*o.m.n+dst])
	send, recv := o.m.send[src], o.m.recv[dst]
	if data > send && data > recv {
		e.time, e.port = data+lasts, none
		o.queue.push(e)
		return
	}
	e.time, e.port = lasts, e.src
	if recv >= send {
		e.port = int32(o.m.n) + e.dst
	}
	o.waiting[e.port].push(e)
	if o.first(e.port).before(o.posted[e.port]) {
		o.post(e.port)
	}
}

// first returns the first offer that waits for port, at the time when it would arrive if
// the port were all that it waits for.
func (o *ordering) first(port int32) offer {
	e := o.waiting[port][0]
	if n := int32(o.m.n); port < n {
		e.time += o.m.send[port]
	} else {
		e.time += o.m.recv[port-n]
	}
	return e
}

// post lets the first offer that waits for port compete.
func (o *ordering) post(port int32) {
	if len(o.waiting[port]) == 0 {
		o.posted[port].time = never
		return
	}
	e := o.first(port)
	o.posted[port] = e
	o.queue.push(e)
}

// holds reports whether e, just taken from the queue, still has its time. If not it sees to
// it that e, or what took its place, competes again.
func (o *ordering) holds(e offer) bool {
	if e.port != none {
		if e != o.posted[e.port] {
			return false // void
		}
		if o.first(e.port) != e {
			o.post(e.port)
			return false
		}
	}
	src, dst := int(e.src), int(e.dst)
	at := max(o.m.ready(src, dst, int(e.origin)), o.m.recv[dst])
	if at+o.m.transfer(src, dst, o.m.sizes[e.origin]) == e.time {
		return true
	}
	if e.port != none {
		o.waiting[e.port].pop()
		o.post(e.port)
	}
	o.place(e)
	return false
}
