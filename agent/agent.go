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
	listener net.Listener // nil: this host takes no TCP lanes
	dialsTCP bool
	segments bool // the UDP socket cuts what it is handed into packets (GSO)
	lanes    *laneChooser
	unlock   func()

	advertise netip.AddrPort

	refused  refusals
	leave    chan struct{} // closed by Leave
	leaveOne sync.Once
	known    atomic.Pointer[knownMap]
	guesses  guesser

	predictions predictionCheck
	plans       plans
}

// New puts an agent together. Nothing runs before [Agent.Run], but the socket is
// bound and the directory locked: call Run or Close. Also when New fails, Options.Conn,
// Options.Listener and Options.API are closed.
func New(opts Options) (_ *Agent, err error) {
	a := &Agent{
		api: opts.API, socket: opts.Conn, listener: opts.Listener,
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
	} else {
		a.closePorts()
	}
	a.release()
}

// closePorts closes what openPorts and openTCP have bound, while no endpoint has it.
func (a *Agent) closePorts() {
	if a.socket != nil {
		a.socket.Close()
	}
	if a.listener != nil {
		a.listener.Close()
	}
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
	tasks.Go(func() error { a.renewGuesses(ctx); return nil })
	tasks.Go(func() error { a.warn(ctx); return nil })
	tasks.Go(func() error { a.coolLanes(ctx); return nil })
	tasks.Go(func() error { a.readyLanes(ctx); return nil })
	tasks.Go(func() error { a.tryTCP(ctx); return nil })
	tasks.Go(func() error { return a.joinSeeds(ctx) })
	a.log.Info("agent is up", "host", a.name, "site", a.opts.Identity.Settings.Site,
		"cluster", a.opts.Identity.Settings.Cluster, "addr", a.Addr().String(), "advertise", a.advertise.String())
	if own, err := netip.ParseAddrPort(a.Addr().String()); err == nil && own.Port() != a.advertise.Port() {
		a.log.Info("others are told another port than this agent listens at: something has to pass UDP and TCP on to it", "listens", own.Port(), "told", a.advertise.Port())
	}
	err := tasks.Wait()
	if _, err := a.saveExperience(); err != nil {
		a.log.Warn("what was learnt of operations is not kept", "err", err)
	}
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
	quiet, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	if srv.Shutdown(quiet) != nil {
		srv.Close()
	}
	<-done
	calls.close() // Close above does not wait: a call may still hold a payload
	return nil
}
