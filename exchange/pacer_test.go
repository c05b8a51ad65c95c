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
			rng := rand.New(rand.NewPCG(seed, 3))
			var all pacers
			s := all.join("there", held8(2*netmap.BytesPerSec(c.believed)), 2)
			start := time.Unix(0, 0)
			type flight struct {
				answer time.Time
				late   time.Duration
			}
			var under []flight
			free, now := start, start
			var longest float64
			carried := 0.0
			for now.Sub(start) < 20*time.Second {
				for len(under) > 0 && !under[0].answer.After(now) {
					s.heard(under[0].late, now)
					under = under[1:]
				}
				now = now.Add(s.slot(slice, now))
				if free.Before(now) {
					free = now
				}
				late := free.Sub(now)
				longest = max(longest, late.Seconds()*c.link)
				free = free.Add(time.Duration(slice / c.link * 1e9))
				if rng.IntN(20) == 0 {
					late += 150 * time.Millisecond // a loss is repaired
				}
				under = append(under, flight{free.Add(100 * time.Millisecond), late})
				if now.Sub(start) > 10*time.Second {
					carried += slice
				}
			}
			share := carried / 10 / c.link
			if share < 0.8 || share > 1.02 || longest > c.most {
				t.Errorf("seed %d: believed %.2g, link %.2g: %.3f of it, a queue of %.0f bytes, want 0.80 to 1.02 and at most %.0f", seed, c.believed, c.link, share, longest, c.most)
			}
		}
	}
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
		s.heard(time.Second, time.Now())
		all.leave("there", s)
	}
	a, b := all.join("there", held8(1e6), 8), all.join("there", held8(2e6), 8)
	if a != b || a.believed != 2e6/8 {
		t.Errorf("two peers of a site: %p and %p, %v", a, b, a.believed)
	}
	all.leave("there", a)
	if all.join("there", held8(1e6), 8) != a {
		t.Error("a pacer in use was forgotten")
	}
	all.leave("there", a)
	all.leave("there", a)
	if len(all.sites) > 0 {
		t.Errorf("%d sites are left", len(all.sites))
	}
}
