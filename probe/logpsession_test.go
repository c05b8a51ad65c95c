package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/logp"
)

// A tax is what a call costs its host's processor, which virtual time gives away.
type tax struct{ call, perByte time.Duration }

func (x tax) of(n int64) time.Duration { return x.call + time.Duration(n)*x.perByte }

// A taxed stream charges its host for each write and read.
type taxed struct {
	control
	write, read tax
}

func (s taxed) Write(b []byte) (int, error) {
	time.Sleep(s.write.of(int64(len(b))))
	return s.control.Write(b)
}

func (s taxed) Read(b []byte) (int, error) {
	n, err := s.control.Read(b)
	time.Sleep(s.read.of(int64(n)))
	return n, err
}

// overLink runs f with a fresh stream from a0 to b0 over link, of which b0 serves what f
// asks for; wrap stands around both ends.
func overLink(t *testing.T, link gridnet.Link, wrap func(control) control, busy func() bool, f func(context.Context, control)) {
	t.Helper()
	cfg := gridtest.Pair(link)
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, nil)
		ms[1].endpoint.HandleStreams(lane.StreamProbe, func(ctx context.Context, raw *lane.Stream) {
			s := wrap(raw)
			m, err := readMessage(s, opLogP)
			if err == nil {
				err = respondLogP(ctx, s, m, busy)
			}
			if err != nil {
				raw.Abort()
				return
			}
			raw.Close()
		})
		w.run(ms, false, func(ctx context.Context) {
			s, err := ms[0].endpoint.Open(ctx, "b0", 0, lane.StreamProbe)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Abort()
			f(ctx, wrap(s))
		})
	})
}

func asIs(s control) control { return s }

func quiet(string, int64) {}

// g(m) tends to m over the rate, on slow links and fast ones, long and short ones.
func TestLogPGapOverEmulatedLinks(t *testing.T) {
	if gridtest.Race {
		t.Skip("links of up to 289 Mbit/s: run without the race detector, under which TestLogPOverheads is")
	}
	const ms, us = time.Millisecond, time.Microsecond
	tests := []struct {
		name string
		link gridnet.Link
		most int64 // the largest size that is measured
	}{
		{"0.1 Mbit/s", gridnet.Link{Rate: 0.1 * gridnet.Mbps, Latency: 50 * ms}, 4 << 10},
		{"1.25 Mbit/s", gridnet.Link{Rate: 1.25 * gridnet.Mbps, Latency: 50 * ms}, 64 << 10},
		{"20 Mbit/s", gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 20 * ms}, 1 << 20},
		{"20 Mbit/s, 150 ms", gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 75 * ms}, 256 << 10},
		{"20 Mbit/s, 0.1 % loss", gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 5 * ms, Loss: 0.001}, 1 << 20},
		{"289 Mbit/s", gridnet.Link{Rate: 289 * gridnet.Mbps, Latency: 60 * us}, 1 << 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := gridtest.Pair(tt.link)
			gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
				w := newWorld(t)
				ms := w.joinAll(n, cfg, nil)
				w.run(ms, false, func(ctx context.Context) {
					// The handshake is not the session's.
					if _, err := ms[0].prober.ProbeOnce(ctx, ms[1].peer, KindRTT, nil); err != nil {
						t.Fatal(err)
					}
					before := n.Stats()
					start := time.Now()
					m, sent, err := ms[0].prober.logp(ctx, ms[1].peer, always, quiet)
					if err != nil {
						t.Fatal(err)
					}
					took := time.Since(start)
					for _, p := range m.Points {
						t.Logf("%8d B: os %v, or %v, g %v, m/rate %v", p.Size, p.Send, p.Receive, p.Gap, truth(tt.link.Rate).Time(p.Size))
					}
					t.Logf("%d bytes in %v", sent, took)
					if last := m.Points[len(m.Points)-1].Size; last < tt.most {
						t.Errorf("measured up to %d bytes, want %d", last, tt.most)
					}
					// Such messages share packets, as many as are there when the sender's goroutine runs: a machine with other
					// work makes more packets of them, but nothing near one each. The rest is the answer's delay, of which a burst of
					// thousands leaves some microseconds.
					one, own := truth(tt.link.Rate).Time(1), min(truth(tt.link.Rate).Time(8)+2*us, truth(tt.link.Rate).Time(1+quicOverhead+packetCost)+20*us)
					// Under loss a burst that went out as many packets has lost one of them.
					if got := m.Points[0].Gap; (got < min(one/2, one-10*us) || got > own) && tt.link.Loss == 0 {
						t.Errorf("g(0) = %v, want %v, or up to %v on a busy machine", got, one, own)
					}
					for size := tt.most / 4; size <= 64<<20; size *= 4 {
						got, want := m.At(size).Gap, truth(tt.link.Rate).Time(size)
						most := 0.12
						if size >= 1<<20 { // which meet their own full queue: up to 17 % on a busy machine
							most = 0.3
						}
						// On a slow link the last packet of a burst may go with the next: an eighth of one is 12 ms at 0.1 Mbit/s.
						least := truth(tt.link.Rate).Time(1280) / 8
						if off := got.Seconds()/want.Seconds() - 1; math.Abs(off) > most && (got-want).Abs() > least {
							t.Errorf("g(%d) = %v, m/rate is %v, %+.1f %%", size, got, want, 100*off)
						}
					}
					was, _ := before.Link("a", "b")
					after := n.Stats()
					is, _ := after.Link("a", "b")
					carried := is.Delivered.Bytes - was.Delivered.Bytes
					if off := float64(sent)/float64(carried) - 1; off > 0.10 || off < -0.15 { // some may wait in the queue: of 30 kB, at 0.1 Mbit/s, 3
						t.Errorf("%d bytes counted, the link has carried %d", sent, carried)
					}
					if took > logpTime {
						t.Errorf("took %v, want at most %v", took, logpTime)
					}
				})
			})
		})
	}
}

// What the hosts' processors are charged for a call is found again, and the waits of
// large writes for the network are not taken for the sender's work.
func TestLogPOverheads(t *testing.T) {
	send, receive := tax{20 * time.Microsecond, 8}, tax{5 * time.Microsecond, 2}
	wrap := func(s control) control { return taxed{s, send, receive} }
	for name, link := range map[string]gridnet.Link{
		"LAN": {Rate: 1000 * gridnet.Mbps, Latency: 50 * time.Microsecond},
		"WAN": {Rate: 20 * gridnet.Mbps, Latency: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			overLink(t, link, wrap, idle, func(ctx context.Context, s control) {
				m, _, err := measureLogP(ctx, s, always, quiet)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range m.Points {
					t.Logf("%8d B: os %v, or %v, g %v", p.Size, p.Send, p.Receive, p.Gap)
					for _, o := range []struct {
						name      string
						got, want time.Duration
					}{{"os", p.Send, send.of(p.Size)}, {"or", p.Receive, receive.of(p.Size)}} {
						if off := o.got.Seconds()/o.want.Seconds() - 1; math.Abs(off) > 0.05 {
							t.Errorf("%s(%d) = %v, want %v", o.name, p.Size, o.got, o.want)
						}
					}
					if p.Gap < p.Send || p.Gap < p.Receive {
						t.Errorf("g(%d) = %v is less than os or or", p.Size, p.Gap)
					}
				}
				// Back to back, the slower of the two ends sets the pace.
				if g := m.Points[0].Gap; g < send.call || g > 2*send.call {
					t.Errorf("g(0) = %v, and the sender needs %v a message", g, send.call)
				}
			})
		})
	}
}

// A message that was not there in time says nothing of the reader.
func TestLogPHeldTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipes()
		go func() {
			for _, pause := range []time.Duration{0, time.Second, 0} { // the second comes in two
				a.Write(make([]byte, 50))
				time.Sleep(pause)
				a.Write(make([]byte, 50))
			}
		}()
		r := logpReader{s: halves{b}, busy: idle, buf: make([]byte, 100)}
		answer := make(chan message, 1)
		go func() {
			m, err := readMessage(a, opTook)
			if err != nil {
				t.Error(err)
			}
			answer <- m
		}()
		if err := r.held(t.Context(), message{Size: 100, Messages: 3}); err != nil {
			t.Fatal(err)
		}
		if m := <-answer; m.Messages != 2 || m.SpanNS != 0 {
			t.Errorf("%d messages were there, of %d ns each; want 2, of 0", m.Messages, m.SpanNS)
		}
	})
}

// halves reads all that is there already, as a QUIC stream does and a pipe does not.
type halves struct{ pipe }

func (s halves) Read(b []byte) (int, error) {
	n, err := s.pipe.Read(b)
	if err != nil || n == len(b) {
		return n, err
	}
	s.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer s.SetReadDeadline(time.Time{})
	k, _ := s.pipe.Read(b[n:])
	return n + k, nil
}

// However odd a path is, the session comes to an end and to a model that can be.
func TestLogPOnOddPaths(t *testing.T) {
	if gridtest.Race {
		t.Skip("seconds of CPU, and twelve times as much with the race detector")
	}
	points, bytes := 0, int64(0)
	for seed := range uint64(6) {
		wrap := func(s control) control { return moody{s, seed} }
		link := gridnet.Link{Rate: 1000 * gridnet.Mbps, Latency: 50 * time.Microsecond}
		overLink(t, link, wrap, idle, func(ctx context.Context, s control) {
			m, sent, err := measureLogP(ctx, s, always, quiet)
			if err != nil || m.Check() != nil {
				t.Errorf("seed %d: %v, %v", seed, m, err)
			}
			t.Logf("seed %d: %d points, %d bytes", seed, len(m.Points), sent)
			points, bytes = max(points, len(m.Points)), max(bytes, sent)
		})
	}
	for name, link := range map[string]gridnet.Link{
		"loss":      {Rate: 20 * gridnet.Mbps, Latency: 50 * time.Millisecond, Loss: 0.01},
		"satellite": {Rate: 10 * gridnet.Mbps, Latency: 300 * time.Millisecond},
		"jitter":    {Rate: 20 * gridnet.Mbps, Latency: 50 * time.Millisecond, Jitter: 3 * time.Millisecond},
	} {
		overLink(t, link, asIs, idle, func(ctx context.Context, s control) {
			start := time.Now()
			m, _, err := measureLogP(ctx, s, always, quiet)
			if err != nil || m.Check() != nil || time.Since(start) > logpTime {
				t.Errorf("%s: %v, %v after %v", name, m, err, time.Since(start))
			}
		})
	}
	if points < logp.MaxPoints-1 || bytes < gapBytes*3/4 {
		t.Errorf("at most %d points and %d bytes: no path was odd enough to come to a bound", points, bytes)
	}
}

// A moody stream delays each write by a time that its size draws.
type moody struct {
	control
	seed uint64
}

func (s moody) Write(b []byte) (int, error) {
	if len(b) > 200 { // not the control messages, which are in every time alike
		rng := rand.New(rand.NewPCG(s.seed, uint64(len(b))))
		time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
	}
	return s.control.Write(b)
}

// An exchange on either side ends a session at once, and the initiator is told why.
func TestLogPYields(t *testing.T) {
	link := gridnet.Link{Rate: 1.25 * gridnet.Mbps, Latency: 50 * time.Millisecond}
	for _, at := range []time.Duration{0, 300 * time.Millisecond, 2 * time.Second, 4 * time.Second} {
		for _, side := range []string{"initiator", "responder"} {
			var start time.Time
			begun := func(on string) func() bool {
				return func() bool { return side == on && time.Since(start) >= at }
			}
			more := func() bool { return !begun("initiator")() }
			overLink(t, link, asIs, begun("responder"), func(ctx context.Context, s control) {
				start = time.Now()
				_, _, err := measureLogP(ctx, s, more, quiet)
				var busy *BusyError
				if !errors.As(err, &busy) {
					t.Errorf("%s busy after %v: %v", side, at, err)
				}
				// The news of the responder waits behind nothing and takes half a round trip;
				// it looks when data arrive.
				if d := time.Since(start) - at; d > yieldPoll+200*time.Millisecond {
					t.Errorf("%s busy after %v: ended %v later", side, at, d)
				}
			})
		}
	}
}

// A host in an exchange refuses session after session, and is left without a stream of any:
// a connection carries 1,024 at a time.
func TestLogPRefusalsLeaveNoStreams(t *testing.T) {
	cfg := gridtest.Pair(gridnet.Link{Rate: 100 * gridnet.Mbps, Latency: time.Millisecond})
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, func(c *Config) { c.Busy = func() bool { return c.Self.Name == "b0" } })
		w.run(ms, false, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			for i := range 1030 {
				_, _, err := ms[0].prober.logp(ctx, ms[1].peer, always, quiet)
				var busy *BusyError
				if !errors.As(err, &busy) {
					t.Fatalf("attempt %d: %v", i, err)
				}
			}
		})
	})
}

// A context that ends, and a peer that says nothing, end a session, too.
func TestLogPEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, patience := range map[string]time.Duration{"cancelled": time.Second, "silent": time.Hour} {
			a, b := pipes()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			go func() { // reads all and answers nothing
				var buf [1 << 10]byte
				for {
					if _, err := b.Read(buf[:]); err != nil {
						return
					}
				}
			}()
			start := time.Now()
			_, _, err := measureLogP(ctx, a, always, quiet)
			if d := time.Since(start); err == nil || d > min(patience, logpTime) {
				t.Errorf("%s: %v after %v", name, err, d)
			}
			if patience < logpTime && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
			a.Close()
		}
	})
}

// A burst that loses a packet does not decide g(0), whichever it is and whether or not the
// others agree.
func TestLogPSaturationOutlivesALoss(t *testing.T) {
	for spoilt := range 9 {
		for _, swing := range []time.Duration{0, 10} { // per cent, up and down in turn
			synctest.Test(t, func(t *testing.T) {
				a, b := pipes()
				go func() {
					defer b.Close()
					swing := swing
					for burst := 0; ; burst++ {
						m, err := readMessage(b, opLogP)
						if err != nil {
							return
						}
						io.ReadFull(b, make([]byte, m.Messages))
						each := time.Microsecond + swing*10*time.Nanosecond
						if swing = -swing; burst == spoilt {
							time.Sleep(40 * time.Millisecond)
						}
						time.Sleep(time.Duration(m.Messages) * each)
						writeMessage(b, message{Op: opTook})
					}
				}()
				l := logpMeter{s: a, progress: quiet, start: time.Now()}
				if err := l.saturate(); err != nil {
					t.Fatal(err)
				}
				a.Close()
				if l.gap0 < 500*time.Nanosecond || l.gap0 > 1500*time.Nanosecond {
					t.Errorf("burst %d spoilt, swing of %d %%: g(0) = %v, want 1µs", spoilt, swing, l.gap0)
				}
			})
		}
	}
}

// Readings that came late, and as many points as there can be, still make a model.
func TestLogPModelOfOddReadings(t *testing.T) {
	l := logpMeter{}
	for i := range logp.MaxPoints - 1 {
		l.note(int64(1)<<i, round{trip: time.Duration(i) * time.Microsecond, call: time.Microsecond})
	}
	l.send = insert(l.send, logp.Point{Size: atOnce, Send: 2 * time.Microsecond})
	m, err := l.model([]logp.Point{{Size: 1 << 12, Receive: 3 * time.Microsecond}})
	if err != nil || m.At(1).Receive != 3*time.Microsecond || m.At(1).Gap != 3*time.Microsecond {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = l.model([]logp.Point{{Size: 1 << 12, Receive: 30}, {Size: 1 << 14, Receive: 90}})
	if err != nil || m.At(1).Receive != 30 || m.At(1<<13).Receive != 50 {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := l.model(nil); err == nil {
		t.Errorf("no reading of the receiver, and yet %+v", m)
	}
}

// What a peer can ask for is bounded.
func TestLogPRefusesGreed(t *testing.T) {
	for _, m := range []message{
		{Op: opLogP, Batch: batchEach, Size: logp.MostSize + 1, Messages: 1},
		{Op: opLogP, Batch: batchEach, Size: 1 << 10, Messages: nearRounds + 1},
		{Op: opLogP, Batch: batchEach, Size: 1 << 10, Messages: -1},
		{Op: opLogP, Batch: batchEach, Size: -1, Messages: 1},
		{Op: opLogP, Batch: batchEach, Messages: 1},
		{Op: opLogP, Batch: batchEach, Size: 1},
		{Op: opLogP, Batch: batchLast, Size: 2, Messages: 1},
		{Op: opLogP, Batch: batchLast, Size: 1, Messages: maxBurst + 1},
		{Op: opLogP, Batch: batchHeld, Size: heldBytes, Messages: 2},
		{Op: opLogP, Batch: batchHeld, Size: 1, Messages: 1, DelayNS: int64(maxDelay) + 1},
		{Op: opLogP, Batch: batchHeld, Size: 1, Messages: 1, DelayNS: -1},
		{Op: opLogP, Batch: "all", Size: 1, Messages: 1},
		{Op: opLogP, Size: 1, Messages: 1},
		{Op: opTook, Messages: maxBurst + 1},
	} {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseMessage(b); !errors.Is(err, errInvalid) {
			t.Errorf("%s is %+v, %v", b, got, err)
		}
	}
	// Of the batches that pass, no session holds a host longer or fills it more than it should.
	for name, m := range map[string]message{
		"bytes":   {Op: opLogP, Batch: batchEach, Size: logp.MostSize, Messages: pointRounds},
		"batches": {Op: opLogP, Batch: batchEach, Size: 1, Messages: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pipes()
			done := make(chan error, 1)
			go func() {
				first, err := readMessage(b, opLogP)
				if err == nil {
					err = respondLogP(t.Context(), b, first, idle)
				}
				b.Close()
				done <- err
			}()
			var sent int64
			for writeMessage(a, m) == nil {
				for range m.Messages {
					n, _ := a.Write(make([]byte, m.Size))
					sent += int64(n)
					if _, err := readMessage(a, opTook); err != nil {
						break
					}
				}
			}
			if err := <-done; !errors.Is(err, errInvalid) || sent > logpBytes {
				t.Errorf("%s: %v after %d bytes", name, err, sent)
			}
		})
	}
}

// A peer's claims about its own times are bounded by the messages' check and by what a
// model can hold: none makes the initiator fall, or believe in a receive overhead below zero.
func FuzzLogPAnswers(f *testing.F) {
	f.Add(int64(5000), int64(3), uint8(0))
	f.Add(int64(-1), int64(3), uint8(1))
	f.Add(int64(1)<<62, int64(4096), uint8(2))
	f.Fuzz(func(t *testing.T, span, count int64, step uint8) {
		synctest.Test(t, func(t *testing.T) {
			a, b := pipes()
			go func() {
				defer b.Close()
				answers := uint8(0)
				buf := make([]byte, logp.MostSize)
				for {
					m, err := readMessage(b, opLogP)
					if err != nil {
						return
					}
					for i := range m.Messages {
						for left := m.Size; left > 0; {
							n, err := b.Read(buf[:left])
							if err != nil {
								return
							}
							left -= int64(n)
						}
						if m.Batch == batchEach || i == m.Messages-1 {
							answer := message{Op: opTook, Messages: 3, SpanNS: 1000}
							if answers++; answers >= step {
								answer.Messages, answer.SpanNS = count, span
							}
							if m.Batch == batchHeld { // the pipe holds nothing: answer aside
								go writeMessage(b, answer)
							} else if writeMessage(b, answer) != nil {
								return
							}
						}
					}
				}
			}()
			m, _, err := measureLogP(t.Context(), a, always, quiet)
			a.Close()
			if err == nil && m.Check() != nil {
				t.Fatalf("%+v: %v", m, m.Check())
			}
		})
	})
}

func FuzzLogPRequest(f *testing.F) {
	f.Add([]byte("\x00\x39{\"op\":\"logp\",\"batch\":\"each\",\"size\":3,\"messages\":1}   "), true)
	f.Add([]byte("\x00\x10{\"op\":\"logp\"}   x"), false)
	f.Fuzz(func(t *testing.T, in []byte, isBusy bool) {
		synctest.Test(t, func(t *testing.T) {
			a, b := pipes()
			go func() {
				a.Write(in)
				a.Close()
			}()
			go func() {
				var sink bytes.Buffer
				sink.ReadFrom(a)
			}()
			if m, err := readMessage(b, opLogP); err == nil {
				respondLogP(t.Context(), b, m, func() bool { return isBusy })
			}
			b.Close()
		})
	})
}
