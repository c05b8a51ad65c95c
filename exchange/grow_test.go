package exchange

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A lossyPath is a model of lanes that losses hold: each gets one, all together no more than most, and
// what is more than that stands in a queue.
type lossyPath struct {
	one, most float64 // bytes a second
	lossless  bool
	policed   bool // what is more is dropped, and no queue stands
}

// drive grows lanes for d and returns how many there are in the end, and when there were so many first.
func (l lossyPath) drive(p Path, lanes int, d time.Duration, idle bool) (n int, since time.Duration) {
	var g growth
	c := crowd{lanes: lanes, rtt: p.RTT}
	for at := time.Duration(0); at < d; at += tendEvery {
		rate := min(float64(c.lanes)*l.one, l.most)
		c.bytes += int64(rate * tendEvery.Seconds())
		c.queue = 0
		if float64(c.lanes)*l.one > l.most && !l.policed {
			c.queue = p.RTT / 2
		}
		if !l.lossless {
			c.lost++
		}
		c.idle = idle
		if n := g.look(time.Unix(0, 0).Add(at), p, c); n != c.lanes {
			c.lanes, since = n, at
		}
	}
	return c.lanes, since
}

func TestGrowth(t *testing.T) {
	const mbps = float64(netmap.Mbps)
	p := Path{RTT: 100 * time.Millisecond, Rate: netmap.BytesPerSec(20 * mbps)}
	for _, c := range []struct {
		name        string
		way         lossyPath
		flows       int
		idle        bool
		least, most int
		within      time.Duration
	}{
		{"losses that the map does not know of", lossyPath{one: 1.6 * mbps, most: 20 * mbps}, 1, false, 12, 24, 4 * time.Second},
		{"the same, of four pairs", lossyPath{one: 1.6 * mbps, most: 5 * mbps}, 4, false, 3, 6, 4 * time.Second},
		{"no losses", lossyPath{one: 1.6 * mbps, most: 20 * mbps, lossless: true}, 1, false, 1, 1, 0},
		{"nothing to send", lossyPath{one: 1.6 * mbps, most: 20 * mbps}, 1, true, 1, 1, 0},
		{"a full link", lossyPath{one: 30 * mbps, most: 20 * mbps}, 1, false, 1, 1, 0},
		{"a policer", lossyPath{one: 10 * mbps, most: 10 * mbps, policed: true}, 1, false, 2, 32, 20 * time.Second},
	} {
		q := p
		q.Flows = c.flows
		n, since := c.way.drive(q, 1, 20*time.Second, c.idle)
		if n < c.least || n > c.most || since > c.within {
			t.Errorf("%s: %d lanes after %v, want %d to %d within %v", c.name, n, since, c.least, c.most, c.within)
		}
	}
}

// TestGrowthIsBounded: however slow lanes are, there are no more than the pairs of a site may have.
func TestGrowthIsBounded(t *testing.T) {
	p := Path{RTT: time.Second, Rate: 1e9}
	for _, flows := range []int{0, 1, 3, 8, 64, 1000} {
		p.Flows = flows
		n, _ := lossyPath{one: 1e3, most: 1e9}.drive(p, 1, 5*time.Minute, false)
		if most := min(maxLane, max(1, siteLanes/max(flows, 1))); n > most {
			t.Errorf("%d lanes for one of %d pairs, want at most %d", n, flows, most)
		}
	}
}

// TestShort: of which lanes losses leave too small a window.
func TestShort(t *testing.T) {
	p := Path{RTT: 100 * time.Millisecond, Rate: 1e6, Capacity: 4e6, Flows: 8} // a pair's part: 50 kB a round trip
	lane := crowd{lanes: 1, lost: 1, rtt: p.RTT, window: 30_000}
	for _, c := range []struct {
		name string
		edit func(*crowd)
		want bool
	}{
		{"a loss has left a small window", func(*crowd) {}, true},
		{"none has", func(c *crowd) { c.lost = 0 }, false},
		{"the window is large enough", func(c *crowd) { c.window = 51_000 }, false},
		{"it is, but acknowledgements are late", func(c *crowd) { c.window, c.queue = 51_000, 10*time.Millisecond }, true},
		{"what goes there stands in a queue", func(c *crowd) { c.window, c.queue, c.ahead = 51_000, 10*time.Millisecond, 10*time.Millisecond }, false},
		{"there are several lanes", func(c *crowd) { c.lanes = 2 }, false},
		{"nothing is known of round trips", func(c *crowd) { c.rtt = 0 }, false},
	} {
		l := lane
		if c.edit(&l); l.short(p) != c.want {
			t.Errorf("%s: short is %v", c.name, !c.want)
		}
	}
}
