package exchange

import "time"

const (
	// growPeriod and growTrips are how long lanes are watched before their number is judged: the longer
	// of the two.
	growPeriod = 300 * time.Millisecond
	growTrips  = 4
	// settleTrips is what new lanes get to connect and to leave slow start.
	settleTrips = 6
	// growMost is how many times as many lanes there may be after one step.
	growMost = 4
	// growGain is what a step must have brought for another one at once. After one that has
	// not, growPause passes, twice as much each time, and a step adds a growTry-th only.
	growGain  = 1.15
	growPause = time.Second
	growTry   = 4
	// siteLanes bounds the lanes of all pairs of hosts between two sites together.
	siteLanes = 128
)

// A growth decides how many lanes a peer gets while they are in use. The map may not
// know yet that losses hold a flow, or may have known another link; then a few round trips show
// it: losses, though nothing stands in a queue. That the link is full is said by its queue, and
// that losses are no matter of luck (a policer) by steps that bring nothing.
//
// It is pure: look takes what was seen.
type growth struct {
	began   time.Time // of the period; zero: none
	bytes   int64     // answered when it began
	lost    uint64
	settled time.Time     // when what was done last shows
	rate    float64       // before the last step; 0: there was none
	pause   time.Duration // after the last step that brought nothing
}

// A crowd is what is seen of the lanes to one peer.
type crowd struct {
	lanes  int
	bytes  int64         // that the peer has answered
	lost   uint64        // packets, of connections that are open
	rtt    time.Duration // least round trip
	queue  time.Duration // what round trips are longer than that, on average of the lanes
	ahead  time.Duration // what the quickest slices of late stood in a queue on their way there
	window int64         // congestion window of the first of them, in bytes
	idle   bool          // some lane had nothing to write, or its window was full
}

// queued reports whether packets, or their acknowledgements, stand in a queue.
func (c crowd) queued() bool { return c.queue > c.some() }

// some is what a queue must hold to count.
func (c crowd) some() time.Duration { return max(c.rtt/8, 4*time.Millisecond) }

// look returns how many lanes there should be.
func (g *growth) look(now time.Time, p Path, c crowd) int {
	if c.rtt <= 0 || now.Before(g.settled) || c.idle || g.began.IsZero() || c.bytes < g.bytes || c.lost < g.lost {
		g.began, g.bytes, g.lost = now, c.bytes, c.lost
		return c.lanes
	}
	d := now.Sub(g.began)
	if d < max(growPeriod, growTrips*c.rtt) {
		return c.lanes
	}
	rate, lost := float64(c.bytes-g.bytes)/d.Seconds(), c.lost-g.lost
	g.began, g.bytes, g.lost = now, c.bytes, c.lost
	if lost == 0 || rate <= 0 || c.queued() {
		return c.lanes
	}
	if g.rate > 0 && rate < growGain*g.rate {
		g.pause = max(2*g.pause, growPause)
		g.settled, g.rate = now.Add(g.pause), 0
		return c.lanes
	}
	// As many as fill the pair's part of the path if each gets what these get.
	want := int(min(slack*p.part()/rate*float64(c.lanes), siteLanes)) + 1
	step := growMost * c.lanes
	if g.pause > 0 {
		step = c.lanes + (c.lanes+growTry-1)/growTry
	}
	n := min(want, maxLane, max(siteLanes/max(p.Flows, 1), 1), step)
	if n <= c.lanes {
		return c.lanes
	}
	g.settled, g.rate = now.Add(settleTrips*c.rtt), rate
	return n
}
