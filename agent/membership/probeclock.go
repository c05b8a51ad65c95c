package membership

import "time"

// clockSlack is how far from its tick a probe may begin on a busy host.
const clockSlack = 50 * time.Millisecond

// A probeClock tells whether memberlist may have a probe in flight. It probes one host
// after the other, each on a tick of its interval unless the one before took longer.
type probeClock struct {
	last, before time.Time // when the last two probes that were answered began
	others       int       // hosts that are probed
	alone        time.Time // since when there is none
}

// answered notes a probe that began at the time given.
func (c *probeClock) answered(began time.Time) { c.before, c.last = c.last, began }

func (c *probeClock) company(by int, now time.Time) {
	if c.others += by; c.others <= 0 {
		c.others, c.alone = 0, now
	}
}

// rest returns how long a probe may still be in flight at now, of which each takes longest
// at most: 0 if there was nobody to probe for so long, or if the next tick after the last
// answer is to come. Ticks are known once two answered probes began on them; some are
// passed over, at the end of each round through the hosts.
func (c *probeClock) rest(now time.Time, interval, longest time.Duration) time.Duration {
	if c.others == 0 && now.Sub(c.alone) > longest {
		return 0
	}
	gap := c.last.Sub(c.before)
	if off := gap - gap.Round(interval); c.before.IsZero() || gap < interval/2 || off.Abs() > clockSlack {
		return longest
	}
	since := now.Sub(c.last)
	if since < interval-2*clockSlack {
		return 0
	}
	tick := (since + 2*clockSlack).Truncate(interval) // of a probe that may have begun
	return min(longest, tick+longest-since)
}
