package gridnet

import (
	"net/netip"
	"time"
)

// A stage is where a packet is when its time comes.
type stage uint8

const (
	stageEgress  stage = iota // its last bit leaves the sender's port
	stagePaced                // its flow's ceiling lets it go
	stageWire                 // its last bit leaves the WAN pipe's bottleneck
	stageSwitch               // it reaches the next switch, or from the last one its receiver's port
	stageIngress              // its last bit leaves the receiver's port
	stageSocket               // it is handed to the socket
	stageCross                // it is no packet but the timer of a source of cross traffic
)

// A packet is in exactly one place: in one queue, or in the heap of events with
// the time of its next step. It is never in both.
type packet struct {
	at       time.Duration // of the next step, since the network began
	src, dst endpoint
	seq      uint64 // counts the packets of the sending socket or wire
	index    int    // in the heap, -1 outside
	next     *packet

	stage    stage
	sender   *Conn // nil for one from a wire
	from, to *host
	pipe     *pipe         // that it is in; nil within a site
	ahead    []*pipe       // the trunks that follow
	tail     time.Duration // from the last switch to the receiver, once it has crossed trunks
	flow     *flow         // nil without a ceiling
	source   *source       // of cross traffic; nil for a host's packet
	size     int           // IP bytes
	held     int           // bytes of data in use
	data     [MTU]byte     // the payload of a socket's datagram, or all of a wire's packet
}

// head returns the first byte of the payload, 0 if there is none.
func (p *packet) head() byte {
	if p.held == 0 {
		return 0
	}
	return p.data[0]
}

// protocol is that of IP: every socket's packet is one of UDP, a wire's says so, and cross traffic has none.
func (p *packet) protocol() byte {
	switch {
	case p.sender != nil:
		return protoUDP
	case p.source == nil && p.held >= minIPv4:
		return p.data[9]
	}
	return 0
}

// An endpoint is an IPv4 address and port as one ordered number.
type endpoint uint64

func toEndpoint(a netip.AddrPort) endpoint {
	ip := a.Addr().As4()
	return endpoint(ip[0])<<40 | endpoint(ip[1])<<32 | endpoint(ip[2])<<24 | endpoint(ip[3])<<16 | endpoint(a.Port())
}

func (e endpoint) addrPort() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(e >> 40), byte(e >> 32), byte(e >> 24), byte(e >> 16)}), e.port())
}

func (e endpoint) port() uint16 { return uint16(e) }

// before is the total order of events: time, source, destination, sequence.
func (p *packet) before(q *packet) bool {
	switch {
	case p.at != q.at:
		return p.at < q.at
	case p.src != q.src:
		return p.src < q.src
	case p.dst != q.dst:
		return p.dst < q.dst
	}
	return p.seq < q.seq
}

// A fifo is a queue of packets, linked through them.
type fifo struct {
	head, tail *packet
	len        int
}

func (f *fifo) push(p *packet) {
	p.next = nil
	if f.tail == nil {
		f.head = p
	} else {
		f.tail.next = p
	}
	f.tail = p
	f.len++
}

// pop returns the oldest packet, nil if there is none.
func (f *fifo) pop() *packet {
	p := f.head
	if p == nil {
		return nil
	}
	f.head, p.next = p.next, nil
	if f.head == nil {
		f.tail = nil
	}
	f.len--
	return p
}

// events is a binary heap of packets by their next step. Each knows its index, so
// that a change of rate can move the packet in transmission.
type events []*packet

// top returns the first packet, nil if there is none.
func (h events) top() *packet {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

func (h *events) push(p *packet) {
	*h = append(*h, p)
	p.index = len(*h) - 1
	h.up(p.index)
}

func (h *events) pop() *packet {
	p := (*h)[0]
	h.remove(p)
	return p
}

// fix restores the order after p.at has changed.
func (h events) fix(p *packet) {
	h.up(p.index)
	h.down(p.index)
}

func (h *events) remove(p *packet) {
	i, last := p.index, len(*h)-1
	moved := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	p.index = -1
	if i != last {
		(*h)[i] = moved
		moved.index = i
		h.fix(moved)
	}
}

func (h events) up(i int) {
	p := h[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !p.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		h[i].index = i
		i = parent
	}
	h[i] = p
	p.index = i
}

func (h events) down(i int) {
	p := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(p) {
			break
		}
		h[i] = h[child]
		h[i].index = i
		i = child
	}
	h[i] = p
	p.index = i
}
