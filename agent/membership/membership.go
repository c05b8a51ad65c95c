package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/exchange/lane"
)

// Config is what a [Membership] needs.
type Config struct {
	// Endpoint carries the gossip. It is not closed. Its Resolve must be the
	// membership's [Membership.Resolve]. Required.
	Endpoint *lane.Endpoint
	// Name is this host's, as in its certificate. Required.
	Name string
	// Advertise is where the others reach this host. Required; loopback is good only
	// among hosts of one machine.
	Advertise netip.AddrPort
	// Keys are the gossip keys, 32 bytes each: the first encrypts, all decrypt.
	// At least one is required.
	Keys [][]byte
	// Meta is told to the others.
	Meta Meta
	// Profile is the set of timings. Zero is [WAN].
	Profile Profile
	// Rejoin is the mean pause between tries to reach lost members. Zero means 15 s.
	// Under 1 s is an error: each try of a dead host costs packets for 10 s.
	Rejoin time.Duration
	// Peers are members remembered from an earlier run.
	Peers []Peer
	// Save stores the peers whenever they have changed. It may block; calls do not
	// overlap. Nil remembers nothing.
	Save func([]Peer) error
	// RTT is told of every round trip measured, more than 0 and less than a minute.
	// It must not block. Nil is told nothing.
	RTT func(name string, d time.Duration)
	// Rand draws the jitter and order of re-joins. Nil means a fresh, unpredictable
	// source. memberlist itself draws from the global source.
	Rand *rand.Rand
	// Log receives state changes. Nil discards.
	Log *slog.Logger
}

// ErrClosed means that the membership is not running any more.
var ErrClosed = errors.New("membership has ended")

// An AdvertiseError means that a host gives a loopback address to hosts of other machines.
type AdvertiseError struct {
	Host string
	Addr netip.AddrPort // what it gives
	Peer netip.AddrPort // to whom
}

func (e *AdvertiseError) Error() string {
	return fmt.Sprintf("host %s advertises %v, which only its own machine reaches, to %v: start its agent with --advertise IP:PORT of an address that the other hosts reach",
		e.Host, e.Addr, e.Peer)
}

// A Membership takes part in the cluster. Its methods may be called concurrently.
type Membership struct {
	cfg       Config
	log       *slog.Logger
	table     *table
	delegate  *delegate
	transport *transport
	keys      *memberlist.Keyring
	refused   *refusals

	ended  chan struct{}           // closed when Run is about to return
	giveUp context.CancelCauseFunc // ends Run; set by it before it starts anything
	list   *memberlist.Memberlist  // set by Run before it starts anything
	leave  chan goodbye
	joins  chan joinRequest
	// joining lets one call of contact happen at a time, so that errors of merges are not mixed
	// up. It is a channel because joins wait for the network: a mutex held meanwhile
	// would stop the clock of a test bubble.
	joining chan struct{}

	mu    sync.Mutex // guards the fields below
	seeds []netip.AddrPort
}

// New returns a membership that does not take part before [Membership.Run]. It
// registers its handlers with the endpoint, which must not run yet.
func New(cfg Config) (*Membership, error) {
	if cfg.Endpoint == nil {
		return nil, errors.New("membership: an endpoint is required")
	}
	name, err := identity.HostName(cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	cfg.Name = name
	cfg.Advertise = normal(cfg.Advertise)
	if err := checkAddr(cfg.Advertise); err != nil {
		return nil, fmt.Errorf("membership: advertise %w", err)
	}
	if cfg.Advertise.Addr().Zone() != "" {
		return nil, fmt.Errorf("membership: advertise address %v has a zone, which means nothing to other hosts", cfg.Advertise)
	}
	keys, err := newKeyring(cfg.Keys)
	if err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	if cfg.Rejoin == 0 {
		cfg.Rejoin = 15 * time.Second
	}
	if cfg.Rejoin < time.Second {
		return nil, fmt.Errorf("membership: pause between re-joins of %v: want 1s or more", cfg.Rejoin)
	}
	if cfg.Save == nil {
		cfg.Save = func([]Peer) error { return nil }
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	m := &Membership{
		cfg:     cfg,
		log:     cfg.Log,
		table:   newTable(name, cfg.Peers),
		keys:    keys,
		refused: &refusals{log: cfg.Log, from: make(map[netip.AddrPort]*Refusal)},
		ended:   make(chan struct{}),
		leave:   make(chan goodbye),
		joins:   make(chan joinRequest),
		joining: make(chan struct{}, 1),
	}
	m.delegate = &delegate{cfg: &m.cfg, log: cfg.Log, table: m.table, complaints: make(map[string]struct{})}
	m.transport = newTransport(cfg.Endpoint, cfg.Advertise, keys, m.refused, m.Resolve, m.delegate.metSelf, m.delegate.refusedAt)
	return m, nil
}

func newKeyring(keys [][]byte) (*memberlist.Keyring, error) {
	if len(keys) == 0 {
		return nil, errors.New("a gossip key is required")
	}
	for i, k := range keys {
		if len(k) != 32 {
			return nil, fmt.Errorf("gossip key %d has %d bytes, want 32", i, len(k))
		}
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("gossip keys: %w", err)
	}
	return ring, nil
}

// Run takes part until ctx ends, then stops without a word: the others find out
// unless [Membership.Stop] or [Membership.Leave] was called before. It may be called once. The endpoint
// must be running, and run on until Run has returned. When it returns, every
// goroutine it started has ended; that takes up to a probe interval (2 s, or 1 s with
// [LAN]) if a probe is in flight, and longer if the network has been failing, see drain.
//
// It ends with a [*NameTakenError] when this host is not in a cluster yet, and finds a
// live host that has its name there.
func (m *Membership) Run(ctx context.Context) error {
	defer close(m.ended)
	m.transport.start()
	list, err := memberlist.Create(m.libraryConfig())
	if err != nil {
		m.transport.Shutdown()
		return fmt.Errorf("start gossip: %w", err)
	}
	m.list = list
	ctx, m.giveUp = context.WithCancelCause(ctx)
	defer m.giveUp(nil)
	var tasks sync.WaitGroup
	m.joining <- struct{}{} // nobody is called before checkOwn
	tasks.Go(func() {
		taken := m.checkOwn(ctx)
		if taken != nil {
			m.giveUp(taken)
		}
		<-m.joining
		m.rejoin(ctx)
	})
	tasks.Go(func() { m.remember(ctx) })
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case bye := <-m.leave:
			m.sayGoodbye(bye.as)
			close(bye.said)
		case req := <-m.joins:
			tasks.Go(func() {
				n, err := m.contact(ctx, req.targets)
				req.reply <- joinResult{n, err}
			})
		}
	}
	m.delegate.ended.Store(true)
	err = list.Shutdown() // before Wait: it ends what the tasks wait for
	tasks.Wait()
	m.drain()
	var taken *NameTakenError
	switch {
	case errors.As(context.Cause(ctx), &taken):
		return taken
	case err != nil:
		return fmt.Errorf("stop gossip: %w", err)
	}
	return nil
}

// drain waits for the goroutines of memberlist, which has no way to say that they
// have ended. Loops end when told and streams are cut off, but a probe in flight
// waits for its answer to the last: its interval, times one more than the health
// score with which it began. The score falls at the end of a probe only, so that of
// now is no less. A probe on another host's behalf waits for ProbeTimeout. Mostly none is
// in flight, and there is nothing to wait for.
func (m *Membership) drain() {
	timings := m.cfg.Profile.timings()
	interval := timings.ProbeInterval
	longest := interval*time.Duration(m.list.GetHealthScore()+1) + 10*time.Millisecond
	m.delegate.mu.Lock()
	wait := m.delegate.probes.rest(time.Now(), interval, longest)
	m.delegate.mu.Unlock()
	m.transport.mu.Lock()
	relay := timings.ProbeTimeout + 10*time.Millisecond - time.Since(m.transport.relayed)
	m.transport.mu.Unlock()
	time.Sleep(max(wait, relay))
}

func (m *Membership) libraryConfig() *memberlist.Config {
	c := m.cfg.Profile.timings()
	c.Name = m.cfg.Name
	c.AdvertiseAddr = m.cfg.Advertise.Addr().String()
	c.AdvertisePort = int(m.cfg.Advertise.Port())
	c.BindPort = c.AdvertisePort
	c.Transport = m.transport
	c.Keyring = m.keys
	c.Logger = newLibraryLog(m.log, m.ended)
	c.Delegate = m.delegate
	c.Events = m.delegate
	c.Conflict = m.delegate
	c.Merge = m.delegate
	c.Alive = m.delegate
	c.Ping = m.delegate
	c.DisableTcpPingsForNode = m.transport.elsewhere
	return c
}

// Stop tells the others that this host's agent stops, so that they need not find out;
// they go on calling it until it is back. It returns once the word is out, after little
// more than goodbyeTimeout at most; the membership then takes no further part, and Run
// waits for its context to end.
func (m *Membership) Stop(ctx context.Context) error { return m.depart(ctx, Stopped) }

// Leave is [Membership.Stop] for good: the others forget this host, and tell each other to.
// If its agent is started again, it is a member as before.
func (m *Membership) Leave(ctx context.Context) error { return m.depart(ctx, Left) }

// A goodbye asks Run to depart.
type goodbye struct {
	as   State         // Stopped or Left
	said chan struct{} // closed when the others have been told
}

func (m *Membership) depart(ctx context.Context, as State) error {
	bye := goodbye{as: as, said: make(chan struct{})}
	select {
	case m.leave <- bye:
		<-bye.said
		return nil
	case <-m.ended:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Join makes this host known at addrs, in order, until three members have answered,
// and returns how many did. The addresses are remembered and tried again while no
// other member is alive. The error is nil if any answered; else it says what became
// of each and may be an [*AdvertiseError] or a [*NameTakenError].
func (m *Membership) Join(ctx context.Context, addrs []netip.AddrPort) (int, error) {
	req := joinRequest{reply: make(chan joinResult, 1)}
	var seeds []netip.AddrPort
	for _, a := range addrs {
		a = normal(a)
		err := checkAddr(a)
		if err == nil {
			err = m.checkReach(a)
		}
		if err != nil {
			return 0, fmt.Errorf("join: %w", err)
		}
		seeds = append(seeds, a)
		req.targets = append(req.targets, a.String())
	}
	m.addSeeds(seeds)
	select {
	case m.joins <- req:
	case <-m.ended:
		return 0, ErrClosed
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	select {
	case r := <-req.reply: // in any case by the timeouts of the transport, and with Run
		return r.answered, r.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// A joinRequest asks Run to contact targets.
type joinRequest struct {
	targets []string
	reply   chan joinResult // has room for the answer: nobody need wait for it
}

type joinResult struct {
	answered int
	err      error
}

// checkReach refuses to give a loopback address to a host of another machine.
func (m *Membership) checkReach(peer netip.AddrPort) error {
	if m.cfg.Advertise.Addr().IsLoopback() && !peer.Addr().IsLoopback() {
		return &AdvertiseError{Host: m.cfg.Name, Addr: m.cfg.Advertise, Peer: peer}
	}
	return nil
}

// Members returns everyone known, this host included, sorted by name.
func (m *Membership) Members() []Member {
	all, _ := m.table.list()
	return all
}

// Member returns what is known of the member called name.
func (m *Membership) Member(name string) (Member, bool) { return m.table.get(name) }

// Live reports whether the member called name is alive.
func (m *Membership) Live(name string) bool {
	e, ok := m.table.get(name)
	return ok && e.State == Alive
}

// Holders returns the names of the members alive that say that they hold the cluster's authority, sorted.
func (m *Membership) Holders() []string {
	var out []string
	for _, e := range m.Members() {
		if e.State == Alive && e.HoldsCA {
			out = append(out, e.Name)
		}
	}
	return out
}

// Resolve returns the address of a member, whatever its state. It does not block.
func (m *Membership) Resolve(name string) (net.Addr, bool) {
	e, ok := m.table.get(name)
	if !ok {
		return nil, false
	}
	return net.UDPAddrFromAddrPort(e.Addr), true
}

// SetKeys replaces the gossip keys while running: the first encrypts, all decrypt. To
// rotate, give every host old and new, then new and old, then new alone.
func (m *Membership) SetKeys(keys [][]byte) error {
	if _, err := newKeyring(keys); err != nil {
		return fmt.Errorf("set keys: %w", err)
	}
	for _, k := range keys {
		if err := m.keys.AddKey(k); err != nil {
			return fmt.Errorf("set keys: %w", err)
		}
	}
	if err := m.keys.UseKey(keys[0]); err != nil {
		return fmt.Errorf("set keys: %w", err)
	}
	keep := make(map[string]bool)
	for _, k := range keys {
		keep[string(k)] = true
	}
	for _, k := range m.keys.GetKeys() {
		if keep[string(k)] {
			continue
		}
		if err := m.keys.RemoveKey(k); err != nil {
			return fmt.Errorf("set keys: %w", err)
		}
	}
	return nil
}

// Stats are counters since New.
type Stats struct {
	Received       uint64 // gossip packets of this cluster
	Dropped        uint64 // of these, not taken in time
	DroppedStreams uint64 // state exchanges not taken in time
	Refused        uint64 // packets of strangers, see [Membership.Refused]
}

// Stats returns the counters.
func (m *Membership) Stats() Stats {
	s := Stats{
		Received:       m.transport.received.Load(),
		Dropped:        m.transport.dropped.Load(),
		DroppedStreams: m.transport.droppedStreams.Load(),
	}
	for _, r := range m.refused.list() {
		s.Refused += r.Packets
	}
	return s
}

// Refused returns who sent gossip that could not be decrypted, sorted by address.
func (m *Membership) Refused() []Refusal { return m.refused.list() }
