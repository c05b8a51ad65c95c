package group

import (
	"bytes"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A drip gives a byte each second, then nothing.
type drip struct {
	tape
	deadline time.Time
}

func (d *drip) SetReadDeadline(t time.Time) error { d.deadline = t; return nil }

func (d *drip) Read(b []byte) (int, error) {
	wait := time.Second
	if d.Len() == 0 {
		wait = time.Hour
	}
	if left := time.Until(d.deadline); left < wait {
		time.Sleep(left)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(wait)
	return d.tape.Read(b[:1])
}

// TestSlowMessageIsNoSilence: a message may take longer than the patience, silence may not.
func TestSlowMessageIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(drip)
		plan := bytes.Repeat([]byte("x"), 200)
		if err := newStreamConn(d).Send(message{Kind: kindPlan, Part: plan}); err != nil {
			t.Fatal(err)
		}
		c := newStreamConn(d)
		c.beats = true
		if m, err := c.Recv(); err != nil || !bytes.Equal(m.Part, plan) {
			t.Fatalf("%+v, %v", m, err)
		}
		silent := time.Now()
		if m, err := c.Recv(); err != errSilent || time.Since(silent) != beatPatience {
			t.Errorf("after %v of silence: %+v, %v", time.Since(silent), m, err)
		}
	})
}

// TestHeardElsewhereIsNoSilence: beats that are late do not kill a host from which other
// things arrive; one from which nothing does is dead after the patience, and nobody is waited
// for without end.
func TestHeardElsewhereIsNoSilence(t *testing.T) {
	for _, tt := range []struct {
		heardFor, want time.Duration
	}{
		{0, beatPatience},
		{20 * time.Second, 20*time.Second + beatPatience}, // looked at every 1.5 s
		{time.Hour, longPatience},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			c := newStreamConn(new(drip))
			c.beats = true
			c.heard = func() uint64 { return uint64(min(time.Since(begun), tt.heardFor)) }
			if m, err := c.Recv(); err != errSilent || time.Since(begun) < tt.want || time.Since(begun) > tt.want+2*beatPause {
				t.Errorf("heard for %v: after %v: %+v, %v; want silence after %v", tt.heardFor, time.Since(begun), m, err, tt.want)
			}
		})
	}
}
