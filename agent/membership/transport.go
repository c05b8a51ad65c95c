package membership

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/gridagent/gridagent/exchange/lane"
)

const (
	packetBacklog = 1024 // packets that wait for memberlist, 1.2 MiB at most
	streamBacklog = 64   // incoming state exchanges that wait for memberlist
)

// A transport carries memberlist's packets and streams over an endpoint. Nothing of
// it blocks on memberlist: what memberlist does not take in time is dropped and
// counted, as a full socket buffer would.
type transport struct {
	ep        *lane.Endpoint
	advertise netip.AddrPort
	keys      *memberlist.Keyring
	refused   *refusals
	resolve   func(name string) (net.Addr, bool)
	metSelf   func(netip.AddrPort)       // is told where this host's own name answers
	failed    func(addr string, _ error) // is told of dialed streams that ended in an error

	ctx    context.Context // ends with stop; bounds every dial
	cancel context.CancelFunc

	packets chan *memberlist.Packet
	streams chan net.Conn

	mu      sync.Mutex // guards the fields below, and the sends to streams; never held over I/O
	open    bool       // memberlist is there to read
	conns   map[*streamConn]struct{}
	relayed time.Time           // when another host last asked for a probe on its behalf
	moved   map[string]struct{} // members whose lane leads to another address than gossip has

	received, dropped, droppedStreams atomic.Uint64
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

func newTransport(ep *lane.Endpoint, advertise netip.AddrPort, keys *memberlist.Keyring, refused *refusals, resolve func(string) (net.Addr, bool), metSelf func(netip.AddrPort), failed func(string, error)) *transport {
	ctx, cancel := context.WithCancel(context.Background())
	t := &transport{
		ep: ep, advertise: advertise, keys: keys, refused: refused, resolve: resolve, metSelf: metSelf, failed: failed,
		ctx: ctx, cancel: cancel,
		packets: make(chan *memberlist.Packet, packetBacklog),
		streams: make(chan net.Conn, streamBacklog),
		conns:   make(map[*streamConn]struct{}),
		moved:   make(map[string]struct{}),
	}
	ep.HandlePackets(lane.PacketGossip, t.handlePacket)
	ep.HandleStreams(lane.StreamGossip, t.handleStream)
	return t
}

// start lets packets and streams through to memberlist.
func (t *transport) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = true
}

// handlePacket runs on the endpoint's reading goroutine.
func (t *transport) handlePacket(p []byte, from net.Addr, at time.Time) {
	why, relay := foreign(p, t.keys.GetKeys())
	if why != "" {
		t.refused.add(from, why, at)
		return
	}
	t.received.Add(1)
	t.mu.Lock()
	open := t.open
	if relay {
		t.relayed = time.Now()
	}
	t.mu.Unlock()
	if !open {
		return
	}
	select {
	case t.packets <- &memberlist.Packet{Buf: bytes.Clone(p), From: from, Timestamp: at}:
	default:
		t.dropped.Add(1)
	}
}

func (t *transport) handleStream(_ context.Context, s *lane.Stream) {
	c := &streamConn{Stream: s, closed: t.forget}
	t.mu.Lock()
	taken := false
	if t.open {
		select {
		case t.streams <- c:
			t.conns[c] = struct{}{}
			taken = true
		default:
		}
	}
	t.mu.Unlock()
	if !taken {
		t.droppedStreams.Add(1)
		s.Abort()
	}
}

func (t *transport) forget(c *streamConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
}

// FinalAdvertiseAddr returns the configured address, whatever memberlist suggests.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.advertise.Addr().AsSlice(), int(t.advertise.Port()), nil
}

func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t *transport) StreamCh() <-chan net.Conn           { return t.streams }

func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress sends a packet. An error is always a *net.OpError of a UDP write:
// memberlist suspects the peer only on that type, and on any other gives up the
// probe, so that a host without a route to it would never be found dead.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	at := time.Now()
	ap, err := netip.ParseAddrPort(a.Addr)
	if err == nil {
		err = t.ep.SendPacket(lane.PacketGossip, b, net.UDPAddrFromAddrPort(ap))
	}
	if err != nil {
		return at, &net.OpError{Op: "write", Net: "udp", Addr: net.UDPAddrFromAddrPort(ap), Err: err}
	}
	return at, nil
}

func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream to a member on its lane 0.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	s, err := t.dial(ctx, a)
	if errors.Is(err, lane.ErrSelf) { // memberlist passes errors on as text only
		if ap, parseErr := netip.ParseAddrPort(a.Addr); parseErr == nil {
			t.metSelf(ap)
		}
	}
	failed := func(err error) {
		t.failed(a.Addr, err)
		t.unanswered(a.Addr, err)
	}
	if err != nil {
		failed(err)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err} // as for packets
	}
	c := &streamConn{Stream: s, closed: t.forget, failed: failed}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		s.Abort()
		return nil, net.ErrClosed
	}
	t.conns[c] = struct{}{}
	if a.Name != "" {
		if addrPort(s.Peer.Addr).String() == a.Addr {
			delete(t.moved, a.Name)
		} else {
			t.moved[a.Name] = struct{}{}
		}
	}
	return c, nil
}

// unanswered is told how a stream to addr has ended. One that nobody answered in time is the second try of a ping, which was
// lost as a datagram before: the endpoint is to see whether the host can be reached without UDP.
func (t *transport) unanswered(addr string, err error) {
	var late net.Error
	ap, parseErr := netip.ParseAddrPort(addr)
	if parseErr == nil && t.ctx.Err() == nil && errors.As(err, &late) && late.Timeout() {
		t.ep.Doubt(net.UDPAddrFromAddrPort(ap))
	}
}

// elsewhere reports whether the lane to a member leads to another address than
// gossip has: it came back somewhere else, or is behind a translator. A ping over
// that lane proves nothing of the address that gossip has, and would keep a host
// alive there for ever that has long moved; memberlist is told not to try.
func (t *transport) elsewhere(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.moved[name]
	return ok
}

// dial goes by name where the name is known to be at that address: that finds the
// lane that exists, also one that the peer dialed from behind a translator.
func (t *transport) dial(ctx context.Context, a memberlist.Address) (*lane.Stream, error) {
	ap, err := netip.ParseAddrPort(a.Addr)
	if err != nil {
		return nil, fmt.Errorf("address of %q: %w", a.Name, err)
	}
	if known, ok := t.resolve(a.Name); ok && addrPort(known) == ap {
		return t.ep.Open(ctx, a.Name, 0, lane.StreamGossip)
	}
	s, err := t.ep.OpenAddr(ctx, net.UDPAddrFromAddrPort(ap), lane.StreamGossip)
	if err != nil {
		return nil, err
	}
	if a.Name != "" && s.Peer.Name != a.Name {
		s.Abort()
		return nil, &lane.IdentityError{Want: a.Name, Got: s.Peer.Name}
	}
	return s, nil
}

// Shutdown ends dials and streams, and what waits for memberlist. It leaves the
// endpoint open, which is not ours. The channels stay open: memberlist would take a
// closed one for an endless row of nil packets.
func (t *transport) Shutdown() error {
	t.cancel()
	t.mu.Lock()
	t.open = false
	var conns []*streamConn
	for c := range t.conns {
		conns = append(conns, c)
	}
	clear(t.conns)
	t.mu.Unlock()
	for _, c := range conns {
		c.Abort()
	}
	for {
		select {
		case <-t.streams: // aborted above
		case <-t.packets:
		default:
			return nil
		}
	}
}

// addrPort returns a as a comparable value, the zero one if it is not IP and port.
func addrPort(a net.Addr) netip.AddrPort {
	if a == nil {
		return netip.AddrPort{}
	}
	if u, ok := a.(*net.UDPAddr); ok {
		ap := u.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
