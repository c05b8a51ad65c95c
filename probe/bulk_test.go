package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

var tenMbps = gridnet.Link{Rate: 10 * gridnet.Mbps, Latency: 20 * time.Millisecond}

// crossed returns the bytes that have crossed the link a→b.
func (w *bulkWorld) crossed() uint64 {
	for _, l := range w.n.Stats().Links {
		if l.From == "a" {
			return uint64(l.Delivered.Bytes)
		}
	}
	return 0
}

// receives reports whether m holds a bulk session as its receiver.
func (m *member) receives() bool {
	m.prober.bulks.mu.Lock()
	defer m.prober.bulks.mu.Unlock()
	return m.prober.bulks.now != nil
}

// A session whose permission ends is quiet within a report's time, and leaves nothing behind:
// no lanes, no slot, no session at the receiver.
func TestBulkYields(t *testing.T) {
	inBulkWorld(t, gridtest.Pair(tenMbps), nil, func(ctx context.Context, t *testing.T, w *bulkWorld) {
		start := time.Now()
		until := start.Add(300 * time.Millisecond)
		_, err := w.from.prober.bulk(ctx, w.to.peer, bulkOptions{lanes: 4, more: func() bool { return time.Now().Before(until) }})
		if !errors.Is(err, errYielded) || !errors.As(err, new(*BusyError)) {
			t.Errorf("%v, want %v, which the caller takes for busy", err, errYielded)
		}
		if d := time.Since(until); d > 2*bulkWatch {
			t.Errorf("returned %v after it was told", d)
		}
		time.Sleep(300 * time.Millisecond) // what stood in the queue
		before := w.crossed()
		time.Sleep(5 * time.Second)
		if n := w.crossed() - before; n > 3000 {
			t.Errorf("%d bytes later", n)
		}
		if len(w.to.prober.slot) != 0 || w.to.receives() {
			t.Error("the receiver still holds the session")
		}
		if r, err := w.from.prober.bulk(ctx, w.to.peer, bulkOptions{}); err != nil || !r.Enough {
			t.Errorf("the next one: %+v, %v", r, err)
		}
	})
}

// An exchange that begins at the receiver ends the session, too.
func TestBulkYieldsToThePeer(t *testing.T) {
	var busy atomic.Bool
	change := func(c *Config) {
		if c.Self.Name == "b0" {
			c.Busy = busy.Load
		}
	}
	inBulkWorld(t, gridtest.Pair(tenMbps), change, func(ctx context.Context, t *testing.T, w *bulkWorld) {
		time.AfterFunc(200*time.Millisecond, func() { busy.Store(true) })
		start := time.Now()
		r, err := w.from.prober.bulk(ctx, w.to.peer, bulkOptions{})
		var b *BusyError
		if !errors.As(err, &b) || r.Bytes == 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if d := time.Since(start); d > 500*time.Millisecond {
			t.Errorf("took %v", d)
		}
		if _, err := w.from.prober.bulk(ctx, w.to.peer, bulkOptions{}); !errors.As(err, &b) {
			t.Errorf("begun during an exchange: %v", err)
		}
	})
}

// Caps hold, and what was seen until then counts.
func TestBulkCaps(t *testing.T) {
	inBulkWorld(t, gridtest.Pair(tenMbps), nil, func(ctx context.Context, t *testing.T, w *bulkWorld) {
		r, err := w.from.prober.bulk(ctx, w.to.peer, bulkOptions{lanes: maxLanes, bytes: 500e3})
		if err != nil || r.Bytes > 700e3 || r.Rate == 0 {
			t.Errorf("500 kB: %+v, %v", r, err)
		}
		time.Sleep(time.Second) // until the other side has heard that it is over
		if r, err = w.from.prober.bulk(ctx, w.to.peer, bulkOptions{bytes: 40e3}); err == nil || r.Rate != 0 || r.Bytes > 100e3 {
			t.Errorf("40 kB: %+v, %v", r, err)
		}
		time.Sleep(time.Second)
		if r, err = w.from.prober.bulk(ctx, w.to.peer, bulkOptions{time: 600 * time.Millisecond}); err != nil || r.Enough || r.Took > 800*time.Millisecond {
			t.Errorf("600 ms: %+v, %v", r, err)
		}
	})
}

// A peer that dies in the middle frees the slot of the other side.
func TestBulkPeerDies(t *testing.T) {
	for _, who := range []string{"a0", "b0"} {
		inBulkWorld(t, gridtest.Pair(tenMbps), nil, func(ctx context.Context, t *testing.T, w *bulkWorld) {
			time.AfterFunc(200*time.Millisecond, func() { w.n.CutHost(who) })
			if _, err := w.from.prober.bulk(ctx, w.to.peer, bulkOptions{}); err == nil {
				t.Error("no error")
			}
			time.Sleep(bulkTime + askTime)
			if len(w.to.prober.slot) != 0 || w.to.receives() {
				t.Errorf("%s is gone: the receiver still holds the session", who)
			}
		})
	}
}

// Cross traffic that does not yield leaves a bulk probe what it leaves a real lane.
func TestBulkBesideCrossTraffic(t *testing.T) {
	if gridtest.Race {
		t.Skip("seconds of CPU, and twelve times as much with the race detector")
	}
	inBulkWorld(t, gridtest.Pair(tenMbps), nil, func(ctx context.Context, t *testing.T, w *bulkWorld) {
		ctx, cancel := context.WithCancel(ctx)
		var noise sync.WaitGroup
		defer noise.Wait()
		defer cancel()
		from, to := gridtest.Listen(t, w.n, "a0"), gridtest.Listen(t, w.n, "b0")
		defer from.Close()
		defer to.Close()
		noise.Go(func() {
			tick := time.NewTicker(4 * time.Millisecond) // 1,500 bytes each: 3 Mbit/s
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					from.WriteTo(make([]byte, gridnet.MaxPayload), to.LocalAddr())
				case <-ctx.Done():
					return
				}
			}
		})
		truth := w.truth(ctx, 1, 5*time.Second, 30*time.Second)
		for range 3 {
			time.Sleep(time.Second) // the other end hears of the end of the one before later, and is busy until then
			r, err := w.from.prober.bulk(ctx, w.to.peer, bulkOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			off := float64(r.Rate)/truth - 1
			t.Logf("%.3f Mbit/s, %+.1f %%, spread %.3f, %d kB", r.Rate.Mbps(), 100*off, r.Spread, r.Bytes/1000)
			if off > 0.05 || off < -0.05 {
				t.Errorf("off by %+.1f %%", 100*off)
			}
		}
	})
}

// A well is a data stream that takes everything at a rate and remembers nothing.
type well struct {
	mu   sync.Mutex
	sent uint64
	done chan struct{}
	once sync.Once
}

func (w *well) Write(p []byte) (int, error) {
	select {
	case <-w.done:
		return 0, net.ErrClosed
	case <-time.After(time.Millisecond):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent += uint64(len(p))
	return len(p), nil
}

func (w *well) Abort() { w.once.Do(func() { close(w.done) }) }

func (w *well) Stats() quic.ConnectionStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return quic.ConnectionStats{BytesSent: w.sent, PacketsSent: w.sent / 1000, MinRTT: 10 * time.Millisecond, SmoothedRTT: 20 * time.Millisecond}
}

// A receiver that lies about bytes, lanes or time is found out before anything is made of it.
func TestBulkRefusesLies(t *testing.T) {
	const id = "00112233445566778899aabbccddeeff"
	tests := map[string][]message{
		"more bytes than sent": {{Count: 1, Bytes: 1 << 30, SpanNS: 1e6}},
		"more lanes":           {{Count: 2, Bytes: 1, SpanNS: 1e6}},
		"time of the future":   {{Count: 1, Bytes: 1, SpanNS: int64(time.Second)}},
		"bytes that fall":      {{Count: 1, Bytes: 2000, SpanNS: 1e6}, {Count: 1, Bytes: 1999, SpanNS: 2e6}},
		"time that falls":      {{Count: 1, Bytes: 1, SpanNS: 2e6}, {Count: 1, Bytes: 2, SpanNS: 1e6}},
		"another message":      {{Op: opPong}},
	}
	for name, lies := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pipes()
				go func() {
					readMessage(b, opBulk)
					writeMessage(b, message{Op: opGo, ID: id})
					for _, m := range lies {
						time.Sleep(50 * time.Millisecond)
						if m.Op == "" {
							m.Op = opProgress
						}
						writeMessage(b, m)
					}
					io.Copy(io.Discard, b)
				}()
				r := &bulkRun{o: bulkOptions{}.withDefaults(), open: func(context.Context, int) (dataStream, error) {
					return &well{done: make(chan struct{})}, nil
				}}
				res, err := r.run(t.Context(), a)
				if !errors.Is(err, errInvalid) || res.Rate != 0 {
					t.Errorf("%+v, %v", res, err)
				}
			})
		})
	}
}

// endless is a received stream that never ends by itself.
type endless struct{ well }

func (e *endless) Read(p []byte) (int, error) { return e.Write(p) }

func (e *endless) SetDeadline(time.Time) error { return nil }

// What an initiator can make a receiver do is bounded: lanes, bytes, and the time of a
// session in which it says nothing.
func TestBulkSinkIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bulkSink{id: "x", lanes: 2, most: 1 << 20, until: time.Now().Add(time.Second)}
		for i := range 3 {
			if ok := b.attach(&endless{well: well{done: make(chan struct{})}}); ok != (i < 2) {
				t.Errorf("stream %d: taken %v", i, ok)
			}
		}
		e := &endless{well: well{done: make(chan struct{})}}
		b.drain(e) // returns
		if e.sent > 1<<20+2*bulkChunk {
			t.Errorf("%d bytes were read", e.sent)
		}
		x, y := pipes()
		defer x.Close()
		go io.Copy(io.Discard, x)
		b.until = time.Now().Add(time.Second)
		start := time.Now()
		if err := b.report(t.Context(), y, bulkPace, idle); err == nil {
			t.Error("no error from a silent initiator")
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("the slot was held %v, want 1s", d)
		}
		if b.attach(e) {
			t.Error("a stream was taken after the end")
		}
		y.Close()
	})
}

// A stream for a session that there is not, or no more, is dropped and disturbs nobody.
func TestBulkStrayData(t *testing.T) {
	inBulkWorld(t, gridtest.Pair(tenMbps), nil, func(ctx context.Context, t *testing.T, w *bulkWorld) {
		s, err := w.from.endpoint.Open(ctx, "b0", 0, lane.StreamProbe)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Abort()
		writeMessage(s, message{Op: opData, ID: "00112233445566778899aabbccddeeff"})
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Error("was answered")
		}
		if st := w.to.prober.Stats(); st.Invalid != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Reports are as close as a round trip at first, and a session makes a bounded number of them.
func TestReportsAreFew(t *testing.T) {
	for _, rtt := range []time.Duration{0, 100 * time.Microsecond, 20 * time.Millisecond, 3 * time.Second} {
		n := 0
		for at := time.Duration(0); at < maxBulkTime; at += nextReport(at, rtt) {
			n++
		}
		if n > 700 {
			t.Errorf("round trip of %v: %d reports", rtt, n)
		}
	}
	if d := nextReport(0, 20*time.Millisecond); d != 20*time.Millisecond {
		t.Errorf("the first after %v", d)
	}
}

// Over real sockets, with segmentation offload and a kernel's queues, the rate need not be
// exact, but it must come, and the sockets of the lanes must go.
func TestBulkOverLoopback(t *testing.T) {
	w := newWorld(t)
	listen := func() (net.PacketConn, error) {
		return net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	}
	var ms []*member
	for _, name := range []string{"l0", "l1"} {
		conn, err := listen()
		if err != nil {
			t.Skip("no loopback:", err)
		}
		ms = append(ms, w.joinOver(conn, listen, Peer{Name: name, Site: "here"}, nil))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	for _, m := range ms {
		go func() { done <- m.endpoint.Run(ctx) }()
	}
	for _, lanes := range []int{1, 4} {
		r, err := ms[0].prober.bulk(ctx, ms[1].peer, bulkOptions{lanes: lanes, bytes: 48 << 20, time: 2 * time.Second})
		if err != nil {
			t.Log(err) // a loaded machine
			continue
		}
		t.Logf("%.0f Mbit/s, %+v", r.Rate.Mbps(), r)
		if mbps := r.Rate.Mbps(); !(mbps > 1 && mbps < 1e6) {
			t.Errorf("%g Mbit/s on loopback", mbps)
		}
	}
	cancel()
	for range ms {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
