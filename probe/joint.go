package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

// Several pairs of hosts at once say what a link carries that is faster than the ports of its hosts. A search is of one pair, and where that gets what
// a port takes ([netmap.PortHolds]) the link may carry no more, or a hundred times that; plans that believe a port's rate send around it. So
// one host asks others of its site to send beside it, each to another host, and adds up what these have counted over the same time. The sum goes into the map like
// what exchanges bring ([carrying]): the link carries it at least.
//
//	leader → host of its site      send to Peer over Count lanes (opJoint)
//	the host → leader              its peer is ready (opGo)
//	leader → all that are          begin (opGo)
//	the host → leader              Bytes were sent, Rate was counted (opDone)
//	leader → its own peer          all together got Rate (opJointly)
//
// The leader has the link's lease, and every host its own slot and that of its peer. None of the papers has it; what was measured: docs/design/measuring.md.

const (
	opJoint   op = "joint"   // send to Peer, when I say go, over Count lanes and no more than Bytes; what Peer counts from SettleNS on, for SpanNS, counts
	opJointly op = "jointly" // hosts of my site have sent to yours at once, and got Rate together
)

const (
	// jointMost is how many pairs there are at most.
	jointMost = 8
	// jointTrips is how many round trips are read, and jointLeast for how long at least.
	jointTrips = 8
	jointLeast = 200 * time.Millisecond
	// jointSettle is how many round trips the lanes have beside those of their slow start: handshakes, and what a first full queue costs.
	jointSettle = 4
	// jointAsk is how long the leader waits for the others to be ready: it goes on without those that are not.
	jointAsk = 3 * time.Second
	// jointInsist is for how long a peer that is taken is asked again: a train takes less.
	jointInsist = jointAsk / 3
	// jointFull is the part of what its pairs get alone from which on a link may carry more: if there are more of them they look again, once, after jointAgain.
	jointFull  = 0.85
	jointAgain = 10 * time.Second
	// jointKept is for how long the result counts if nothing is seen of it, and nobody finds that the link has fallen.
	jointKept = time.Hour
	// jointSpare is how much more than what a pair was found to get it may send.
	jointSpare = 1.3
	// jointBursts is how many times what a link may carry of first measurements all may send together, as a first search may.
	jointBursts = 2
)

// errJointShort says that a link may carry more than a joint look has seen, since some hosts were busy.
var errJointShort error = &BusyError{Retry: jointAgain, Why: "some hosts of a joint look"}

// A jointly says how the pairs of a joint look at a link behave alike.
type jointly struct {
	lanes        int
	settle, span time.Duration // of what is read: it begins so long after the signal, and lasts so long
	bytes        int64         // that each may send
	// ready tells that this pair can begin, and returns when it is to.
	ready func(context.Context) error
}

// joint has several hosts of this site look at a link at once.
func (p *Prober) joint(ctx context.Context, l longProbe) error {
	j := jointly{lanes: l.lanes, span: max(jointTrips*l.rtt, jointLeast)}
	j.settle = settling([]lanePoint{{Lanes: l.lanes, Rate: float64(l.held)}}, l.lanes, l.rtt) + jointSettle*l.rtt
	j.bytes = int64(jointSpare*float64(l.held)*(j.settle+j.span-2*l.rtt).Seconds()) + bulkChunk
	pairs := p.jointPairs(l.peer)
	most := jointBursts * p.cfg.LinkBurst
	if n := int(most / j.bytes); n < 2 {
		return fmt.Errorf("%d bytes for each of two pairs of hosts that send at once: %d are allowed", j.bytes, most)
	} else if n < len(pairs) {
		pairs = pairs[:n]
	}
	if err := p.capped(j.bytes + max(p.cfg.HourlyCap/4, 0)); err != nil {
		return err
	}
	give, err := p.lease(ctx, l.peer.site(), request{use: together, cost: j.bytes})
	if err != nil {
		return err
	}
	bytes := int64(0)
	defer func() { give(bytes, 0) }()
	if _, lanes := p.rec.portHeld(l.peer.Name, l.again); lanes == 0 {
		return nil // another host has looked meanwhile
	}
	ctx, release, err := p.takeIdle(ctx)
	if err != nil {
		return err
	}
	defer release()
	results := p.sendJointly(ctx, l, j, pairs)
	sum, n := 0.0, 0
	for _, r := range results {
		err = errors.Join(err, r.err)
		bytes += r.bytes
		if sum += r.rate; r.rate > 0 {
			n++
		}
	}
	if n < 2 || results[0].rate == 0 {
		if busy := (*BusyError)(nil); errors.As(err, &busy) {
			return busy
		}
		return fmt.Errorf("%d of %d pairs of hosts sent at once: %w", n, len(pairs), err)
	}
	if most := float64(l.held); sum > most { // they share the link's time, and the budget is by what one pair gets
		bytes = int64(float64(bytes) * most / sum)
	}
	p.cfg.Log.Debug("several pairs of hosts at once", "to", l.peer.site(), "pairs", n, "mbps", netmap.BytesPerSec(sum).Mbps(), "one_mbps", l.held.Mbps())
	if err := p.tellJointly(ctx, l.peer.Name, sum); err != nil {
		return err
	}
	if n < len(pairs) && sum >= jointFull*float64(n)*float64(l.held) && !l.again {
		return errJointShort
	}
	return nil
}

// A jointResult is what one pair got.
type jointResult struct {
	rate  float64 // bytes a second, 0: none
	bytes int64   // sent
	err   error
}

// sendJointly lets pairs send once all are ready that will be, and returns what they got.
func (p *Prober) sendJointly(ctx context.Context, l longProbe, j jointly, pairs []jointPair) []jointResult {
	results := make([]jointResult, len(pairs))
	ready, begin := make(chan int, len(pairs)), make(chan struct{})
	cancels := make([]context.CancelFunc, len(pairs))
	ended := make(chan struct{}, len(pairs))
	var all sync.WaitGroup
	for i, pair := range pairs {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		cancels[i] = cancel
		own := j
		own.ready = func(ctx context.Context) error {
			ready <- i
			select {
			case <-begin:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		all.Go(func() {
			if pair.from == "" {
				results[i] = p.sendBeside(ctx, l.peer, own, l.rate, l.rtt)
			} else {
				results[i] = p.askJoint(ctx, pair, own, l.held)
			}
			ended <- struct{}{}
		})
	}
	late := time.NewTimer(jointAsk)
	defer late.Stop()
	are := make([]bool, len(pairs))
	n, gone := 0, 0
	for waiting := true; waiting && n+gone < len(pairs); {
		select {
		case i := <-ready:
			are[i] = true
			n++
		case <-ended:
			gone++
		case <-late.C:
			waiting = false
		}
	}
	for i := range pairs {
		if !are[i] || n < 2 || !are[0] {
			cancels[i]()
		}
	}
	close(begin)
	all.Wait()
	return results
}

// sendBeside sends from this host to peer as j says. A peer that is taken by a train is asked again for a while.
func (p *Prober) sendBeside(ctx context.Context, peer Peer, j jointly, link netmap.BytesPerSec, rtt time.Duration) jointResult {
	o := bulkOptions{
		joint: &j, lanes: j.lanes, link: float64(link), rtt: rtt, bytes: min(j.bytes, p.left()), time: jointAsk + j.settle + 2*j.span,
		more: func() bool { return !p.pressed() },
	}
	res, err := p.bulk(ctx, peer, o)
	for begun, busy := time.Now(), (*BusyError)(nil); errors.As(err, &busy) && busy.Retry <= slotRetry && res.Bytes == 0 && time.Since(begun) < jointInsist; {
		if sleep(ctx, p.jitter(2*slotRetry)) != nil {
			break
		}
		res, err = p.bulk(ctx, peer, o)
	}
	bytes, _, err := p.spent(longProbe{peer: peer, kind: KindCapacity}, Answer{Bytes: res.Bytes, Capacity: res.Capacity}, res.Bytes/trainPayload, err)
	if err == nil && res.Capacity == 0 {
		err = errNoRate
	}
	if err != nil {
		return jointResult{bytes: bytes, err: err}
	}
	return jointResult{float64(res.Capacity), bytes, nil}
}

// beside is the part of a pair of a joint look: it sends when all are ready, and reads what arrives over the same time as all.
func (r *bulkRun) beside(ctx context.Context, s control, start time.Time, res *bulkResult) error {
	j := r.o.joint
	if err := j.ready(ctx); err != nil {
		return err
	}
	begun := time.Now()
	if err := r.lanes(ctx, j.lanes); err != nil {
		return err
	}
	var ss []sample
	var first sample
	for {
		m, err := readMessage(s, opProgress)
		if err != nil {
			return err
		}
		since := time.Since(begun)
		if err := r.plausible(m, time.Since(r.asked), ss); err != nil {
			return err
		}
		r.state(res)
		at := sample{at: time.Duration(m.SpanNS), bytes: m.Bytes}
		ss = append(ss[:0], at)
		switch {
		case since < j.settle:
		case m.Count < j.lanes:
			return fmt.Errorf("%d of %d lanes after %v: %w", m.Count, j.lanes, since, errBulkLate)
		case first.at == 0:
			first = at
		case since >= j.settle+j.span && at.at > first.at:
			res.Capacity = netmap.BytesPerSec(float64(at.bytes-first.bytes) / (at.at - first.at).Seconds())
			return nil
		}
	}
}

// askJoint has a host of this site send to one of another, beside this one.
func (p *Prober) askJoint(ctx context.Context, pair jointPair, j jointly, link netmap.BytesPerSec) (r jointResult) {
	s, err := p.cfg.Endpoint.Open(ctx, pair.from, 0, lane.StreamProbe)
	if err != nil {
		return jointResult{err: err}
	}
	s.SetDeadline(time.Now().Add(2*jointAsk + j.settle + 2*j.span))
	defer context.AfterFunc(ctx, s.Abort)()
	failed := func(err error) jointResult {
		s.Abort()
		return jointResult{err: fmt.Errorf("%s to %s: %w", pair.from, pair.to, err)}
	}
	ask := message{Op: opJoint, Peer: pair.to, Count: j.lanes, Bytes: j.bytes, Rate: float64(link), SettleNS: int64(j.settle), SpanNS: int64(j.span)}
	if err := writeMessage(s, ask); err != nil {
		return failed(err)
	}
	if _, err := readMessage(s, opGo); err != nil {
		return failed(err)
	}
	if err := j.ready(ctx); err != nil {
		return failed(err)
	}
	if err := writeMessage(s, message{Op: opGo}); err != nil {
		return failed(err)
	}
	m, err := readMessage(s, opDone)
	if err != nil {
		return failed(err)
	}
	finish(s)
	// No honest host gets many times what a port was found to carry.
	return jointResult{min(m.Rate, jointSpare*float64(link)), min(m.Bytes, 2*j.bytes), nil}
}

// serveJoint sends to another site beside a host of this one that asks for it.
func (p *Prober) serveJoint(ctx context.Context, s *lane.Stream, m message) error {
	peers := p.cfg.Peers()
	i := slices.IndexFunc(peers, func(q Peer) bool { return q.Name == m.Peer })
	switch {
	case p.pressed() || p.stopped():
		return p.decline(s, busyRetry, "exchange")
	case !p.insider(s.Peer.Name) || i < 0 || peers[i].site() == p.cfg.Self.site():
		return p.decline(s, time.Second, "host or link not known here") // views may differ for a moment
	}
	if err := p.capped(m.Bytes + max(p.cfg.HourlyCap/4, 0)); err != nil {
		return p.decline(s, time.Minute, "bytes of this hour")
	}
	ctx, release, err := p.takeIdle(ctx)
	if err != nil {
		return p.decline(s, slotRetry, "another probe")
	}
	defer release()
	defer context.AfterFunc(ctx, s.Abort)()
	j := jointly{lanes: m.Count, settle: time.Duration(m.SettleNS), span: time.Duration(m.SpanNS), bytes: m.Bytes}
	s.SetDeadline(time.Now().Add(2*jointAsk + j.settle + 2*j.span))
	asked := false
	j.ready = func(context.Context) error {
		asked = true
		if err := writeMessage(s, message{Op: opGo}); err != nil {
			return err
		}
		_, err := readMessage(s, opGo)
		return err
	}
	e, _ := p.rec.known(m.Peer)
	r := p.sendBeside(ctx, peers[i], j, netmap.BytesPerSec(m.Rate), 2*e.Latency)
	if r.err != nil && !asked {
		return p.decline(s, slotRetry, "the peer is taken")
	} else if r.err != nil {
		s.Abort() // the leader has gone, or this host must not go on
		return nil
	}
	return writeMessage(s, message{Op: opDone, Bytes: min(r.bytes, maxBulkBytes), Rate: min(r.rate, maxRate)})
}

// tellJointly says to a host of another site what the hosts of this one got together.
func (p *Prober) tellJointly(ctx context.Context, peer string, rate float64) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, err := p.cfg.Endpoint.Open(ctx, peer, 0, lane.StreamProbe)
	if err != nil {
		return err
	}
	s.SetDeadline(time.Now().Add(askTime))
	if err := writeMessage(s, message{Op: opJointly, Rate: min(rate, maxRate)}); err != nil {
		s.Abort()
		return err
	}
	return finish(s)
}

// serveJointly takes what hosts of another site got together of the link from there.
func (p *Prober) serveJointly(from string, m message) {
	if site := p.siteOf(from); site != "" && site != p.cfg.Self.site() {
		p.rec.jointly(from, m.Rate, time.Now())
	}
}
