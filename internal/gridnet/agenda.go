package gridnet

// An agenda is all events, those of strangers apart: the loop need not wake for a packet that
// meets no host's, and cross traffic at 1 Gbit/s is 80,000 of them a second.
type agenda struct{ events, strange events }

func (a *agenda) of(p *packet) *events {
	if p.source != nil {
		return &a.strange
	}
	return &a.events
}

func (a *agenda) push(p *packet)   { a.of(p).push(p) }
func (a *agenda) fix(p *packet)    { a.of(p).fix(p) }
func (a *agenda) remove(p *packet) { a.of(p).remove(p) }

// top returns the first packet, nil if there is none.
func (a *agenda) top() *packet {
	p, q := a.events.top(), a.strange.top()
	if p == nil || q != nil && q.before(p) {
		return q
	}
	return p
}

// due returns the packet whose time the loop must not miss, nil if there is none. Events of strangers
// are applied late, with the next of a host's, unless a host's packet is in their pipe and may wait for one of theirs.
func (w *world) due() *packet {
	for _, p := range w.crossed {
		if p.Inside.Packets > 0 {
			return w.agenda.top()
		}
	}
	return w.agenda.events.top()
}
