package wan

import (
	"errors"
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// ErrOnePool means that there is nothing to schedule between pools.
var ErrOnePool = errors.New("all hosts are in one pool, and nothing crosses a link between sites")

// Name is that of the plans made here.
const Name = "wan"

// gain is by how much relays must shorten the exchange before blocks take them: each relayed
// byte is received, stored and sent once more.
const gain = 1.02

// Options say what a caller may choose. The zero value relays where it pays.
type Options struct {
	// Direct keeps every block on the link of its own two pools, where there is one.
	Direct bool
	// Transit bounds the bytes that one host relays, in all. Zero means 256 MiB, a quarter of
	// what the engine grants to all its parts. What exceeds it goes straight.
	Transit int64
	// Lines are P×P, [from*P+to]: rates that links may have where nobody has measured what several
	// flows get together. They count for the number of transfers at a time only. Nil, and 0, mean that
	// the network knows best.
	Lines []netmap.BytesPerSec
	// Blind are P×P, [from*P+to]: links of which nobody knows what several flows get. There a bridge may be
	// all that one flow gets, so they have twice as many. Nil means that all is known.
	Blind []bool
	// Lossy are P×P, [from*P+to]: links whose flows losses may hold, which they do in the long run only: short blocks need no more bridges
	// there. Nil means that none are.
	Lossy []bool
}

const defaultTransit = 256 << 20

// Alltoall returns the plan "wan" of an alltoall over the hosts of net. bounds are those of
// the same sizes. local holds, for pools in any order, plans of the alltoall among the hosts of
// one pool, named as in net; their transfers are taken over. A pool that none covers
// sends its blocks in rounds of the shift exchange.
//
// Blocks of no bytes are left out. The plan predicts nothing: times are 0. It returns
// [ErrOnePool], wrapped, where there is one pool, and an error for plans that do not fit.
func Alltoall(net *plan.Network, sizes plan.AlltoallSizes, bounds *plan.AlltoallBounds, local []*plan.Plan, opts Options) (*plan.Plan, error) {
	p, err := alltoall(net, sizes, bounds, local, opts)
	if err != nil {
		return nil, fmt.Errorf("wan: %w", err)
	}
	return p, nil
}

func alltoall(net *plan.Network, sizes plan.AlltoallSizes, bounds *plan.AlltoallBounds, local []*plan.Plan, opts Options) (*plan.Plan, error) {
	p, err := plan.NewAlltoall(Name, net.Hosts, sizes)
	if err != nil {
		return nil, err
	}
	if net.Pools() < 2 {
		return nil, ErrOnePool
	}
	if pools := net.Pools(); opts.Lines != nil && len(opts.Lines) != pools*pools {
		return nil, fmt.Errorf("%d rates of lines between %d pools", len(opts.Lines), pools)
	}
	if pools := net.Pools(); opts.Blind != nil && len(opts.Blind) != pools*pools {
		return nil, fmt.Errorf("%d links that may be blind between %d pools", len(opts.Blind), pools)
	}
	if pools := net.Pools(); opts.Lossy != nil && len(opts.Lossy) != pools*pools {
		return nil, fmt.Errorf("%d links that may be lossy between %d pools", len(opts.Lossy), pools)
	}
	if opts.Transit == 0 {
		opts.Transit = defaultTransit
	}
	net = guessed(net, sizes, bounds)
	s := newScheduler(net, sizes, opts)
	streams, over, err := s.overBridges(bounds)
	if err != nil {
		return nil, err
	}
	byTurns := false
	if !over.fits || over.held {
		turns, err := inTurns(net, sizes, bounds, opts)
		if err != nil {
			return nil, err
		}
		if byTurns = turns.estimated().clearer(over); byTurns {
			p.Transfers = turns.transfers()
		}
	}
	if !byTurns {
		s.streamed(p, streams)
	}
	if err := s.addLocal(p, local); err != nil {
		return nil, err
	}
	return p, p.Check()
}

// overBridges returns the streams of all blocks between pools over bridges, and how long they take.
func (s *scheduler) overBridges(bounds *plan.AlltoallBounds) ([]stream, estimate, error) {
	if bounds.Routing == nil {
		return nil, estimate{fits: true}, nil
	}
	routing, err := s.routing(bounds)
	if err != nil {
		return nil, estimate{}, err
	}
	streams, when := s.bridged(bounds, s.hastened(s.balanced(routing)))
	if when.fits && !when.held {
		return streams, when, nil
	}
	try := func(r *plan.Routing) {
		if other, w := s.bridged(bounds, s.hastened(r)); w.clearer(when) {
			streams, when = other, w
		}
	}
	try(routing)
	s.tight = when.full // which may gain what handing blocks to mates costs
	try(s.balanced(routing))
	try(routing)
	return streams, when, nil
}

// slowBack is how many times as fast as its way back a link is for the answers to what crosses it to count: they then take a fifth of that. Where they take less there is nothing to gain (docs/design/planning.md).
const slowBack = 6

// routing returns the routing to follow, which is that of bounds where answers do not count and ports are what bounds believe.
func (s *scheduler) routing(bounds *plan.AlltoallBounds) (*plan.Routing, error) {
	answers, count := make([]float64, len(s.links)), false
	for k := range s.links {
		answers[k] = s.links[k].answers
		count = count || answers[k] > 0
	}
	if s.straight(bounds) || !count && !s.overloads(bounds.Routing) {
		return bounds.Routing, nil
	}
	return s.net.AlltoallRouting(s.sizes, answers)
}

// back returns the link back.
func (s *scheduler) back(link int) int { return link%len(s.pools)*len(s.pools) + link/len(s.pools) }

// inTurns lets blocks take turns, each by itself, by way of relays where that pays.
func inTurns(net *plan.Network, sizes plan.AlltoallSizes, bounds *plan.AlltoallBounds, opts Options) (*scheduler, error) {
	s, err := laidOut(net, sizes, bounds, opts)
	if err != nil || !s.relays || bounds.Direct.Bytes == 0 {
		return s, err
	}
	// Whole blocks and the longer way can cost more than relays gain.
	opts.Direct = true
	straight, err := laidOut(net, sizes, bounds, opts)
	if err != nil {
		return nil, err
	}
	if s.estimated().clearer(straight.estimated()) {
		return s, nil
	}
	return straight, nil
}

// estimated returns how long the legs take, after [scheduler.order].
func (s *scheduler) estimated() estimate {
	var streams []stream
	for i := range s.legs {
		if s.legs[i].after >= 0 {
			continue
		}
		st := stream{block: s.legs[i].block, bytes: s.legs[i].bytes, hosts: []int{s.legs[i].src}}
		for k := i; k >= 0; k = s.legs[k].next {
			st.hosts = append(st.hosts, s.legs[k].dst)
		}
		streams = append(streams, st)
	}
	e := s.estimate(streams)
	e.links, e.last = max(e.links, s.ends-e.way), max(e.last, s.ends)
	e.fits = true // a host is given more than it may only where there is no other way
	return e
}

// laidOut gives the legs of all blocks their order.
func laidOut(net *plan.Network, sizes plan.AlltoallSizes, bounds *plan.AlltoallBounds, opts Options) (*scheduler, error) {
	s := newScheduler(net, sizes, opts)
	if err := s.route(bounds); err != nil {
		return nil, err
	}
	s.order()
	return s, nil
}

// A scheduler holds what is between pools while it is laid out.
type scheduler struct {
	net   *plan.Network
	sizes plan.AlltoallSizes
	opts  Options
	pools [][]int // hosts of each, ascending

	legs  []leg
	links []link // P×P, [from*P+to]
	done  []int  // legs in the order of their estimated start

	tight  []bool  // per pool: no host is to send or receive what is for a mate, see [scheduler.holdsAll]; nil: none
	relays bool    // some block takes more than one link
	ends   float64 // seconds, when the last byte comes by the estimate of order.go
}

// A leg is a block on one link of its way.
type leg struct {
	block    plan.Block
	bytes    int64
	src, dst int
	link     int
	hops     int // links that are left, this one included
	next     int // the leg that goes on from here, or -1
	after    int // the leg that brings the block here, or -1
	lane     int // the leg before it on its lane, or -1
}

// A link is an ordered pair of pools.
type link struct {
	rate    float64 // bytes/s
	latency float64 // seconds, the longest of its pairs of hosts
	flow    float64 // what one pair of hosts gets of it, in bytes/s
	answers float64 // bytes that go back for each byte, as far as they count
	lanes   int
	own     []int   // legs of blocks that start at its first pool, in order
	coming  starts  // legs of others, by when they come
	here    [][]int // those that have come, by hops

	free   float64        // when it has carried what has started
	awake  float64        // when it can start the next leg, +Inf if it has none
	taken  int            // legs that have started
	latest map[[2]int]int // by source and destination: which of them was the latest
	ends   []lastLeg      // per lane
}

func newScheduler(net *plan.Network, sizes plan.AlltoallSizes, opts Options) *scheduler {
	n, pools := len(net.Hosts), net.Pools()
	s := &scheduler{net: net, sizes: sizes, opts: opts, pools: make([][]int, pools), links: make([]link, pools*pools)}
	for h, k := range net.Pool {
		s.pools[k] = append(s.pools[k], h)
	}
	for a := range n {
		for b := range n {
			if net.Pool[a] == net.Pool[b] {
				continue
			}
			l := &s.links[net.Pool[a]*pools+net.Pool[b]]
			if l.latest == nil {
				l.latest = make(map[[2]int]int)
			}
			l.rate = float64(net.Pipe[net.Pool[a]*pools+net.Pool[b]])
			l.latency = max(l.latency, net.Latency[a*n+b].Seconds())
			l.flow = max(l.flow, float64(net.Ceiling[a*n+b]))
		}
	}
	for k := range s.links {
		if back := s.links[s.back(k)].rate; back > 0 && s.links[k].rate >= slowBack*back {
			s.links[k].answers = plan.AnswerShare
		}
	}
	return s
}
