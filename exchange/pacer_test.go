package exchange

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// held8 is a path of which one flow gets an eighth.
func held8(capacity netmap.BytesPerSec) Path {
	return Path{RTT: 100 * time.Millisecond, Rate: capacity / 8, Capacity: capacity}
}

// TestPacerSpreads: what is to go at once goes at the rate, whoever asks.
func TestPacerSpreads(t *testing.T) {
	const rate, slice = 1e6, 2500
	var all pacers
	s := all.join("there", held8(4*rate), 4)
	now := time.Unix(0, 0)
	var last time.Duration
	for i := range 400 { // a megabyte
		wait := s.slot(slice, now)
		if wait < last || wait > last+2*pacerSlack+5*time.Millisecond {
			t.Fatalf("slice %d waits %v, the one before %v", i, wait, last)
		}
		last = wait
	}
	if want := time.Second / 9 * 10; last < want*98/100 || last > want*102/100 {
		t.Errorf("the last of 1 MB waits %v, want about %v", last, want)
	}
	// After a pause nothing is saved up.
	now = now.Add(time.Minute)
	n := 0
	for s.slot(slice, now) == 0 {
		n++
	}
	if n > 2 {
		t.Errorf("%d slices at once after a pause", n)
	}
}

// TestPacerFollowsLink: on a link of a part or a multiple of what is believed the rate ends near the link's. There are no windows
// here, which bound the queue while the rate comes down from what was believed far too high.
func TestPacerFollowsLink(t *testing.T) {
	const slice = 2500
	for _, c := range []struct {
		believed, link float64 // bytes a second
		most           float64 // queue, bytes
	}{
		{1e6, 1e6, 150e3}, {1e6, 1.2e6, 150e3}, {1e6, 3e6, 400e3}, {1e6, 0.9e6, 150e3}, {1e6, 0.5e6, 300e3}, {1e6, 0.25e6, 700e3},
	} {
		for seed := range uint64(5) {
			var all pacers
			s := all.join("there", held8(2*netmap.BytesPerSec(c.believed)), 2)
			share, longest := throughQueue(s, slice, c.link, 0, rand.New(rand.NewPCG(seed, 3)))
			if share < 0.8 || share > 1.02 || longest > c.most {
				t.Errorf("seed %d: believed %.2g, link %.2g: %.3f of it, a queue of %.0f bytes, want 0.80 to 1.02 and at most %.0f", seed, c.believed, c.link, share, longest, c.most)
			}
		}
	}
}

// TestPacerFindsMore: where a link may carry more than is believed, as what is believed is the least or ports held who looked, a pacer that meets no queue goes far beyond it within a second and a
// half, and else slowly; once it has met one there is no difference any more.
func TestPacerFindsMore(t *testing.T) {
	const slice = 2500
	for _, tt := range []struct {
		name     string
		believed float64
		join     func(all *pacers, more bool) *pacer
	}{
		{"to a site", 1e6, func(all *pacers, more bool) *pacer {
			p := held8(2e6)
			p.AtLeast = more
			return all.join("there", p, 2)
		}},
		{"to a peer", 160e3, func(all *pacers, more bool) *pacer {
			p := Path{RTT: 100 * time.Millisecond, Rate: 160e3, Capacity: 8 * 160e3, Flows: 8}
			if more {
				p.Link = p.Capacity
			}
			return all.joinPeer("there", p, 1)
		}},
	} {
		reach := func(more bool, link float64) float64 {
			var all pacers
			s := tt.join(&all, more)
			throughQueueFor(1500*time.Millisecond, s, slice, link, 0, rand.New(rand.NewPCG(1, 3)))
			return s.rate / tt.believed
		}
		known, more := reach(false, 100*tt.believed), reach(true, 100*tt.believed)
		t.Logf("%s: %.2f times what is believed, %.2f where it may be more", tt.name, known, more)
		if known > 1.7 || more < 2.5 {
			t.Errorf("%s: %.2f times what is believed, %.2f where it may be more: want at most 1.7, and at least 2.5", tt.name, known, more)
		}
		if r := reach(true, tt.believed); r < 0.8 || r > 1.2 {
			t.Errorf("%s: %.2f times what the link carries", tt.name, r)
		}
	}
}

// TestPeerPacerFollowsLink is the same of a pacer for one peer, whose flow the network holds to a part or a multiple of what is believed. The
// queue is that of the flow alone, and what is late in it says so a round trip later, or three when the way back is full. Windows, which would bound the
// queue, are not here.
func TestPeerPacerFollowsLink(t *testing.T) {
	const slice = 2500
	for _, c := range []struct {
		believed, flow float64 // bytes a second
		back           time.Duration
		least          float64 // of the flow's rate
		most           float64 // queue, bytes
	}{
		{160e3, 160e3, 0, 0.97, 32e3}, {160e3, 160e3, 200 * time.Millisecond, 0.94, 55e3}, {160e3, 145e3, 200 * time.Millisecond, 0.88, 75e3},
		{160e3, 190e3, 0, 0.94, 40e3}, {160e3, 400e3, 0, 0.92, 85e3}, {160e3, 80e3, 0, 0.93, 95e3},
	} {
		var all pacers
		p := Path{RTT: 100 * time.Millisecond, Rate: netmap.BytesPerSec(c.believed), Capacity: 8 * netmap.BytesPerSec(c.believed), Flows: 8}
		s := all.joinPeer("there", p, 1)
		share, longest := throughQueue(s, slice, c.flow, c.back, nil)
		if share < c.least || share > 1.02 || longest > c.most {
			t.Errorf("believed %.2g, flow %.2g, answers %v later: %.3f of it, a queue of %.0f bytes, want %.2f to 1.02 and at most %.0f", c.believed, c.flow, c.back, share, longest, c.least, c.most)
		}
	}
}

// throughQueue sends slices of so many bytes at s's pace for 20 s through a queue that rate bytes a second leave. It returns the share of the
// rate that the last 10 s used, and the longest queue in bytes. Answers take back longer than the pacer's round trip; of every twentieth
// slice, by rng, a loss is repaired; nil: of none.
func throughQueue(s *pacer, slice int64, rate float64, back time.Duration, rng *rand.Rand) (share, longest float64) {
	return throughQueueFor(20*time.Second, s, slice, rate, back, rng)
}

// throughQueueFor is throughQueue for so long; share is that of the last half.
func throughQueueFor(lasts time.Duration, s *pacer, slice int64, rate float64, back time.Duration, rng *rand.Rand) (share, longest float64) {
	type flight struct {
		answer time.Time
		late   time.Duration
		sent   time.Time
	}
	start := time.Unix(0, 0)
	var under []flight
	free, now := start, start
	carried := 0.0
	for now.Sub(start) < lasts {
		for len(under) > 0 && !under[0].answer.After(now) {
			s.heard(under[0].late, under[0].sent, now)
			under = under[1:]
		}
		now = now.Add(s.slot(slice, now))
		if free.Before(now) {
			free = now
		}
		late := free.Sub(now)
		longest = max(longest, late.Seconds()*rate)
		free = free.Add(time.Duration(float64(slice) / rate * 1e9))
		if rng != nil && rng.IntN(20) == 0 {
			late += 150 * time.Millisecond
		}
		under = append(under, flight{free.Add(100*time.Millisecond + back), late, now})
		if now.Sub(start) > lasts/2 {
			carried += float64(slice)
		}
	}
	return carried / (lasts / 2).Seconds() / rate, longest
}

// TestPacersShareLink: hosts that send over one link see one queue. The link is never idle, and they go on as they began.
func TestPacersShareLink(t *testing.T) {
	const slice = 2500
	for _, c := range []struct {
		hosts          int
		believed, link float64 // bytes a second
		back           time.Duration
		least          float64
		most           float64 // queue, bytes
	}{
		{4, 1.28e6, 1.28e6, 0, 0.97, 80e3}, {8, 1.16e6, 1.16e6, 0, 0.97, 80e3}, {8, 1.16e6, 1.16e6, 50 * time.Millisecond, 0.97, 80e3},
		{4, 1.28e6, 1.22e6, 0, 0.97, 80e3}, {4, 1.22e6, 1.28e6, 0, 0.97, 80e3}, {8, 4.75e6, 4.5e6, 30 * time.Millisecond, 0.97, 120e3}, {8, 2.5e6, 2.3e6, 0, 0.97, 100e3},
	} {
		for seed := range uint64(3) {
			hosts := make([]*pacer, c.hosts)
			for h := range hosts {
				var all pacers // of an engine each
				hosts[h] = all.join("there", held8(netmap.BytesPerSec(c.believed)), c.hosts)
			}
			got := overOneLink(hosts, slice, c.link, c.back, rand.New(rand.NewPCG(seed, 8)))
			t.Logf("%d hosts, believed %.3g, link %.3g, answers %v later: %.3f of the link (worst half second %.3f), a queue of %.0f bytes, hosts %.3f to %.3f of their parts", c.hosts, c.believed, c.link, c.back, got.share, got.worst, got.longest, got.low, got.high)
			if got.share < c.least || got.longest > c.most {
				t.Errorf("want at least %.2f of the link and a queue of at most %.0f bytes", c.least, c.most)
			}
		}
	}
}

// What came of several pacers on one link.
type shared struct {
	share   float64 // of the link, from the first second on
	worst   float64 // of its half seconds
	longest float64 // queue, bytes
	low     float64 // part of a host's equal part of the link, of the one that got least
	high    float64 // and most
}

// overOneLink sends slices of so many bytes at each host's pace for 10 s through one queue that rate bytes a second leave.
func overOneLink(hosts []*pacer, slice int64, rate float64, back time.Duration, rng *rand.Rand) (r shared) {
	type flight struct {
		answer time.Time
		late   time.Duration
		sent   time.Time
	}
	const length, halves = 10 * time.Second, 20
	start := time.Unix(0, 0)
	due := make([]time.Time, len(hosts)) // when a host's next slice goes
	for h := range due {
		due[h] = start.Add(time.Duration(rng.Int64N(int64(10 * time.Millisecond))))
	}
	under := make([][]flight, len(hosts))
	sums := make([]float64, len(hosts))
	var done [halves]float64
	free := start
	for {
		h := 0
		for i := range due {
			if due[i].Before(due[h]) {
				h = i
			}
		}
		now := due[h]
		if now.Sub(start) >= length {
			break
		}
		if free.Before(now) {
			free = now
		}
		late := free.Sub(now)
		r.longest = max(r.longest, late.Seconds()*rate)
		free = free.Add(time.Duration(float64(slice) / rate * 1e9))
		if k := int(free.Sub(start) / (length / halves)); k < halves {
			done[k] += float64(slice)
		}
		sums[h] += float64(slice)
		jitter := time.Duration(rng.Int64N(int64(3 * time.Millisecond)))
		under[h] = append(under[h], flight{free.Add(100*time.Millisecond + back + jitter), late + jitter, now})
		for len(under[h]) > 0 && !under[h][0].answer.After(now) {
			hosts[h].heard(under[h][0].late, under[h][0].sent, now)
			under[h] = under[h][1:]
		}
		due[h] = now.Add(max(hosts[h].slot(slice, now), time.Duration(1)))
	}
	r.worst, r.low = 1, 1e9
	for _, b := range done[2:] {
		b /= rate * (length / halves).Seconds()
		r.share += b / (halves - 2)
		r.worst = min(r.worst, b)
	}
	for _, s := range sums {
		part := s * float64(len(hosts)) / rate / length.Seconds()
		r.low, r.high = min(r.low, part), max(r.high, part)
	}
	return r
}

// TestPacersEnd: a site is remembered while somebody sends there; nobody paces what is not known or not held.
func TestPacersEnd(t *testing.T) {
	var all pacers
	for _, p := range []Path{{}, {RTT: time.Second, Rate: 1e6}, {RTT: time.Second, Rate: 1e6, Capacity: 1.1e6}} {
		s := all.join("there", p, 8)
		if all.join("there", held8(1e6), 1) != nil {
			t.Error("a lone host is paced")
		}
		if s != nil || s.slot(1e9, time.Now()) != 0 || s.idle(time.Now()) {
			t.Errorf("%+v is paced", p)
		}
		s.heard(time.Second, time.Now(), time.Now())
		s.leave()
	}
	a, b := all.join("there", held8(1e6), 8), all.join("there", held8(2e6), 8)
	if a != b || a.believed != 2e6/8 {
		t.Errorf("two peers of a site: %p and %p, %v", a, b, a.believed)
	}
	a.leave()
	if all.join("there", held8(1e6), 8) != a {
		t.Error("a pacer in use was forgotten")
	}
	a.leave()
	a.leave()
	if len(all.of) > 0 {
		t.Errorf("%d sites are left", len(all.of))
	}
}

// TestPeerPacers: each peer has its own pacer, beside those of sites with the same name; a lone pair has none.
func TestPeerPacers(t *testing.T) {
	var all pacers
	p := held8(1e6)
	if all.joinPeer("a", p, 1) != nil {
		t.Error("a pair that shares its way with nobody is paced")
	}
	p.Flows = 8
	a, b, site := all.joinPeer("a", p, 1), all.joinPeer("b", p, 1), all.join("a", p, 8)
	if a == nil || a == b || a == site || all.joinPeer("a", p, 1) != a {
		t.Errorf("pacers of two peers and a site: %p, %p, %p", a, b, site)
	}
	p.Flows = 4
	if few := all.joinPeer("c", p, 1); few.believed != 1e6/8 {
		t.Errorf("one lane of a flow of %v is believed to carry %v", 1e6/8, few.believed)
	}
	if p.Loss = 0.01; all.joinPeer("d", p, 1).believed != 1e6/4 {
		t.Error("what losses hold is paced at what one flow gets, and not at the pair's part")
	}
}

// TestPacerBehindPorts: hosts whose ports hold what each pair gets share what the link was seen to carry, and none is believed to send more than a port takes.
func TestPacerBehindPorts(t *testing.T) {
	p := Path{RTT: 100 * time.Millisecond, Rate: 10 * netmap.Mbps, Capacity: 40 * netmap.Mbps}
	for _, c := range []struct {
		link   netmap.BytesPerSec
		hosts  int
		want   netmap.BytesPerSec
		unsure bool
	}{
		{0, 8, 5 * netmap.Mbps, false},
		{160 * netmap.Mbps, 8, 20 * netmap.Mbps, true},
		{160 * netmap.Mbps, 2, 40 * netmap.Mbps, true},
	} {
		p.Link = c.link
		s := new(pacers).join("b", p, c.hosts)
		if netmap.BytesPerSec(s.believed) != c.want || s.unsure != c.unsure {
			t.Errorf("%d hosts, a link of %v: %v each, unsure %t, want %v and %t", c.hosts, c.link, netmap.BytesPerSec(s.believed), s.unsure, c.want, c.unsure)
		}
		s.leave()
	}
}
