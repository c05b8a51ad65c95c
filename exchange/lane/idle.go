package lane

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	// spareTime is how long a host's word that it has no use for a connection holds.
	spareTime = 2 * time.Minute
	// idleTime bounds the talk before a connection is closed.
	idleTime = 10 * time.Second
	// leastQuiet is how long no stream may have been open. What was written to one just before it
	// was closed is still on its way, and known to neither end; lost packets make that long.
	leastQuiet = 10 * time.Second
)

// What a peer answers to the question whether a connection may be closed.
const (
	answerKeep  byte = 'k'
	answerClose byte = 'c'
)

// use is what an end knows of the streams on a link. Guarded by the endpoint's lock.
type use struct {
	open []context.Context // of streams whose writing side here was open when last looked
	last time.Time         // when a stream was opened, or seen open, last
	full int               // look what has ended when there are so many

	spare    time.Time     // when this end said last that it has no use for the link
	quiet    time.Duration // after so much time without streams
	asked    bool          // the peer was asked since the last stream, and wants it kept
	retiring bool          // no more streams are opened here
}

// add notes a stream.
func (u *use) add(stream context.Context, now time.Time) {
	if len(u.open) >= u.full {
		u.look(now)
		u.full = 2*len(u.open) + 8
	}
	u.open = append(u.open, stream)
	u.last, u.asked, u.spare = now, false, time.Time{}
}

// look forgets the streams that have ended; any may have done so just now.
func (u *use) look(now time.Time) {
	if len(u.open) > 0 {
		u.last = now
	}
	u.open = slices.DeleteFunc(u.open, func(c context.Context) bool { return c.Err() != nil })
}

// isSpare reports whether this end can do without the link.
func (u *use) isSpare(now time.Time) bool {
	u.look(now)
	return !u.spare.IsZero() && now.Sub(u.spare) <= spareTime && now.Sub(u.last) >= u.quiet
}

// CloseIdle tells that this host has no use for its lane 0 to the member called name if no
// stream was open on it for quiet, at least 10 s. It is closed when the member says so, too: an end that opens streams
// there never finds it closed under them. Its word holds for two minutes, so call it again from
// time to time; a stream takes it back. It does not block.
func (e *Endpoint) CloseIdle(name string, quiet time.Duration) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	for _, l := range e.links.of[name] {
		if l.lane != 0 || l.up.Err() != nil {
			continue
		}
		l.use.spare, l.use.quiet = now, max(quiet, leastQuiet)
		if l.use.isSpare(now) && !l.use.asked && !l.use.retiring {
			l.use.retiring = true
			e.tasks.Go(func() { e.retire(l) })
		}
	}
}

// retire closes l if the peer agrees; streams are opened on other connections meanwhile.
func (e *Endpoint) retire(l *link) {
	agreed, err := askIdle(e.ctx, l.conn)
	if agreed {
		l.conn.CloseWithError(codeClosed, "idle") // the goroutine that serves it does the rest
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	l.use.retiring, l.use.asked = false, err == nil
}

// askIdle asks the peer whether conn may be closed.
func askIdle(ctx context.Context, conn *quic.Conn) (agreed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, idleTime)
	defer cancel()
	s, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return false, err
	}
	defer s.CancelRead(0)
	defer context.AfterFunc(ctx, func() { s.CancelRead(abortCode) })()
	s.SetWriteDeadline(time.Now().Add(idleTime))
	if _, err = s.Write([]byte{byte(StreamIdle)}); err == nil {
		err = s.Close()
	}
	if err != nil {
		s.CancelWrite(abortCode)
		return false, err
	}
	var b [1]byte
	_, err = io.ReadFull(s, b[:])
	return err == nil && b[0] == answerClose, err
}

// answerIdle answers a peer that asks whether l may be closed. If so, no stream is opened on it here
// from then on.
func (e *Endpoint) answerIdle(l *link, s *Stream) {
	e.mu.Lock()
	answer := answerKeep
	if l.lane == 0 && l.use.isSpare(time.Now()) {
		answer, l.use.retiring = answerClose, true
	}
	e.mu.Unlock()
	s.SetWriteDeadline(time.Now().Add(idleTime))
	s.CancelRead(0)
	if _, err := s.Write([]byte{answer}); err != nil {
		s.CancelWrite(abortCode)
		return
	}
	s.Close()
}

// reserve makes sure that l stays open until a stream is, or returns false.
func (e *Endpoint) reserve(l *link) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.use.last, l.use.asked, l.use.spare = time.Now(), false, time.Time{}
	return !l.use.retiring
}

// opened notes a stream on l.
func (e *Endpoint) opened(l *link, stream context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.use.add(stream, time.Now())
}
