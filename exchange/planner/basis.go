package planner

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A Basis is what a plan stands on: of each pair of its hosts what the map said when it was made. Of hosts of one LAN it is what
// each of them has, as forecasts know no more: that one reading of a pair is low says nothing of its way, and with 32 hosts on busy processors
// no second goes by in which none of 992 changes.
type Basis struct {
	hosts []string
	pairs []basisPair // n×n, [from*n+to]; nil: one LAN
	ports []basisPort // of the hosts of one LAN
	// groups are the hosts of each switch that was guessed, nil if none was or the tree is declared; declared says which.
	groups   [][]int
	declared bool
}

// A basisPort is what a host of a LAN has to and from the others: the rates that all but a tenth of its readings are below, and the median of its latencies.
type basisPort struct {
	latency float32 // seconds
	out, in float32 // bytes a second
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

// basis returns the basis of plans for p, whose rates are known.
func (p *Problem) basis() *Basis {
	n := p.Snapshot.N()
	b := &Basis{hosts: p.Snapshot.Names()}
	if len(p.Clusters()) == 1 {
		b.ports, b.declared = basisPorts(p.Snapshot), p.Topology != nil
		b.groups = grouped(p.guess())
		return b
	}
	b.pairs = make([]basisPair, n*n)
	for i := range n {
		for j := range n {
			if i != j {
				b.pairs[i*n+j] = basisOf(p.Snapshot, i, j)
			}
		}
	}
	return b
}

// grouped returns the hosts of each switch of a tree, none of a nil one.
func grouped(t *plan.Topology) [][]int {
	if t == nil {
		return nil
	}
	at := make(map[int][]int)
	for h := range t.Hosts() {
		at[t.Home(h)] = append(at[t.Home(h)], h)
	}
	return slices.SortedFunc(maps.Values(at), func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
}

func basisPorts(s *netmap.Snapshot) []basisPort {
	n := s.N()
	out := make([]basisPort, n)
	if n < 2 {
		return out
	}
	latencies, from, to := make([]float32, 0, n), make([]float32, 0, n), make([]float32, 0, n)
	for i := range n {
		latencies, from, to = latencies[:0], from[:0], to[:0]
		for j := range n {
			if i == j {
				continue
			}
			latencies = append(latencies, float32(s.Estimate(i, j).Latency.Seconds()))
			sent, _ := s.Pair(i, j)
			got, _ := s.Pair(j, i)
			from, to = append(from, float32(sent)), append(to, float32(got))
		}
		for _, v := range [][]float32{latencies, from, to} {
			slices.Sort(v)
		}
		most := n - 2 - (n-1)/10
		out[i] = basisPort{latencies[(n-1)/2], from[most], to[most]}
	}
	return out
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
// more than 15 % of its rate or a quarter of its latency; on one LAN, which host has, or whether other switches are guessed. It is empty if nothing has.
func (b *Basis) Moved(s *netmap.Snapshot) string {
	n := len(b.hosts)
	if s.N() != n {
		return fmt.Sprintf("a map of %d hosts, it was one of %d", s.N(), n)
	}
	if b.pairs == nil {
		return b.movedPorts(s)
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
			case later(was.latency, is.latency):
				return fmt.Sprintf("%.32s→%.32s: from %s to %s one way", b.hosts[i], b.hosts[j], seconds(float64(was.latency)), seconds(float64(is.latency)))
			}
		}
	}
	return ""
}

// movedPorts is Moved on one LAN.
func (b *Basis) movedPorts(s *netmap.Snapshot) string {
	for i, is := range basisPorts(s) {
		was := b.ports[i]
		switch {
		case apart(was.out, is.out, basisMargin):
			return fmt.Sprintf("%.32s: from %s to %s to its LAN", b.hosts[i], rate(was.out), rate(is.out))
		case apart(was.in, is.in, basisMargin):
			return fmt.Sprintf("%.32s: from %s to %s from its LAN", b.hosts[i], rate(was.in), rate(is.in))
		case later(was.latency, is.latency):
			return fmt.Sprintf("%.32s: from %s to %s to its LAN, one way", b.hosts[i], seconds(float64(was.latency)), seconds(float64(is.latency)))
		}
	}
	if b.declared {
		return ""
	}
	if is := grouped(GuessSwitches(s)); !slices.EqualFunc(is, b.groups, slices.Equal) {
		return fmt.Sprintf("its hosts seem to hang at %d switches, it was %d", max(1, len(is)), max(1, len(b.groups)))
	}
	return ""
}

// later reports whether two latencies, in seconds, are so far apart that it counts.
func later(a, b float32) bool {
	return apart(a, b, latencyMargin) && math.Abs(float64(a-b)) > latencyFloor.Seconds()
}

// apart reports whether b is more than margin above or below a, relative to the larger of them.
func apart(a, b float32, margin float64) bool {
	return math.Abs(float64(a-b)) > margin*max(float64(a), float64(b))
}

func rate(bytes float32) string {
	return fmt.Sprintf("%.3g Mbit/s", netmap.BytesPerSec(bytes).Mbps())
}

// size is how much memory b takes, in bytes.
func (b *Basis) size() int { return 12*(len(b.pairs)+len(b.ports)) + 40*len(b.hosts) }
