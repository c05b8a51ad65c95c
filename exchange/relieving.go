package exchange

import "fmt"

// The other side of relief.go: hosts that deliver for others, and receivers that get a block from several.

// member returns the state of a host of the plan that this part may know nothing of, nil if it is none. It needs x.mu.
func (x *run) member(name string) *peer {
	if p := x.peers[name]; p != nil {
		return p
	}
	for i, h := range x.part.Hosts {
		if h == name && i != x.part.Self {
			p := x.peer(i)
			p.cancel() // nothing is sent to it
			return p
		}
	}
	return nil
}

// offered takes of an offer what is here, and appends the answer to out.
func (x *run) offered(p *peer, f *frame, out []byte) ([]byte, error) {
	if f.host >= len(x.part.Hosts) || f.host == p.index {
		return out, fmt.Errorf("%w: offers what is for host %d of %d", errMalformed, f.host, len(x.part.Hosts))
	}
	b := x.number[f.number]
	if b == nil || b.Role == Forward || f.host == x.part.Self || f.host == b.Origin {
		return out, nil // not held, or not for long
	}
	if f.n > b.chunks || f.index > b.chunks-f.n {
		return out, fmt.Errorf("%w: offers entries %d+%d of block %d, which has %d", errMalformed, f.index, f.n, f.number, b.chunks)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.adapts() || x.left == 0 || x.ended || x.ctx.Err() != nil {
		return out, nil
	}
	// What comes back is taken back, fallen or not: whoever offers it has seen that its own way is slower still.
	if sb := x.sending(f.host, f.number); sb != nil && !sb.s.extra {
		return x.takeBack(sb, f, out), nil
	}
	if w := x.ways[x.site(x.part.Hosts[f.host])]; w != nil && w.pace.fell() {
		return out, nil
	}
	var sb *sendBlock
	for first, n := b.have.run(f.index, f.index+f.n); n > 0; first, n = b.have.run(first+n, f.index+f.n) {
		if sb == nil {
			if sb = x.extra(f.host, b); sb == nil {
				return out, nil
			}
		}
		x.takes(sb, first, n)
		out = (&frame{kind: frameTaken, host: f.host, number: f.number, index: first, n: n}).appendTo(out)
	}
	if sb != nil {
		sb.s.to.cond.Broadcast()
	}
	return out, nil
}

// takeBack takes of an offer what this host had given away, and appends the answer to out. It needs x.mu.
func (x *run) takeBack(sb *sendBlock, f *frame, out []byte) []byte {
	s := sb.s
	if s.confirmed {
		return out
	}
	for i := f.index; i < f.index+f.n && i < sb.b.chunks; i++ {
		if sb.by[i] != byGiven || !sb.b.have.has(i) {
			continue
		}
		sb.by[i] = 0
		sb.sent.clear(i)
		sb.word = min(sb.word, i>>6)
		sb.ready++
		s.ready++
		s.unsent++
		out = (&frame{kind: frameTaken, host: f.host, number: f.number, index: i, n: 1}).appendTo(out)
	}
	s.to.cond.Broadcast()
	return out
}

// extra returns the send of entries of b to host that the plan does not have, nil if they cannot go there. It needs x.mu.
func (x *run) extra(host int, b *block) *sendBlock {
	to := x.reopen(host)
	if to == nil {
		return nil
	}
	if sb := to.out[b.number]; sb != nil && (!sb.s.extra || sb.s.confirmed) {
		return nil // the plan has it after all, or it is through already
	}
	return x.extraTo(to, b)
}

// extraTo returns the send of entries of b to a peer for which the plan has none, nil where it has. It needs x.mu.
func (x *run) extraTo(to *peer, b *block) *sendBlock {
	if sb := to.out[b.number]; sb != nil && !sb.s.confirmed {
		if !sb.s.extra {
			return nil
		}
		return sb
	}
	s := &send{Send: &Send{ID: -1, Dst: to.index, Blocks: []int{b.index}}, to: to, extra: true}
	sb := &sendBlock{b: b, s: s, sent: newBitmap(b.chunks + 1), once: newBitmap(b.chunks + 1), by: make([]uint8, b.chunks+1)}
	sb.sent.setAll(b.chunks + 1)
	for i := range sb.by {
		sb.by[i] = byHad
	}
	s.blocks = []*sendBlock{sb}
	to.sends = append(to.sends, s)
	to.out[b.number] = sb
	to.open++
	x.left++
	return sb
}

// takes adds entries of an extra send that are here. It needs x.mu.
func (x *run) takes(sb *sendBlock, first, n int) {
	for i := first; i < first+n; i++ {
		if !sb.sent.has(i) || sb.by[i] != byHad || sb.once.has(i) {
			continue // it goes there, or has gone
		}
		sb.once.set(i)
		sb.sent.clear(i)
		sb.by[i] = 0
		sb.ready++
		sb.s.ready++
		sb.s.unsent++
		sb.awaited++
		if sb.s.to.main == nil {
			x.relief.Helping += int64(sb.b.size(i, x.part.Chunk))
		}
	}
	sb.word = min(sb.word, first>>6)
}

// reopen returns a peer to whom something can be sent: that of the plan, or one beside it. It is nil where the way
// is not known, or what goes there by the plan goes steadily: there nobody answers chunks. It needs x.mu.
func (x *run) reopen(host int) *peer {
	name := x.part.Hosts[host]
	if p := x.peers[name]; p != nil && p.open > 0 && p.lanes > 0 && p.ctx.Err() == nil {
		if !p.path.known() || p.steady {
			return nil
		}
		return p
	}
	for _, p := range x.helped {
		if p.name == name && p.open > 0 {
			return p
		}
	}
	if !x.eng.cfg.Path(name).known() || len(x.helped) >= maxHelped {
		return nil
	}
	p := x.newPeer(host)
	x.helped = append(x.helped, p)
	p.open++ // or there would be nothing to staff for
	x.staff(p, x.lanesTo(p))
	p.open--
	x.lookAfter() // a host that has nothing to send by the plan had no lanes
	return p
}

// maxHelped bounds the peers beside those of the plan.
const maxHelped = 256

// landed notes that the receiver has read entry i.
func (sb *sendBlock) landed(i int) {
	if sb.s.extra && !sb.s.confirmed && sb.by[i] != byHad {
		sb.by[i] = byHad
		sb.awaited--
	}
}

// through confirms the extra sends to p all of whose entries have been read. It needs x.mu.
func (x *run) through(p *peer) {
	for _, s := range p.sends[p.first:] {
		if s.extra && !s.confirmed && s.unsent == 0 && s.blocks[0].awaited == 0 {
			x.confirm(s)
		}
	}
}

// news tells the host that r was to come from that it is complete: another has delivered the last of it. It
// needs x.mu.
func (x *run) news(r *recv) {
	if x.ended || x.ctx.Err() != nil {
		return
	}
	x.left++
	x.writers.Go(func() {
		pause := minPause
		for {
			_, _, err := x.confer(r.from.index, []frame{{kind: frameToken, number: r.ID}}, frameSeen)
			if err == nil || err == errOver {
				break
			}
			if !sleep(x.ctx, pause) {
				return
			}
			pause = min(2*pause, maxPause)
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.settle()
	})
}

// confirmed takes the news that p has all of a transfer from here, of which others have delivered the last. It needs x.mu.
func (x *run) confirmed(p *peer, transfer int) bool {
	for _, s := range p.sends {
		if s.ID == transfer && !s.extra {
			x.confirm(s)
			return true
		}
	}
	return false
}

// stands answers what this host has left for the site of a host.
func (x *run) stands(f *frame, out []byte) ([]byte, error) {
	if f.host >= len(x.part.Hosts) || f.host == x.part.Self {
		return out, fmt.Errorf("%w: asks for the way to host %d of %d", errMalformed, f.host, len(x.part.Hosts))
	}
	if f.kind == frameTogether {
		x.standBy()
		st := x.together(f.host)
		return st.frame().appendTo(out), nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.standing(f.host).frame().appendTo(out), nil
}

// standBy keeps this part from ending for a while: somebody may want help.
func (x *run) standBy() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.left == 0 || x.ended || x.ctx.Err() != nil || x.waits || x.standBys == maxStandBys {
		return
	}
	x.left++
	x.waits, x.standBys = true, x.standBys+1
	x.writers.Go(func() {
		sleep(x.ctx, standBy)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.waits = false
		x.settle()
	})
}
