package exchange

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

// newTestMeter returns a meter whose transport says what st holds.
func newTestMeter(st *quic.ConnectionStats) *meter {
	m := &meter{sample: Sample{Peer: "b"}, chunk: 4096, flow: flow{peer: "b", site: "b"}, flows: new(flows)}
	m.open(func() quic.ConnectionStats { return *st }, true, time.Unix(0, 0))
	return m
}

// TestMeterInvariants feeds meters what might happen in any order: samples of a lane never
// overlap, hold no more than was answered, and are the network's only if the
// transport has shown something.
func TestMeterInvariants(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 80))
		st := &quic.ConnectionStats{MinRTT: 10 * time.Millisecond, LatestRTT: 10 * time.Millisecond, SmoothedRTT: 10 * time.Millisecond, CongestionWindow: 40000}
		dead := seed%3 == 0 // the transport never shows that it is at work
		m := newTestMeter(st)
		now := time.Unix(0, 0)
		var samples []Sample
		var answered int64
		look := now
		for range 3000 {
			now = now.Add(time.Duration(rng.IntN(20)) * time.Millisecond)
			for now.Sub(look) >= lookEvery {
				look = look.Add(lookEvery)
				samples = m.look(now, samples)
			}
			switch rng.IntN(7) {
			case 0:
				m.enter(starved, now)
			case 1:
				m.enter(held, now)
			case 2, 3:
				m.wrote(1+rng.IntN(4096), now)
				m.handed(now)
			case 4, 5:
				n := rng.Int64N(m.sent - m.got + 1)
				answered += n
				if err := m.answered(m.got+n, now); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			case 6:
				st.PacketsReceived++
				if !dead {
					st.CongestionWindow = uint64(rng.IntN(1 << 20))
					st.PacketsLost += uint64(rng.IntN(2))
					st.LatestRTT = time.Duration(rng.IntN(1 << 27))
				}
				if rng.IntN(200) == 0 {
					m.open(m.stats, true, now)
				}
			}
		}
		samples = m.end(now, samples)
		var end time.Time
		var bytes int64
		for i, s := range samples {
			if s.Duration <= 0 || s.Bytes < 0 || i > 0 && s.Begin.Before(end) {
				t.Fatalf("seed %d: sample %d begins %v after the one before: %+v", seed, i, s.Begin.Sub(end), s)
			}
			if dead && s.Limit == Network && s.Duration < sampleTime {
				t.Errorf("seed %d: nothing shows that the network was the limit: %+v", seed, s)
			}
			end = s.Begin.Add(s.Duration)
			bytes += s.Bytes
		}
		if bytes > answered {
			t.Errorf("seed %d: samples of %d bytes, %d were answered", seed, bytes, answered)
		}
		if len(samples) == 0 {
			t.Errorf("seed %d: no samples: the test tests nothing", seed)
		}
		if len(m.flows.sites) > 0 {
			t.Errorf("seed %d: a lane that has ended is counted as active", seed)
		}
	}
}

// TestMeterRefuses: a peer answers to no more than was sent, and never to less than before.
func TestMeterRefuses(t *testing.T) {
	m := newTestMeter(new(quic.ConnectionStats))
	now := time.Unix(1, 0)
	m.wrote(4096, now)
	if err := m.answered(4097, now); !errors.Is(err, errMalformed) {
		t.Errorf("4097 of 4096 bytes answered: %v", err)
	}
	if err := m.answered(4096, now); err != nil {
		t.Error(err)
	}
	if err := m.answered(4095, now); !errors.Is(err, errMalformed) {
		t.Errorf("answers go back from 4096 to 4095: %v", err)
	}
	var none *meter
	if err := none.answered(1, now); err != nil {
		t.Errorf("a lane that is not measured: %v", err)
	}
	none.enter(held, now)
	none.wrote(1, now)
	none.handed(now)
}

// TestMeterUnasked: a lane whose peer does not answer is active while it writes, and has no
// samples.
func TestMeterUnasked(t *testing.T) {
	m := newTestMeter(new(quic.ConnectionStats))
	now := time.Unix(0, 0)
	m.open(m.stats, false, now)
	other := &flow{peer: "c", site: "b"}
	m.flows.join(other)
	for range 50 {
		m.wrote(1000, now)
		m.handed(now)
		now = now.Add(lookEvery)
		if ss := m.look(now, nil); len(ss) > 0 {
			t.Fatalf("samples without answers: %+v", ss)
		}
	}
	if _, all := m.flows.take(other); all != 2 {
		t.Errorf("%d lanes are active, want 2", all)
	}
	if err := m.answered(1000, now); !errors.Is(err, errMalformed) {
		t.Errorf("answer that was not asked for: %v", err)
	}
	m.look(now, nil)
	if m.flows.take(other); other.all != 1 {
		t.Errorf("%d lanes are active after a while without data, want 1", other.all)
	}
}

// TestFlows: the most flows at a time count, over all that a sample covers.
func TestFlows(t *testing.T) {
	var c flows
	a, b, d := &flow{peer: "a", site: "s"}, &flow{peer: "b", site: "s"}, &flow{peer: "a", site: "s"}
	want := func(f *flow, peers, all int) {
		t.Helper()
		if p, n := c.take(f); p != peers || n != all {
			t.Errorf("%d to the peer, %d to the site, want %d, %d", p, n, peers, all)
		}
	}
	c.join(a)
	c.join(a)
	want(a, 1, 1)
	c.join(b)
	c.join(d)
	c.leave(d)
	c.leave(d)
	want(a, 2, 3)
	want(a, 1, 2) // since the last time
	want(b, 1, 3)
	want(d, 2, 3)
	want(d, 1, 1) // not active: only itself
	c.leave(a)
	c.leave(b)
	if len(c.sites) > 0 {
		t.Errorf("nobody is active: %v", c.sites)
	}
}

// BenchmarkMeter is what sampling adds to a chunk: what the lane and the answer do for it.
func BenchmarkMeter(b *testing.B) {
	m := newTestMeter(&quic.ConnectionStats{MinRTT: time.Millisecond})
	var samples []Sample
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		now := time.Now()
		m.wrote(4096, now)
		m.handed(now)
		if err := m.answered(m.sent, now); err != nil {
			b.Fatal(err)
		}
		if n%100 == 0 {
			samples = m.look(now, samples[:0])
		}
	}
}

// TestMeterSpaced: a lane that is held by the spacing of its host and nothing else tells of no limit, but of a fall: what it gets then is compared with what it got before.
func TestMeterSpaced(t *testing.T) {
	for _, spaced := range []bool{true, false} {
		st := &quic.ConnectionStats{MinRTT: 10 * time.Millisecond, LatestRTT: 10 * time.Millisecond, SmoothedRTT: 10 * time.Millisecond, CongestionWindow: 40000}
		m := newTestMeter(st)
		now, look := time.Unix(0, 0), time.Unix(0, 0)
		var samples []Sample
		run := func(span, every time.Duration) {
			for end := now.Add(span); now.Before(end); {
				if spaced {
					m.waits(every / 2)
				}
				m.wrote(1000, now)
				now = now.Add(every)
				m.handed(now)
				if err := m.answered(m.sent, now); err != nil {
					t.Fatal(err)
				}
				for ; now.Sub(look) >= lookEvery; look = look.Add(lookEvery) {
					st.PacketsReceived++
					samples = m.look(now, samples)
				}
			}
		}
		run(5*time.Second, 10*time.Millisecond)
		for _, s := range samples {
			if s.Limit == Network {
				t.Errorf("spaced %t: %+v is the network's, which has shown nothing", spaced, s)
			}
		}
		before := len(samples)
		st.LatestRTT = 60 * time.Millisecond // a queue
		run(5*time.Second, 40*time.Millisecond)
		told := false
		for _, s := range samples[before:] {
			told = told || s.Limit == Network && s.Mean > 90e3 && s.Rate() < fallen*s.Mean
		}
		if told != spaced {
			t.Errorf("spaced %t: told of the fall to a quarter: %t", spaced, told)
		}
	}
}
