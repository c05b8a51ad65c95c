package exchange

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// readAnswers reads what p answers on l until the stream ends.
func (x *run) readAnswers(p *peer, l *outLane) error {
	r := newFrameReader(l.stream)
	var f frame
	for {
		err := r.next(&f)
		if err == nil {
			err = x.answer(p, l, &f)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, errMalformed) {
			x.misbehaved(p, err)
		}
		x.mu.Lock()
		over := l.over && err == io.EOF
		l.broken = !over
		p.cond.Broadcast()
		x.mu.Unlock()
		if over {
			return err
		}
		if p.ctx.Err() == nil {
			l.stream.Abort() // or the writer would wait for a peer that has gone
		}
		return err
	}
}

// answer handles one frame of p. Its errors are errMalformed.
func (x *run) answer(p *peer, l *outLane, f *frame) error {
	if f.kind == frameFail {
		x.peerFailed(p, f.reason)
		return nil
	}
	x.mu.Lock()
	defer x.unlock()
	switch f.kind {
	case frameDone:
		// Of what goes beside the plan's way the answer to the whole comes here as well.
		if x.confirmed(p, f.number) || x.peers[p.name] != nil && x.confirmed(x.peers[p.name], f.number) {
			return nil
		}
		return fmt.Errorf("%w: done with transfer %d, which host %d does not receive from here", errMalformed, f.number, p.index)
	case frameSeen, frameLeftSeen:
		m := milestone{f.number, f.kind == frameLeftSeen}
		for _, t := range p.tokens {
			if t.milestone == m && t.ready {
				x.seen(p, t)
				return nil
			}
		}
		return fmt.Errorf("%w: token of transfer %d seen, which was not sent", errMalformed, f.number)
	case frameHave:
		return x.had(p, f)
	case frameGot:
		return x.got(p, l, int64(f.number), time.Duration(f.index)*time.Microsecond)
	case frameEnd:
		if p.asker == l {
			p.asker = nil
			x.resend(p)
		}
		return nil
	case frameComplete:
		for _, s := range p.sends {
			x.confirm(s)
		}
		for _, t := range p.tokens {
			x.seen(p, t)
		}
		return nil
	}
	return fmt.Errorf("%w: kind %#02x in an answer", errMalformed, f.kind)
}

// got takes the peer's answer that it has read bytes of l's chunks in all, at clock. Its error is
// errMalformed. It needs x.mu.
func (x *run) got(p *peer, l *outLane, bytes int64, clock time.Duration) error {
	now := time.Now()
	l.heard = now
	if l.win != nil || l.meter == nil { // a nil window says that nobody has asked
		if err := l.answered(bytes, clock); err != nil {
			return err
		}
		if p.held > 0 {
			p.cond.Broadcast()
		}
		x.through(p)
	}
	if bytes == 0 {
		return nil // the answer to the wish for answers: nothing has been carried
	}
	return l.meter.answered(bytes, now)
}

// confirm completes s: its receiver has everything. It needs x.mu.
func (x *run) confirm(s *send) {
	if s.confirmed {
		return
	}
	s.confirmed, s.end = true, time.Since(x.start)
	for _, sb := range s.blocks {
		sb.sent, sb.by = nil, nil
		if !s.extra {
			x.release(sb.b)
		}
	}
	x.departed(s)
	x.reached(milestone{s.ID, false})
	x.closeOne(s.to)
}

// release frees a block that was only forwarded once all who get it have it. It needs x.mu.
func (x *run) release(b *block) {
	if b.open--; b.open == 0 && b.Role == Forward && b.left == 0 {
		b.mem = memory{}
	}
}

// seen completes t. It needs x.mu.
func (x *run) seen(p *peer, t *token) {
	if t.seen {
		return
	}
	t.seen = true
	x.closeOne(p)
}

// closeOne counts one of p's sends or tokens as complete. It needs x.mu.
func (x *run) closeOne(p *peer) {
	if p.open--; p.open == 0 {
		p.cancel()
		p.cond.Broadcast()
		x.endAside(p)
	}
	x.settle()
}
