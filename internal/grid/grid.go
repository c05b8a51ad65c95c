package grid

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// Config says which grid to start.
type Config struct {
	// Grid is the network, in the human form of a grid file.
	Grid *gridfile.Grid
	// Dir is an empty folder for the agents' state.
	Dir string
	// Seed seeds the network's losses.
	Seed uint64
	// RealTime is set outside a synctest bubble.
	RealTime bool
	// PathMTU lets agents look for the largest packet of each path, as over the kernel's sockets:
	// see [gridnet.DontFragment].
	PathMTU bool
	// Network changes the emulation before it starts. Nil changes nothing.
	Network func(*gridnet.Config)
	// Agent changes the options of an agent before it starts. Nil changes nothing.
	Agent func(*agent.Options)
	// Log receives what agents log, with the host's name. Nil discards.
	Log *slog.Logger
}

// A Grid is a running cluster. Close ends it.
type Grid struct {
	Net   *gridnet.Network
	Hosts []Host // in the order of the grid file
	dir   string
	cfg   Config
	ctx   context.Context
	stop  context.CancelFunc
}

// A Host is one host of the grid and the agent on it.
type Host struct {
	Name  string
	Site  string
	Agent *agent.Agent
	id    *identity.Identity
	seeds []string
	api   *memListener
	stop  context.CancelFunc
	ended chan struct{} // closed when the agent has ended, after err is set
	err   error
}

// Start makes the cluster and starts all agents. It does not wait for them to meet.
func Start(ctx context.Context, cfg Config) (*Grid, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	netCfg, err := gridnet.FromGrid(cfg.Grid)
	if err != nil {
		return nil, err
	}
	netCfg.Seed, netCfg.RealTime = cfg.Seed, cfg.RealTime
	if cfg.Network != nil {
		cfg.Network(&netCfg)
	}
	network, err := gridnet.New(netCfg)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	g := &Grid{Net: network, dir: cfg.Dir, cfg: cfg, ctx: ctx, stop: stop}
	if err := g.start(); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Grid) start() error {
	hosts := g.cfg.Grid.Hosts()
	g.Hosts = make([]Host, len(hosts))
	var first *identity.Identity
	var seed string
	for i, h := range hosts {
		addr, err := g.Net.Addr(h.Name)
		if err != nil {
			return err
		}
		conn, err := g.listen(h.Name)
		if err != nil {
			return err
		}
		at := netip.AddrPortFrom(addr, uint16(conn.LocalAddr().(*net.UDPAddr).Port)).String()
		opts := identity.Options{Cluster: "demo", Host: h.Name, Site: h.Site, Bind: at, Advertise: at}
		dir := filepath.Join(g.dir, h.Name)
		var id *identity.Identity
		if first == nil {
			id, err = identity.Init(dir, opts, time.Now(), rand.Reader)
			first, seed = id, at
		} else {
			// The certificates are issued here rather than asked for over the network: 20
			// handshakes more would only lengthen the start.
			id, err = identity.Admit(first, dir, opts, time.Now(), rand.Reader)
		}
		if err != nil {
			conn.Close()
			return err
		}
		g.Hosts[i] = Host{Name: h.Name, Site: h.Site, id: id}
		if i > 0 {
			g.Hosts[i].seeds = []string{seed}
		}
		if err := g.run(i, conn); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return nil
}

// listen opens a socket of an agent on host.
func (g *Grid) listen(host string) (net.PacketConn, error) {
	conn, err := g.Net.Listen(host)
	if err != nil {
		return nil, err
	}
	if g.cfg.PathMTU {
		return gridnet.NewDontFragment(conn), nil
	}
	return conn, nil
}

// run starts the agent of host i.
func (g *Grid) run(i int, conn net.PacketConn) error {
	h := &g.Hosts[i]
	h.api = newMemListener()
	opts := agent.Options{
		Identity: h.id, Conn: conn, API: h.api, Seeds: h.seeds,
		OpenSocket: func() (net.PacketConn, error) { return g.listen(h.Name) },
		Log:        g.cfg.Log.With("host", h.Name),
	}
	if g.cfg.Agent != nil {
		g.cfg.Agent(&opts)
	}
	a, err := agent.New(opts)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(g.ctx)
	h.Agent, h.stop, h.ended = a, stop, make(chan struct{})
	go func() {
		defer close(h.ended)
		h.err = a.Run(ctx)
	}()
	return nil
}

// Close stops all agents, waits for them, and ends the network.
func (g *Grid) Close() error {
	g.stop()
	var errs []error
	for i := range g.Hosts {
		h := &g.Hosts[i]
		if h.Agent == nil {
			continue
		}
		<-h.ended
		if h.err != nil {
			errs = append(errs, fmt.Errorf("host %s: %w", h.Name, h.err))
		}
	}
	g.Net.Close()
	return errors.Join(errs...)
}

// Kill cuts the power of host i: its sockets close without a word to anybody.
func (g *Grid) Kill(i int) error {
	err := g.Net.Kill(g.Hosts[i].Name)
	g.Hosts[i].stop()
	return err
}

// Restart starts the agent of host i again, at its address, after Kill.
func (g *Grid) Restart(i int) error {
	<-g.Hosts[i].ended
	conn, err := g.listen(g.Hosts[i].Name)
	if err != nil {
		return err
	}
	return g.run(i, conn)
}

// WaitMembers waits until every agent sees all others.
func (g *Grid) WaitMembers(ctx context.Context) error {
	return g.wait(ctx, func(h *Host) bool { return h.Agent.Alive() == len(g.Hosts) })
}

// WaitMap waits until every agent knows, or can predict, every pair of hosts.
func (g *Grid) WaitMap(ctx context.Context) error {
	return g.wait(ctx, func(h *Host) bool {
		measured, predicted, total := h.Agent.Coverage()
		return measured+predicted == total
	})
}

func (g *Grid) wait(ctx context.Context, ready func(*Host) bool) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < len(g.Hosts); {
		h := &g.Hosts[i]
		if ready(h) {
			i++
			continue
		}
		select {
		case <-h.ended:
			return fmt.Errorf("host %s ended: %w", h.Name, h.err)
		case <-ctx.Done():
			return fmt.Errorf("host %s: %w", h.Name, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}
