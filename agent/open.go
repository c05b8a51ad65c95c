package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/agent/membership"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/beat"
	"github.com/gridagent/gridagent/probe"
	"github.com/gridagent/gridagent/probe/logp"
	"github.com/gridagent/gridagent/probe/netmap"
)

// How [New] makes the rooms of the house and hands each what it needs of the others.

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
		if err := a.openPorts(); err != nil {
			return err
		}
	}
	if _, ok := a.socket.(*net.UDPConn); ok {
		a.segments = CheckSegmentation() == nil
	}
	reset, err := a.opts.Identity.StatelessReset()
	if err != nil {
		return err
	}
	var dial func(context.Context, net.Addr, string) (net.Conn, error)
	if dial, err = a.openTCP(); err != nil {
		return err
	}
	a.endpoint, err = lane.New(lane.Config{
		Conn:           a.socket,
		Listener:       a.listener,
		DialTCP:        dial,
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

// portTries is how many ports of the kernel's choice are tried: TCP's with the same number may be taken.
const portTries = 8

// openPorts binds the UDP address that the identity says. Where the kernel chooses the port it takes one of which TCP's is free, too, if it finds one.
func (a *Agent) openPorts() (err error) {
	choose := a.anyPort() && a.opts.Lane != LaneQUIC && a.listener == nil
	for try := 0; ; try++ {
		if a.socket, err = openSocket(a.opts.Identity.Settings.Bind); err != nil || !choose || try == portTries {
			return err
		}
		if a.listener, err = a.opts.openListener(a.socket.LocalAddr()); err == nil {
			return nil
		}
		a.socket.Close()
	}
}

// anyPort reports whether the kernel chooses the port.
func (a *Agent) anyPort() bool {
	_, port, err := net.SplitHostPort(a.opts.Identity.Settings.Bind)
	return err == nil && port == "0"
}

// openTCP listens for TCP lanes, and returns what dials them, nil if none are to be.
func (a *Agent) openTCP() (dial func(context.Context, net.Addr, string) (net.Conn, error), err error) {
	if a.opts.Lane == LaneQUIC || a.listener == nil && a.opts.Conn != nil {
		return nil, nil
	}
	if a.listener == nil {
		a.listener, err = a.opts.openListener(a.socket.LocalAddr())
	}
	switch {
	case err == nil:
	case a.opts.Lane == LaneTCP:
		return nil, fmt.Errorf("TCP lanes: %w; free the port, or choose another with --bind", err)
	default:
		a.log.Warn("no TCP lanes to this host: all data come over QUIC", "err", err)
		a.listener = nil
	}
	a.dialsTCP = true
	from, _ := netip.ParseAddrPort(a.opts.Identity.Settings.Bind)
	return lane.DialTCP(from.Addr()), nil
}

// readPeers returns the members that the folder remembers. A file that is no good costs only these; one that this user may not read
// is an error: something else in the folder is not this user's either.
func readPeers(path string, log *slog.Logger) ([]membership.Peer, error) {
	peers, err := membership.ReadPeers(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("remembered members: %w: give the file to the user that runs the agent, with chown", err)
	}
	if err != nil {
		log.Warn("remembered members are not readable, starting without them", "err", err)
	}
	return peers, nil
}

func (a *Agent) openMembership() error {
	id := a.opts.Identity
	advertise, err := a.opts.advertised(a.endpoint.Addr())
	if err != nil {
		return err
	}
	peers, err := readPeers(id.PeersPath(), a.log)
	if err != nil {
		return err
	}
	a.members, err = membership.New(membership.Config{
		Endpoint:  a.endpoint,
		Name:      a.name,
		Advertise: advertise,
		Keys:      id.GossipKeys,
		Meta:      membership.Meta{Site: id.Settings.Site, HoldsCA: id.Authority != nil, Started: time.Now(), Switches: treeDigest(a.opts.Switches), TCP: a.listener != nil, Words: a.listener != nil},
		Peers:     peers,
		Save:      membership.SaveTo(id.PeersPath()),
		Log:       a.log,
	})
	if err != nil {
		return err
	}
	a.advertise = advertise
	a.switches = &switches{
		own: a.opts.Switches, members: a.members.Members, log: a.log, beat: beat.Of(a.name), trees: make(map[uint64]*declaredTree),
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
			if a.netmap.Weighty(from, to) {
				a.mapSync.wake()
			}
		},
		Known:     a.knownEstimate,
		Claimed:   a.netmap.Claimed,
		Busy:      func() bool { return a.groups.Busy() },
		Hurried:   func() bool { return a.groups.Hurried() },
		Pressed:   func(peer string) uint64 { return a.engine.Pressed(peer) },
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
	a.guesses.wanted = make(chan struct{}, 1)
	a.mapSync = newMapSync(a.netmap, a.endpoint, a.opts.Identity.Settings.Site)
	a.mapSync.peers, a.mapSync.known, a.mapSync.log = a.mapPeers, a.isMember, a.log
	a.mapSync.siteOf = func(host string) string { return a.sites()[host] }
	a.mapSync.busy = func() bool { return a.groups.Busy() }
	a.endpoint.HandleStreams(lane.StreamMap, a.mapSync.serve)
	return nil
}

func (a *Agent) openGroups() error {
	watch := &observer{self: a.name, labels: a.sites, take: a.prober.Observe}
	a.openLanes(watch.site)
	var err error
	a.engine, err = exchange.New(exchange.Config{
		Self: a.name,
		Open: a.lanes.open,
		Path: a.path,
		Observe: func(s exchange.Sample) {
			if a.lanes.observe(s) {
				watch.observe(s)
			}
		},
		Lost:      func(t exchange.Toll) { a.prober.Lost(t.Peer, t.Sent, t.Lost) },
		Site:      watch.site,
		Vias:      a.alive,
		Connected: a.endpoint.Connected,
		Log:       a.log,
	})
	if err != nil {
		return err
	}
	a.endpoint.HandleStreams(lane.StreamData, a.engine.AcceptLane)
	a.endpoint.HandleTCPStreams(lane.StreamData, a.engine.AcceptTCP)
	ways := a.openGroupWays()
	a.groups = group.New(group.Config{
		Self:     a.name,
		Open:     ways.open,
		Again:    ways.again,
		Members:  a.alive,
		Plan:     a.plan,
		Finished: a.finished,
		Run:      a.run,
		Stands:   a.stands,
		Small:    a.smallTime,
		Restamp: func(part []byte, id group.ID, seq uint64) ([]byte, error) {
			return exchange.Restamp(part, exchangeID(id, seq))
		},
		Refuse: func(id group.ID, seq uint64) {
			a.engine.Refuse(exchangeID(id, seq), "it has begun anew")
		},
		Known:   func(id group.ID, seq uint64) bool { return a.engine.Known(exchangeID(id, seq)) },
		Alloc:   a.spool.alloc,
		Scratch: a.spool.scratch,
		Tree:    a.tree,
		Latency: a.latencyFrom,
		Way:     a.way,
		Heard: func(host string) uint64 {
			s, _ := a.endpoint.Stats(host)
			return s.PacketsReceived
		},
		Log: a.log,
	})
	a.openExperience()
	a.endpoint.HandleStreams(lane.StreamTune, a.serveTune)
	a.endpoint.HandleStreams(lane.StreamGroup, func(_ context.Context, s *lane.Stream) {
		a.groups.Serve(s.Peer.Name, &wordStream{Stream: s, a: a})
	})
	a.endpoint.HandleTCPStreams(lane.StreamGroup, func(_ context.Context, s *lane.TCPStream) {
		a.groups.Serve(s.Peer.Name, tcpWords{s})
	})
	a.endpoint.HandleViaStreams(lane.StreamGroup, func(_ context.Context, s *lane.ViaStream) {
		a.groups.Serve(s.Peer.Name, &toldStream{asideStream: asideStream{s}, told: func() { a.engine.ToldBroken(s.Peer.Name) }})
	})
	return nil
}
