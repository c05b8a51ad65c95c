package probe

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// sessionTime bounds a session of trains, and how long a silent initiator can hold a host's slot.
	sessionTime = 12 * time.Second
	// sessionTrains bounds the trains of a session; doubling from 16 to 256 takes 5.
	sessionTrains   = 6
	maxSessionBytes = sessionTrains * maxTrain * trainPayload
	// askTime bounds the wait for a short answer, over the slowest link.
	askTime = 8 * time.Second
)

// finish ends a stream that this side opened and expects nothing more from. Without
// the CancelRead the stream would stay, waiting for somebody to read its end.
func finish(s control) error {
	err := s.Close()
	s.CancelRead(0)
	return err
}

// A control is what a session needs of a probe stream; a *lane.Stream is one.
type control interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
	CancelRead(quic.StreamErrorCode)
	Abort()
}

// A result is what a session of trains found out about one direction.
type result struct {
	Bandwidth netmap.BytesPerSec // user bytes of QUIC streams
	Spread    float64
	Bytes     int64 // sent for it, UDP payload
	Trains    int
	Enough    int  // packets of which the last train had been long enough to time, 0 if it was too short
	Shaped    bool // a token bucket was seen
	// Packets of trains of at least firstTrain of which most arrived, and how many of those were lost: what is lost
	// of the others was refused by a full queue. Of 6 packets one is more than that, of 8 two: were shorter
	// trains counted, those that lost none alone would say that the path loses less than it does, or nothing.
	sent, lost int
	// Limited says that the sender was no faster than what arrived: Bandwidth is a
	// lower bound, and Spread at least a half.
	Limited bool
}

// A sendFunc sends a train and returns how long that took.
type sendFunc = func(trainID, int) (time.Duration, error)

// initiate asks the host at the other end of s for trains until one is long enough,
// and returns what it read. ask is the first question, with the length of the first train. more is
// asked before each train after that. A second opinion that is let in during an exchange of the peer ends with one train, which is
// all that it is let in for. The result holds the bytes sent even where an error is returned.
func initiate(ctx context.Context, s control, ask message, send sendFunc, more func() bool) (result, error) {
	s.SetDeadline(time.Now().Add(sessionTime))
	stop := context.AfterFunc(ctx, s.Abort)
	defer stop()
	var res result
	for count := ask.Count; count > 0; {
		ask.Count = count
		if err := writeMessage(s, ask); err != nil {
			return res, err
		}
		m, err := readMessage(s, opGo)
		if ask.Urgent && res.Trains > 0 && errors.As(err, new(*BusyError)) {
			finish(s) // an error says that the peer has done so
			return res, nil
		}
		if err != nil {
			return res, err
		}
		id, err := m.trainID()
		if err != nil {
			return res, err
		}
		took, err := send(id, count)
		res.Bytes += int64(count) * trainPayload
		res.Trains++
		if err != nil {
			return res, err
		}
		if err := writeMessage(s, message{Op: opSent}); err != nil {
			return res, err
		}
		if m, err = readMessage(s, opReading); err != nil {
			return res, err
		}
		if m.Lost != "" {
			return res, fmt.Errorf("train of %d packets: peer read no rate: %q", count, m.Lost)
		}
		r := m.reading()
		if r.Received > count {
			return res, fmt.Errorf("%d of %d packets received: %w", r.Received, count, errInvalid)
		}
		res.take(r, count, took)
		res.Enough = enoughLength(count, r)
		if count = nextLength(count, r); res.Trains == sessionTrains || !more() {
			break
		}
	}
	return res, finish(s)
}

// take makes r, read from a train of count packets that took that long to send, the result.
func (res *result) take(r reading, count int, took time.Duration) {
	res.Shaped, res.Spread = r.Shaped, r.Spread
	if lost := count - r.Received; count >= firstTrain && lost <= count/8 {
		res.sent += count
		res.lost += lost
	}
	// What leaves the host as slowly as it arrives was slowed down by the host. A full
	// train only: in 16 packets the first read at the far end is too coarse.
	res.Limited = count == maxTrain && float64(r.Span) < 1.15*float64(took)
	// Nothing arrives faster than it was sent: a reader that finds a full queue
	// measures itself. In virtual time sending may take none.
	if sent := float64(count) / took.Seconds(); r.Rate > sent {
		r.Rate, res.Limited = sent, true
	}
	// The receiver's queue, and not a link, loses most of a train.
	if res.Limited || 2*r.Received < count {
		res.Spread = max(res.Spread, 0.5)
	}
	res.Bandwidth = bandwidth(r.Rate)
}

// respond grants the train that m asks for, and those that follow on s, and tells heard what it
// read of the last, which is what the initiator goes by: those before were too short to time, and
// 8 packets of a fast link that are found at once seem many times as fast. The caller holds the host's
// slot. It returns nil when the initiator has ended the session.
func (c *catcher) respond(ctx context.Context, s control, m message, busy func() bool, heard func(reading)) error {
	s.SetDeadline(time.Now().Add(sessionTime))
	var last reading
	defer func() { // however the session ends, or one that breaks it off would not be judged by it
		if last.Points >= minArrivals {
			heard(last)
		}
	}()
	for range sessionTrains {
		if busy() {
			return writeMessage(s, message{Op: opBusy, RetryMS: busyRetry.Milliseconds(), Why: "exchange"})
		}
		id, full := c.expect(m.Count)
		err := c.catch(ctx, s, id, full)
		as := c.take()
		if err != nil {
			return err
		}
		answer := message{Op: opReading, Received: len(as)}
		least := minArrivals
		if m.Urgent {
			least = fewArrivals
		}
		if r, err := readTrain(as, m.Count, least); err != nil {
			answer.Lost = err.Error()
		} else {
			answer, last = readingMessage(r), r
		}
		if err := writeMessage(s, answer); err != nil {
			return err
		}
		if m, err = readMessage(s, opTrain); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return fmt.Errorf("more than %d trains in a session: %w", sessionTrains, errInvalid)
}

// catch tells the initiator to send, and returns when all has arrived or nothing more will.
func (c *catcher) catch(ctx context.Context, s control, id trainID, full <-chan struct{}) error {
	if err := writeMessage(s, message{Op: opGo, ID: hex.EncodeToString(id[:])}); err != nil {
		return err
	}
	if _, err := readMessage(s, opSent); err != nil {
		return err
	}
	sent := time.Now()
	for {
		d := c.patience(sent, time.Now())
		if d <= 0 {
			return nil
		}
		t := time.NewTimer(d)
		select {
		case <-full:
			t.Stop()
			return nil
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

// pings is how many round trips one round of pings makes; the least counts.
const pings = 3

// ping measures the round trip of s and returns the least of a few.
func ping(ctx context.Context, s control) (time.Duration, error) {
	s.SetDeadline(time.Now().Add(askTime))
	stop := context.AfterFunc(ctx, s.Abort)
	defer stop()
	least := maxRTT
	for range pings {
		start := time.Now()
		if err := writeMessage(s, message{Op: opPing}); err != nil {
			return 0, err
		}
		if _, err := readMessage(s, opPong); err != nil {
			return 0, err
		}
		least = min(least, time.Since(start))
	}
	return least, finish(s)
}

// pong answers the first ping of s, which has been read, and those that follow.
func pong(s control) error {
	s.SetDeadline(time.Now().Add(askTime))
	for range 2 * pings {
		if err := writeMessage(s, message{Op: opPong}); err != nil {
			return err
		}
		if _, err := readMessage(s, opPing); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return fmt.Errorf("more than %d pings on a stream: %w", 2*pings, errInvalid)
}

// sender returns the function with which [initiate] sends trains to addr.
func sender(ctx context.Context, e Endpoint, addr net.Addr) func(trainID, int) (time.Duration, error) {
	return func(id trainID, count int) (time.Duration, error) {
		return sendTrain(ctx, e, addr, id, count)
	}
}

// The network edge's own type fits.
var _ control = (*lane.Stream)(nil)
