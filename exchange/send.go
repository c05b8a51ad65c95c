package exchange

import (
	"slices"
	"time"
)

// Marks in sendBlock.by beside 0 (nobody) and 1 + lane.
const (
	byGiven = 251 // another host delivers it
	byAgain = 252 // to be sent another time
	byLost  = 253 // its stream broke; whether it arrived is not known
	byHad   = 254 // the peer has said that it arrived
)

// A send is the state of a transfer from this host.
type send struct {
	*Send
	to         *peer
	blocks     []*sendBlock
	waits      int           // synchronisations outstanding
	ready      int           // entries that are here and not sent
	unsent     int           // entries not sent
	writing    int           // entries that lanes are writing
	left       bool          // all entries have been written once, or have arrived
	out        time.Duration // when the port should be through with it, see [run.leave]
	confirmed  bool
	start, end time.Duration
	started    bool
	extra      bool      // for another host, see relieving.go
	due        time.Time // when what was given away should have arrived; zero: nothing was
}

// bytes returns what the transfer carries.
func (s *send) bytes() (n int64) {
	for _, sb := range s.blocks {
		n += sb.b.Size
	}
	return n
}

// A sendBlock is one block of a transfer from this host. Both of its tables are
// dropped once the transfer is confirmed.
type sendBlock struct {
	b     *block
	s     *send
	sent  bitmap  // entries handed to a lane
	by    []uint8 // by which: 1 + lane, or a mark
	ready int     // entries that are here and not sent
	word  int     // words of sent before it are full

	// Of an extra send.
	once    bitmap // entries that were taken once
	awaited int    // entries taken and not landed
}

func newSendBlock(b *block, s *send) *sendBlock {
	sb := &sendBlock{b: b, s: s, sent: newBitmap(b.chunks + 1), by: make([]uint8, b.chunks+1)}
	for i := range b.chunks + 1 {
		if b.have.has(i) {
			sb.ready++
		}
	}
	return sb
}

// A token tells a host that this one has seen a milestone.
type token struct {
	milestone
	ready bool // it has been reached
	by    int  // 1 + lane that carries it; 0: none
	seen  bool // confirmed
}

// A work is what a lane writes next.
type work struct {
	kind  byte // a frame kind, or workDone, workStop, workBroken
	sb    *sendBlock
	index int
	mem   memory
	crc   bool // the chunk is to be summed: this is its origin
	token int
}

const (
	workDone   = 0xf0 // nothing is left for this peer
	workStop   = 0xf1 // the run has ended
	workBroken = 0xf2 // the answers have stopped
	workFlush  = 0xf3 // nothing can be added to what was gathered
	workLast   = 0xf4 // likewise, and nothing will be
)

// sumChunk adds a chunk to the checksum of one of this host's own blocks. With the last
// one the checksum can be sent.
func (x *run) sumChunk(b *block, index int, crc uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b.sum += sumWord(index, crc)
	if b.left--; b.left == 0 {
		x.available(b, b.chunks)
	}
}

// available tells the lanes that entry i of b can be sent. It needs x.mu.
func (x *run) available(b *block, i int) {
	b.have.set(i)
	for _, sb := range b.sends {
		if sb.s.confirmed || sb.sent.has(i) { // or given away
			continue
		}
		sb.ready++
		sb.s.ready++
		if sb.s.waits == 0 {
			sb.s.to.cond.Broadcast()
		}
	}
}

// next returns what lane l writes next, waiting until there is something.
func (x *run) next(p *peer, l *outLane) work {
	x.mu.Lock()
	defer x.unlock()
	for {
		switch {
		case p.open == 0:
			return work{kind: workDone}
		case x.ctx.Err() != nil:
			return work{kind: workStop}
		case l.broken:
			return work{kind: workBroken}
		case p.needAsk:
			p.needAsk, p.asker = false, l
			return work{kind: frameAsk}
		}
		for _, t := range p.tokens {
			if t.ready && t.by == 0 {
				t.by = 1 + l.n
				if t.milestone.left {
					return work{kind: frameLeft, token: t.transfer}
				}
				return work{kind: frameToken, token: t.transfer}
			}
		}
		works := !p.spares(l) && !p.rests(l)
		if p.midway > 0 {
			l.win.cancel(l) // or what it was given would be missing to those which it waits for
		}
		if l.win != nil && (p.midway > 0 || !l.win.begin(l, works && x.sendable(p))) {
			if len(x.wakes) > 0 {
				x.unlock()
				x.mu.Lock()
				continue
			}
			if l.gathered {
				return work{kind: workFlush}
			}
			l.meter.enter(held, time.Now())
			p.idled = true
			p.held++
			p.cond.Wait() // for an answer; chunks that have begun come first
			p.held--
			continue
		}
		if works {
			if w, ok := x.nextEntry(p, l); ok {
				return w
			}
			if w, ok := x.hedge(p, l, time.Now()); ok {
				return w
			}
			p.idled = true
		}
		if l.win.cancel(l); len(x.wakes) > 0 {
			x.unlock()
			x.mu.Lock()
			continue
		}
		if l.over = x.last(p, l); l.over {
			return work{kind: workLast}
		}
		if l.gathered {
			return work{kind: workFlush}
		}
		began := time.Now()
		l.meter.enter(starved, began)
		p.cond.Wait()
		p.stats.Starved += time.Since(began)
	}
}

// last reports whether l, which has nothing to write, is to end: its stream has carried all that is for p, which is near or gets little, and an end that goes out with that costs
// nothing. p ends its side with its answers. If some of it is to go again another stream is opened. It needs x.mu.
func (x *run) last(p *peer, l *outLane) bool {
	if _, ok := l.stream.(ender); !ok || l.win != nil || l.by != "" || p.main != nil || p.lanes != 1 || p.spare || p.asker != nil || !p.allOut() {
		return false
	}
	if !p.steady && x.site(p.name) != x.site(x.eng.cfg.Self) {
		return false
	}
	return !slices.ContainsFunc(p.tokens, func(t *token) bool { return t.by == 0 })
}

// sendable reports whether an entry of a transfer to p can be sent. It says no where nextEntry does: two lanes that ask for room and have no
// use for it would hand it to each other for ever. It needs x.mu.
func (x *run) sendable(p *peer) bool {
	if p.quiet || x.doubt.unsure && p.doubts {
		return false
	}
	for _, s := range p.sends[p.first:] {
		if !s.confirmed && s.waits == 0 && s.ready > 0 {
			return true
		}
	}
	return false
}

// nextEntry takes the first entry that can be sent, of the earliest transfer that has
// one. It needs x.mu.
func (x *run) nextEntry(p *peer, l *outLane) (work, bool) {
	if p.quiet {
		return work{}, false
	}
	for {
		for p.first < len(p.sends) && p.sends[p.first].confirmed {
			p.first++
		}
		for _, s := range p.sends[p.first:] {
			if s.confirmed || s.waits > 0 || s.ready == 0 {
				continue
			}
			for _, sb := range s.blocks {
				if sb.ready > 0 {
					if x.doubts(p, min(sb.b.Size, int64(x.part.Chunk))) {
						return work{}, false
					}
					return x.take(sb, l), true
				}
			}
		}
		if !x.borrow(p) {
			return work{}, false
		}
	}
}

// take hands the first entry of sb that can be sent to lane l. It needs x.mu.
func (x *run) take(sb *sendBlock, l *outLane) work {
	b, s, p := sb.b, sb.s, sb.s.to
	i, word := b.have.nextAndNot(sb.sent, sb.word)
	sb.word = word
	again := sb.by[i] == byAgain
	sb.sent.set(i)
	sb.by[i] = uint8(1 + l.n)
	sb.ready--
	s.ready--
	s.unsent--
	s.writing++
	if !s.started {
		s.started, s.start = true, time.Since(x.start)
	}
	if i == b.chunks {
		l.flies(sb, i, 0, 0, time.Now())
		return work{kind: frameSum, sb: sb, index: i}
	}
	w := work{kind: frameChunk, sb: sb, index: i, mem: b.mem}
	if b.recv == nil && !b.claimed.has(i) {
		b.claimed.set(i)
		w.crc = true
	}
	n := int64(b.size(i, x.part.Chunk))
	now := time.Now()
	l.wrote(sb, i, int(n), 0, now)
	if l.by != "" {
		x.relief.Detoured += n
	}
	if again {
		p.stats.Resent += n
	} else {
		p.stats.Sent += n
		x.data.Progress.Sent.Add(n)
	}
	return w
}

// written notes that l has written an entry, or has failed to.
func (x *run) written(l *outLane, w *work, err error) {
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	s := w.sb.s
	s.writing--
	if err == nil && w.kind == frameChunk {
		l.handed(now, x.start)
	}
	if err != nil || s.unsent > 0 || s.writing > 0 {
		return
	}
	if _, ok := l.stream.(keeping); ok && s.to.path.Drain > 0 && x.awaited(s) {
		s.out = x.port.serve(s.start, s.bytes(), float64(s.to.path.Drain))
		l.leaving = append(l.leaving, s)
		return
	}
	x.departed(s)
}

// departed notes that the data of s have left. It needs x.mu.
func (x *run) departed(s *send) {
	if s.left {
		return
	}
	s.left = true
	if !s.extra {
		x.land()
	}
	x.tell(milestone{s.ID, true}, s.Notify)
	x.reached(milestone{s.ID, true})
}
