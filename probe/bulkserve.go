package probe

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
)

// A bulkTable holds the bulk session that this host receives, of which there is at most one:
// the host's slot is held while it lasts. The zero value is ready to use.
type bulkTable struct {
	mu  sync.Mutex // guards now
	now *bulkSink
}

func (t *bulkTable) set(b *bulkSink) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = b
}

func (t *bulkTable) find(id string) *bulkSink {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil || t.now.id != id {
		return nil
	}
	return t.now
}

// A received is a data stream as the receiver sees it; a *lane.Stream is one.
type received interface {
	io.Reader
	SetDeadline(time.Time) error
	Stats() quic.ConnectionStats
	Abort()
}

// A bulkSink is the receiving side of one session.
type bulkSink struct {
	id    string
	lanes int
	until time.Time

	mu   sync.Mutex // guards the fields below; never held over I/O
	from []arriving
	over bool
	read int64 // user bytes that were read
	most int64 // of them

	told []sample // what was reported; of the goroutine that does
}

// arriving is a stream and what its connection had received before it.
type arriving struct {
	received
	bytes, packets uint64
}

// attach takes one more stream in, or returns false.
func (b *bulkSink) attach(s received) bool {
	st := s.Stats()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || len(b.from) == b.lanes {
		return false
	}
	b.from = append(b.from, arriving{s, st.BytesReceived, st.PacketsReceived})
	return true
}

// drain reads s to its end, or until the session has had all that was asked for.
func (b *bulkSink) drain(s received) {
	s.SetDeadline(b.until)
	buf := make([]byte, bulkChunk)
	for {
		n, err := s.Read(buf)
		b.mu.Lock()
		b.read += int64(n)
		over := b.read > b.most
		b.mu.Unlock()
		if err != nil || over {
			return
		}
	}
}

// arrived returns how many user bytes have arrived on how many lanes. What counts is what
// the connections have received, less what a packet of data carries beside: a stream is
// read in order, so behind a lost packet reads stand still for a round trip and then make a jump.
func (b *bulkSink) arrived() (bytes int64, lanes int) {
	b.mu.Lock()
	from := b.from
	b.mu.Unlock()
	for _, s := range from {
		st := s.Stats()
		bytes += int64(st.BytesReceived-s.bytes) - quicOverhead*int64(st.PacketsReceived-s.packets)
	}
	return bytes, len(from)
}

// end aborts all streams and takes no more.
func (b *bulkSink) end() {
	b.mu.Lock()
	b.over = true
	from := b.from
	b.mu.Unlock()
	for _, s := range from {
		s.Abort()
	}
}

// bulkStall is for how long nothing may arrive until the session is ended: who sends nothing holds
// this host's slot for nothing. Longer than outages that a connection lives through.
const bulkStall = askTime

// serveBulk receives the bulk transfer that m asks for, while this host's slot is held.
func (p *Prober) serveBulk(ctx context.Context, s *lane.Stream, m message) error {
	if p.pressed() || p.stopped() {
		return p.decline(s, busyRetry, "exchange")
	}
	select {
	case p.slot <- struct{}{}:
	default:
		return p.decline(s, slotRetry, "another probe")
	}
	defer func() { <-p.slot }()
	p.count(func(s *Stats) { s.Served++ })
	id := newTrainID()
	b := &bulkSink{
		id: hex.EncodeToString(id[:]), lanes: m.Count,
		most:  m.Bytes + int64(m.Count)*bulkChunk,
		until: time.Now().Add(min(time.Duration(m.SpanNS), maxBulkTime) + askTime),
	}
	p.bulks.set(b)
	defer p.bulks.set(nil)
	err := b.report(ctx, s, s.Stats().SmoothedRTT, p.cfg.Busy)
	if m.Glance {
		p.rec.glimpsed(s.Peer.Name, b.peak(glanceSpan(s.Stats().MinRTT)), time.Now())
	}
	return err
}

// nextReport returns how long after a report, made at since the start, the next one follows: a
// round trip at first, and later a small part of the time that has passed, so that a session
// makes some hundred reports at most, however long it is.
func nextReport(since, rtt time.Duration) time.Duration {
	return min(max(since/64, rtt, bulkPace), bulkPaceMost)
}

// report lets the initiator begin, and tells it again and again what has arrived, until it
// ends the session, its time is up or an exchange begins here.
func (b *bulkSink) report(ctx context.Context, s control, rtt time.Duration, busy func() bool) error {
	defer b.end()
	s.SetDeadline(b.until)
	if err := writeMessage(s, message{Op: opGo, ID: b.id}); err != nil {
		return err
	}
	start := time.Now()
	moved := start // when something arrived last
	ended := make(chan error, 1)
	go func() { // ends with the stream, at the latest at its deadline; waited for below
		_, err := s.Read(make([]byte, 1))
		if err == nil {
			err = errInvalid // there is nothing to be said
		}
		ended <- err
	}()
	t := time.NewTicker(min(nextReport(0, rtt), bulkWatch))
	defer t.Stop()
	due := start
	for last := int64(0); ; {
		var err error
		select {
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-t.C:
			if busy() {
				b.end()
				err = writeMessage(s, message{Op: opBusy, RetryMS: busyRetry.Milliseconds(), Why: "exchange"})
				s.CancelRead(0)
				<-ended
				return err
			}
			now := time.Now()
			if now.Before(due) {
				continue
			}
			due = now.Add(nextReport(now.Sub(start), rtt))
			bytes, lanes := b.arrived()
			b.told = append(b.told, sample{at: now.Sub(start), bytes: bytes})
			if bytes > last {
				last, moved = bytes, now
			} else if now.Sub(moved) > bulkStall {
				b.end()
				s.CancelRead(0)
				<-ended
				return fmt.Errorf("bulk: nothing has arrived for %v", now.Sub(moved))
			}
			err = writeMessage(s, message{Op: opProgress, Bytes: last, Count: lanes, SpanNS: int64(now.Sub(start))})
		}
		if err != nil {
			s.CancelRead(0)
			<-ended
			return err
		}
	}
}

// peak returns the highest rate at which bytes arrived for as long as span, bytes a second.
func (b *bulkSink) peak(span time.Duration) (rate float64) {
	before := cursor{ss: b.told}
	for _, s := range b.told {
		if from := s.at - span; from >= b.told[0].at {
			rate = max(rate, (float64(s.bytes)-before.bytes(from))/span.Seconds())
		}
	}
	return rate
}

// serveData receives one stream of the bulk transfer that m names.
func (p *Prober) serveData(s received, m message) error {
	b := p.bulks.find(m.ID)
	if b == nil || !b.attach(s) {
		s.Abort() // the session may just have ended: no offence
		return nil
	}
	b.drain(s)
	s.Abort()
	return nil
}

// The network edge's own type fits.
var (
	_ received   = (*lane.Stream)(nil)
	_ dataStream = (*lane.Stream)(nil)
)
