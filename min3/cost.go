package min3

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// maxTime bounds every single duration of a schedule and, where a tick is a nanosecond,
// every point in time (31 years, as plan does). It leaves room to add three of them in an
// int64 without overflow, so that an absurd estimate becomes an error and not a negative time.
const maxTime = 1e9 * time.Second

// costs prices messages on a snapshot. Data are numbered by size, then index
// ("slots"), so that the first slot of a set is its cheapest block on every link.
type costs struct {
	clock
	snap  *netmap.Snapshot
	n     int
	sizes []int64 // by slot, ascending
	data  []int32 // slot -> data index (the rank that contributes it)
	next  []int32 // slot -> first slot of a larger size

	latency []ticks              // [to*n+from]
	rate    []netmap.BytesPerSec // [to*n+from]
	gaps    []bool               // [to*n+from], whether g(m) is known and not taken for m/B
	// Of blocks of one size, [to*n+from]: transfer times and send overheads; nil where sizes differ.
	uniform, busy []ticks
}

// newCosts checks every ordered pair of s: each can become a source and a destination
// of some sub-pool, so one unmeasured pair is an error and not a link to avoid.
func newCosts(s *netmap.Snapshot, sizes []int64) (*costs, error) {
	n := s.N()
	c := &costs{
		snap:    s,
		n:       n,
		sizes:   make([]int64, n),
		data:    make([]int32, n),
		next:    make([]int32, n),
		latency: make([]ticks, n*n),
		rate:    make([]netmap.BytesPerSec, n*n),
		gaps:    make([]bool, n*n),
	}
	c.order(sizes)
	if c.sizes[0] < 0 {
		return nil, fmt.Errorf("block of host %s: size %d is negative", s.Host(int(c.data[0])).Name, c.sizes[0])
	}
	var longest float64 // seconds
	for from := range n {
		for to := range n {
			if from == to {
				continue
			}
			seconds, err := c.measure(from, to)
			if err != nil {
				return nil, err
			}
			longest = max(longest, seconds)
		}
	}
	c.clock = clockFor(longest, n)
	for i := range c.latency {
		c.latency[i] = c.of(s.Estimate(i%n, i/n).Latency)
	}
	if c.sizes[0] == c.sizes[n-1] {
		busy := make([]ticks, n*n)
		for i := range busy {
			busy[i] = c.overhead(i%n, i/n, 0)
		}
		c.busy = busy
		c.fillUniform()
	}
	return c, nil
}

// order fills sizes, data and next.
func (c *costs) order(sizes []int64) {
	for i := range c.data {
		c.data[i] = int32(i)
	}
	slices.SortStableFunc(c.data, func(a, b int32) int { return cmp.Compare(sizes[a], sizes[b]) })
	for slot, d := range c.data {
		c.sizes[slot] = sizes[d]
	}
	end := int32(c.n)
	for slot := c.n - 1; slot >= 0; slot-- {
		if slot+1 < c.n && c.sizes[slot] != c.sizes[slot+1] {
			end = int32(slot + 1)
		}
		c.next[slot] = end
	}
}

// measure checks one link and notes its rate. It returns for how many seconds the largest
// block can hold the link or a port, at most.
func (c *costs) measure(from, to int) (longest float64, err error) {
	e := c.snap.Estimate(from, to)
	largest := c.sizes[c.n-1]
	if !e.Has(netmap.FieldLatency | netmap.FieldBandwidth) {
		_, err := c.snap.TransferTime(from, to, largest)
		return 0, err
	}
	// Not "≤ 0": a NaN must fail too.
	if !(e.Bandwidth > 0) {
		return 0, fmt.Errorf("link %s: bandwidth %g B/s is not above 0", c.name(from, to), float64(e.Bandwidth))
	}
	if !(float64(largest)/float64(e.Bandwidth) < maxTime.Seconds()) {
		return 0, fmt.Errorf("link %s: %d bytes at %g B/s take longer than %v",
			c.name(from, to), largest, float64(e.Bandwidth), maxTime)
	}
	gap := c.snap.Gap(from, to, largest)
	overhead := c.snap.SendOverhead(from, to, largest)
	for _, d := range []struct {
		what string
		d    time.Duration
	}{{"latency", e.Latency}, {"gap", gap}, {"send overhead", overhead}} {
		if d.d < 0 || d.d > maxTime {
			return 0, fmt.Errorf("link %s: %s %v is outside 0 … %v", c.name(from, to), d.what, d.d, maxTime)
		}
	}
	c.rate[to*c.n+from] = e.Bandwidth
	_, modelled := c.snap.LogP(from, to)
	c.gaps[to*c.n+from] = modelled || e.Has(netmap.FieldGap)
	moving := float64(largest) / float64(e.Bandwidth)
	return max(e.Latency.Seconds()+moving, gap.Seconds(), overhead.Seconds()), nil
}

func (c *costs) name(from, to int) string {
	return c.snap.Host(from).Name + "→" + c.snap.Host(to).Name
}

func (c *costs) fillUniform() {
	c.uniform = make([]ticks, c.n*c.n)
	for i := range c.uniform {
		if i/c.n != i%c.n {
			c.uniform[i] = c.latency[i] + c.moving(c.rate[i], c.sizes[0])
		}
	}
}

// transfer returns L + size/B of the block at slot from→to (equation 1). It never
// falls as slot grows.
func (c *costs) transfer(from, to, slot int) ticks {
	i := to*c.n + from
	if c.uniform != nil {
		return c.uniform[i]
	}
	return c.latency[i] + c.moving(c.rate[i], c.sizes[slot])
}

// gap returns g(m) of equations 2 and 3: the measured gap, or size/B where there is none.
func (c *costs) gap(from, to, slot int) ticks {
	if c.gaps[to*c.n+from] {
		return c.of(c.snap.Gap(from, to, c.sizes[slot]))
	}
	return c.moving(c.rate[to*c.n+from], c.sizes[slot])
}

// overhead returns os(m) of equations 2 and 3.
func (c *costs) overhead(from, to, slot int) ticks {
	if c.busy != nil {
		return c.busy[to*c.n+from]
	}
	return c.of(c.snap.SendOverhead(from, to, c.sizes[slot]))
}
