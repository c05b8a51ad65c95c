package exchange

import "time"

// Which lanes serve a peer: staff begins with what its path is believed to need, tend adds
// more where losses turn out to hold them all (grow.go).
//
// Where there are several, data travel on lanes from 1 on. Lane 0, which other things
// than exchanges use as well and which is mostly open already, carries them only until
// the first of the others is open: what the rooms of an agent tell each other need
// not wait behind data that losses hold back.

// handshakeBytes is about what one end sends to connect: a padded Initial, its certificate
// and acknowledgements. Lanes of one peer connect so far apart that this fits the path.
const handshakeBytes = 4 << 10

// lanesTo returns over how many lanes to begin to send to p, whose path it sets. It needs x.mu.
func (x *run) lanesTo(p *peer) int {
	p.path = x.eng.cfg.Path(p.name)
	if p.path.Flows <= 0 && p.path.known() {
		p.path.Flows = x.sharing(p)
	}
	n := p.path.Lanes()
	if x.eng.cfg.Lanes != nil {
		n = min(max(x.eng.cfg.Lanes(p.name), 1), maxLane)
	}
	return n
}

// sharing guesses how many pairs of hosts of this exchange send from this host's site to p's
// at once: as many as if every host of the site did what this one does.
func (x *run) sharing(p *peer) int {
	site := x.eng.cfg.Site
	here, there := site(x.eng.cfg.Self), site(p.name)
	hosts, peers := 0, 0
	for _, h := range x.part.Hosts {
		if site(h) == here {
			hosts++
		}
	}
	for _, q := range x.peers {
		if len(q.sends) > 0 && site(q.name) == there {
			peers++
		}
	}
	return max(hosts, 1) * max(peers, 1)
}

// staff has p served by n lanes, if they are not yet. It needs x.mu.
func (x *run) staff(p *peer, n int) {
	from, to := 0, 0 // serve [from, to)
	switch {
	case p.lanes == 0 && n == 1:
		to = 1
	case p.lanes == 0:
		to = n + 1
	case p.lanes == 1:
		from, to = 1, n+1
	default:
		from, to = p.lanes+1, n+1
	}
	var gap time.Duration
	if p.path.known() {
		gap = time.Duration(min(handshakeBytes/p.path.part()*1e9, 1e9))
	}
	for i := from; i < to; i++ {
		m, delay := x.meter(p, i), time.Duration(max(i-max(from, 1), 0))*gap
		x.writers.Go(func() { x.lane(p, i, delay, m) })
	}
	p.lanes = n
	p.win.serve(n, p.path, x.part.Chunk)
}

// opened notes that s is lane n to p.
func (x *run) opened(p *peer, n int, s Stream, m *meter) *outLane {
	path := p.path.over(s) // asks the connection: not under the lock
	x.mu.Lock()
	defer x.mu.Unlock()
	if p.win == nil {
		p.win = newWindow(path, p.lanes, x.part.Chunk)
	}
	l := &outLane{n: n, stream: s, win: p.win, meter: m}
	p.outs = append(p.outs, l)
	return l
}

// closed ends what opened began.
func (x *run) closed(p *peer, l *outLane) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, o := range p.outs {
		if o == l {
			p.outs = append(p.outs[:i], p.outs[i+1:]...)
			break
		}
	}
	l.win.gone(l.sent - l.got)
	p.cond.Broadcast() // lane 0 may be needed again, and there is room
}

// spares reports whether l leaves the data to other lanes. It needs run.mu.
func (p *peer) spares(l *outLane) bool {
	if l.n > 0 || p.lanes == 1 {
		return false
	}
	for _, o := range p.outs {
		if o.n > 0 && !o.broken {
			return true
		}
	}
	return false
}
