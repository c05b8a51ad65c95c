package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gridagent/gridagent/probe/logp"
)

// respondLogP reads and answers the batches of s, of which m announces the first. The
// caller holds the host's slot. It returns nil when the initiator has ended the session, or
// has been told that this host is busy.
func respondLogP(ctx context.Context, s control, m message, busy func() bool) error {
	s.SetDeadline(time.Now().Add(logpTime))
	stop := context.AfterFunc(ctx, s.Abort)
	defer stop()
	r := logpReader{s: s, busy: busy, buf: make([]byte, logp.MostSize)}
	var bytes int64
	for range logpBatches {
		if bytes += m.Size * m.Messages; bytes > logpBytes {
			return fmt.Errorf("more than %d bytes in a session: %w", logpBytes, errInvalid)
		}
		err := r.batch(ctx, m)
		if errors.Is(err, errYield) {
			err = writeMessage(s, message{Op: opBusy, RetryMS: busyRetry.Milliseconds(), Why: "exchange"})
			s.CancelRead(0) // the initiator stops sending
			return err
		} else if err != nil {
			return err
		}
		if m, err = readMessage(s, opLogP); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return fmt.Errorf("more than %d batches in a session: %w", logpBatches, errInvalid)
}

// errYield says that an exchange has begun here.
var errYield = errors.New("an exchange has begun")

// A logpReader is the responder's side of a session.
type logpReader struct {
	s    control
	busy func() bool
	buf  []byte
}

// batch reads the messages that m announces and answers them.
func (r *logpReader) batch(ctx context.Context, m message) error {
	if m.Batch == batchHeld {
		return r.held(ctx, m)
	}
	for i := range m.Messages {
		for left := int(m.Size); left > 0; {
			if r.busy() {
				return errYield
			}
			n, err := r.s.Read(r.buf[:left])
			if left -= n; left > 0 && err != nil {
				return err
			}
		}
		if m.Batch == batchEach || i == m.Messages-1 {
			if err := writeMessage(r.s, message{Op: opTook}); err != nil {
				return err
			}
		}
	}
	return nil
}

// held waits, and then times how long this host takes to read each message. One that
// comes in two reads was still on its way, and does not count.
func (r *logpReader) held(ctx context.Context, m message) error {
	for until := time.Now().Add(time.Duration(m.DelayNS)); time.Until(until) > 0; {
		if r.busy() {
			return errYield
		}
		if err := sleep(ctx, min(time.Until(until), yieldPoll)); err != nil {
			return err
		}
	}
	var took []time.Duration
	for range m.Messages {
		start := time.Now()
		n, err := r.s.Read(r.buf[:m.Size])
		d := time.Since(start)
		if n == int(m.Size) {
			took = append(took, d)
			continue
		}
		if err == nil {
			_, err = io.ReadFull(r.s, r.buf[n:m.Size])
		}
		if err != nil {
			return err
		}
	}
	answer := message{Op: opTook, Messages: int64(len(took))}
	if len(took) > 0 {
		answer.SpanNS = int64(medianTime(took))
	}
	return writeMessage(r.s, answer)
}
