package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// Kind says what to measure.
type Kind int

// The kinds of probes, named as in [AskKinds].
const (
	KindRTT       Kind = iota
	KindBandwidth      // trains, then what one flow gets
	KindCapacity       // what several flows get together
	KindLogP
)

func (k Kind) String() string {
	if k < 0 || int(k) >= len(AskKinds) {
		return fmt.Sprintf("kind %d", int(k))
	}
	return AskKinds[k]
}

// ProbeOnce measures peer now, whatever the tournament and this host's own share say, and
// records the result: an operator asked. The budget of a link between sites and the hourly
// cap still hold, except that a bulk probe may run its link into debt. It waits for its
// turn until ctx ends, and tells of its progress, from any goroutine; progress may be nil.
// The error says what was measured of whom; where it was refused to the end it wraps a [BusyError].
func (p *Prober) ProbeOnce(ctx context.Context, peer Peer, k Kind, progress func(step string, bytes int64)) (Answer, error) {
	if progress == nil {
		progress = func(string, int64) {}
	}
	begin := time.Now()
	a, err := p.once(ctx, peer, k, progress)
	if err != nil {
		return Answer{}, fmt.Errorf("probe of %v of %s→%s: %w", k, p.cfg.Self.Name, peer.Name, err)
	}
	a.Took = time.Since(begin)
	return a, nil
}

func (p *Prober) once(ctx context.Context, peer Peer, k Kind, progress func(string, int64)) (a Answer, err error) {
	progress("round trips", 0)
	if err = p.ping(ctx, peer); err != nil && ctx.Err() == nil {
		return Answer{}, fmt.Errorf("it does not answer: %w", err)
	}
	if k != KindRTT && err == nil {
		a, err = p.onceRates(ctx, peer, k, progress)
	}
	if err != nil {
		return Answer{}, err
	}
	e, _ := p.rec.known(peer.Name)
	a.RTT, a.Variation = 2*e.Latency, e.Variation
	a.Bytes += pingCost
	return a, nil
}

// onceRates measures trains, which all further kinds need, and then what was asked for.
func (p *Prober) onceRates(ctx context.Context, peer Peer, k Kind, progress func(string, int64)) (Answer, error) {
	progress("short trains", pingCost)
	var sent int64
	train := longProbe{kind: k, peer: peer}
	err := p.insist(ctx, func() error {
		bytes, rate, err := p.onceTrains(ctx, peer)
		sent += bytes
		if err == nil {
			train.rate = rate
		}
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	e, _ := p.rec.known(peer.Name)
	train.rtt = 2 * e.Latency
	if k == KindBandwidth && peer.site() == p.cfg.Self.site() {
		// On a switch trains say it all: no other flow shares the way for long.
		return Answer{Bandwidth: e.Bandwidth, Spread: e.Spread, Bytes: sent}, nil
	}
	var a Answer
	err = p.insist(ctx, func() error {
		bytes, got, err := p.onceLong(ctx, train, func(step string, n int64) { progress(step, sent+n) })
		sent += bytes
		a = got
		return err
	})
	a.Bytes = sent
	if k == KindBandwidth && errors.Is(err, errNoRate) {
		a.Notes, err = []string{noteTrains}, nil
	}
	if err != nil || k == KindLogP {
		return a, err
	}
	if e, ok := p.rec.known(peer.Name); ok && e.Bandwidth > 0 && k == KindBandwidth {
		a.Bandwidth, a.Spread = e.Bandwidth, e.Spread
	}
	return a, nil
}

// onceTrains is one session of trains with all that it needs.
func (p *Prober) onceTrains(ctx context.Context, peer Peer) (int64, netmap.BytesPerSec, error) {
	give, err := p.onceLease(ctx, peer, request{use: operator, cost: firstCost})
	if err != nil {
		return 0, 0, err
	}
	res, _, err := p.session(ctx, peer, first)
	give(res.wire(), res.Bandwidth)
	return res.wire(), res.Bandwidth, err
}

// onceSearch is how many bytes a search for the knee on request may take at least. It ends by itself
// where twice the lanes gain little.
const onceSearch = 64 << 20

// onceTime is how long one flow on request may fill its link at least: where round trips are short
// the bytes of some of them are gone before a receiver has reported twice.
const onceTime = 50 * time.Millisecond

// onceLong is one long probe with all that it needs.
func (p *Prober) onceLong(ctx context.Context, l longProbe, progress func(string, int64)) (int64, Answer, error) {
	cost := l.cost()
	// An operator need not wait for hours until a link has earned a bulk probe; what was sent is
	// charged all the same.
	give, err := p.onceLease(ctx, l.peer, request{use: operator, cost: firstCost})
	if err != nil {
		return 0, Answer{}, err
	}
	most := max(4*cost, min(int64(float64(l.rate)*onceTime.Seconds()), onceSearch))
	if l.kind == KindCapacity { // lanes may get many times what a train saw, which is held like one flow
		most = max(most, onceSearch)
	}
	bytes, a, err := p.long(ctx, l, most, progress)
	give(bytes, 0)
	return bytes, a, err
}

// onceLease is [Prober.lease] where the peer is of another site.
func (p *Prober) onceLease(ctx context.Context, peer Peer, q request) (func(int64, netmap.BytesPerSec), error) {
	if err := p.capped(q.cost); err != nil {
		return nil, &CapError{Sent: p.cfg.HourlyCap - p.left(), Cap: p.cfg.HourlyCap}
	}
	if peer.site() == p.cfg.Self.site() {
		return func(int64, netmap.BytesPerSec) {}, nil
	}
	return p.lease(ctx, peer.site(), q)
}

// Ask has a question answered here or by the host that it begins at, which measures with
// its own [Prober.ProbeOnce]. It calls progress from the caller's goroutine and gives up if that
// fails. The error wraps a [BusyError] where the host may answer later.
func (p *Prober) Ask(ctx context.Context, q Question, progress func(Progress) error) (Answer, error) {
	return p.desk.ask(ctx, p.cfg.Endpoint, p.cfg.Self.Name, q, p.answer, progress)
}

// answer measures what a question asks for.
func (p *Prober) answer(ctx context.Context, q Question, tell func(Progress)) (Answer, error) {
	peers := p.cfg.Peers()
	i := slices.IndexFunc(peers, func(x Peer) bool { return x.Name == q.To })
	if i < 0 || q.To == p.cfg.Self.Name {
		return Answer{}, fmt.Errorf("host %s knows no other member %.80q", p.cfg.Self.Name, q.To)
	}
	k := Kind(slices.Index(AskKinds, q.Kind))
	return p.ProbeOnce(ctx, peers[i], k, func(step string, bytes int64) { tell(Progress{step, bytes}) })
}

// insist repeats f, waiting out refusals until ctx ends.
func (p *Prober) insist(ctx context.Context, f func() error) error {
	for {
		err := f()
		var busy *BusyError
		if !errors.As(err, &busy) {
			return err
		}
		if sleep(ctx, p.jitter(min(max(busy.Retry, 20*time.Millisecond), time.Second))) != nil {
			return err // the refusal says more than that time is up
		}
	}
}
