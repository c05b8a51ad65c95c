package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/agent/membership"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe"
	"github.com/gridagent/gridagent/probe/logp"
	"github.com/gridagent/gridagent/probe/netmap"
)

// An Agent is the daemon of one host. Its methods may be called concurrently.
type Agent struct {
	opts    Options
	log     *slog.Logger
	name    string
	started time.Time

	endpoint *lane.Endpoint
	members  *membership.Membership
	netmap   *netmap.Map
	prober   *probe.Prober
	mapSync  *mapSync
	pools    *poolTree
	switches *switches
	engine   *exchange.Engine
	groups   *group.Groups
	admit    *identity.Server
	spool    *spool
	api      net.Listener
	socket   net.PacketConn
	unlock   func()

	advertise netip.AddrPort

	refused  refusals
	leave    chan struct{} // closed by Leave
	leaveOne sync.Once
	known    atomic.Pointer[knownMap]
	guesses  guesser
}

// New puts an agent together. Nothing runs before [Agent.Run], but the socket is
// bound and the directory locked: call Run or Close. Also when New fails, Options.Conn
// and Options.API are closed.
func New(opts Options) (_ *Agent, err error) {
	a := &Agent{
		api: opts.API, socket: opts.Conn,
		leave: make(chan struct{}), unlock: func() {},
	}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if err := opts.complete(); err != nil {
		return nil, err
	}
	a.opts, a.log, a.name = opts, opts.Log, opts.Identity.Settings.Host
	for _, step := range []func() error{a.openLocal, a.openNetwork, a.openMembership, a.openMap, a.openPools, a.openGroups} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// openLocal makes what clients on this host meet: directory lock, spool, API socket.
func (a *Agent) openLocal() error {
	if a.opts.API == nil {
		lock, err := lockDir(a.opts.Identity.Dir, "from")
		if err != nil {
			return err
		}
		a.unlock = func() { lock.Close() }
	}
	var err error
	if a.spool, err = openSpool(a.opts.Spool); err != nil {
		return err
	}
	if a.api == nil {
		a.api, err = listenSocket(a.opts.Socket, a.log)
	}
	return err
}

func (a *Agent) openNetwork() error {
	if a.socket == nil {
		var err error
		if a.socket, err = openSocket(a.opts.Identity.Settings.Bind); err != nil {
			return err
		}
	}
	reset, err := a.opts.Identity.StatelessReset()
	if err != nil {
		return err
	}
	a.endpoint, err = lane.New(lane.Config{
		Conn:           a.socket,
		OpenSocket:     a.opts.OpenSocket,
		Credentials:    a.opts.Identity.Credentials(),
		StatelessReset: reset,
		Resolve: func(name string) (net.Addr, bool) {
			return a.members.Resolve(name)
		},
		// Long, and so quiet: n² connections that are kept warm every 2 s would cost a
		// slow WAN link more than the probes. Groups have a heartbeat of their own, and
		// membership finds lost hosts. More than 25 s would lose the binding of a NAT that
		// forgets UDP after 30 s.
		IdleTimeout: time.Minute,
		KeepAlive:   25 * time.Second,
		Refused:     a.refusedConnection,
		Log:         a.log,
	})
	return err
}

func (a *Agent) openMembership() error {
	id := a.opts.Identity
	advertise, err := a.opts.advertised(a.endpoint.Addr())
	if err != nil {
		return err
	}
	peers, err := membership.ReadPeers(id.PeersPath())
	if err != nil {
		a.log.Warn("remembered members are not readable, starting without them", "err", err)
	}
	a.members, err = membership.New(membership.Config{
		Endpoint:  a.endpoint,
		Name:      a.name,
		Advertise: advertise,
		Keys:      id.GossipKeys,
		Meta:      membership.Meta{Site: id.Settings.Site, HoldsCA: id.Authority != nil, Started: time.Now(), Switches: treeDigest(a.opts.Switches)},
		Peers:     peers,
		Save:      membership.SaveTo(id.PeersPath()),
		Log:       a.log,
	})
	if err != nil {
		return err
	}
	a.advertise = advertise
	a.switches = &switches{
		own: a.opts.Switches, members: a.members.Members, log: a.log, trees: make(map[uint64]*declaredTree),
		open: func(ctx context.Context, host string) (*lane.Stream, error) {
			return a.endpoint.Open(ctx, host, 0, lane.StreamTree)
		},
	}
	a.endpoint.HandleStreams(lane.StreamTree, func(_ context.Context, s *lane.Stream) { a.switches.serve(s) })
	a.openAdmission()
	return nil
}

func (a *Agent) openMap() error {
	if err := a.openNetmap(); err != nil {
		return err
	}
	var err error
	matters := &importance{hosts: func() []string { return a.groups.Hosts() }}
	cfg := probe.Config{
		Self:     probe.Peer{Name: a.name, Site: a.opts.Identity.Settings.Site},
		Peers:    a.probePeers,
		Endpoint: a.endpoint,
		Record: func(from, to string, e netmap.Estimate) {
			if err := a.netmap.Set(from, to, e, time.Now()); err != nil {
				a.log.Warn("measurement refused", "from", from, "to", to, "err", err)
			}
			a.mapSync.wake()
		},
		Known:     a.knownEstimate,
		Claimed:   a.netmap.Claimed,
		Busy:      func() bool { return a.groups.Busy() },
		Important: matters.of,
		RecordLogP: func(site string, m logp.Model) {
			if err := a.netmap.SetLogP(site, m, time.Now()); err != nil {
				a.log.Warn("LogP model refused", "site", site, "err", err)
			}
			a.mapSync.wake()
		},
		Log:       a.log,
		Interval:  a.opts.ProbeInterval,
		Share:     a.opts.ProbeShare,
		HourlyCap: a.opts.ProbeCap,
	}
	if a.opts.Probe != nil {
		a.opts.Probe(&cfg)
	}
	a.prober, err = probe.New(cfg)
	if err != nil {
		return err
	}
	a.mapSync = newMapSync(a.netmap, a.endpoint, a.opts.Identity.Settings.Site)
	a.mapSync.peers, a.mapSync.known, a.mapSync.log = a.mapPeers, a.isMember, a.log
	a.mapSync.siteOf = func(host string) string { return a.sites()[host] }
	a.mapSync.busy = func() bool { return a.groups.Busy() }
	a.endpoint.HandleStreams(lane.StreamMap, a.mapSync.serve)
	return nil
}

func (a *Agent) openGroups() error {
	watch := &observer{self: a.name, labels: a.sites, take: a.prober.Observe}
	var err error
	a.engine, err = exchange.New(exchange.Config{
		Self:    a.name,
		Open:    exchange.OpenOver(a.endpoint),
		Path:    a.path,
		Observe: watch.observe,
		Site:    watch.site,
		Log:     a.log,
	})
	if err != nil {
		return err
	}
	a.endpoint.HandleStreams(lane.StreamData, a.engine.AcceptLane)
	a.groups = group.New(group.Config{
		Self: a.name,
		Open: func(ctx context.Context, host string) (group.Stream, error) {
			return a.endpoint.Open(ctx, host, 0, lane.StreamGroup)
		},
		Members: a.alive,
		Plan:    a.plan,
		Run:     a.run,
		Alloc:   a.spool.alloc,
		Latency: a.latencyFrom,
		Heard: func(host string) uint64 {
			s, _ := a.endpoint.Stats(host)
			return s.PacketsReceived
		},
		Log: a.log,
	})
	a.endpoint.HandleStreams(lane.StreamGroup, func(_ context.Context, s *lane.Stream) {
		a.groups.Serve(s.Peer.Name, s)
	})
	return nil
}

// Name is the host's name.
func (a *Agent) Name() string { return a.name }

// Addr is the address of the agent's socket.
func (a *Agent) Addr() net.Addr { return a.endpoint.Addr() }

// Map is the agent's live network map.
func (a *Agent) Map() *netmap.Map { return a.netmap }

// Groups are the agent's share in groups, for clients in the same process.
func (a *Agent) Groups() *group.Groups { return a.groups }

// Leave makes Run leave the cluster for good and return: the others forget this host. The
// end of Run's context does not: it only stops the agent, and the others go on calling it.
func (a *Agent) Leave() { a.leaveOne.Do(func() { close(a.leave) }) }

// Close releases what New took, of an agent that never ran.
func (a *Agent) Close() {
	if a.api != nil {
		a.api.Close()
	}
	if a.endpoint != nil {
		a.endpoint.Close()
		a.endpoint.Run(context.Background()) // a closed endpoint's Run only cleans up
	} else if a.socket != nil {
		a.socket.Close()
	}
	a.release()
}

// release lets go of the folders, last of all: who takes them next finds them unused.
func (a *Agent) release() {
	if a.spool != nil {
		a.spool.close()
	}
	a.unlock()
}

// errLeft ends Run's tasks after Leave.
var errLeft = errors.New("left the cluster")

// Run is the agent until ctx ends or [Agent.Leave] is called; it tells the others which of
// the two it is. When it returns, everything that the agent started has ended.
func (a *Agent) Run(ctx context.Context) error {
	defer a.release()
	a.started = time.Now()
	caller := ctx
	tasks, ctx := errgroup.WithContext(ctx)
	// The network and membership go last: groups say goodbye over the one, and the
	// agent over the other.
	netCtx, closeNet := context.WithCancel(context.WithoutCancel(ctx))
	defer closeNet()
	memCtx, endMembership := context.WithCancel(netCtx)
	defer endMembership()
	network := inBackground(func() error { return a.endpoint.Run(netCtx) })
	gossip := inBackground(func() error { return a.members.Run(memCtx) })
	tasks.Go(func() error {
		select {
		case <-a.leave:
			return errLeft
		case <-network.done:
			return fmt.Errorf("the network edge ended: %w", network.err)
		case <-gossip.done:
			var taken *membership.NameTakenError
			if errors.As(gossip.err, &taken) {
				return taken
			}
			return fmt.Errorf("membership ended: %w", gossip.err)
		case <-ctx.Done():
			return nil
		}
	})
	tasks.Go(func() error { return a.serveAPI(ctx) })
	tasks.Go(func() error { return a.groups.Run(ctx) })
	tasks.Go(func() error { return a.prober.Run(ctx) })
	tasks.Go(func() error { a.mapSync.run(ctx); return nil })
	tasks.Go(func() error { a.pools.run(ctx); return nil })
	tasks.Go(func() error { a.switches.run(ctx); return nil })
	tasks.Go(func() error { a.warn(ctx); return nil })
	tasks.Go(func() error { return a.joinSeeds(ctx) })
	a.log.Info("agent is up", "host", a.name, "site", a.opts.Identity.Settings.Site,
		"cluster", a.opts.Identity.Settings.Cluster, "addr", a.Addr().String(), "advertise", a.advertise.String())
	err := tasks.Wait()
	if len(a.others()) > 0 {
		if byeErr := a.sayGoodbye(memCtx); byeErr != nil {
			a.log.Debug("the others are not told of this host's end", "err", byeErr)
		}
	}
	endMembership()
	<-gossip.done
	closeNet()
	<-network.done
	a.log.Info("agent is down", "host", a.name)
	if errors.Is(err, errLeft) || errors.Is(err, context.Canceled) {
		return nil
	}
	if caller.Err() != nil && errors.Is(err, context.Cause(caller)) {
		return nil // that of a signal.NotifyContext says which signal, and is no error either
	}
	return err
}

// sayGoodbye tells the others that this host leaves, if it was told to, or stops.
func (a *Agent) sayGoodbye(ctx context.Context) error {
	select {
	case <-a.leave: // also where a signal came on top of it
		return a.members.Leave(ctx)
	default:
		return a.members.Stop(ctx)
	}
}

// A background task ends on its own; err is set before done is closed.
type background struct {
	done chan struct{}
	err  error
}

func inBackground(f func() error) *background {
	b := &background{done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.err = f()
	}()
	return b
}

// joinSeeds makes this host known at the seeds. Membership goes on trying those that
// do not answer; what will not get better by itself ends the agent.
func (a *Agent) joinSeeds(ctx context.Context) error {
	if len(a.opts.Seeds) == 0 {
		return nil
	}
	addrs := make([]netip.AddrPort, len(a.opts.Seeds))
	for i, s := range a.opts.Seeds {
		var err error
		if addrs[i], err = netip.ParseAddrPort(s); err != nil {
			return fmt.Errorf("seed %q: %w", s, err)
		}
	}
	n, err := a.members.Join(ctx, addrs)
	var advertise *membership.AdvertiseError
	var taken *membership.NameTakenError
	switch {
	case errors.As(err, &taken) && taken.Live:
		return taken
	case errors.As(err, &advertise):
		return err
	case ctx.Err() != nil:
		return nil
	case err != nil:
		a.log.Warn("no seed answered yet, still trying", "err", err)
	default:
		a.log.Info("joined", "members", n)
	}
	return nil
}

// serveAPI answers local clients until ctx ends.
func (a *Agent) serveAPI(ctx context.Context) error {
	calls := new(gate)
	srv := &http.Server{
		Handler:           calls.guard(a.newService(ctx)),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
	}
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true) // gRPC clients speak nothing else
	done := make(chan error, 1)
	go func() { done <- srv.Serve(a.api) }()
	select {
	case err := <-done:
		return fmt.Errorf("local API: %w", err)
	case <-ctx.Done():
	}
	// Calls under way end by themselves: their context has.
	quiet, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if srv.Shutdown(quiet) != nil {
		srv.Close()
	}
	<-done
	calls.close() // Close above does not wait: a call may still hold a payload
	return nil
}
