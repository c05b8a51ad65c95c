package netmap

// What several lanes of one pair of hosts get of a link is no more than what the ports of the two take. Where that is what they got, the link
// carries it at least, and how much of it many pairs get together nobody has measured: hosts of 1 Gbit/s say of a link of 100 Gbit/s that it carries one.
// What exchanges of many pairs were seen to get counts then, as where nobody has searched.

// portShare is the part of a port from which on a capacity is one of the port.
const portShare = 0.9

// PortHolds reports whether a host's port is what holds rate, many lanes' between two hosts of different sites: out and in are the most that the sender
// and the receiver get inside their sites, 0 where that is not known, as of a host that is alone in its site.
func PortHolds(rate, out, in BytesPerSec) bool {
	return out > 0 && rate >= portShare*out || in > 0 && rate >= portShare*in
}

// lanPorts are the most that hosts get to, and from, any other of their site.
type lanPorts[H comparable] struct{ out, in map[H]BytesPerSec }

func newLANPorts[H comparable]() lanPorts[H] {
	return lanPorts[H]{out: make(map[H]BytesPerSec), in: make(map[H]BytesPerSec)}
}

// inside takes what a flow from one host to another of its site gets.
func (p lanPorts[H]) inside(from, to H, rate BytesPerSec) {
	p.out[from], p.in[to] = max(p.out[from], rate), max(p.in[to], rate)
}

// A search is what is known of the link between two sites from pairs of hosts that have searched for what several lanes get of it.
type search struct {
	pairs int
	held  int // of these, those that a port holds
}

// take takes what a pair has found.
func (s search) take(rate, out, in BytesPerSec) search {
	s.pairs++
	if PortHolds(rate, out, in) {
		s.held++
	}
	return s
}

// tells reports whether the link's capacity is known.
func (s search) tells() bool { return s.pairs > s.held }
