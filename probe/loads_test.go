package probe

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// tellers are hosts that tell what arrives of a link, each every loadsEvery, at instants of its own.
type tellers struct {
	rng   *rand.Rand
	next  []time.Time
	owed  []float64 // packets that have arrived and were not told of
	part  float64   // of the next packet that has arrived
	until time.Time
}

func newTellers(rng *rand.Rand, n int, now time.Time) *tellers {
	ts := &tellers{rng: rng, next: make([]time.Time, n), owed: make([]float64, n), until: now}
	for i := range ts.next {
		ts.next[i] = now.Add(time.Duration(rng.Int64N(int64(loadsEvery))))
	}
	return ts
}

// pass lets d pass, in which rate says what arrives, in bytes of IP a second. Whole packets go to any of the hosts.
func (ts *tellers) pass(d time.Duration, rate func(now time.Time) float64, tell func(host int, l load, now time.Time)) {
	const step = 5 * time.Millisecond
	for end := ts.until.Add(d); ts.until.Before(end); {
		ts.until = ts.until.Add(step)
		for ts.part += rate(ts.until) * step.Seconds() / (trainPayload + packetCost); ts.part >= 1; ts.part-- {
			ts.owed[ts.rng.IntN(len(ts.owed))]++
		}
		for i := range ts.next {
			if ts.next[i].After(ts.until) {
				continue
			}
			tell(i, load{Site: "a", Bytes: int64(ts.owed[i] * (trainPayload + packetCost)), Span: loadsEvery}, ts.until)
			ts.owed[i], ts.next[i] = 0, ts.next[i].Add(loadsEvery)
		}
	}
}

// What arrives over a full link that falls is read within some seconds and 12 %, whoever of the hosts it arrives at. As long as the
// link stays, wobbles by 20 %, or is not full, there is no news.
func TestArrivals(t *testing.T) {
	if gridtest.Race {
		t.Skip("arithmetic: run without the race detector, which multiplies its CPU time by ten")
	}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 11))
		full := 125e3 * (0.8 + 10*rng.Float64()) // 0.8 … 10.8 Mbit/s
		after := full * (0.2 + 0.3*rng.Float64())
		begin := time.Unix(2e9, rng.Int64N(1e9))
		ts := newTellers(rng, 1+rng.IntN(8), begin)
		var book loadBook
		var falls map[string]dip
		tell := func(host int, l load, now time.Time) {
			book.take(fmt.Sprint(host), l, now)
			for site, d := range book.fallen(now) {
				if d.steady {
					falls[site] = d
				}
			}
		}
		quiet := func(what string, d time.Duration, rate func(time.Time) float64) {
			falls = make(map[string]dip)
			if ts.pass(d, rate, tell); len(falls) > 0 {
				t.Fatalf("seed %d: %s, and %.0f B/s are taken for a fall from %.0f", seed, what, falls["a"].rate, full)
			}
		}
		wave := 2 * time.Second * time.Duration(1+rng.IntN(3))
		quiet("the link stays", 10*time.Second, func(time.Time) float64 { return full })
		quiet("the link wobbles", 10*time.Second, func(now time.Time) float64 {
			if now.UnixNano()/int64(wave)%2 == 0 {
				return 0.8 * full
			}
			return 1.2 * full
		})
		burst := int64(200+rng.IntN(400)) * 1e6
		quiet("there is less to send, in bursts", 10*time.Second, func(now time.Time) float64 {
			if now.UnixNano()%(4*burst) < burst {
				return full
			}
			return 0
		})
		quiet("nothing is sent", 10*time.Second, func(time.Time) float64 { return 0 })
		quiet("the link is used again", 10*time.Second, func(time.Time) float64 { return full })
		falls = make(map[string]dip)
		ts.pass(5*time.Second, func(time.Time) float64 { return after }, tell)
		if apart(falls["a"].rate, after) > 0.12 {
			t.Fatalf("seed %d: the link fell from %.0f to %.0f B/s, %.0f is read", seed, full, after, falls["a"].rate)
		}
	}
}

// A link has fallen where both ends say so: far less arrives, and most of it has stood in a queue of lanes that should get more.
// What one end says alone, or said a while ago, does not do.
func TestBothEndsSayFallen(t *testing.T) {
	const line = 600e3
	now := time.Unix(2e9, 0)
	for _, tc := range []struct {
		name    string
		arrives float64
		heard   time.Duration // ago
		pressed []float64     // by host: what stood in a queue, bytes a second
		told    time.Duration // ago
		narrow  bool          // the hosts' pairs get half of the link
		uneven  bool          // what arrives
		alone   bool          // the site has one host
		want    bool
	}{
		{"both", line / 4, 0, []float64{60e3, 60e3}, 0, false, false, false, true},
		{"one host sends all", line / 4, 0, []float64{150e3}, 0, false, false, false, true},
		{"a half of it", line / 4, 0, []float64{40e3, 40e3}, 0, false, false, false, true},
		{"a half of it, one host of several", line / 4, 0, []float64{60e3}, 0, false, false, false, false},
		{"a half of it, the only host", line / 4, 0, []float64{60e3}, 0, false, false, true, true},
		{"queues alone", 0, 0, []float64{200e3, 200e3}, 0, false, false, false, false},
		{"arrivals alone", line / 4, 0, nil, 0, false, false, false, false},
		{"little less arrives", 0.7 * line, 0, []float64{200e3, 200e3}, 0, false, false, false, false},
		{"most of it had no queue", line / 4, 0, []float64{15e3, 15e3}, 0, false, false, false, false},
		{"the queues of slow ports", line / 4, 0, []float64{75e3, 75e3}, 0, true, false, false, false},
		{"arrivals of long ago", line / 4, 2 * hearAge, []float64{75e3, 75e3}, 0, false, false, false, false},
		{"queues of long ago", line / 4, 0, []float64{75e3, 75e3}, 5 * time.Second, false, false, false, false},
		{"queues before it", line / 4, 0, []float64{600e3}, 1100 * time.Millisecond, false, false, false, false},
		{"now more, now less arrives, a third with a queue", line / 4, 0, []float64{50e3}, 0, false, true, false, false},
		{"now more, now less arrives, all with a queue", line / 4, 0, []float64{75e3, 75e3}, 0, false, true, false, true},
	} {
		var b loadBook
		if tc.arrives > 0 {
			b.hear("b", dip{tc.arrives, !tc.uneven}, now.Add(-tc.heard))
		}
		for i, rate := range tc.pressed {
			l := load{Site: "b", Pressed: int64(rate * loadsEvery.Seconds()), Line: line, Span: loadsEvery}
			if tc.narrow {
				l.Line = line / 2
			}
			for at := -4 * time.Second; at <= -tc.told; at += loadsEvery {
				b.take(fmt.Sprint(i), l, now.Add(at))
			}
		}
		rate, ok := b.verdict("b", known{line, tc.alone, notBack}, now)
		if ok != tc.want || ok && rate != tc.arrives {
			t.Errorf("%s: %.0f, %v, want %v", tc.name, rate, ok, tc.want)
		}
		if ok && b.open("b", now) || !ok && b.open("b", now) != (tc.arrives > 0 && tc.heard == 0) {
			t.Errorf("%s: open is %v after the verdict", tc.name, b.open("b", now))
		}
	}
}

// Between two exchanges little arrives, and its keeper says so. What the next one sends stands in queues from its first second on: the link has
// not fallen. If it falls then, that is found.
func TestNextExchangeIsNoFall(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 14))
		line := 250e3 * (0.8 + 10*rng.Float64())
		begin := time.Unix(2e9, rng.Int64N(1e9))
		ramp := (0.3 + 2.7*rng.Float64()) * float64(time.Second) // until the link is full
		hosts := 1 + rng.IntN(8)
		var here, there loadBook // of the keepers of both ends
		arrive := newTellers(rng, 1+rng.IntN(8), begin)
		next := make([]time.Time, hosts) // when a sender tells
		for h := range next {
			next[h] = begin.Add(time.Duration(rng.Int64N(int64(loadsEvery))))
		}
		var said time.Time
		var rated float64
		var falls []float64
		fell := time.Time{}
		second := begin.Add(4*time.Second + time.Duration((0.75+1.25*rng.Float64())*float64(time.Second))) // exchange
		rate := func(now time.Time) float64 {
			switch at := now.Sub(second); {
			case now.Sub(begin) < 4*time.Second:
				return line
			case at < 0:
				return line / 30
			case !fell.IsZero() && now.After(fell):
				return line / 4
			default:
				return line * max(1./30, min(1, float64(at)/ramp))
			}
		}
		for now := begin; now.Before(begin.Add(16 * time.Second)); now = now.Add(50 * time.Millisecond) {
			if fell.IsZero() && now.Sub(second) > 5*time.Second {
				fell = now
			}
			arrive.pass(50*time.Millisecond, rate, func(host int, l load, now time.Time) {
				l.Site = "here"
				there.take(fmt.Sprint(host), l, now)
			})
			// As tells does.
			if d, ok := there.fallen(now)["here"]; ok && d.rate < loadFallen*line {
				said, rated = now, d.rate
				here.hear("there", d, now)
			} else if !said.IsZero() && there.paused("here", rated, now) {
				said = time.Time{}
				here.unsay("there")
			} else if !said.IsZero() && now.Sub(said) < followAge {
				if more := there.more("here", said, now); more > 0 {
					here.hear("there", dip{more, true}, now)
				}
			}
			for h := range next {
				if now.Before(next[h]) {
					continue
				}
				next[h] = next[h].Add(loadsEvery)
				l := load{Site: "there", Span: loadsEvery, Line: netmap.BytesPerSec(line)}
				if at := now.Sub(second); at > 100*time.Millisecond {
					l.Pressed = int64(rate(now.Add(-100*time.Millisecond)) * loadsEvery.Seconds() / float64(hosts))
				}
				here.take(fmt.Sprint(h), l, now)
				if l.Pressed > 0 && here.open("there", now) {
					if rate, ok := here.verdict("there", known{line, hosts == 1, notBack}, now); ok {
						falls = append(falls, rate)
						if fell.IsZero() {
							t.Fatalf("seed %d: %v into the second exchange over a link of %.0f B/s it has fallen to %.0f", seed, now.Sub(second), line, rate)
						}
					}
				}
			}
		}
		if len(falls) == 0 || apart(falls[len(falls)-1], line/4) > 0.15 {
			t.Fatalf("seed %d: the link fell from %.0f to %.0f B/s, found were %.0f", seed, line, line/4, falls)
		}
	}
}

// What arrives first after a fall may be too little, as windows shrink. The keeper then tells of the best second since, not of what came
// before the fall, and the other one believes it while it is about full.
func TestMoreArrives(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 13))
		full := 250e3 * (0.8 + 10*rng.Float64())
		after := full * (0.2 + 0.3*rng.Float64())
		begin := time.Unix(2e9, rng.Int64N(1e9))
		ts := newTellers(rng, 1+rng.IntN(8), begin)
		var book loadBook
		var since time.Time
		best := 0.0
		ts.pass(8*time.Second, func(time.Time) float64 { return full }, func(host int, l load, now time.Time) { book.take(fmt.Sprint(host), l, now) })
		fell := ts.until
		ts.pass(6*time.Second, func(now time.Time) float64 {
			if now.Sub(fell) < 3*time.Second {
				return 0.75 * after
			}
			return after
		}, func(host int, l load, now time.Time) {
			book.take(fmt.Sprint(host), l, now)
			if d := book.fallen(now); since.IsZero() && d["a"].steady {
				since = now
			}
			if !since.IsZero() {
				best = max(best, book.more("a", since, now))
			}
		})
		if apart(best, after) > 0.12 {
			t.Fatalf("seed %d: the link fell from %.0f to %.0f B/s, %.0f is the most that is seen", seed, full, after, best)
		}
		now := ts.until
		for at := -3 * time.Second; at <= 0; at += loadsEvery {
			book.take("0", load{Site: "b", Pressed: int64(after * loadsEvery.Seconds()), Line: netmap.BytesPerSec(full), Span: loadsEvery}, now.Add(at))
		}
		for _, step := range []struct {
			rate, line float64
			want       bool
		}{{0.75 * after, full, true}, {0.76 * after, 0.75 * after, false}, {after, 0.75 * after, true}, {3 * after, after, false}} {
			book.hear("b", dip{step.rate, true}, now)
			if rate, ok := book.verdict("b", known{step.line, false, notBack}, now); ok != step.want || ok && rate != step.rate {
				t.Fatalf("seed %d: %.0f of a link of %.0f is %v, want %v", seed, step.rate, step.line, ok, step.want)
			}
		}
	}
}

// However many sites hosts make up, a keeper remembers no more than are bounded.
func TestBookIsBounded(t *testing.T) {
	now := time.Unix(2e9, 0)
	var b loadBook
	for i := range 2 * maxTellers {
		b.take(fmt.Sprint(i), load{Site: fmt.Sprint(i), Bytes: 1, Pressed: 1, Span: time.Second}, now)
		b.hear(fmt.Sprint(i), dip{1, true}, now)
		b.dipped(fmt.Sprint(i), now)
	}
	if len(b.dips) > maxTellers+1 || len(b.in) > maxTellers+1 || len(b.out) > maxTellers+1 || len(b.told) > maxTellers+1 {
		t.Errorf("%d, %d and %d sites are remembered, want %d at most", len(b.in), len(b.out), len(b.told), maxTellers)
	}
}

// Four hosts of a site fill a link to another with data, and it falls to a quarter. No train is sent; within 4 s each
// of them believes what still arrives. As long as the link stays as full as it was, nobody believes anything.
func TestFallIsSeenByLoads(t *testing.T) {
	if gridtest.Race {
		t.Skip("minutes of four pairs: run without the race detector, under which TestSuspectDuringAnExchange is")
	}
	for _, falls := range []bool{true, false} {
		t.Run(fmt.Sprintf("link falls=%v", falls), func(t *testing.T) {
			cfg := fours(5 * gridnet.Mbps)
			gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
				w := newWorld(t)
				var busy atomic.Bool
				var filled atomic.Int64 // since when all lanes stand in the link's queue, as Unix time in ns
				ms := w.joinAll(n, cfg, func(c *Config) {
					c.Busy = busy.Load
					c.Pressed = func(peer string) uint64 {
						if at := filled.Load(); at != 0 && c.Self.Site == "a" && peer == "b"+c.Self.Name[1:] {
							return 1 + uint64(float64(truth(1.25*gridnet.Mbps))/4*time.Since(time.Unix(0, at)).Seconds())
						}
						return 0
					}
				})
				for _, m := range ms {
					m.endpoint.HandleStreams(lane.StreamData, func(_ context.Context, s *lane.Stream) { io.Copy(io.Discard, s) })
				}
				w.run(ms, true, func(ctx context.Context) {
					time.Sleep(60 * time.Second)
					busy.Store(true)
					ctx, cancel := context.WithCancel(ctx)
					var senders sync.WaitGroup
					for i, m := range ms {
						defer m.prober.Crosses()()
						if i < 4 {
							senders.Go(func() { pour(ctx, t, m.endpoint, ms[4+i].peer.Name) })
						}
					}
					filled.Store(time.Now().UnixNano())
					time.Sleep(10 * time.Second)
					if falls {
						if err := n.SetLink("a", "b", func(l *gridnet.Link) { l.Rate /= 4 }); err != nil {
							t.Fatal(err)
						}
					}
					before := w.bytes()[siteLink{"a", "b"}]
					at := time.Now()
					seen := 0
					for seen < 4 && time.Since(at) < 6*time.Second {
						time.Sleep(100 * time.Millisecond)
						seen = 0
						for i := range 4 {
							e, _ := w.known(ms[i].peer.Name, ms[4+i].peer.Name)
							if apart(float64(e.Bandwidth), float64(truth(1.25*gridnet.Mbps))) < 0.1 {
								seen++
							}
						}
					}
					t.Logf("%d pairs after %v", seen, time.Since(at))
					if took := time.Since(at); falls && (seen < 4 || took > 4*time.Second) || !falls && seen > 0 {
						t.Errorf("%d pairs say that the link has fallen, after %v", seen, took)
					}
					if got := w.bytes()[siteLink{"a", "b"}] - before; got > 0 {
						t.Errorf("%d bytes of trains", got)
					}
					cancel()
					senders.Wait()
				})
			})
		})
	}
}

// pour writes to the peer until ctx ends.
func pour(ctx context.Context, t *testing.T, e *lane.Endpoint, peer string) {
	s, err := e.Open(ctx, peer, 0, lane.StreamData)
	if err != nil {
		t.Error(err)
		return
	}
	defer context.AfterFunc(ctx, s.Abort)()
	for block := make([]byte, 16<<10); ; {
		if _, err := s.Write(block); err != nil {
			return
		}
	}
}

// A load survives the wire; one of no time, or of very long, does not.
func TestLoadMessage(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 12))
		l := load{Site: "b", Bytes: rng.Int64N(maxBulkBytes), Span: 1 + time.Duration(rng.Int64N(int64(maxLoadSpan))), Pressed: rng.Int64N(maxBulkBytes), Line: netmap.BytesPerSec(1e9 * rng.Float64())}
		if m := loadMessage(l); m.check() != nil || m.load() != l {
			t.Fatalf("seed %d: %+v came back as %+v, %v", seed, l, m.load(), m.check())
		}
	}
	for _, l := range []load{{Site: "b", Bytes: 1}, {Site: "b", Bytes: -1, Span: 1}, {Site: "b", Span: -1}, {Site: "b", Span: 1, Line: -1}, {Site: "b", Span: 1, Pressed: -1}} {
		if m := loadMessage(l); m.check() == nil {
			t.Errorf("%+v is taken", l)
		}
	}
}

// What a keeper says is believed of the pairs whose lanes the link holds back and of their like, and not of a pair that was slower
// for a reason of its own, nor by a host whose lanes it does not hold back. If it says more later, that is believed as
// well. Afterwards no reading below it is a witness.
func TestWordOfAFall(t *testing.T) {
	for _, pressed := range []bool{true, false} {
		r, est := heard(10*netmap.Mbps, time.Minute)
		now := time.Now()
		p := &Prober{cfg: *r.cfg}
		p.rec.cfg, p.rec.pairs, p.rec.floors = r.cfg, r.pairs, r.floors
		p.rec.fell, p.rec.heard, p.rec.shifts, p.rec.lines = r.fell, r.heard, r.shifts, r.lines
		if pressed {
			if line := p.rec.pressed("b0", now); apart(float64(line), float64(10*netmap.Mbps)) > 0.01 {
				t.Errorf("the pair is believed to get %.3g Mbit/s, want 10", line.Mbps())
			}
		}
		p.linkFell(word{"nowhere", 100}, pressed, now)
		p.linkFell(word{"b", 0}, pressed, now)
		for _, said := range []netmap.BytesPerSec{2 * netmap.Mbps, 2.5 * netmap.Mbps} {
			p.linkFell(word{"b", said}, pressed, now)
			for _, to := range []string{"b0", "b1"} { // b1 had the same rate, so it shares the link
				want := 10 * netmap.Mbps
				if pressed {
					want = said
				}
				if e := est[[2]string{"a1", to}]; apart(float64(e.Bandwidth), float64(want)) > 0.01 {
					t.Errorf("lanes pressed: %v, %s: %.3g Mbit/s, want %.3g", pressed, to, e.Bandwidth.Mbps(), want.Mbps())
				}
			}
		}
		if len(p.rec.floors) != 1 || !p.rec.under("b", float64(1.25*netmap.Mbps), now) || p.rec.under("b", float64(2.4*netmap.Mbps), now) || p.rec.under("b", 1, now.Add(2*newsAge)) {
			t.Errorf("lanes pressed: %v, floors %v", pressed, p.rec.floors)
		}
	}
}

// For a while after a fall what lanes carried is no lower bound: they may have carried it before.
func TestNoRiseInAFall(t *testing.T) {
	r, est := heard(10*netmap.Mbps, time.Minute)
	now := time.Now()
	r.bears("b", 2*netmap.Mbps, now)
	r.pressed("b0", now)
	r.carries("b", []string{"b0", "b1"}, 2*netmap.Mbps, 0, true, now)
	for _, old := range []bool{false, true} {
		if old {
			r.floors["b"] = floor{float64(2 * netmap.Mbps), now.Add(-2 * newsAge)}
		}
		for range 3 {
			r.observed("b0", "b", 5*netmap.Mbps, false)
		}
		if e := est[[2]string{"a1", "b0"}]; (e.Bandwidth > 2.1*netmap.Mbps) != old {
			t.Errorf("a fall of long ago: %v, and lanes of 5 Mbit/s make it %.3g", old, e.Bandwidth.Mbps())
		}
	}
}

// What a host tells late comes beside what it tells then. The link is not said to carry both for that.
func TestArrivalsToldLate(t *testing.T) {
	const rate = 2_500_000 // bytes a second
	begun := time.Unix(1000, 0)
	for late := time.Duration(0); late <= 2*loadsEvery; late += 50 * time.Millisecond {
		var a arrivals
		now := begun
		for i := range 12 {
			now = begun.Add(time.Duration(i) * loadsEvery)
			if i == 6 {
				now = now.Add(late) // the machine was busy
			}
			a.add(rate*int64(loadsEvery)/int64(time.Second), loadsEvery, now)
		}
		end := a.head + 1 - loadLate
		got := a.twice(end-carriedBack, end, carriedBins)
		if got < 0.9*rate || got > 1.1*rate {
			t.Errorf("told %v late: %.3g bytes a second, want %d", late, got, rate)
		}
		if once := a.most(end-carriedBack, end, carriedBins); late == loadsEvery && once < 1.4*rate {
			t.Errorf("in one half second %.3g: this is no test", once)
		}
	}
}
