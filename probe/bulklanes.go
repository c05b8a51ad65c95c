package probe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// end aborts the data streams: what was written and not sent is dropped.
func (r *bulkRun) end() {
	r.mu.Lock()
	r.ended = true
	streams := r.streams
	r.mu.Unlock()
	for _, s := range streams {
		s.Abort()
	}
}

// lanes opens lanes until there are n.
func (r *bulkRun) lanes(ctx context.Context, n int) error {
	r.mu.Lock()
	have := len(r.streams)
	r.mu.Unlock()
	errs := make([]error, n-have)
	var dials sync.WaitGroup
	for i := range errs {
		dials.Go(func() { errs[i] = r.lane(ctx, have+i) })
	}
	dials.Wait()
	return errors.Join(errs...)
}

// lane opens one lane and begins to send on it.
func (r *bulkRun) lane(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, err := r.open(ctx, n)
	if err != nil {
		return fmt.Errorf("lane %d: %w", n, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		s.Abort()
		return errYielded
	}
	r.streams = append(r.streams, s)
	r.writers.Go(func() { r.send(s) })
	return nil
}

// send writes to one lane until the stream is aborted or all bytes are used up.
func (r *bulkRun) send(s dataStream) {
	b := make([]byte, bulkChunk)
	rand.Read(b) // a path that compresses must not gain
	if writeMessage(s, message{Op: opData, ID: r.id}) != nil {
		return
	}
	for r.written.Add(bulkChunk) <= r.o.bytes {
		if _, err := s.Write(b); err != nil {
			return
		}
	}
}

// plausible refuses a report that no honest receiver sends.
func (r *bulkRun) plausible(m message, now time.Duration, before []sample) error {
	span := time.Duration(m.SpanNS)
	lanes, sent := r.sent()
	switch {
	case m.Count > lanes:
		return fmt.Errorf("%d lanes of %d have arrived: %w", m.Count, lanes, errInvalid)
	case m.Bytes > sent:
		return fmt.Errorf("%d bytes have arrived of %d: %w", m.Bytes, sent, errInvalid)
	case span > now:
		return fmt.Errorf("%v have passed of %v: %w", span, now, errInvalid)
	}
	if len(before) > 0 {
		if last := before[len(before)-1]; m.Bytes < last.bytes || span < last.at {
			return fmt.Errorf("bytes or time fell, from %d, %v to %d, %v: %w", last.bytes, last.at, m.Bytes, span, errInvalid)
		}
	}
	return nil
}

// sent returns how many lanes there are, and how many bytes have left on them.
func (r *bulkRun) sent() (lanes int, bytes int64) {
	r.mu.Lock()
	streams := r.streams
	r.mu.Unlock()
	for _, s := range streams {
		bytes += int64(s.Stats().BytesSent)
	}
	return len(streams), bytes
}

// state notes the lanes' round trips, and returns how many packets they have lost and their
// congestion windows together.
func (r *bulkRun) state(res *bulkResult) (lost, window int64) {
	r.mu.Lock()
	streams := r.streams
	r.mu.Unlock()
	var sum time.Duration
	for _, s := range streams {
		st := s.Stats()
		lost += int64(st.PacketsLost)
		window += int64(st.CongestionWindow)
		sum += st.SmoothedRTT
		if st.MinRTT > 0 && (res.RTT == 0 || st.MinRTT < res.RTT) {
			res.RTT = st.MinRTT
		}
	}
	if len(streams) > 0 {
		res.Loaded = sum / time.Duration(len(streams))
	}
	return lost, window
}

// account adds up what was sent and lost.
func (r *bulkRun) account(res *bulkResult) {
	r.mu.Lock()
	streams := r.streams
	r.mu.Unlock()
	var packets, lost float64
	for _, s := range streams {
		st := s.Stats()
		res.Bytes += int64(st.BytesSent)
		packets += float64(st.PacketsSent)
		lost += float64(st.PacketsLost)
	}
	if packets > 0 {
		res.Loss = min(lost/packets, 1)
	}
}
