package baseline

import (
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// maxTime bounds every duration and point in time (31 years, as package plan does), so that
// sums of a few cannot overflow.
const maxTime = 1e9 * time.Second

// A hostModel prices messages on a snapshot and keeps what hosts and links are committed
// to: equations 1-3 of Gupta & Vadhiyar §4, with the start also at least the arrival of the
// block at its sender, which equation 3 forgets.
type hostModel struct {
	snap    *netmap.Snapshot
	n       int
	sizes   []int64              // by origin
	latency []time.Duration      // [from*n+to]
	rate    []netmap.BytesPerSec // [from*n+to]

	send, recv []time.Duration // by host: when its ports are free; one slice in half duplex
	link       []time.Duration // [from*n+to]: when the link is free
	arrival    []time.Duration // [host*n+origin]: since when a host has a block, never if it has not
}

// newHostModel checks every ordered pair of s for sizes, one or one for each host.
func newHostModel(s *netmap.Snapshot, sizes []int64, duplex plan.Duplex) (*hostModel, error) {
	n := s.N()
	if len(sizes) == 1 {
		sizes = slices.Repeat(sizes, n)
	}
	m := &hostModel{
		snap: s, n: n, sizes: sizes,
		latency: make([]time.Duration, n*n),
		rate:    make([]netmap.BytesPerSec, n*n),
		send:    make([]time.Duration, n),
		link:    make([]time.Duration, n*n),
		arrival: slices.Repeat([]time.Duration{never}, n*n),
	}
	switch duplex {
	case plan.HalfDuplex:
		m.recv = m.send
	case plan.FullDuplex, plan.DuplexUnchecked:
		m.recv = make([]time.Duration, n)
	default:
		return nil, fmt.Errorf("host model %d: want full or half duplex", duplex)
	}
	largest := slices.Max(sizes)
	for from := range n {
		m.arrival[from*n+from] = 0
		for to := range n {
			if from != to {
				if err := m.measure(from, to, largest); err != nil {
					return nil, err
				}
			}
		}
	}
	return m, nil
}

// measure reads one link and refuses what would make a time negative or absurd.
func (m *hostModel) measure(from, to int, largest int64) error {
	name := func() string { return m.snap.Host(from).Name + "→" + m.snap.Host(to).Name }
	lasts, err := m.snap.TransferTime(from, to, largest)
	if err != nil {
		return err
	}
	e := m.snap.Estimate(from, to)
	if !(e.Bandwidth > 0) { // a NaN must fail too
		return fmt.Errorf("link %s: bandwidth %g B/s is not above 0", name(), float64(e.Bandwidth))
	}
	for _, d := range []struct {
		what string
		time time.Duration
	}{
		{"latency", e.Latency},
		{fmt.Sprintf("transfer of %d bytes", largest), lasts},
		{"gap", m.snap.Gap(from, to, largest)},
		{"send overhead", m.snap.SendOverhead(from, to, largest)},
	} {
		if d.time < 0 || d.time > maxTime {
			return fmt.Errorf("link %s: %s %v is outside 0 … %v", name(), d.what, d.time, maxTime)
		}
	}
	m.latency[from*m.n+to], m.rate[from*m.n+to] = e.Latency, e.Bandwidth
	return nil
}

// transfer returns TransferTime of size bytes (equation 1).
func (m *hostModel) transfer(from, to int, size int64) time.Duration {
	return m.latency[from*m.n+to] + m.rate[from*m.n+to].Time(size)
}

// ready returns when the block of origin is at from and link and sender are free.
func (m *hostModel) ready(from, to, origin int) time.Duration {
	return max(m.arrival[from*m.n+origin], m.link[from*m.n+to], m.send[from])
}

// commit schedules the block of origin from→to and updates ports and link by equation 2 or 3.
func (m *hostModel) commit(from, to, origin int) (start, end time.Duration, err error) {
	size := m.sizes[origin]
	start = max(m.ready(from, to, origin), m.recv[to])
	end = start + m.transfer(from, to, size)
	link, send := start+m.snap.Gap(from, to, size), start+m.snap.SendOverhead(from, to, size)
	if max(end, link, send) > maxTime {
		return 0, 0, fmt.Errorf("block of %s on %s→%s: the schedule grows beyond %v",
			m.snap.Host(origin).Name, m.snap.Host(from).Name, m.snap.Host(to).Name, maxTime)
	}
	m.link[from*m.n+to], m.send[from], m.recv[to] = link, send, end
	m.arrival[to*m.n+origin] = end
	return start, end, nil
}
