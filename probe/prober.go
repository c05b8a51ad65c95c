package probe

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sync/errgroup"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/beat"
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
	Received(name string) (bytes, packets uint64)
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
	beat   beat.Beat     // of what is done now and again
	slot   chan struct{} // holds an element while a session runs here
	catch  *catcher
	bulks  bulkTable
	ration rations
	desk   desk
	keeper *keeper
	rec    recorder
	doubts chan struct{} // holds an element when there is a new suspect, or a reason to look for one
	loads  chan struct{} // holds an element when the book has got an entry
	done   chan struct{} // closed when Run returns: nothing is served any more

	book  loadBook // as the keeper of its site: what hosts tell of loads
	words words    // and what it tells them

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
	abroad  pace                  // of trains that it sends to other sites
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
	spare     schedule  // of first measurements outside the tournament
	suspected time.Time // since when, zero if it is not
	pinged    time.Time
	longer    time.Time          // when the path last seemed to have become longer
	rounds    int                // of pings that were answered
	received  uint64             // packets on its connection at the last round
	read      netmap.BytesPerSec // what the last train read, 0 before the first
	length    int                // packets that were enough for it, 0 unknown
}

// linkState is what it remembers of the links to the hosts of a site.
type linkState struct {
	since                time.Time          // when its first host was seen
	closed               time.Time          // no lease before, but for second opinions and first measurements
	barred               time.Time          // the same for second opinions
	filled               time.Time          // the same for first measurements
	denied               map[string]denial  // by keeper that grants nothing; a few
	pinged               time.Time          // when a host of it was pinged last
	lengthened           time.Time          // when the path to one of its hosts was last found to have become longer
	read                 netmap.BytesPerSec // what the last train over it read, 0 before the first
	bulk, capacity, logp schedule
	glance, joint        schedule
	again                bool      // some hosts were busy at the joint look
	bulked               string    // to whom the last bulk probe went, "" before the first
	bulkedAt             time.Time // when
	searchedAt           time.Time // for the capacity, by this host
	doubted              bool      // that search was the first, and has found no gain, or was cut short
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
		beat:    beat.Of(cfg.Self.Name),
		slot:    make(chan struct{}, 1),
		catch:   &catcher{},
		keeper:  newKeeper(cfg.linkTerms()),
		doubts:  make(chan struct{}, 1),
		loads:   make(chan struct{}, 1),
		done:    make(chan struct{}),
		crosses: make(chan struct{}, 1),
		rng:     cfg.Rand,
		peers:   make(map[string]*peerState),
		links:   make(map[string]*linkState),
		alarmed: make(map[string]alarms),
	}
	p.rec = newRecorder(&p.cfg)
	p.rec.moved = p.rouse
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
	g.Go(func() error { return p.tells(ctx) })
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
