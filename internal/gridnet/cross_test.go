package gridnet

import (
	"math"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// withCross returns a lab of two sites with one link each way and a source on a→b.
func withCross(t *testing.T, link Link, c CrossTraffic, seed uint64) (*lab, *source) {
	t.Helper()
	ab, ba := link, link
	ab.From, ab.To, ba.From, ba.To = "a", "b", "b", "a"
	b := newLab(t, Config{
		Sites: []Site{{Name: "a", Hosts: []string{"a0"}}, {Name: "b", Hosts: []string{"b0"}}},
		Links: []Link{ab, ba}, Seed: seed,
	})
	c.From, c.To = "a", "b"
	if c.Size == 0 {
		c.Size = MTU
	}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	p, err := b.pipe("a", "b")
	if err != nil {
		t.Fatal(err)
	}
	return b, b.startCross(p, c)
}

// conserved checks all counters.
func conserved(t *testing.T, b *lab) {
	t.Helper()
	if err := b.audit(); err != nil {
		t.Fatal(err)
	}
}

func TestCrossTrafficKeepsItsRate(t *testing.T) {
	for _, poisson := range []bool{false, true} {
		for _, size := range []int{HeaderBytes, 333, MTU} {
			b, s := withCross(t, Link{Rate: 20 * Mbps, Latency: time.Millisecond}, CrossTraffic{Rate: 6 * Mbps, Size: size, Poisson: poisson}, 7)
			const d = 5 * time.Second
			b.advance(d)
			p := s.pipe
			conserved(t, b)
			n := 6e6 / 8 * d.Seconds() / float64(size)
			tolerated := 1.0 // the one that is due at the end
			if poisson {
				tolerated = 5 * math.Sqrt(n)
			}
			if off := math.Abs(float64(p.cross.Offered.Packets) - n); off > tolerated {
				t.Errorf("poisson %v, %d bytes: %d packets, want %.0f", poisson, size, p.cross.Offered.Packets, n)
			}
			if p.cross.Offered.Bytes != p.cross.Offered.Packets*uint64(size) {
				t.Errorf("%d packets of %d bytes are %d bytes", p.cross.Offered.Packets, size, p.cross.Offered.Bytes)
			}
			if p.Offered != (Count{}) {
				t.Errorf("counted as the hosts': %+v", p.Traffic)
			}
			b.stopCross(s)
			b.advance(d + time.Second)
			if p.cross.Inside.Packets != 0 || b.agenda.top() != nil {
				t.Errorf("%d packets are left a second after the end", p.cross.Inside.Packets)
			}
			b.stopCross(s) // does nothing
		}
	}
}

// A constant bit rate has pauses that are all alike, Poisson traffic a deviation as large as the mean.
func TestCrossTrafficPauses(t *testing.T) {
	for _, poisson := range []bool{false, true} {
		b, s := withCross(t, Link{Rate: 20 * Mbps}, CrossTraffic{Rate: 6 * Mbps, Poisson: poisson}, 3)
		var sum, squares, n float64
		for range 20000 {
			at := s.timer.at
			b.advance(at)
			pause := (s.timer.at - at).Seconds()
			sum, squares, n = sum+pause, squares+pause*pause, n+1
		}
		mean := sum / n
		spread := math.Sqrt(max(squares/n-mean*mean, 0)) / mean
		if want := map[bool]float64{false: 0, true: 1}[poisson]; math.Abs(spread-want) > 0.03 {
			t.Errorf("poisson %v: deviation of the pauses %.3f × mean, want %.0f", poisson, spread, want)
		}
	}
}

// TestCrossTrafficTakesItsShare: over a full queue both lose, and what they get together is the link's rate. (At times that are
// all alike, either's packets could always find the queue full.)
func TestCrossTrafficTakesItsShare(t *testing.T) {
	b, s := withCross(t, Link{Rate: 10 * Mbps, Latency: time.Millisecond, Queue: 50}, CrossTraffic{Rate: 3 * Mbps, Poisson: true}, 1)
	const d = 10 * time.Second
	pause := (9 * Mbps).time(MTU)
	for at := time.Duration(0); at < d; at += pause {
		b.advance(at)
		b.send(0, 1, MaxPayload)
		conserved(t, b)
	}
	p := s.pipe
	conserved(t, b)
	if p.Dropped[QueueFull].Packets == 0 || p.cross.Dropped[QueueFull].Packets == 0 {
		t.Errorf("12 Mbit/s over a link of 10: hosts lost %d, strangers %d packets", p.Dropped[QueueFull].Packets, p.cross.Dropped[QueueFull].Packets)
	}
	all := float64(p.Delivered.Bytes+p.cross.Delivered.Bytes) / d.Seconds() / float64(10*Mbps)
	if all < 0.99 || all > 1.001 {
		t.Errorf("hosts and strangers together got %.3f of the link", all)
	}
	if share := float64(p.cross.Delivered.Bytes) / d.Seconds() / float64(10*Mbps); share < 0.2 || share > 0.301 {
		t.Errorf("strangers got %.3f of the link, want about 0.25", share)
	}
}

// Strangers stand for many flows, so the ceiling of one flow does not hold them; a cut link does.
func TestCrossTrafficUnderCeilingAndCut(t *testing.T) {
	b, s := withCross(t, Link{Rate: 20 * Mbps, FlowRate: Mbps}, CrossTraffic{Rate: 6 * Mbps}, 1)
	b.advance(time.Second)
	if p := s.pipe; p.cross.Lost().Packets != 0 || p.cross.Delivered.Bytes < 740_000 {
		t.Errorf("under a ceiling of 1 Mbit/s: %+v", p.cross)
	}
	s.pipe.cut = true
	before := s.pipe.cross.Delivered.Packets
	b.advance(2 * time.Second)
	if p := s.pipe; p.cross.Dropped[LinkCut].Packets < 490 || p.cross.Delivered.Packets > before+1 {
		t.Errorf("over a cut link: %+v", p.cross)
	}
	conserved(t, b)
}

// TestDueIsEarlyEnough: applying strangers' events late, with the next of a host's, must give what applying each at its
// time gives, and hand over no packet late.
func TestDueIsEarlyEnough(t *testing.T) {
	dropped := uint64(0)
	for seed := range uint64(20) {
		var runs [2][]Event
		for lazy := range runs {
			b, s := withCross(t, Link{Rate: 10 * Mbps, Latency: 3 * time.Millisecond, Loss: 0.01, Queue: 20}, CrossTraffic{Rate: 7 * Mbps, Size: 700, Poisson: true}, seed)
			b.tap = func(e Event) { runs[lazy] = append(runs[lazy], e) }
			rng := newRand(seed, 9, 0)
			for at := time.Duration(0); at < 2*time.Second; {
				at += time.Duration(rng.ExpFloat64() * float64(30*time.Millisecond))
				for {
					p := b.agenda.top()
					if lazy == 1 {
						p = b.due()
					}
					if p == nil || p.at > at {
						break
					}
					b.advance(p.at)
				}
				b.advance(at)
				for range rng.IntN(12) {
					b.send(0, 1, 1+rng.IntN(MaxPayload))
				}
			}
			conserved(t, b)
			if b.late.Worst != 0 || b.late.Packets == 0 {
				t.Fatalf("seed %d: of %d packets one was handed over %v late", seed, b.late.Packets, b.late.Worst)
			}
			dropped += s.pipe.Dropped[QueueFull].Packets
		}
		if !slices.Equal(runs[0], runs[1]) {
			t.Fatalf("seed %d: %d events, %d when strangers' are applied late, and not the same", seed, len(runs[0]), len(runs[1]))
		}
		for _, e := range runs[0] {
			if e.Src != netip.AddrPortFrom(e.Src.Addr(), firstPort) {
				t.Fatalf("seed %d: a stranger's packet is reported: %v", seed, e)
			}
		}
	}
	if dropped == 0 {
		t.Error("no packet of a host ever met a queue that strangers had filled")
	}
}

func TestCrossTrafficRefuses(t *testing.T) {
	b, _ := withCross(t, Link{}, CrossTraffic{Rate: Mbps}, 1)
	n := &Network{world: b.world, start: time.Now(), wake: make(chan struct{}, 1)}
	for _, c := range []CrossTraffic{
		{From: "a", To: "c", Rate: Mbps},
		{From: "a", To: "b"},
		{From: "a", To: "b", Rate: -1},
		{From: "a", To: "b", Rate: Rate(math.NaN())},
		{From: "a", To: "b", Rate: Mbps, Size: HeaderBytes - 1},
		{From: "a", To: "b", Rate: Mbps, Size: MTU + 1},
	} {
		if _, err := n.StartCross(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	n.closed = true
	if _, err := n.StartCross(CrossTraffic{From: "a", To: "b", Rate: Mbps}); err == nil {
		t.Error("a closed network takes cross traffic")
	}
}

// TestStartCross starts and ends strangers on a running network, whose loop sleeps meanwhile.
func TestStartCross(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := New(Config{
			Sites: []Site{{Name: "a", Hosts: []string{"a0"}}, {Name: "b", Hosts: []string{"b0"}}},
			Links: []Link{{From: "a", To: "b", Rate: 10 * Mbps, Latency: time.Millisecond}},
		})
		if err != nil {
			t.Fatal(err)
		}
		stop, err := n.StartCross(CrossTraffic{From: "a", To: "b", Rate: 3 * Mbps})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		stop()
		time.Sleep(10 * time.Second)
		s := n.Stats()
		l, _ := s.Link("a", "b")
		if want := (Count{2500, 2500 * MTU}); l.Cross.Offered != want || l.Cross.Delivered != want || l.Offered != (Count{}) {
			t.Errorf("after 10 s of 3 Mbit/s: strangers %+v, hosts %+v", l.Cross, l.Traffic)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		stop()
	})
}
