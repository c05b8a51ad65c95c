package exchange

import "fmt"

// What happens after a stream to a peer has broken: the entries that it carried are
// lost (laneLost), the peer is asked over whichever stream is next (needAsk), says what
// has arrived (had), and the rest is queued again (resend).

// had marks entries as arrived. It needs x.mu.
func (x *run) had(p *peer, f *frame) error {
	sb := p.out[f.number]
	if main := x.peers[p.name]; sb == nil && main != nil && main != p && main.out[f.number] != nil {
		return nil // it went the plan's way
	}
	if sb == nil || f.index > sb.b.chunks || f.n > sb.b.chunks+1-f.index {
		return fmt.Errorf("%w: has entries %d+%d of block %d, which host %d does not get from here", errMalformed, f.index, f.n, f.number, p.index)
	}
	if sb.s.confirmed {
		return nil
	}
	for i := f.index; i < f.index+f.n; i++ {
		switch {
		case sb.by[i] != byLost:
		case sb.s.extra:
			sb.landed(i)
		default:
			sb.by[i] = byHad
		}
	}
	if sb.s.extra {
		x.through(p)
	}
	return nil
}

// resend queues what was lost and has not arrived. It needs x.mu.
func (x *run) resend(p *peer) {
	for _, s := range p.sends[p.first:] {
		if s.confirmed {
			continue
		}
		for _, sb := range s.blocks {
			for i, by := range sb.by {
				if by == byLost {
					sb.by[i] = byAgain
					sb.sent.clear(i)
					sb.word = min(sb.word, i>>6)
					s.unsent++
					if sb.b.have.has(i) { // or it was given away before it came here
						sb.ready++
						s.ready++
					}
				}
			}
		}
	}
	p.cond.Broadcast()
}

// laneLost marks what the broken lane l carried and was not confirmed.
func (x *run) laneLost(p *peer, l *outLane) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p.stats.Broken++
	lost := p.asker == l
	if lost {
		p.asker = nil
	}
	for _, t := range p.tokens {
		if t.by == 1+l.n && !t.seen {
			t.by = 0
		}
	}
	for _, s := range p.sends[p.first:] {
		if s.confirmed {
			continue
		}
		for _, sb := range s.blocks {
			for i, by := range sb.by {
				if by == uint8(1+l.n) {
					sb.by[i] = byLost
					lost = true
				}
			}
		}
	}
	if lost {
		p.needAsk = true
	}
	p.cond.Broadcast()
}
