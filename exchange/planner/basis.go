package planner

import (
	"fmt"
	"math"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Basis is what a plan stands on: of each pair of its hosts what the map said when it was made.
type Basis struct {
	hosts []string
	pairs []basisPair // n×n, [from*n+to]
}

// A basisPair takes 12 bytes: a cache holds n² of them for each plan, where an estimate takes ten times as much.
type basisPair struct {
	latency             float32 // seconds
	bandwidth, capacity float32 // bytes a second; 0: not known
}

// How far the map may move before a plan that stands on it is made anew.
const (
	// basisMargin is that of rates, relative: that of the pool tree ([pools.TrackConfig]).
	basisMargin = 0.15
	// latencyMargin is that of latencies, which count where they move by more than latencyFloor as well: the
	// quarter of a millisecond decides nothing.
	latencyMargin = 0.25
	latencyFloor  = 500 * time.Microsecond
)

// BasisOf returns the basis of a plan made from s.
func BasisOf(s *netmap.Snapshot) *Basis {
	n := s.N()
	b := &Basis{hosts: s.Names(), pairs: make([]basisPair, n*n)}
	for i := range n {
		for j := range n {
			if i != j {
				b.pairs[i*n+j] = basisOf(s, i, j)
			}
		}
	}
	return b
}

func basisOf(s *netmap.Snapshot, i, j int) basisPair {
	e := s.Estimate(i, j)
	p := basisPair{latency: float32(e.Latency.Seconds()), bandwidth: float32(e.Bandwidth)}
	if c, ok := s.Link(i, j); ok {
		p.capacity = float32(c)
	}
	return p
}

// Moved says which pair of s, a map of the same hosts in the same order, has moved from the basis by
// more than 15 % of its rate or a quarter of its latency; empty if none has.
func (b *Basis) Moved(s *netmap.Snapshot) string {
	n := len(b.hosts)
	if s.N() != n {
		return fmt.Sprintf("a map of %d hosts, it was one of %d", s.N(), n)
	}
	for i := range n {
		for j := range n {
			if i == j {
				continue
			}
			was, is := b.pairs[i*n+j], basisOf(s, i, j)
			switch {
			case apart(was.bandwidth, is.bandwidth, basisMargin):
				return fmt.Sprintf("%.32s→%.32s: from %s to %s a flow", b.hosts[i], b.hosts[j], rate(was.bandwidth), rate(is.bandwidth))
			case apart(was.capacity, is.capacity, basisMargin):
				return fmt.Sprintf("%.32s→%.32s: from %s to %s in all", b.hosts[i], b.hosts[j], rate(was.capacity), rate(is.capacity))
			case apart(was.latency, is.latency, latencyMargin) && math.Abs(float64(was.latency-is.latency)) > latencyFloor.Seconds():
				return fmt.Sprintf("%.32s→%.32s: from %s to %s one way", b.hosts[i], b.hosts[j], seconds(float64(was.latency)), seconds(float64(is.latency)))
			}
		}
	}
	return ""
}

// apart reports whether b is more than margin above or below a, relative to the larger of them.
func apart(a, b float32, margin float64) bool {
	return math.Abs(float64(a-b)) > margin*max(float64(a), float64(b))
}

func rate(bytes float32) string {
	return fmt.Sprintf("%.3g Mbit/s", netmap.BytesPerSec(bytes).Mbps())
}

// size is how much memory b takes, in bytes.
func (b *Basis) size() int { return 12*len(b.pairs) + 32*len(b.hosts) }
