package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/gridagent/gridagent/probe/netmap"
)

// AlltoallBounds are what bounds an alltoall from below: Cut ≤ Relayed ≤ Direct, and all
// three at least what the ports of hosts and the trunks inside pools need.
type AlltoallBounds struct {
	// Cut is that of [Network.AlltoallBound], over sets of pools.
	Cut Bound
	// Relayed is the least time in which flows over the links between pools can bring all
	// bytes to where they are wanted, by way of other pools where that helps. No schedule is
	// faster. With many sources and sinks no cut need be as tight (Leighton & Rao, Journal of
	// the ACM 46, 1999).
	Relayed Bound
	// Direct is the least time where all bytes take the link of their own two pools, as they
	// do in every algorithm that does not relay. Its Bytes are 0 where nothing moves, and
	// where some pools have bytes for each other and no link: only relays bring those there.
	Direct Bound
	// Routing divides the bytes so that they take Relayed, up to rounding; it is nil where
	// nothing moves between pools.
	Routing *Routing
}

// AlltoallBounds returns the bounds of an alltoall over n. Latency is left out. It returns
// [ErrUnreachable], wrapped, where bytes cannot get to where they must.
//
// Among 10 pools it takes some milliseconds. Among more than about 16 Relayed is what could be
// proved, Cut at least, and Routing may be no better than direct.
func (n *Network) AlltoallBounds(sizes AlltoallSizes) (*AlltoallBounds, error) {
	b, err := n.alltoallBounds(sizes)
	if err != nil {
		return nil, fmt.Errorf("alltoall bounds: %w", err)
	}
	return b, nil
}

func (n *Network) alltoallBounds(sizes AlltoallSizes) (*AlltoallBounds, error) {
	ports, between, err := n.portBound(sizes)
	if err != nil {
		return nil, err
	}
	b := &AlltoallBounds{Cut: ports, Direct: ports}
	if err := n.cuts(between, &b.Cut); err != nil {
		return nil, err
	}
	b.Relayed = b.Cut
	pools, moves := n.Pools(), false
	for pair, bytes := range between {
		from, to := pair/pools, pair%pools
		if from == to || bytes == 0 {
			continue
		}
		moves = true
		if err := b.Direct.take(Bound{Links: [][2]int{{from, to}}, Host: -1, Bytes: bytes, Rate: n.Pipe[pair]}); err != nil {
			b.Direct = Bound{Host: -1}
			break
		}
	}
	if !moves {
		return b, nil
	}
	r := n.relaying(sizes, between)
	var ok bool
	if b.Routing, ok = r.solve(b.Cut.Seconds); !ok {
		return nil, fmt.Errorf("between pools: %w", ErrUnreachable)
	}
	// Beside a cut or a port as good as it, a sum of weighted links explains nothing.
	if r.bestLower > b.Cut.Seconds*(1+1e-6) {
		b.Relayed = r.bound()
	}
	if b.Direct.Bytes > 0 && b.Direct.Seconds < b.Relayed.Seconds {
		b.Relayed = b.Direct // they are equal but for rounding
	}
	return b, nil
}

// AnswerShare is what the answers to data, and acknowledgements, take of the way back, as a share of the data's bytes: over QUIC 2.8 to 3.3 % (docs/design/lanes.md).
const AnswerShare = 1. / 30

// AlltoallRouting divides the bytes between pools so that they take the least time where the answers to what crosses a link cross the link back: answers are
// P×P, [from*P+to], bytes that go from to back to from for each byte. Over a link that is far faster than its way back they are much of what that carries. Where all are 0 it takes no
// longer than that of [Network.AlltoallBounds]. It is nil where nothing moves between pools. Latency is left out. It returns [ErrUnreachable], wrapped, where bytes cannot get to where they
// must, and an error where answers are no P×P shares.
func (n *Network) AlltoallRouting(sizes AlltoallSizes, answers []float64) (*Routing, error) {
	if p := n.Pools(); len(answers) != p*p {
		return nil, fmt.Errorf("alltoall routing: answers on %d links between %d pools", len(answers), p)
	}
	for link, a := range answers {
		if !(a >= 0 && a < 1) {
			return nil, fmt.Errorf("alltoall routing: answers of %v bytes to a byte over link %d", a, link)
		}
	}
	_, between, err := n.portBound(sizes)
	if err != nil {
		return nil, fmt.Errorf("alltoall routing: %w", err)
	}
	r := n.relaying(sizes, between)
	if slices.Max(r.between) == 0 {
		return nil, nil
	}
	r.answers = answers
	routing, ok := r.solve(0)
	if !ok {
		return nil, fmt.Errorf("alltoall routing: between pools: %w", ErrUnreachable)
	}
	return routing, nil
}

// relaying returns the linear program of the bytes between pools.
func (n *Network) relaying(sizes AlltoallSizes, between []int64) *relaying {
	pools := n.Pools()
	r := &relaying{
		pools: pools, between: make([]float64, pools*pools), capacity: make([]float64, pools*pools),
		answers: make([]float64, pools*pools),
		out:     make([]float64, pools), in: make([]float64, pools), ownOut: make([]float64, pools), ownIn: make([]float64, pools),
	}
	for pair := range between {
		if pair/pools != pair%pools {
			r.between[pair], r.capacity[pair] = float64(between[pair]), float64(n.Pipe[pair])
		}
	}
	for h, k := range n.Pool {
		r.out[k] += float64(n.Egress[h])
		r.in[k] += float64(n.Ingress[h])
		for other := range n.Pool {
			if other != h {
				r.ownOut[k] += float64(sizes.Of(h, other))
				r.ownIn[k] += float64(sizes.Of(other, h))
			}
		}
	}
	return r
}

// bound is the certificate as a bound: bytes, each as often as it must cross the links that
// bind, by their lengths.
func (r *relaying) bound() Bound {
	most := 0.0
	for _, l := range r.binding {
		most = max(most, l)
	}
	if most == 0 { // ports of relays alone, which cannot be
		most = 1
	}
	b := Bound{Seconds: r.bestLower, Host: -1, Bytes: int64(math.Ceil(r.weighed / most)), Rate: netmap.BytesPerSec(r.rating / most), Links: [][2]int{}}
	for pair, l := range r.binding {
		if l > 1e-9*most {
			b.Links = append(b.Links, [2]int{pair / r.pools, pair % r.pools})
		}
	}
	return b
}
