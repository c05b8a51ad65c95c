package gridnet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// CrossTraffic is what strangers send over a link or trunk: packets that no host of the network
// sends or gets, that slow down for nobody, and that take their part of the queue and the rate.
type CrossTraffic struct {
	From, To string // the sites of a link or trunk

	// Rate is the mean, in IP bytes a second. Required.
	Rate Rate
	// Size is that of each packet, IP header included. Zero means [MTU]; less than
	// [HeaderBytes] is an error.
	Size int
	// Poisson draws the pauses between packets from an exponential distribution. Otherwise
	// they are all alike: a constant bit rate.
	Poisson bool
}

// A source makes the packets of one CrossTraffic. Its own event in the heap, timer, says when the
// next one comes: no goroutine wakes for it.
type source struct {
	CrossTraffic
	pipe  *pipe
	timer *packet
	exact float64 // when the next packet comes, in ns: rounding must not change the rate
	rng   *rand.Rand
	seq   uint64
}

// StartCross adds the packets of c to a link or trunk from now on, until stop is called or the
// network closes. They do not count as the link's Traffic but as its [LinkStats.Cross]; they stand for many
// flows, so that [Link.FlowRate] does not hold them, and [Config.OnPacket] does not see them.
// Calling stop again does nothing.
func (n *Network) StartCross(c CrossTraffic) (stop func(), err error) {
	if c.Size == 0 {
		c.Size = MTU
	}
	var s *source
	err = n.edit(func() error {
		p, err := n.world.pipe(c.From, c.To)
		if err != nil {
			return err
		}
		if err := c.check(); err != nil {
			return fmt.Errorf("cross traffic %s→%s: %w", c.From, c.To, err)
		}
		s = n.world.startCross(p, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func() {
		_ = n.edit(func() error { n.world.stopCross(s); return nil }) // a closed network needs no end of it
	}, nil
}

func (c *CrossTraffic) check() error {
	if c.Rate == 0 {
		return errors.New("a rate is required")
	}
	if c.Size < HeaderBytes || c.Size > MTU {
		return fmt.Errorf("packets of %d bytes: want %d to %d", c.Size, HeaderBytes, MTU)
	}
	return checkRate("rate", c.Rate)
}

// crossSites are the first bytes of the addresses of sources: hosts are in 10.
const crossSites = endpoint(0xcb) << 40

// startCross starts a source on p. The first packet comes after one pause.
func (w *world) startCross(p *pipe, c CrossTraffic) *source {
	w.sources++
	s := &source{CrossTraffic: c, pipe: p, exact: float64(w.now), rng: newRand(w.seed, 3, w.sources)}
	// An address of its own keeps the order of events total.
	s.timer = &packet{src: crossSites | endpoint(w.sources), index: -1, stage: stageCross, source: s}
	if !slices.Contains(w.crossed, p) {
		w.crossed = append(w.crossed, p)
	}
	w.tick(s)
	return s
}

// stopCross ends s; what it has sent goes on.
func (w *world) stopCross(s *source) {
	if s.timer.index >= 0 {
		w.agenda.remove(s.timer)
	}
}

// tick schedules the next packet of s.
func (w *world) tick(s *source) {
	pause := float64(s.Size) / float64(s.Rate) * 1e9
	if s.Poisson {
		pause *= s.rng.ExpFloat64()
	}
	s.exact += pause
	// At least a nanosecond on, as every step is.
	s.timer.at = max(w.now+1, time.Duration(s.exact))
	w.agenda.push(s.timer)
}

// crossPacket sends the packet of s that is due.
func (w *world) crossPacket(s *source) {
	w.tick(s)
	p := w.spare
	if p != nil {
		w.spare = p.next
	} else {
		p = new(packet)
	}
	s.seq++
	p.src, p.dst, p.seq = s.timer.src, 0, s.seq
	p.index, p.next, p.flow = -1, nil, nil
	p.sender, p.from, p.to, p.pipe, p.ahead, p.tail, p.source = nil, nil, nil, s.pipe, nil, 0, s
	p.size, p.held = s.Size, 0
	q := s.pipe
	q.cross.enter(p)
	if q.cut {
		w.drop(p, &q.cross, LinkCut)
		return
	}
	w.enterBottleneck(p)
}

// traffic returns the counters of q to which p belongs.
func (q *pipe) traffic(p *packet) *Traffic {
	if p.source != nil {
		return &q.cross
	}
	return &q.Traffic
}
