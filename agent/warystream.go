package agent

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange"
)

const (
	// wareEvery is how often a stream is looked after on which nothing has been heard.
	wareEvery = 500 * time.Millisecond
	// maxSaid bounds what is kept of such a stream to say it again, in bytes. It is less than what a connection takes without
	// an answer.
	maxSaid = 64 << 10
)

// A waryStream is a straight stream on a connection that may be dead: quic-go finds that out after a minute, and opens streams until then. As
// long as nothing has been read on it, and packets go out without any coming back, it is given up; what was written is said
// again on a stream by way of another host. One on which more was said than is kept just ends: whoever writes so much without an
// answer has another way of its own (contributions go by way of the coordinator).
//
// So is a stream when the way is found broken by who else looks: where it is so in one direction only, packets come back.
//
// Nothing is moved once the peer has answered: it knows the stream then, and groups have their own rule for silence (group/session.go).
type waryStream struct {
	w        *groupWays
	host     string
	straight straightStream
	ctx      context.Context // ends when the stream does
	cancel   context.CancelFunc
	sound    bool // the way was not known to be broken when the stream was opened

	wmu sync.Mutex // held by Write and Close, and where what was written is said again

	mu       sync.Mutex // guards the fields below
	s        group.Stream
	state    wareState
	ear      exchange.Ear
	tick     *time.Timer
	said     []byte        // what was written
	whole    bool          // it is all in said
	closed   bool          // by Close
	deadline time.Time     // of reads
	moved    chan struct{} // closed when a move has ended
}

// wareState is what is known of the stream.
type wareState byte

const (
	waryState    wareState = iota // nothing has been heard
	movingState                   // it was given up, and another one is being opened
	settledState                  // it stays what it is
)

// watch returns s as a stream that goes by way of another host if nothing comes back.
func (w *groupWays) watch(host string, s straightStream) group.Stream {
	y := &waryStream{w: w, host: host, straight: s, s: s, whole: true, sound: !w.broken(host)}
	y.ctx, y.cancel = context.WithCancel(context.Background())
	y.mu.Lock()
	defer y.mu.Unlock()
	y.tick = time.AfterFunc(wareEvery, y.look)
	return y
}

// look ends with the stream, or when there is nothing to look after any more.
func (y *waryStream) look() {
	y.mu.Lock()
	if y.state != waryState {
		y.mu.Unlock()
		return
	}
	st := y.straight.Stats()
	silent := y.ear.Silent(st.PacketsSent, st.PacketsReceived, time.Now(), st.SmoothedRTT)
	if !silent && !(y.sound && y.w.broken(y.host)) {
		y.tick.Reset(wareEvery)
		y.mu.Unlock()
		return
	}
	again := y.whole
	if y.state = settledState; again {
		y.state, y.moved = movingState, make(chan struct{})
	}
	heard := y.ear.Heard()
	y.mu.Unlock()
	y.w.giveUp(y.host, heard)
	if !again {
		y.straight.Abort()
		return
	}
	y.straight.CancelRead(group.MovedCode)
	y.straight.CancelWrite(group.MovedCode) // the peer may have heard all, and waits for it to come again
	y.move()
}

// move says what was written once more, by way of another host. The straight stream has ended; without another one, so has the stream.
func (y *waryStream) move() {
	defer close(y.moved)
	s, err := y.w.detour(y.ctx, y.host)
	if err != nil {
		y.w.log.Debug("a group's control stream ends", "peer", y.host, "err", err)
		y.settle()
		return
	}
	stop := context.AfterFunc(y.ctx, s.Abort)
	defer stop()
	y.wmu.Lock()
	defer y.wmu.Unlock()
	y.mu.Lock()
	said, whole, closed := y.said, y.whole, y.closed
	y.mu.Unlock()
	if whole {
		_, err = s.Write(said)
	}
	if !whole || err != nil {
		s.Abort()
		y.settle()
		return
	}
	if closed {
		s.Close()
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.state != movingState || !stop() {
		s.Abort() // the stream has ended meanwhile
		return
	}
	s.SetReadDeadline(y.deadline)
	y.s, y.state, y.said = s, settledState, nil
}

// settle leaves the stream what it is from now on.
func (y *waryStream) settle() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.state, y.said, y.whole = settledState, nil, false
	y.tick.Stop()
}

// Read reads what the peer has written, on whichever stream.
func (y *waryStream) Read(p []byte) (int, error) {
	for {
		y.mu.Lock()
		s := y.s
		y.mu.Unlock()
		n, err := s.Read(p)
		y.mu.Lock()
		switch {
		case n == 0 && err != nil && y.state == movingState:
			moved, deadline := y.moved, y.deadline
			y.mu.Unlock()
			if err := y.await(moved, deadline); err != nil {
				return 0, err
			}
			continue
		case n == 0 && err != nil && y.s != s:
			y.mu.Unlock()
			continue
		case y.state == waryState && (n > 0 || err != nil && !errors.Is(err, os.ErrDeadlineExceeded)):
			y.state, y.said, y.whole = settledState, nil, false
			y.tick.Stop()
		}
		y.mu.Unlock()
		return n, err
	}
}

// await waits until a move has ended, or for the deadline of reads, zero for none.
func (y *waryStream) await(moved <-chan struct{}, deadline time.Time) error {
	var late <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-moved:
		return nil
	case <-late:
		return os.ErrDeadlineExceeded
	case <-y.ctx.Done():
		return context.Canceled
	}
}

// Write writes p, or keeps it until the stream has another way.
func (y *waryStream) Write(p []byte) (int, error) {
	y.wmu.Lock()
	defer y.wmu.Unlock()
	y.mu.Lock()
	s := y.s
	if y.state != settledState && y.whole {
		if y.whole = len(y.said)+len(p) <= maxSaid; y.whole {
			y.said = append(y.said, p...)
		} else {
			y.said = nil
		}
	}
	kept := y.state == movingState && y.whole
	y.mu.Unlock()
	if kept {
		return len(p), nil
	}
	n, err := s.Write(p)
	y.mu.Lock()
	defer y.mu.Unlock()
	if err != nil && y.state == movingState && y.whole {
		return len(p), nil
	}
	return n, err
}

// Aside reports whether the stream goes by way of another host by now.
func (y *waryStream) Aside() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.s != group.Stream(y.straight)
}

// Heard counts the packets that have come on a straight stream that is no QUIC's: of QUIC's connections others know.
func (y *waryStream) Heard() uint64 {
	if h, ok := y.straight.(interface{ Heard() uint64 }); ok {
		return h.Heard()
	}
	return 0
}

// Close ends the writing side.
func (y *waryStream) Close() error {
	y.wmu.Lock()
	defer y.wmu.Unlock()
	y.mu.Lock()
	y.closed = true
	s, moving := y.s, y.state == movingState
	y.mu.Unlock()
	if moving {
		return nil // the move does it
	}
	return s.Close()
}

// SetReadDeadline bounds the reads. The goroutine that reads calls it.
func (y *waryStream) SetReadDeadline(t time.Time) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.deadline = t
	return y.s.SetReadDeadline(t)
}

// CancelRead ends the reading side, and with it the watch: nobody waits for an answer.
func (y *waryStream) CancelRead(code quic.StreamErrorCode) {
	y.settle()
	y.cancel()
	y.mu.Lock()
	defer y.mu.Unlock()
	y.s.CancelRead(code)
}

// Abort ends both directions at once.
func (y *waryStream) Abort() {
	y.settle()
	y.cancel()
	y.mu.Lock()
	defer y.mu.Unlock()
	y.s.Abort()
}
