package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/probe/netmap"
)

// ErrUnreachable is returned, wrapped with the place, where data has no way to get to
// where it must: no schedule ends.
var ErrUnreachable = errors.New("unreachable")

// BoundInput is what bounds an allgather from below: P pools, the capacities between
// them, and the ports of the hosts.
type BoundInput struct {
	Bytes    []int64                // per pool: bytes that start there
	Capacity [][]netmap.BytesPerSec // P×P, [from][to]: what all flows get together; 0 = no link. The diagonal is not read.
	Hosts    []HostPortInput        // may be empty: pools only
}

// A HostPortInput is the share of one host in [BoundInput].
type HostPortInput struct {
	Incoming int64              // bytes that the host must receive
	Port     netmap.BytesPerSec // rate at which it can
}

// A Bound is the least time that any schedule of a collective could take, and why.
type Bound struct {
	Seconds float64
	Set     []int // the pools of the binding set, ascending; nil where something else binds
	Host    int   // the binding host; -1 where something else binds, or nothing moves
	Out     bool  // the host's port out binds, not the one in
	Trunk   *Trunk
	Links   [][2]int // the binding links, from pool to pool; nil where something else binds
	Bytes   int64    // that must get into the set or the host, out of the host, or over the trunk
	Rate    netmap.BytesPerSec
}

// take makes b the bound of c's place if that takes longer. It returns ErrUnreachable
// where c has bytes and no rate.
func (b *Bound) take(c Bound) error {
	if c.Bytes == 0 {
		return nil
	}
	if c.Rate == 0 {
		return fmt.Errorf("%s: %w", c.place(), ErrUnreachable)
	}
	if c.Seconds = float64(c.Bytes) / float64(c.Rate); c.Seconds > b.Seconds {
		*b = c
	}
	return nil
}

// place says which bytes have to go where.
func (b Bound) place() string {
	switch {
	case b.Set != nil:
		return fmt.Sprintf("%d bytes into pools %v", b.Bytes, b.Set)
	case b.Trunk != nil:
		return fmt.Sprintf("%d bytes over %s→%s", b.Bytes, b.Trunk.From, b.Trunk.To)
	case b.Links != nil:
		return fmt.Sprintf("%d bytes over links between pools %v", b.Bytes, b.Links)
	case b.Out:
		return fmt.Sprintf("%d bytes out of host %d", b.Bytes, b.Host)
	}
	return fmt.Sprintf("%d bytes into host %d", b.Bytes, b.Host)
}

// String says what binds: "12.3 s: 524288 bytes into pools [1 2] at 0.34 Mbit/s".
func (b Bound) String() string {
	if b.Bytes == 0 {
		return "0 s: nothing moves"
	}
	return fmt.Sprintf("%.6g s: %s at %.6g Mbit/s", b.Seconds, b.place(), b.Rate.Mbps())
}

// AllgatherBound returns the largest of
//
//   - over every non-empty set X of pools: the bytes that start outside X over the sum
//     of the capacities into X, since each of them must enter X once at least;
//   - over every host: its incoming bytes over the rate of its port.
//
// The first is a fractional program over 2^P sets. It is solved exactly in polynomial
// time by Dinkelbach's iteration (Management Science 13, 1967): for the best ratio λ
// so far, a minimum cut finds a set X with outside(X) − λ·into(X) > 0 if there is one,
// and its ratio is the next λ. Latency is left out: it is a bound of bandwidth.
// It returns [ErrUnreachable], wrapped, where bytes cannot get into a set or a host.
func AllgatherBound(in BoundInput) (Bound, error) {
	if err := in.check(); err != nil {
		return Bound{}, fmt.Errorf("allgather bound: %w", err)
	}
	best := Bound{Host: -1}
	for h, host := range in.Hosts {
		if err := best.take(Bound{Host: h, Bytes: host.Incoming, Rate: host.Port}); err != nil {
			return Bound{}, fmt.Errorf("allgather bound: %w", err)
		}
	}
	// Single pools first: mostly one of them binds, and then each cut below only confirms it.
	for t := range in.Bytes {
		if err := best.improve(&in, []int{t}); err != nil {
			return Bound{}, err
		}
	}
	if best.Seconds == 0 { // nothing moves between pools; a cut at λ = 0 would say nothing
		return best, nil
	}
	for t := range in.Bytes {
		for {
			set := in.violated(best.Seconds, t)
			before := best.Seconds
			if err := best.improve(&in, set); err != nil {
				return Bound{}, err
			}
			if best.Seconds <= before {
				break
			}
		}
	}
	return best, nil
}

// improve takes set if its ratio is larger.
func (b *Bound) improve(in *BoundInput, set []int) error {
	bytes, rate := in.ratio(set)
	if err := b.take(Bound{Set: set, Host: -1, Bytes: bytes, Rate: rate}); err != nil {
		return fmt.Errorf("allgather bound: %w", err)
	}
	return nil
}

// ratio returns the bytes that start outside set and the capacity into it.
func (in *BoundInput) ratio(set []int) (bytes int64, rate netmap.BytesPerSec) {
	inside := make([]bool, len(in.Bytes))
	for _, x := range set {
		inside[x] = true
	}
	for a, out := range inside {
		if out {
			continue
		}
		bytes += in.Bytes[a]
		for _, x := range set {
			rate += in.Capacity[a][x]
		}
	}
	return bytes, rate
}

// violated returns the set X with pool t that minimises inside(X) + λ·into(X), which is
// where λ is beaten if it is beaten by any set with t. It is the sink's side of a
// minimum cut: an edge source→v of v's bytes is cut if v is in X, an edge a→b of
// λ·C(a→b) if it leads into X.
func (in *BoundInput) violated(lambda float64, t int) []int {
	n := len(in.Bytes)
	g := newFlowGraph(n + 1)
	source := n
	for v := range n {
		g.add(source, v, float64(in.Bytes[v]))
		for w := range n {
			if v != w {
				// The outer conversion keeps the product from being fused with add's sum.
				g.add(v, w, float64(lambda*float64(in.Capacity[v][w])))
			}
		}
	}
	var set []int
	for v, onSourceSide := range g.minCut(source, t)[:n] {
		if !onSourceSide {
			set = append(set, v)
		}
	}
	return set
}

func (in *BoundInput) check() error {
	n := len(in.Bytes)
	var total int64
	for i, b := range in.Bytes {
		if b < 0 || b > maxTotal {
			return fmt.Errorf("%d bytes in pool %d", b, i)
		}
		if total += b; total > maxTotal {
			return fmt.Errorf("more than %d bytes in all pools", int64(maxTotal))
		}
	}
	if len(in.Capacity) != n {
		return fmt.Errorf("%d rows of capacities for %d pools", len(in.Capacity), n)
	}
	for a, row := range in.Capacity {
		if len(row) != n {
			return fmt.Errorf("%d capacities from pool %d for %d pools", len(row), a, n)
		}
		for b, c := range row {
			if a != b && !isRate(c) {
				return fmt.Errorf("capacity %v from pool %d to %d", float64(c), a, b)
			}
		}
	}
	for h, host := range in.Hosts {
		if host.Incoming < 0 || !isRate(host.Port) {
			return fmt.Errorf("host %d: %d bytes over a port of %v B/s", h, host.Incoming, float64(host.Port))
		}
	}
	return nil
}

func isRate(r netmap.BytesPerSec) bool {
	return r >= 0 && !math.IsInf(float64(r), 0) // false for NaN
}

// Explain says what binds, in names: of hosts, and of pools by their hosts.
func (b Bound) Explain(hosts []string, pools [][]int) string {
	list := func(pool []int) string {
		names := make([]string, 0, len(pool))
		for _, h := range pool {
			names = append(names, hosts[h])
		}
		return "{" + strings.Join(names, " ") + "}"
	}
	way := ""
	switch {
	case b.Set != nil:
		var parts []string
		for _, x := range slices.Sorted(slices.Values(b.Set)) {
			parts = append(parts, list(pools[x]))
		}
		way = "into " + strings.Join(parts, " ")
	case b.Links != nil:
		var parts []string
		for _, l := range b.Links {
			parts = append(parts, list(pools[l[0]])+"→"+list(pools[l[1]]))
		}
		way = "over " + strings.Join(parts, " ")
	case b.Host >= 0 && b.Out:
		way = "out of host " + hosts[b.Host]
	case b.Host >= 0:
		way = "into host " + hosts[b.Host]
	default:
		return b.String()
	}
	return fmt.Sprintf("%.6g s: %d bytes %s at %.6g Mbit/s", b.Seconds, b.Bytes, way, b.Rate.Mbps())
}
