package main

import (
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/probe/netmap"
)

// early is when a map should be of use: an agent has just been started.
const early = 30 * time.Second

// A lanesRun is a world in which so many lanes have it to themselves.
type lanesRun struct {
	world      World
	lanes      int
	seed       uint64
	warm, long time.Duration
}

// runs keeps what lanes got, for the cells that share a world: lanesRun → func() float64.
var runs sync.Map

// rate returns the user bytes a second of all lanes of k together.
func (k lanesRun) rate(t *testing.T) float64 {
	k.world.Hosts = 0 // as many as lanes
	f, _ := runs.LoadOrStore(k, sync.OnceValue(func() (v float64) {
		inBubble(t, func(t *testing.T, dir string) { v = bulk(t, dir, k.world, k.lanes, k.seed, k.warm, k.long) })
		return v
	}))
	return f.(func() float64)()
}

// truth returns what so many lanes get together in the steady state of c's world: the mean over several seeds, since
// losses fall by chance.
func truth(t *testing.T, c Cell, lanes int) float64 {
	t.Helper()
	sum := 0.0
	for seed := range uint64(c.Truths) {
		sum += lanesRun{c.World, lanes, 1000 + seed, c.Warm, c.Truth}.rate(t)
	}
	return sum / float64(c.Truths)
}

// measureFlow: "truth" and, "early" and "late", what the maps say in its place (both user bytes a second; a pair that no map
// knows is 0), of every ordered pair of hosts of the two sites; "rtt" in seconds, late; "measured", how many of
// the pairs have a reading of their own, late.
func measureFlow(t *testing.T, c Cell, r *Reading) {
	if c.Row == Flow {
		r.add("truth", truth(t, c, 1))
	}
	inBubble(t, func(t *testing.T, dir string) {
		idle(t, dir, c.World, c.Seed, []time.Duration{early, c.Idle}, func(g *grid.Grid, after time.Duration) {
			name, own := "early", 0
			if after != early {
				name = "late"
			}
			for _, e := range across(t, g) {
				if !e.Has(netmap.FieldBandwidth) {
					e.Bandwidth = 0
				}
				r.add(name, float64(e.Bandwidth))
				if e.Source >= netmap.SourceProbed {
					own++
				}
				if after != early {
					r.add("rtt", 2*e.Latency.Seconds())
				}
			}
			r.add(name+" own", float64(own))
		})
	})
}

// measureCapacity: "capacity" in user bytes a second and "lanes" that reach it, of every ordered pair of hosts of the two sites;
// 0 where the map does not say. "one" is what one lane really gets, and "knee" the least number of lanes that really get 95 % of "truth",
// which is what the link can carry.
func measureCapacity(t *testing.T, c Cell, r *Reading) {
	can := goodput * c.World.Mbps * 1e6 / 8 * (1 - c.World.Loss)
	r.add("truth", can)
	r.add("one", truth(t, c, 1))
	r.add("knee", float64(knee(func(k int) bool { return truth(t, c, k) >= 0.95*can })))
	inBubble(t, func(t *testing.T, dir string) {
		idle(t, dir, c.World, c.Seed, []time.Duration{c.Idle}, func(g *grid.Grid, _ time.Duration) {
			for _, e := range across(t, g) {
				if !e.Has(netmap.FieldCapacity) {
					e.Capacity = 0
				}
				if !e.Has(netmap.FieldLanes) {
					e.Lanes = 0
				}
				r.add("capacity", float64(e.Capacity))
				r.add("lanes", float64(e.Lanes))
			}
		})
	})
}

// knee returns the least k of 1 to 64 for which enough holds, 64 if none: doubling, then halving the gap.
func knee(enough func(k int) bool) int {
	low, high := 0, 1
	for !enough(high) {
		if low, high = high, 2*high; high > 64 {
			return 64
		}
	}
	for high-low > 1 {
		if mid := (low + high) / 2; enough(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
