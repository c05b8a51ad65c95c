package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sync/errgroup"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A Peer is a live member: its name as certified, and the operator's label of its site.
type Peer struct{ Name, Site string }

// site returns what the peer shares links with. A host without a label is a site of
// its own: nothing is known about whom it shares a link with, and to take all
// unlabelled hosts for one site would measure their links without any lease.
func (p Peer) site() string {
	if p.Site == "" {
		return "@" + p.Name
	}
	return p.Site
}

// An Endpoint is the network edge; *lane.Endpoint is the one of production. Its
// methods may be called concurrently.
type Endpoint interface {
	Open(ctx context.Context, name string, lane int, k lane.StreamKind) (*lane.Stream, error)
	SendPacket(k lane.PacketKind, b []byte, to net.Addr) error
	HandlePackets(k lane.PacketKind, h func(p []byte, from net.Addr, at time.Time))
	HandleStreams(k lane.StreamKind, h func(ctx context.Context, s *lane.Stream))
	Stats(name string) (quic.ConnectionStats, bool)
}

// Config is what a [Prober] needs. The functions may be called concurrently and must not block.
type Config struct {
	// Self is this host. Required.
	Self Peer
	// Peers returns the other live members, in any order. Required.
	Peers func() []Peer
	// Endpoint is the network. Required; handlers are registered on it by [New].
	Endpoint Endpoint
	// Record takes what was measured of from→to, where from is always this host: the
	// initiator writes, so each entry of the map has one writer. Required. The
	// estimate holds all that Known knew, with the measured part replaced.
	Record func(from, to string, e netmap.Estimate)
	// Known returns what the map holds of any pair. Nil knows only what was recorded here.
	Known func(from, to string) (netmap.Estimate, bool)
	// Busy reports whether an exchange runs on this host: no train starts, no peer's
	// is granted. Nil means never.
	Busy func() bool
	// Rand orders probes and spreads them in time; the prober guards it. Nil means a
	// fresh, unpredictable source.
	Rand *rand.Rand
	// Log receives state changes, never per-packet events. Nil discards.
	Log *slog.Logger

	// RTTInterval is the pause between two rounds of pings of one peer. Zero means
	// 10 s, or 0.1 s a peer where that is more. Under 1 s is an error.
	RTTInterval time.Duration
	// Interval is the least age at which a bandwidth is measured again, give or take
	// a quarter. Zero means 60 s. Under 5 s is an error.
	Interval time.Duration
	// Share is how much of a link's rate, and of this host's fastest, probes may take
	// in the long run, 0 < Share ≤ 0.1. Zero means 0.01.
	Share float64
	// LinkBurst is how many bytes of probes a link between sites may carry before
	// Share holds; no more than it carries in 12 s. Zero means 3 MiB.
	LinkBurst int64
	// HostBurst is the same for all that this host initiates. Zero means 16 MiB.
	HostBurst int64
}

func (c *Config) complete() error {
	if c.Self.Name == "" || c.Peers == nil || c.Endpoint == nil || c.Record == nil {
		return errors.New("probe: own name, peers, endpoint and record are required")
	}
	if c.Busy == nil {
		c.Busy = func() bool { return false }
	}
	if c.Rand == nil {
		c.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.defaults()
	return c.Check()
}

// defaults fills in the numbers that are 0.
func (c *Config) defaults() {
	if c.Interval == 0 {
		c.Interval = time.Minute
	}
	if c.Share == 0 {
		c.Share = 0.01
	}
	if c.LinkBurst == 0 {
		c.LinkBurst = 3 << 20
	}
	if c.HostBurst == 0 {
		c.HostBurst = 16 << 20
	}
}

// Check returns what [New] would refuse of the numbers in c; the other fields need not be
// set. Who reads them from a user knows of a slip before anything else is done.
func (c Config) Check() error {
	c.defaults()
	const firstBytes = firstTrain * trainPayload
	switch {
	case c.RTTInterval < 0 || c.RTTInterval > 0 && c.RTTInterval < time.Second:
		return fmt.Errorf("probe: rtt interval %v, want at least 1s", c.RTTInterval)
	case c.Interval < 5*time.Second:
		return fmt.Errorf("probe: interval %v, want at least 5s", c.Interval)
	case !(c.Share > 0 && c.Share <= 0.1):
		return fmt.Errorf("probe: share %g, want more than 0 and at most 0.1", c.Share)
	case c.LinkBurst < firstBytes || c.HostBurst < firstBytes:
		return fmt.Errorf("probe: bursts of %d and %d bytes, want at least %d, the shortest train", c.LinkBurst, c.HostBurst, firstBytes)
	}
	return nil
}

// Stats counts what a [Prober] has done since it was made.
type Stats struct {
	Pings    uint64 // rounds of pings that this host made
	Sessions uint64 // sessions of trains that this host initiated and that gave a rate
	Served   uint64 // sessions of trains that it granted to others
	Refused  uint64 // sessions and leases that peers refused it
	Declined uint64 // sessions and leases that it refused peers
	Failed   uint64 // pings and sessions that ended in an error
	Invalid  uint64 // messages and values that no honest peer sends
	Strays   uint64 // probe packets of no granted train
	Bytes    int64  // UDP payload of the trains that it sent
}

// A Prober measures the links of one host. Its methods may be called concurrently.
type Prober struct {
	cfg    Config
	slot   chan struct{} // holds an element while a session of trains runs here
	catch  *catcher
	keeper *keeper
	rec    recorder
	done   chan struct{} // closed when Run returns: nothing is served any more

	mu     sync.Mutex // guards all below; never held over I/O or calls of Config's functions
	rng    *rand.Rand
	peers  map[string]*peerState
	closed map[string]time.Time // destination site → no lease before
	mute   int                  // requests in a row that the site's keeper did not answer
	budget budget
	stats  Stats
}

// peerState is what the prober remembers of a peer.
type peerState struct {
	since     time.Time // when it was first seen
	ping      schedule
	bandwidth schedule
	pinged    time.Time
	rounds    int    // of pings that were answered
	received  uint64 // packets on its connection at the last round
}

// A schedule says when something may be tried again.
type schedule struct {
	notBefore time.Time
	failures  int // in a row
	running   bool
}

// New returns a prober and registers its handlers, so call it before the endpoint
// runs. It starts nothing. It returns an error that quotes the value if cfg is not usable.
func New(cfg Config) (*Prober, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	p := &Prober{
		cfg:    cfg,
		slot:   make(chan struct{}, 1),
		catch:  &catcher{},
		keeper: newKeeper(cfg.Share, cfg.LinkBurst),
		done:   make(chan struct{}),
		rng:    cfg.Rand,
		peers:  make(map[string]*peerState),
		closed: make(map[string]time.Time),
	}
	p.rec = recorder{cfg: &p.cfg, pairs: make(map[string]*pair)}
	cfg.Endpoint.HandlePackets(lane.PacketProbe, p.catch.packet)
	cfg.Endpoint.HandleStreams(lane.StreamProbe, p.serve)
	return p, nil
}

// Run measures until ctx ends. When it returns, every goroutine it started has ended
// and requests of peers are refused; those being served end with the endpoint, whose
// goroutines they are. It may be called once.
func (p *Prober) Run(ctx context.Context) error {
	defer close(p.done)
	g, ctx := errgroup.WithContext(ctx)
	for range pingers {
		g.Go(func() error { return p.pinger(ctx) })
	}
	g.Go(func() error { return p.trains(ctx, p.nextInside) })
	g.Go(func() error { return p.trains(ctx, p.nextAcross) })
	err := g.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Stats returns the counters.
func (p *Prober) Stats() Stats {
	p.mu.Lock()
	s := p.stats
	p.mu.Unlock()
	s.Strays = p.catch.strays()
	return s
}

// count changes the counters.
func (p *Prober) count(f func(*Stats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.stats)
}

// jitter returns d times a random number from 0.75 to 1.25: agents that started
// together drift apart.
func (p *Prober) jitter(d time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(float64(d) * (0.75 + p.rng.Float64()/2))
}

// Kind says what to measure.
type Kind int

// The kinds of probes.
const (
	KindRTT Kind = iota
	KindBandwidth
)

// ProbeOnce measures peer now, whatever this host's own budget says, and records the
// result: an operator asked. The budget of a link between sites still holds. It waits
// for its turn until ctx ends. The error says what was
// measured of whom; where it was refused to the end it wraps a [BusyError].
func (p *Prober) ProbeOnce(ctx context.Context, peer Peer, k Kind) (netmap.Estimate, error) {
	var err error
	switch k {
	case KindRTT:
		err = p.ping(ctx, peer)
	case KindBandwidth:
		err = p.insist(ctx, peer)
	default:
		err = fmt.Errorf("unknown kind %d", k)
	}
	if err != nil {
		return netmap.Estimate{}, fmt.Errorf("probe of %s→%s: %w", p.cfg.Self.Name, peer.Name, err)
	}
	e, _ := p.rec.known(peer.Name)
	return e, nil
}

// insist measures the bandwidth to peer, waiting out refusals until ctx ends.
func (p *Prober) insist(ctx context.Context, peer Peer) error {
	for {
		err := p.measure(ctx, peer)
		var busy *BusyError
		if !errors.As(err, &busy) {
			return err
		}
		if sleep(ctx, p.jitter(max(busy.Retry, 20*time.Millisecond))) != nil {
			return err // the refusal says more than that time is up
		}
	}
}
