package min3

import (
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// ticks count the time of one schedule, in the unit of its [clock]. They are integers so
// that equal times are equal, whatever the order in which they were added up.
type ticks int64

// A clock says how long a tick is: 1 ps, or 1 ns where picoseconds could overflow.
//
// A nanosecond is what netmap counts in, but it is coarse for a block of one byte on a
// link of 10 Gbit/s, which takes 0.8 of them: links of different speed would tie.
type clock struct {
	perNano ticks // 1000 or 1
}

// maxTicks bounds the points in time of a schedule in picoseconds: 13 days. Four of them
// still add up within an int64.
const maxTicks = 1 << 60

// clockFor returns the clock of a schedule of n hosts in which no message holds a link or
// a port longer than longest seconds. Every transfer starts at 0 or when another one lets
// go of something, so the last ends before n·n times that; the 4 is for slots of a shared
// link, which are slower than one flow by less than 2, and to be far from the edge.
func clockFor(longest float64, n int) clock {
	if float64(float64(n)*float64(n))*longest*4e12 < maxTicks {
		return clock{perNano: 1000}
	}
	return clock{perNano: 1}
}

// of returns d in ticks.
func (c clock) of(d time.Duration) ticks { return ticks(d) * c.perNano }

// moving returns how long size bytes take at rate, rounded to a tick. size/rate must be
// below maxTime.
func (c clock) moving(rate netmap.BytesPerSec, size int64) ticks {
	// The conversions round each product: a fused multiply-add would break ties otherwise
	// on some processors.
	return ticks(float64(float64(size)/float64(rate)*float64(c.perNano*1e9)) + 0.5)
}

// seconds returns t in seconds.
func (c clock) seconds(t ticks) float64 { return float64(t) / float64(c.perNano*1e9) }

// last is the latest point in time that a schedule may reach.
func (c clock) last() ticks {
	if c.perNano == 1 {
		return ticks(maxTime)
	}
	return maxTicks
}
