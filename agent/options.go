package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe"
)

// Options are what an agent runs with. Only Identity is required.
type Options struct {
	// Identity is who the host is, from identity.Load.
	Identity *identity.Identity
	// Conn is the socket for everything between agents; the agent owns it. Nil opens
	// the UDP address Identity.Settings.Bind.
	Conn net.PacketConn
	// OpenSocket opens a further socket, for a lane beside the first to some host: a network
	// that holds each flow tells flows by their sockets. Nil binds a port that is free, at the
	// address of Identity.Settings.Bind; where Conn is given, all lanes share that.
	OpenSocket func() (net.PacketConn, error)
	// Lane says over what the data of exchanges go: LaneQUIC, LaneTCP, or LaneAuto, which chooses
	// for each host by what is measured. Empty means LaneAuto. With LaneQUIC the agent listens on no
	// TCP port.
	Lane string
	// Listener takes the TCP lanes of others; the agent owns it. Nil listens at the number of the
	// UDP port, or, where Conn is given, takes and dials none.
	Listener net.Listener
	// Advertise is where other agents reach this one. Zero means
	// Identity.Settings.Advertise, or else the socket's own address, or else, where the
	// socket listens on every address, the one that leads to the seeds.
	Advertise netip.AddrPort
	// Seeds are addresses (IP:PORT) of members to join besides those remembered.
	Seeds []string
	// API takes the connections of clients; the agent owns it. Nil listens on the Unix socket Socket.
	API net.Listener
	// Socket is the path of the Unix socket. Empty means agent.sock in the directory of the identity.
	Socket string
	// Spool is the folder for payloads handed over by shared memory. Empty means
	// spool in the directory of the identity. It must hold twice the largest result. It is
	// this agent's alone: what is left in it is removed at start and end.
	Spool string
	// ProbeInterval is the least age at which a bandwidth is measured again. Zero
	// means 60 s.
	ProbeInterval time.Duration
	// ProbeShare is the share of a link that probes may take in the long run. Zero means 0.01.
	ProbeShare float64
	// ProbeCap is how many bytes of probes this host may send in an hour. Zero means 256 MiB,
	// less than zero no cap.
	ProbeCap int64
	// Probe changes how the agent measures, for tests and benchmarks. Nil changes nothing.
	Probe func(*probe.Config)
	// Switches is the switch-tree file (docs/formats.md) of this host's site, which makes plans
	// that suit it. Nil: a site is taken for one switch.
	Switches []byte
	// MapWait is how long an operation waits for a map of its hosts before it falls
	// back to a ring. Zero means 10 s; less makes plans from a half-known network likelier.
	MapWait time.Duration
	// Version is what status reports.
	Version string
	// Log receives state changes. Nil discards.
	Log *slog.Logger
}

func (o *Options) complete() error {
	if o.Identity == nil {
		return errors.New("agent: an identity is required")
	}
	if o.Socket == "" {
		o.Socket = filepath.Join(o.Identity.Dir, "agent.sock")
	}
	if o.Spool == "" {
		o.Spool = filepath.Join(o.Identity.Dir, "spool")
	}
	// Clients are told paths in the spool, and stand in folders of their own.
	var err error
	if o.Spool, err = filepath.Abs(o.Spool); err != nil {
		return fmt.Errorf("spool %q: %w", o.Spool, err)
	}
	for _, s := range o.Seeds {
		if _, err := netip.ParseAddrPort(s); err != nil {
			return fmt.Errorf("seed %q: %w", s, err)
		}
	}
	if o.Switches != nil {
		if err := CheckSwitches(o.Switches, o.Identity.Settings.Host); err != nil {
			return err
		}
	}
	if o.Lane == "" {
		o.Lane = LaneAuto
	}
	if !slices.Contains(LaneModes(), o.Lane) {
		return fmt.Errorf("lanes over %q: want one of %s", o.Lane, strings.Join(LaneModes(), ", "))
	}
	if o.MapWait < 0 {
		return fmt.Errorf("wait for the map of %v: want 0 (10 s) or more", o.MapWait)
	}
	if o.MapWait == 0 {
		o.MapWait = 10 * time.Second
	}
	if o.OpenSocket == nil && o.Conn == nil {
		bind := o.Identity.Settings.Bind
		o.OpenSocket = func() (net.PacketConn, error) { return openFurther(bind) }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// openSocket binds the UDP address that the identity says.
func openSocket(bind string) (net.PacketConn, error) {
	if bind == "" {
		bind = ":7946"
	}
	addr, err := net.ResolveUDPAddr("udp", bind)
	if err != nil {
		return nil, fmt.Errorf("bind address %q: %w", bind, err)
	}
	conn, err := net.ListenUDP("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("socket on %s: %w; choose another with --bind", bind, err)
	}
	return conn, nil
}

// openListener listens for TCP lanes where the UDP socket is bound.
func (o *Options) openListener(socket net.Addr) (net.Listener, error) {
	udp, ok := socket.(*net.UDPAddr)
	if !ok {
		return nil, fmt.Errorf("no TCP port beside socket address %v", socket)
	}
	return lane.ListenTCP(udp.String())
}

// openFurther binds a free UDP port at the address that the identity says.
func openFurther(bind string) (net.PacketConn, error) {
	host := ""
	if ap, err := netip.ParseAddrPort(bind); err == nil && !ap.Addr().IsUnspecified() {
		host = ap.Addr().String()
	}
	return openSocket(net.JoinHostPort(host, "0"))
}

// advertised finds the address at which others reach this agent.
func (o *Options) advertised(local net.Addr) (netip.AddrPort, error) {
	if o.Advertise.IsValid() {
		return o.Advertise, nil
	}
	var set netip.AddrPort
	if s := o.Identity.Settings.Advertise; s != "" {
		var err error
		if set, err = netip.ParseAddrPort(s); err != nil {
			return netip.AddrPort{}, fmt.Errorf("advertise address %q: %w", s, err)
		}
		if set.Port() != 0 {
			return set, nil
		}
	}
	udp, ok := local.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("advertise address: cannot be told from socket address %v", local)
	}
	a := udp.AddrPort()
	a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	if set.IsValid() {
		return netip.AddrPortFrom(set.Addr(), a.Port()), nil
	}
	if !a.Addr().IsUnspecified() {
		return a, nil
	}
	ip, err := routeTo(o.Seeds)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(ip, a.Port()), nil
}

// routeTo returns the local address from which packets to the first seed leave, or to
// anywhere if there is no seed. Nothing is sent: connecting a UDP socket only asks for the route.
func routeTo(seeds []string) (netip.Addr, error) {
	to := "198.51.100.1:9" // TEST-NET-2: stands for anywhere
	if len(seeds) > 0 {
		to = seeds[0]
	}
	c, err := net.Dial("udp", to)
	if err != nil {
		if len(seeds) == 0 {
			return netip.MustParseAddr("127.0.0.1"), nil // no way out: a cluster on this machine
		}
		return netip.Addr{}, fmt.Errorf("no address to advertise: no route to %s (%w); give one with --advertise", to, err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}
