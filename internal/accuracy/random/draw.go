package random

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A Range is drawn from so that each factor of two within is as likely.
type Range struct{ Least, Most float64 }

func (r Range) draw(rng *rand.Rand) float64 {
	return r.Least * math.Pow(r.Most/r.Least, rng.Float64())
}

// Limits say from what a grid is drawn. Shares are of links, each direction by itself.
type Limits struct {
	Sites int // at most so many, at least 2
	Hosts int // at most so many at a site
	All   int // at most so many in all; a site has at least 1

	LAN  Range // Mbit/s of each port
	Rate Range // Mbit/s of links
	Lag  Range // one-way delay of links, ms
	Loss Range // share of packets, of the links that lose any

	Lossy  float64 // share that loses packets at random
	Odd    float64 // share of grids whose links have what follows
	Held   float64 // share that holds each flow to 1/2 … 1/10
	Jitter float64 // share with up to a third of the delay, and 5 ms, of jitter
	Queues float64 // share with a short queue or a long one
	Cross  float64 // share of which strangers take 30 %

	Start time.Duration // within which the hosts start
}

// Wide are the limits of grids in virtual time.
var Wide = Limits{
	Sites: 5, Hosts: 6, All: 10,
	LAN: Range{20, 1000}, Rate: Range{0.1, 300}, Lag: Range{0.2, 120}, Loss: Range{0.0005, 0.01},
	Lossy: 0.15, Odd: 0.5, Held: 0.1, Jitter: 0.12, Queues: 0.2, Cross: 0.12,
	Start: 20 * time.Second,
}

// Slow are the limits of grids that a lab on two cores carries, agents and iperf3 besides. A lab has no strangers.
var Slow = Limits{
	Sites: 4, Hosts: 3, All: 7,
	LAN: Range{20, 100}, Rate: Range{0.3, 30}, Lag: Range{0.5, 60}, Loss: Range{0.0005, 0.01},
	Lossy: 0.15, Odd: 0.5, Held: 0.15, Jitter: 0.1, Queues: 0.2,
}

// Lab are the limits of grids over which a lab on two cores carries MPI libraries and agents side by side: enough hosts that a plan matters,
// rates of which the sum is below what the machine forwards.
var Lab = Limits{
	Sites: 4, Hosts: 6, All: 16,
	LAN: Range{50, 200}, Rate: Range{1, 30}, Lag: Range{1, 60}, Loss: Range{0.0002, 0.005},
	Lossy: 0.25, Odd: 1, Held: 0.25, Jitter: 0.1, Queues: 0.1,
}

// A Grid is what was drawn.
type Grid struct {
	File   *gridfile.Grid
	Cross  []float64       // of each link of File.WAN, the share that strangers take
	Starts []time.Duration // the pause before each host of File.Hosts starts
	Change Change
}

// A Change is what happens to a link, or to both directions of it, while agents run.
type Change struct {
	Links []int   // of File.WAN
	Rate  float64 // factor of their rate, and of what one flow may have
	Lag   float64 // factor of their delay
}

// Draw returns the grid of a seed.
func Draw(seed uint64, l Limits) *Grid {
	rng := rand.New(rand.NewPCG(seed, 0x67726964))
	g := &Grid{File: &gridfile.Grid{}}
	if rng.Float64() >= l.Odd {
		l.Held, l.Jitter, l.Queues, l.Cross = 0, 0, 0, 0
	}
	g.sites(rng, l)
	for a := range g.File.Sites {
		for b := range a {
			g.links(rng, l, b, a)
		}
	}
	// The pauses between n starts are those between n-1 sorted draws.
	left := l.Start
	for range g.File.Hosts() {
		pause := time.Duration(rng.ExpFloat64() * float64(l.Start) / float64(len(g.File.Hosts())))
		pause = min(pause, left)
		g.Starts = append(g.Starts, pause)
		left -= pause
	}
	g.change(rng, mbps(l.Rate.Least))
	return g
}

// sites are few more often than many.
func (g *Grid) sites(rng *rand.Rand, l Limits) {
	n, all := 2, l.All
	for n < l.Sites && rng.Float64() < 0.5 {
		n++
	}
	for i := range n {
		rest := n - i - 1
		hosts := 1 + rng.IntN(max(1, min(l.Hosts, all-rest)))
		all -= hosts
		g.File.Sites = append(g.File.Sites, gridfile.Site{
			Name: string(rune('a' + i)), Hosts: hosts,
			LAN: gridfile.LAN{Bandwidth: mbps(l.LAN.draw(rng)), Latency: time.Duration(30+rng.IntN(120)) * time.Microsecond},
		})
	}
}

// unlike is how much faster one direction of a link may be. Where it is more than 30 times, the acknowledgements of a flow do not fit
// into the way back.
const unlike = 20

// links draws both directions between two sites. Half of them are alike in rate, most in delay.
func (g *Grid) links(rng *rand.Rand, l Limits, a, b int) {
	rate, lag := l.Rate.draw(rng), l.Lag.draw(rng)
	back, home := rate, lag
	if rng.Float64() < 0.5 {
		back = min(max(rate*Range{1.0 / unlike, unlike}.draw(rng), l.Rate.Least), l.Rate.Most)
	}
	if rng.Float64() < 0.3 {
		home = l.Lag.draw(rng)
	}
	g.add(rng, l, gridfile.Link{From: a, To: b, Capacity: mbps(rate), Latency: millis(lag)})
	g.add(rng, l, gridfile.Link{From: b, To: a, Capacity: mbps(back), Latency: millis(home)})
}

// add gives a link its faults. Each draws as often whether it strikes or not, so that limits can be changed one by one.
func (g *Grid) add(rng *rand.Rand, l Limits, k gridfile.Link) {
	k.Bandwidth = k.Capacity
	cross := 0.0
	if part := 2 + 8*rng.Float64(); rng.Float64() < l.Held {
		k.Bandwidth = max(k.Bandwidth/netmap.BytesPerSec(part), min(k.Bandwidth, mbps(l.Rate.Least)))
	}
	if loss := l.Loss.draw(rng); rng.Float64() < l.Lossy {
		k.Loss = loss
	}
	if part := rng.Float64(); rng.Float64() < l.Jitter {
		k.Jitter = min(time.Duration(part*float64(k.Latency)/3), 5*time.Millisecond)
	}
	if short := 12 + rng.IntN(36); rng.Float64() < l.Queues {
		k.Queue = short
		if rng.Float64() < 0.5 {
			k.Queue = max(64, int(4*bdp(k.Capacity, 2*k.Latency)))
		}
	}
	if rng.Float64() < l.Cross {
		cross = 0.3
	}
	g.File.WAN = append(g.File.WAN, k)
	g.Cross = append(g.Cross, cross)
}

// change draws what happens under way: it must be seen by what is known of the link for sure, if there is such a one.
func (g *Grid) change(rng *rand.Rand, least netmap.BytesPerSec) {
	var can []Change
	kinds := []Change{{Rate: 0.25, Lag: 1}, {Rate: 3, Lag: 1}, {Rate: 1, Lag: 2}}
	for range kinds {
		kind := kinds[rng.IntN(len(kinds))]
		for i := range g.File.WAN {
			kind.Links = []int{i}
			can = append(can, kind)
			if j := g.back(i); i < j {
				kind.Links = []int{i, j}
				can = append(can, kind)
			}
		}
	}
	rng.Shuffle(len(can), func(i, j int) { can[i], can[j] = can[j], can[i] })
	for _, c := range can {
		g.Change = c
		if g.plain(least) {
			return
		}
	}
}

// plain reports whether a change can be told from the declared grid alone: before it and after, nothing but rates decide, and what
// changes is more than measuring may be off.
func (g *Grid) plain(least netmap.BytesPerSec) bool {
	after := g.After()
	for _, i := range g.Change.Links {
		was, exact := g.Flow(i)
		is, still := after.Flow(i)
		if !exact || !still || is < least*UserShare {
			return false
		}
		if g.Change.Rate != 1 && !(is < 0.7*was || is > 1.4*was) {
			return false
		}
		if g.Change.Lag != 1 && after.RoundTrip(i)-g.RoundTrip(i) < 5*time.Millisecond {
			return false
		}
	}
	return true
}

// Certain reports whether the declared grid alone tells what the change of g does.
func (g *Grid) Certain() bool { return g.plain(0) }

// After returns g as it is after its change.
func (g *Grid) After() *Grid {
	file := *g.File
	file.WAN = slices.Clone(g.File.WAN)
	for _, i := range g.Change.Links {
		k := &file.WAN[i]
		k.Capacity *= netmap.BytesPerSec(g.Change.Rate)
		k.Bandwidth *= netmap.BytesPerSec(g.Change.Rate)
		k.Latency = time.Duration(float64(k.Latency) * g.Change.Lag)
	}
	after := *g
	after.File, after.Change = &file, Change{}
	return &after
}

// Touches reports whether the change of g is one of link i or of its way back.
func (g *Grid) Touches(i int) bool {
	return slices.ContainsFunc(g.Change.Links, func(k int) bool { return k == i || k == g.back(i) })
}

// back returns the link in the other direction of link i.
func (g *Grid) back(i int) int { return i ^ 1 }

func mbps(v float64) netmap.BytesPerSec { return netmap.BytesPerSec(math.Round(v*1e6) / 8) }
func millis(v float64) time.Duration {
	return time.Duration(v * float64(time.Millisecond)).Round(time.Microsecond)
}

// bdp returns what a rate carries in a time, in full packets.
func bdp(rate netmap.BytesPerSec, d time.Duration) float64 { return float64(rate) * d.Seconds() / 1500 }

func (c Change) String() string {
	s := fmt.Sprintf("rate x %g", c.Rate)
	if c.Lag != 1 {
		s = fmt.Sprintf("delay x %g", c.Lag)
	}
	return s
}
