package gridnet

import (
	"math/rand/v2"
	"net/netip"
	"time"
)

// loopback is the delay between two sockets of one host, which do not use its port.
const loopback = time.Microsecond

// advance applies all events up to and including now, in their total order.
func (w *world) advance(now time.Duration) {
	w.clock = now
	for p := w.agenda.top(); p != nil && p.at <= now; p = w.agenda.top() {
		w.agenda.remove(p)
		w.now = p.at
		w.step(p)
	}
	w.now = max(w.now, now)
}

// step does what happens to p at w.now.
func (w *world) step(p *packet) {
	switch p.stage {
	case stageEgress:
		p.from.egress.next(&w.agenda, w.now)
		p.sender.sent(p)
		w.leaveHost(p)
	case stagePaced:
		p.pipe.pacer.release(&w.agenda, p)
		w.enterBottleneck(p)
	case stageWire:
		p.pipe.port.next(&w.agenda, w.now)
		w.leaveBottleneck(p)
	case stageSwitch:
		w.forward(p)
	case stageIngress:
		h := p.to
		h.ingress.next(&w.agenda, w.now)
		if h.jitter == 0 {
			w.deliver(p)
			return
		}
		h.earliest = max(h.earliest, w.now+upTo(h.rng, h.jitter))
		w.later(p, stageSocket, h.earliest)
	case stageSocket:
		w.deliver(p)
	case stageCross:
		w.crossPacket(p.source)
	}
}

// later schedules the next step of p.
func (w *world) later(p *packet, s stage, at time.Duration) {
	p.stage, p.at = s, at
	w.agenda.push(p)
}

// send takes a datagram from a socket at w.now, which advance has set.
func (w *world) send(c *Conn, payload []byte, to netip.AddrPort) {
	h := c.host
	c.seq++
	p := w.packet(h, c.endpoint, toEndpoint(to), c.seq, payload)
	p.sender = c
	p.size += HeaderBytes
	w.trace(p, Sent, 0)
	if p.to == h {
		h.local.enter(p)
		if p.size > MTU {
			w.drop(p, &h.local, TooBig)
			return
		}
		w.later(p, stageSocket, w.now+loopback)
		return
	}
	h.out.enter(p)
	switch {
	case p.size > MTU:
		w.drop(p, &h.out, TooBig)
	case p.to == nil || (p.to.siteIndex != h.siteIndex && p.pipe == nil && p.ahead == nil):
		w.drop(p, &h.out, NoRoute)
	case !h.egress.offer(&w.agenda, w.now, p):
		w.drop(p, &h.out, QueueFull)
	default:
		h.out.HighWater = h.egress.demand
		c.waiting += p.size
	}
}

// packet makes a packet of data; one that is too large keeps its size only.
func (w *world) packet(from *host, src, dst endpoint, seq uint64, data []byte) *packet {
	p := w.spare
	if p != nil {
		w.spare = p.next
	} else {
		p = new(packet)
	}
	p.src, p.dst, p.seq = src, dst, seq
	p.index, p.next, p.flow = -1, nil, nil
	p.sender, p.from, p.to, p.pipe, p.ahead, p.tail, p.source = nil, from, w.at(dst), nil, nil, 0, nil
	if p.to != nil {
		here, there := from.siteIndex, p.to.siteIndex
		p.pipe, p.ahead = w.routes[here][there], w.ways[here][there]
	}
	p.size, p.held = len(data), copy(p.data[:], data)
	return p
}

// recycle ends the life of p.
func (w *world) recycle(p *packet) {
	p.sender = nil
	p.next, w.spare = w.spare, p
}

func (w *world) leaveHost(p *packet) {
	h := p.from
	if h.cut {
		w.drop(p, &h.out, LinkCut)
		return
	}
	h.out.leave(p)
	switch {
	case p.pipe != nil:
		w.enterPipe(p)
	case p.ahead != nil:
		p.tail = p.to.latency - p.to.latency/2
		w.later(p, stageSwitch, w.now+h.latency/2)
	default:
		w.later(p, stageSwitch, w.now+h.latency)
	}
}

// forward takes p on at a switch: over the next trunk, or to its receiver.
func (w *world) forward(p *packet) {
	if p.pipe != nil {
		p.pipe.traffic(p).leave(p)
		p.pipe = nil
	}
	switch {
	case p.source != nil:
		w.recycle(p) // a stranger's: it has crossed the link
	case len(p.ahead) > 0:
		p.pipe, p.ahead = p.ahead[0], p.ahead[1:]
		w.enterPipe(p)
	case p.tail > 0:
		at := w.now + p.tail
		p.tail = 0
		w.later(p, stageSwitch, at)
	default:
		w.arrive(p)
	}
}

// enterPipe puts p before the bottleneck of p.pipe.
func (w *world) enterPipe(p *packet) {
	q := p.pipe
	q.enter(p)
	if q.cut {
		w.drop(p, &q.Traffic, LinkCut)
		return
	}
	switch q.pacer.offer(&w.agenda, w.now, p) {
	case letGo:
		w.enterBottleneck(p)
	case refused:
		w.drop(p, &q.Traffic, CeilingFull)
	}
}

func (w *world) enterBottleneck(p *packet) {
	q := p.pipe
	if !q.port.offer(&w.agenda, w.now, p) {
		w.drop(p, q.traffic(p), QueueFull)
		return
	}
	q.HighWater = q.port.demand
}

func (w *world) leaveBottleneck(p *packet) {
	q := p.pipe
	if q.cut {
		w.drop(p, q.traffic(p), LinkCut)
		return
	}
	if q.link.BlockUDP && p.protocol() == protoUDP {
		w.drop(p, q.traffic(p), UDPBlocked)
		return
	}
	if q.link.BlockTCP && p.protocol() == protoTCP {
		w.drop(p, q.traffic(p), TCPBlocked)
		return
	}
	if q.link.Loss > 0 && q.loss.Float64() < q.link.Loss {
		w.drop(p, q.traffic(p), Lost)
		return
	}
	w.trace(p, Crossed, 0)
	at := w.now + q.link.Latency
	if q.link.Jitter > 0 {
		at += upTo(q.jitter, q.link.Jitter)
	}
	if !q.link.Reorder {
		at = max(at, q.earliest)
		q.earliest = at
	}
	w.later(p, stageSwitch, at)
}

// arrive puts p before the port of its receiver. That of a real host is not emulated.
func (w *world) arrive(p *packet) {
	h := p.to
	h.in.enter(p)
	switch {
	case h.cut:
		w.drop(p, &h.in, LinkCut)
	case p.sender == nil:
		w.deliver(p)
	case !h.ingress.offer(&w.agenda, w.now, p):
		w.drop(p, &h.in, QueueFull)
	default:
		h.in.HighWater = h.ingress.demand
	}
}

func (w *world) deliver(p *packet) {
	h := p.to
	t := &h.in
	if p.from == h {
		t = &h.local
	}
	if r, ok := w.handOver(p); !ok {
		w.drop(p, t, r)
		return
	}
	t.leave(p)
	w.trace(p, Delivered, 0)
}

// handOver gives p to its socket or wire, or says why it cannot.
func (w *world) handOver(p *packet) (Reason, bool) {
	if p.sender == nil {
		wire := w.sites[p.to.siteIndex].wire
		if wire == nil {
			return NoSocket, false
		}
		return BufferFull, wire.take(p) // whose Read sees how late it is
	}
	c := p.to.sockets[p.dst.port()]
	if c == nil {
		return NoSocket, false
	}
	if !c.take(p) {
		return BufferFull, false
	}
	w.late.add(w.clock - p.at)
	return 0, true
}

func (w *world) drop(p *packet, t *Traffic, r Reason) {
	t.drop(p, r)
	w.trace(p, Dropped, r)
	w.recycle(p)
}

func (w *world) trace(p *packet, k Kind, r Reason) {
	if w.tap != nil && p.source == nil {
		w.tap(Event{At: w.now, Kind: k, Reason: r, Src: p.src.addrPort(), Dst: p.dst.addrPort(), Seq: p.seq, Size: p.size, Head: p.head()})
	}
}

// upTo returns a uniform random duration from 0 to d, both included.
func upTo(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(d) + 1))
}
