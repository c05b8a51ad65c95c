package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sync/errgroup"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/logp"
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
	CloseLanes(name string, first int)
	CloseIdle(name string, quiet time.Duration)
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
	// Claimed returns what a host itself reports of a pair, whatever others say of it. Nil: what
	// arrives here is not compared with what its sender claims.
	Claimed func(from, to string) (netmap.Estimate, bool)
	// Busy reports whether an exchange runs on this host: no train starts, no peer's
	// is granted. Nil means never.
	Busy func() bool
	// Important says how much the estimate of a pair matters: 1 is ordinary, the pairs of
	// current plans more. From 0.1 to 10 it counts. Nil means that all matter alike.
	Important func(from, to string) float64
	// RecordLogP takes the model of the pairs from this host to those of a site, which
	// may be its own. Nil drops it.
	RecordLogP func(site string, m logp.Model)
	// Rand orders probes and spreads them in time; the prober guards it. Nil means a
	// fresh, unpredictable source.
	Rand *rand.Rand
	// Log receives state changes, never per-packet events. Nil discards.
	Log *slog.Logger

	// RTTInterval is the pause between two rounds of pings of one peer. Zero means
	// 10 s, or 0.1 s a peer where that is more. Under 1 s is an error.
	RTTInterval time.Duration
	// Interval is the age at which the bandwidth of an ordinary pair inside a site is measured
	// again; uncertain and important pairs come sooner. Links between sites are watched as
	// often as Share allows. Zero means 60 s. Under 5 s is an error.
	Interval time.Duration
	// Share is how much of a link's rate, and of this host's fastest, probes may take
	// in the long run, 0 < Share ≤ 0.1. Zero means 0.01.
	Share float64
	// LinkBurst is how many bytes of probes a link between sites may carry before
	// Share holds; no more than it carries in 12 s. Zero means 32 MiB.
	LinkBurst int64
	// HostBurst is the same for what this host initiates inside its site. Zero means 16 MiB.
	HostBurst int64
	// HourlyCap is how many bytes of probes this host may send in an hour, whatever its
	// links carry. Zero means 256 MiB, less than zero none. Under 1 MiB, the map of a fast site is
	// not known for hours, is an error.
	HourlyCap int64
}

func (c *Config) complete() error {
	if c.Self.Name == "" || c.Peers == nil || c.Endpoint == nil || c.Record == nil {
		return errors.New("probe: own name, peers, endpoint and record are required")
	}
	if c.Busy == nil {
		c.Busy = func() bool { return false }
	}
	if c.Important == nil {
		c.Important = func(_, _ string) float64 { return 1 }
	}
	if c.RecordLogP == nil {
		c.RecordLogP = func(string, logp.Model) {}
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
		c.LinkBurst = 32 << 20
	}
	if c.HostBurst == 0 {
		c.HostBurst = 16 << 20
	}
	switch {
	case c.HourlyCap == 0:
		c.HourlyCap = 256 << 20
	case c.HourlyCap < 0:
		c.HourlyCap = -1
	}
}

// accounted is the part of Share that keepers account for: trains, bulk probes and their
// messages. The rest is for what nobody keeps account of: pings, the answers to what comes the other
// way, and what keeps connections alive. Of the last, 64 pairs take 350 bytes a second, 0.24 % of a link of
// 1.16 Mbit/s, which all probing together must not take more than 1 % of.
const accounted = 0.75

// linkTerms are the terms of a link between sites.
func (c *Config) linkTerms() terms { return terms{share: accounted * c.Share, burst: c.LinkBurst} }

// hostTerms are those of this host inside its site. What is spent there keeps below the hourly cap at any time, so that the host
// neither goes blind when the cap is reached nor has nothing left for the links between sites.
func (c *Config) hostTerms() terms {
	t := terms{share: c.Share, burst: c.HostBurst}
	if c.HourlyCap > 0 {
		t.burst = min(t.burst, c.HourlyCap/4)
		t.ceiling = 0.6 * float64(c.HourlyCap) / time.Hour.Seconds()
	}
	return t
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
	case c.HourlyCap > 0 && c.HourlyCap < 1<<20:
		return fmt.Errorf("probe: cap of %d bytes an hour, want at least %d, or less than 0 for none", c.HourlyCap, 1<<20)
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
	Bulks    uint64 // bulk transfers, searches for capacity and LogP sessions that gave a result
	Bytes    int64  // UDP payload that it sent for all of them, about
}

// A Prober measures the links of one host. Its methods may be called concurrently.
type Prober struct {
	cfg    Config
	slot   chan struct{} // holds an element while a session runs here
	catch  *catcher
	bulks  bulkTable
	ration rations
	desk   desk
	keeper *keeper
	rec    recorder
	doubts chan struct{} // holds an element when there is a new suspect
	done   chan struct{} // closed when Run returns: nothing is served any more

	crossing crossings
	crosses  chan struct{} // holds an element when an exchange with another site has begun
	curbs    atomic.Int32  // leases of this host that their keepers want back

	mu      sync.Mutex // guards all below; never held over I/O or calls of Config's functions
	rng     *rand.Rand
	around  surroundings
	peers   map[string]*peerState
	links   map[string]*linkState // by destination site; of members' sites only
	alarmed map[string]alarms     // by site: urgent trains of it that were served during an exchange
	mute    int                   // requests in a row that the site's keeper did not answer
	muted   time.Time             // when the last of them failed
	budget  budget                // of what this host starts inside its site
	account account               // of all that it sends
	stats   Stats
}

// surroundings are the members as they were last seen, and the share of this host in
// them: whom it may measure.
type surroundings struct {
	at       time.Time
	sum      uint64 // of the members' names and labels
	roster   *roster
	peers    []Peer // without this host
	partners map[string]bool
	round    int64 // that partners are of
}

// peerState is what the prober remembers of a peer.
type peerState struct {
	since     time.Time // when it was first seen
	ping      schedule
	bandwidth schedule
	suspected time.Time // since when, zero if it is not
	pinged    time.Time
	rounds    int                // of pings that were answered
	received  uint64             // packets on its connection at the last round
	read      netmap.BytesPerSec // what the last train read, 0 before the first
}

// linkState is what it remembers of the links to the hosts of a site.
type linkState struct {
	closed               time.Time          // no lease before
	pinged               time.Time          // when a host of it was pinged last
	read                 netmap.BytesPerSec // what the last train over it read, 0 before the first
	bulk, capacity, logp schedule
	bulked               string    // to whom the last bulk probe went, "" before the first
	bulkedAt             time.Time // when
	searchedAt           time.Time // for the capacity, by this host
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
		cfg:     cfg,
		slot:    make(chan struct{}, 1),
		catch:   &catcher{},
		keeper:  newKeeper(cfg.linkTerms()),
		doubts:  make(chan struct{}, 1),
		done:    make(chan struct{}),
		crosses: make(chan struct{}, 1),
		rng:     cfg.Rand,
		peers:   make(map[string]*peerState),
		links:   make(map[string]*linkState),
		alarmed: make(map[string]alarms),
	}
	p.rec = recorder{cfg: &p.cfg, pairs: make(map[string]*pair), fell: make(map[string]time.Time), heard: make(map[string]finding)}
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
	g.Go(func() error { return p.turns(ctx, 0, p.turnInside) })
	g.Go(func() error { return p.turns(ctx, insideTime, p.turnAcross) })
	g.Go(func() error { return p.second(ctx) })
	g.Go(func() error { return p.longs(ctx) })
	g.Go(func() error { return p.holds(ctx) })
	g.Go(func() error { return p.spares(ctx) })
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

// A Cost is what measuring costs, and what it may.
type Cost struct {
	Share     float64 // of a link's rate, in the long run
	HourlyCap int64   // bytes that this host may send in an hour; 0: no cap
	LastHour  int64   // bytes that it sent in the last one, UDP payload
	Links     []LinkCost
}

// A LinkCost is the cost of a link that leaves this host's site, as its keeper knows it.
type LinkCost struct {
	From, To string             // sites
	Capacity netmap.BytesPerSec // that the last train read, 0 unknown
	LastHour int64              // bytes of all hosts' probes in the last hour, of the trains' packets as the link carries them
}

// Cost returns what measuring has cost.
func (p *Prober) Cost() Cost {
	now := time.Now()
	c := Cost{Share: p.cfg.Share, HourlyCap: max(p.cfg.HourlyCap, 0), Links: p.keeper.costs(now)}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.LastHour = p.account.total(now)
	return c
}

// charge notes that bytes were sent.
func (p *Prober) charge(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Bytes += bytes
	p.account.add(time.Now(), bytes)
}

// capped returns a [BusyError] if cost bytes would exceed the hourly cap.
func (p *Prober) capped(cost int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sent := p.account.total(time.Now()); p.cfg.HourlyCap > 0 && sent+cost > p.cfg.HourlyCap {
		return &BusyError{Retry: time.Minute, Why: fmt.Sprintf("%d bytes of probes in the last hour, at most %d are allowed", sent, p.cfg.HourlyCap)}
	}
	return nil
}

// left returns how many bytes the hourly cap still allows.
func (p *Prober) left() int64 {
	if p.cfg.HourlyCap < 0 {
		return math.MaxInt64
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.cfg.HourlyCap-p.account.total(time.Now()), 0)
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
