package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/logp"
)

// A LogP session runs over one stream of the lane that carries exchanges, so that it
// measures what they pay. It is a row of batches: the initiator writes a request, and
// right behind it that many messages of that size.
//
// What differs from Kielmann, Bal and Verstoep: g(0) is the rise of the time from one
// message to n of them, and not that time over n, which settles only when n messages
// take far longer than a round trip; and or(m) is taken at the host that receives, since the
// two ends and the two directions may differ and only this direction is leased.
const (
	// logpTime bounds a session, and how long a silent initiator can hold a host's slot.
	logpTime = 12 * time.Second
	// logpBytes and logpBatches bound what a peer may send in a session.
	logpBytes   = 16 << 20
	logpBatches = 80

	pointRounds = 3 // of each size; their median withstands one that lost a packet
	// nearRounds are for small messages where a round trip takes less than nearTrip: there
	// they cost nothing, and the noise of the hosts is of the size of what is measured.
	nearRounds = 9
	nearTrip   = 2 * time.Millisecond
	smallSize  = 64 << 10
	// heldBytes bounds what a receiver leaves unread; a stream's window is 1 MiB.
	heldBytes = 256 << 10
	maxDelay  = 5 * time.Second
	// yieldPoll is how soon a session notices that it is to end.
	yieldPoll = 20 * time.Millisecond
)

// A batchKind says when the messages of a batch are answered.
type batchKind string

const (
	batchEach batchKind = "each" // each one, once it has been read
	batchLast batchKind = "last" // the last one
	batchHeld batchKind = "held" // the last one, and none is read until DelayNS have passed
)

// checkLogP refuses what no honest initiator asks for. It is part of [message.check].
func (m message) checkLogP() error {
	limit := int64(maxBurst)
	if m.Batch == batchHeld {
		limit = pointRounds
	} else if m.Batch == batchEach {
		limit = nearRounds
	}
	switch {
	case m.Size < 0 || m.Size > logp.MostSize:
		return fmt.Errorf("messages of %d bytes, want 0 to %d: %w", m.Size, logp.MostSize, errInvalid)
	case m.Messages < 0 || m.Messages > limit:
		return fmt.Errorf("%d messages %q, want 0 to %d: %w", m.Messages, m.Batch, limit, errInvalid)
	case m.DelayNS < 0 || m.DelayNS > int64(maxDelay):
		return fmt.Errorf("delay of %d ns, want 0 to %v: %w", m.DelayNS, maxDelay, errInvalid)
	case m.Op != opLogP:
		return nil
	case m.Batch != batchEach && m.Batch != batchLast && m.Batch != batchHeld:
		return fmt.Errorf("batch kind %q: %w", m.Batch, errInvalid)
	case m.Size == 0 || m.Messages == 0:
		return fmt.Errorf("batch of %d messages of %d bytes: %w", m.Messages, m.Size, errInvalid)
	case m.Batch == batchLast && m.Size > 1, m.Batch == batchHeld && m.Size*m.Messages > heldBytes:
		return fmt.Errorf("batch %q of %d messages of %d bytes: %w", m.Batch, m.Messages, m.Size, errInvalid)
	}
	return nil
}

// logp measures parametrised LogP of the path to peer. The caller holds this host's slot
// and, between sites, the lease of the link. more is asked every 20 ms, by a goroutine that
// ends with the session; when it says no the session ends with a [BusyError]. progress is told
// of each step, with the bytes sent so far. The number returned is of UDP payload, and holds
// where an error is returned, too.
func (p *Prober) logp(ctx context.Context, peer Peer, more func() bool, progress func(string, int64)) (logp.Model, int64, error) {
	octx, cancel := context.WithTimeout(ctx, logpTime)
	defer cancel()
	s, err := p.cfg.Endpoint.Open(octx, peer.Name, 0, lane.StreamProbe)
	if err != nil {
		return logp.Model{}, 0, err
	}
	before := s.Stats().BytesSent
	m, bytes, err := measureLogP(ctx, s, more, progress)
	// Small messages share packets or do not, as the sender's goroutines happen to run: only the
	// connection knows what they took.
	bytes = max(bytes, int64(s.Stats().BytesSent-before))
	if err != nil {
		s.Abort()
		return logp.Model{}, bytes, fmt.Errorf("logp: %w", err)
	}
	p.cfg.Log.Debug("measured logp", "peer", peer.Name, "points", len(m.Points), "bytes", bytes)
	return m, bytes, nil
}

// serveLogP answers the batches of an initiator, of which m is the first, with this
// host's slot held.
func (p *Prober) serveLogP(ctx context.Context, s control, m message) error {
	refuse := func(retry time.Duration, why string) error {
		defer s.CancelRead(0) // its messages are on their way; nobody will read them
		return p.decline(s, retry, why)
	}
	if p.cfg.Busy() || p.stopped() {
		return refuse(busyRetry, "exchange")
	}
	select {
	case p.slot <- struct{}{}:
	default:
		return refuse(slotRetry, "another probe")
	}
	defer func() { <-p.slot }()
	p.count(func(s *Stats) { s.Served++ })
	return respondLogP(ctx, s, m, p.cfg.Busy)
}

// measureLogP measures over s, which has just been opened, and ends it.
func measureLogP(ctx context.Context, s control, more func() bool, progress func(string, int64)) (logp.Model, int64, error) {
	s.SetDeadline(time.Now().Add(logpTime))
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { yieldWhen(ctx, more, cancel) })
	defer watch.Wait()
	defer cancel(nil)
	stop := context.AfterFunc(ctx, s.Abort)
	defer stop()

	l := logpMeter{s: s, progress: progress, start: time.Now()}
	m, err := l.measure()
	if err == nil {
		err = finish(s)
	} else {
		err = l.why(err)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // why the stream broke
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("not done within %v: %w", logpTime, err)
	}
	return m, l.bytes, err
}

// yieldWhen cancels with a [BusyError] once more says no. It returns when ctx ends.
func yieldWhen(ctx context.Context, more func() bool, cancel context.CancelCauseFunc) {
	for more() {
		if sleep(ctx, yieldPoll) != nil {
			return
		}
	}
	cancel(&BusyError{Retry: busyRetry, Why: "exchange"})
}
