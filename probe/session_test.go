package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
)

// A pipe is a control stream in memory.
type pipe struct{ net.Conn }

func (p pipe) CancelRead(quic.StreamErrorCode) {}
func (p pipe) Abort()                          { p.Close() }

func pipes() (pipe, pipe) {
	a, b := net.Pipe()
	return pipe{a}, pipe{b}
}

func idle() bool   { return false }
func always() bool { return true }

// feed returns a send function that hands the packets of a train to c, spaced by unit,
// and loses those that drop says.
func feed(c *catcher, unit time.Duration, drop func(seq int) bool) func(trainID, int) (time.Duration, error) {
	return func(id trainID, count int) (time.Duration, error) {
		p := make([]byte, trainPayload-1)
		copy(p, id[:])
		for seq := range count {
			time.Sleep(unit)
			if drop(seq) {
				continue
			}
			binary.BigEndian.PutUint16(p[len(id):], uint16(seq))
			c.packet(p, nil, time.Now())
			c.packet(p, nil, time.Now()) // a duplicate
		}
		return 0, nil
	}
}

func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipes()
		c := &catcher{}
		served := make(chan error, 1)
		go func() {
			m, err := readMessage(b, opTrain)
			if err == nil {
				err = c.respond(t.Context(), b, m, idle, func(reading) {})
			}
			served <- err
		}()
		res, err := initiate(t.Context(), a, message{Op: opTrain, Count: firstTrain}, feed(c, 100*time.Microsecond, func(seq int) bool { return seq == 7 }), always)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-served; err != nil {
			t.Fatal(err)
		}
		if want := bandwidth(1e4); res.Bandwidth < want*0.99 || res.Bandwidth > want*1.01 || res.Trains != 2 || res.Limited {
			t.Errorf("%+v, want %v in 2 trains", res, want)
		}
		if c.count != 0 {
			t.Error("the train is still expected")
		}
	})
}

// An initiator that stays silent loses the slot, one that is cut off too.
func TestRespondEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipes()
		defer a.Close()
		c := &catcher{}
		start := time.Now()
		go io.Copy(io.Discard, a)
		if err := c.respond(t.Context(), b, message{Op: opTrain, Count: 16}, idle, func(reading) {}); err == nil {
			t.Error("no error from a silent initiator")
		}
		if d := time.Since(start); d != sessionTime {
			t.Errorf("the slot was held %v, want %v", d, sessionTime)
		}
	})
}

// An exchange that starts between two trains ends the session.
func TestRespondYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipes()
		c := &catcher{}
		calls := 0
		go func() {
			m, _ := readMessage(b, opTrain)
			c.respond(t.Context(), b, m, func() bool { calls++; return calls > 1 }, func(reading) {})
		}()
		res, err := initiate(t.Context(), a, message{Op: opTrain, Count: firstTrain}, feed(c, 10*time.Microsecond, func(int) bool { return false }), always)
		var busy *BusyError
		if !errors.As(err, &busy) || res.Trains != 1 || res.Bytes != firstTrain*trainPayload {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// A train of which nothing arrives is an error that says so, soon, and no rate.
func TestLostTrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipes()
		c := &catcher{}
		go func() {
			m, _ := readMessage(b, opTrain)
			c.respond(t.Context(), b, m, idle, func(reading) {})
		}()
		start := time.Now()
		res, err := initiate(t.Context(), a, message{Op: opTrain, Count: firstTrain}, feed(c, 0, func(seq int) bool { return seq > 2 }), always)
		if err == nil || res.Bandwidth != 0 || time.Since(start) > time.Second {
			t.Errorf("%+v, %v after %v", res, err, time.Since(start))
		}
		a.Close()
		synctest.Wait()
	})
}

// A peer that lies is found out before anything is recorded.
func TestInitiateRefusesLies(t *testing.T) {
	honest := message{Op: opReading, Received: 16, Rate: 1e5, SpanNS: 1e8, Points: 16}
	tests := map[string]func(*message){
		"more packets than sent": func(m *message) { m.Received = 17 },
		"negative rate":          func(m *message) { m.Rate = -1 },
		"11 Tbit/s":              func(m *message) { m.Rate = 11e12 / 8 },
		"span of two minutes":    func(m *message) { m.SpanNS = int64(2 * time.Minute) },
		"another op":             func(m *message) { m.Op = opGo },
	}
	for name, lie := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pipes()
				go func() {
					readMessage(b, opTrain)
					writeMessage(b, message{Op: opGo, ID: "00112233445566778899aabbccddeeff"})
					readMessage(b, opSent)
					m := honest
					lie(&m)
					writeMessage(b, m)
				}()
				res, err := initiate(t.Context(), a, message{Op: opTrain, Count: firstTrain}, func(trainID, int) (time.Duration, error) { return 0, nil }, always)
				if !errors.Is(err, errInvalid) || res.Bandwidth != 0 {
					t.Errorf("%+v, %v", res, err)
				}
			})
		})
	}
}

// Packets of another train, of none, or of a wrong size are counted and change nothing.
func TestCatcherIgnoresStrangers(t *testing.T) {
	c := &catcher{}
	now := time.Unix(1e9, 0)
	p := make([]byte, trainPayload-1)
	c.packet(p, nil, now) // no train: not even the zero id is one
	id, full := c.expect(8)
	other := newTrainID()
	copy(p, other[:])
	c.packet(p, nil, now)
	copy(p, id[:])
	c.packet(p[:100], nil, now)
	c.packet(nil, nil, now)
	if n := c.strays(); n != 4 {
		t.Errorf("%d strays, want 4", n)
	}
	for seq := range 300 {
		binary.BigEndian.PutUint16(p[len(id):], uint16(seq))
		c.packet(p, nil, now.Add(time.Duration(seq)))
	}
	select {
	case <-full:
	default:
		t.Error("8 of 8 packets are in, and full is open")
	}
	if as := c.take(); len(as) != 8 {
		t.Errorf("%d arrivals, want 8", len(as))
	}
	c.packet(p, nil, now)
	if n := c.strays(); n != 5 {
		t.Errorf("%d strays after the train, want 5", n)
	}
}

func FuzzPacket(f *testing.F) {
	f.Add([]byte{}, uint16(3))
	f.Add(make([]byte, trainPayload-1), uint16(300))
	f.Fuzz(func(t *testing.T, p []byte, seq uint16) {
		c := &catcher{}
		id, _ := c.expect(maxTrain)
		c.packet(p, nil, time.Unix(1e9, 0))
		if len(p) >= trainHeader {
			copy(p, id[:])
			binary.BigEndian.PutUint16(p[len(id):], seq)
			c.packet(p, nil, time.Unix(1e9, 0))
		}
		for _, a := range c.take() {
			if a.Seq < 0 || a.Seq >= maxTrain || len(p) != trainPayload-1 {
				t.Fatalf("%d bytes numbered %d arrived as %+v", len(p), seq, a)
			}
		}
	})
}

func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipes()
		go func() {
			readMessage(b, opPing)
			if err := pong(b); err != nil {
				t.Error(err)
			}
		}()
		if d, err := ping(t.Context(), a); err != nil || d != 0 {
			t.Errorf("%v, %v over a pipe without delay", d, err)
		}
		synctest.Wait()
		// A peer that never answers holds the caller no longer than its context.
		c, d := pipes()
		go io.Copy(io.Discard, d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := ping(ctx, c); err == nil {
			t.Error("a round trip from a silent peer")
		}
		if ctx.Err() == nil {
			t.Error("given up early")
		}
	})
}
