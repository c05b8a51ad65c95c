package lane_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// longFat is a path of 1 Gbit/s with a round trip of 100 ms, 12.5 MB in flight.
var longFat = gridnet.Link{Rate: 1000 * gridnet.Mbps, Latency: 50 * time.Millisecond}

// timeline reads s to its end and returns when each step of bytes had arrived.
func timeline(s *lane.Stream, step int) []time.Time {
	var at []time.Time
	buf := make([]byte, 1<<18)
	for n := 0; ; {
		k, err := s.Read(buf)
		n += k
		for len(at) < n/step {
			at = append(at, time.Now())
		}
		if err != nil {
			return at
		}
	}
}

// bulk sends size bytes over s and closes it.
func bulk(t testing.TB, s *lane.Stream, size int) {
	buf := make([]byte, 1<<16)
	for n := 0; n < size; n += len(buf) {
		if _, err := s.Write(buf); err != nil {
			t.Errorf("after %d bytes: %v", n, err)
			return
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	io.Copy(io.Discard, s)
}

// rateWith returns the goodput, in Mbit/s, of the second half of steps × 8 MiB on one
// stream over a long fat path, and how much of the receiver's budget its windows took.
func rateWith(t *testing.T, steps int, edit func(*lane.Config)) (mbps float64, taken uint64) {
	const step = 8 << 20
	gridtest.Run(t, gridtest.Pair(longFat), func(t *testing.T, n *gridnet.Network) {
		c := newCluster(t, n)
		a, b := c.start("a0"), c.prepare(c.listen("b0"), "b0", edit)
		arrived := make(chan []time.Time, 1)
		b.HandleStreams('x', func(_ context.Context, s *lane.Stream) {
			arrived <- timeline(s, step)
			s.Abort()
		})
		b.run(t)
		before := b.WindowLeft()
		bulk(t, a.open(t, "b0", 'x'), step*steps)
		at := <-arrived
		if len(at) != steps {
			t.Fatalf("%d of %d steps arrived", len(at), steps)
		}
		mbps = float64(step*steps/2*8) / 1e6 / at[steps-1].Sub(at[steps/2-1]).Seconds() // slow start is over by then
		taken = before - b.WindowLeft()
		a.stop()
		b.stop()
		if b.WindowLeft() != before {
			t.Errorf("%d of %d bytes of budget came back", b.WindowLeft(), before)
		}
	})
	return mbps, taken
}

// TestLongFatPath: one stream gets most of a path of 1 Gbit/s × 100 ms with the default
// windows, and with smaller ones it does not: the test can fail. The rest is lost to
// rounds without a window update, see defaultWindow.
func TestLongFatPath(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("moves 192 MiB")
	}
	mbps, taken := rateWith(t, 16, func(*lane.Config) {})
	t.Logf("default windows: %.0f Mbit/s, windows grew by %d KiB", mbps, taken>>10)
	if mbps < 700 {
		t.Errorf("one stream got %.0f Mbit/s of 1000", mbps)
	}
	if taken < 32<<20 || taken > 128<<20 {
		t.Errorf("windows grew by %d bytes", taken)
	}
	mbps, taken = rateWith(t, 8, func(c *lane.Config) { c.Window = 8 << 20 })
	t.Logf("window of 8 MiB: %.0f Mbit/s, windows grew by %d KiB", mbps, taken>>10)
	if mbps > 550 {
		t.Errorf("a window of 8 MiB gave %.0f Mbit/s over 100 ms", mbps)
	}
	mbps, taken = rateWith(t, 4, func(c *lane.Config) { c.WindowBudget = 1 })
	t.Logf("no budget: %.0f Mbit/s", mbps)
	if perRound := float64(3 << 19); taken != 0 || mbps > perRound*8/1e6/0.1*1.05 {
		t.Errorf("without a budget: %.0f Mbit/s, windows grew by %d bytes", mbps, taken)
	}
}

// A stream that nobody reads any more does not stop the other streams of its
// connection, be its window as large as they get.
func TestUnreadStream(t *testing.T) {
	gridtest.Run(t, gridtest.Pair(longFat), func(t *testing.T, n *gridnet.Network) {
		c := newCluster(t, n)
		a, b := c.start("a0"), c.prepare(c.listen("b0"), "b0", func(c *lane.Config) { c.Window = 8 << 20 })
		b.HandleStreams('x', func(ctx context.Context, s *lane.Stream) {
			io.CopyN(io.Discard, s, 24<<20) // the windows have grown by then
			<-ctx.Done()
			s.Abort()
		})
		b.run(t)
		var stuck sync.WaitGroup
		s := a.open(t, "b0", 'x')
		sent := int64(0)
		stuck.Go(func() { sent, _ = io.Copy(s, endless{}) })
		time.Sleep(20 * time.Second)
		a.mustTalk(t, "b0", 0)
		b.mustTalk(t, "a0", 0)
		s.Abort()
		stuck.Wait()
		if sent < 28<<20 {
			t.Errorf("%d bytes were sent: the window has not grown, this tests nothing", sent)
		}
		b.stop()
		a.stop()
	})
}

// endless reads zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
