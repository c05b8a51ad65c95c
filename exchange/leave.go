package exchange

import "time"

// A transfer that waits for another of the same host, or of which others are told that it has left, starts when the data have left the host. A stream over QUIC
// takes no more than it sends; a socket of TCP takes whole messages, and a slow port sends them much later. Where such a transfer was
// taken to have left, a host sent to two at once, each of which had another to hear: on one switch of 24 hosts with 5 Mbit/s
// a shift exchange of 64 KiB took 5.2 s over TCP and 2.9 over QUIC, where the bound is 2.5.
//
// So who writes such a transfer waits until the kernel keeps little of it. It waits no longer than what was written before would have kept anything
// that it could write meanwhile.
//
// The kernel also keeps what the congestion window holds back: a connection that has rested begins with ten packets, and its acknowledgements stand behind what
// the peer sends. The port is idle meanwhile. So a transfer counts as left as well when the port has had time for it and all before it, as long as of no more than
// mostEarly of them something is kept. On that switch aapc in order takes 3.4 s without that and 2.8 with it.

// keeping is the part of a stream that knows how much of what was written has not left this host; a lane's stream over TCP is one.
type keeping interface {
	// Kept returns how many bytes that is, 0 where nobody can tell. It does not block.
	Kept() int
}

const (
	// leastDrain is the least time that what is kept takes to leave for it to be waited for: the next transfer needs as much to begin, and each look costs a
	// system call and two switches of goroutines.
	leastDrain = time.Millisecond
	mostDrain  = 10 * time.Millisecond // between two looks
	// mostHeld is the size up to which a transfer is taken to have left before it has. A congestion window has grown before longer ones are through, and what is late
	// there shares the receiver's port: 24 hosts with 5 Mbit/s took 13.6 to 14.7 s for blocks of 256 KiB without this bound, and mostly take 12.0 to 13.4 with it.
	mostHeld = 192 << 10
	// mostEarly bounds the transfers that have been taken to have left and have not: where the port is not idle but slower than believed, so many more share it.
	mostEarly = 2
)

// A port is what the port of this host is busy with, as far as transfers are waited for. It is guarded by run.mu.
type port struct {
	free  time.Duration // since the start of the run: when it should be through with all of them
	early int           // of them, those that have been taken to have left and have not
}

// serve returns when the port should be through with so many bytes that are ready at some time of the run, at rate.
func (o *port) serve(ready time.Duration, bytes int64, rate float64) time.Duration {
	o.free = max(o.free, ready) + time.Duration(float64(bytes)/rate*float64(time.Second))
	return o.free
}

// awaited reports whether anything waits for the data of s to have left. It needs x.mu.
func (x *run) awaited(s *send) bool {
	return !s.left && (len(s.Notify) > 0 || len(x.waiting[milestone{s.ID, true}]) > 0)
}

// leave waits until what l has written of transfers for which others wait has left, and says so. It returns early where the lane is broken, or nothing
// is open for p any more.
func (x *run) leave(p *peer, l *outLane) {
	if len(l.leaving) == 0 {
		return
	}
	k := l.stream.(keeping)
	rate := float64(p.path.Drain)
	last := l.leaving[len(l.leaving)-1]
	due, early := last.out, false // early: they count as left
	for kept := k.Kept(); kept > 0; {
		wait := time.Duration(float64(kept) / rate * float64(time.Second))
		if wait < leastDrain {
			break
		}
		if !early && last.bytes() <= mostHeld {
			if left := due - time.Since(x.start); left > 0 {
				wait = min(wait, left)
			} else {
				early = x.overdue(l)
			}
		}
		began := time.Now()
		if !sleep(p.ctx, min(wait, mostDrain)) || x.isBroken(l) {
			break
		}
		now := k.Kept()
		if gone := float64(kept-now) / time.Since(began).Seconds(); gone > 0 {
			rate = gone // the port may serve others as well
		} else {
			rate /= 2
		}
		kept = now
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if early {
		x.port.early--
	}
	if !l.broken && p.ctx.Err() == nil {
		x.haveLeft(l)
	}
	l.leaving = l.leaving[:0]
}

// overdue takes what l waits for to have left, though it has not, unless too much has been before.
func (x *run) overdue(l *outLane) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.port.early >= mostEarly {
		return false
	}
	x.port.early++
	x.haveLeft(l)
	return true
}

// haveLeft says of what l waits for that it has left. It needs x.mu.
func (x *run) haveLeft(l *outLane) {
	for _, s := range l.leaving {
		if s.unsent == 0 && s.writing == 0 { // or some of it is to be written again
			x.departed(s)
		}
	}
}

func (x *run) isBroken(l *outLane) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return l.broken
}
