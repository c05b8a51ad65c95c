package exchange

import (
	"fmt"
	"math"
	"time"
)

// A mark says when, since the start of the run, the slice that ends at byte end of a stream's chunks went out: not
// before from, when it was offered to the transport, nor after at, when the transport had taken it; zero: not yet. On a busy machine whoever offered it
// may learn of that long after it has left, even after the answer.
type mark struct {
	end      int64
	from, at time.Duration
}

// slice waits until the window has room for the next bytes of a chunk of which left are not
// written, and returns how many. done of its bytes are. It does not wait when the run or the
// answers have ended: then the frame is finished, if there is time, and nothing more.
func (x *run) slice(p *peer, l *outLane, left, done int) int {
	if l.win == nil {
		if p.steady && l.by == "" {
			sleep(p.ctx, x.steadily(p, int64(left)))
		}
		return left
	}
	n, wait := x.grant(p, l, left, done, time.Now())
	sleep(p.ctx, wait)
	return n
}

// grant is slice, but for how long its bytes have to wait for the pacer. The transport had taken those before at now: whoever holds
// x.mu may be a while.
func (x *run) grant(p *peer, l *outLane, left, done int, now time.Time) (int, time.Duration) {
	x.mu.Lock()
	defer x.unlock()
	if done > 0 {
		l.passed(now.Sub(x.start))
	}
	n := min(int64(left), l.win.slice)
	if int64(left)-n < l.win.slice/4 {
		n = int64(left) // no slice of a few bytes
	}
	taken := false
	for !l.broken && p.ctx.Err() == nil {
		if p.quiet {
			l.win.cancel(l)
		} else if taken = l.win.take(l, n); taken {
			break
		}
		if len(x.wakes) > 0 {
			x.unlock()
			x.mu.Lock()
			continue
		}
		l.meter.enter(held, now)
		p.held++
		p.midway++
		p.idled = true
		p.cond.Wait()
		p.held--
		p.midway--
		now = time.Now()
		l.meter.enter(writing, now)
	}
	if !taken {
		l.win.force(l, n)
	}
	l.sent += n
	now = time.Now()
	wait := x.spaced(p, l, n, now)
	if l.pacer == nil {
		l.meter.waits(wait)
	}
	l.slices = append(l.slices, mark{end: l.sent, from: now.Add(wait).Sub(x.start)})
	return int(n), wait
}

// slice is how many bytes l writes at once.
func (l *outLane) slice() int {
	l.win.mu.Lock()
	defer l.win.mu.Unlock()
	return int(l.win.slice)
}

// step is what the peer of l is asked for: an answer after so many bytes, 0 for after each chunk.
func (l *outLane) step() int {
	if l.win == nil {
		return 0
	}
	l.win.mu.Lock()
	defer l.win.mu.Unlock()
	return int(l.win.step)
}

// greets notes that the peer is about to be asked for answers, which it gives at once for the first time.
// It is one packet, and as if it had been sent earlier by what a slice takes longer.
func (x *run) greets(l *outLane) {
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if l.win != nil {
		at := now.Sub(x.start) - l.win.rate.Time(l.win.slice)
		l.slices = append(l.slices, mark{from: at, at: at})
	}
}

// passed notes that the transport has taken the newest slice: what it waited for the lane's own
// congestion window is no queue on the way. It needs run.mu.
func (l *outLane) passed(now time.Duration) {
	if n := len(l.slices); n > 0 && l.slices[n-1].at == 0 {
		l.slices[n-1].at = max(now, 1)
	}
}

// answered notes that the peer has read got bytes of l's chunks when its clock, which began at any time, said
// clock. Its error is errMalformed. It needs run.mu.
func (l *outLane) answered(got int64, clock time.Duration) error {
	if l.win == nil || got < l.got || got > l.sent {
		return fmt.Errorf("%w: answer to %d bytes, which were not sent or not asked about", errMalformed, got)
	}
	best, most := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	n, at, trip := 0, l.win.run.start, time.Duration(math.MaxInt64)
	now := time.Since(at)
	read := l.got
	for ; n < len(l.slices) && l.slices[n].end <= got; n++ {
		s := l.slices[n]
		read = s.end
		if s.at != 0 && !l.win.run.early(s.at) {
			at, trip = l.win.run.start.Add(s.at), min(trip, now-s.at)
			behind := l.win.rate.Time(got - s.end) // what has come behind it took time
			best = min(best, l.win.took(l.win.run.began+s.at, clock)-behind)
			most = min(most, l.win.took(l.win.run.began+min(s.from, s.at), clock)-behind)
		}
	}
	if read < got && n < len(l.slices) && best < math.MaxInt64 {
		// The answer came in the middle of a slice, for which those before may have waited: slices go out far apart where many hosts share a slow link. When its first part went out is not known,
		// but no earlier than it was offered.
		s := l.slices[n]
		best = min(best, l.win.took(l.win.run.began+s.from, clock)+l.win.rate.Time(s.end-got))
	}
	l.slices = l.slices[n:]
	if best < math.MaxInt64 {
		late, known := l.win.lateness(best)
		l.meter.slice(late)
		if known { // the first one is late by nothing, whatever it met
			l.pacer.heard(late, at, time.Now())
		}
	}
	more := got - l.got
	l.got = got
	l.win.waited(trip, best)
	l.win.reply(l, more, best, most)
	l.landed(got)
	return nil
}

// stuck returns the bytes of l that were handed over longer ago than patience and are not
// answered. It needs run.mu.
func (l *outLane) stuck(now, patience time.Duration) (n int64) {
	from := l.got
	for _, s := range l.slices {
		if s.at == 0 || now-s.at <= patience {
			break
		}
		n += s.end - from
		from = s.end
	}
	return n
}
