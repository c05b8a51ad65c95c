package lane

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/quic-go/quic-go"
)

// maxAccepted is how many connections one member may have made to this host that are
// alive at once: a bound on what a member that has gone wrong can make us hold.
// Lanes that lossy paths want number 64 at most.
const maxAccepted = 256

// A link is one established lane.
type link struct {
	conn   *quic.Conn
	up     context.Context // the connection's: ends with it
	peer   Peer            // Addr is where it was when they met
	lane   int             // accepted ones above 0 are all 1: their number is the dialer's own business
	dialed bool
	inside bool      // in a tunnel
	copies *copies   // of what leaves by its socket; nil: of the first, or it is in a tunnel
	made   time.Time // when its handshake was through
	use    use
}

func newLink(conn *quic.Conn, lane int, dialed bool) *link {
	now := time.Now()
	return &link{
		conn: conn, up: conn.Context(),
		peer: Peer{Name: memberName(conn.ConnectionState().TLS), Addr: conn.RemoteAddr()},
		lane: lane, dialed: dialed, made: now, use: use{last: now},
	}
}

// cause returns why l has ended, nil while it lives.
func (l *link) cause() error { return context.Cause(l.up) }

// usable reports whether this end opens streams on l.
func (l *link) usable() bool {
	return l.up.Err() == nil && (l.lane == 0 || l.dialed) && !l.use.retiring
}

// A target is whom to reach: a member by name, wherever it is; or, without a name,
// whoever is at addr.
type target struct {
	name string
	lane int
	addr net.Addr
}

// reachedBy reports whether l leads to t.
func (t target) reachedBy(l *link) bool {
	if t.lane != l.lane {
		return false
	}
	if t.name != "" {
		return t.name == l.peer.Name
	}
	return sameAddr(t.addr, l.peer.Addr)
}

// An attempt is a dial in progress. link or err is set before settled is closed, by
// whichever comes first: the dial, or the member dialing this host.
type attempt struct {
	target  target
	settled chan struct{}
	link    *link
	err     error

	ctx    context.Context // ends when the dial is to be given up, or has ended
	cancel context.CancelFunc
}

// links are the established lanes and the dials of an endpoint, whose lock guards them.
// Every link is removed by the goroutine that serves it, so there are as many as
// connections, and no address or name outlives its connection.
type links struct {
	of    map[string][]*link // by member, oldest first
	order []*link            // all of them, oldest first
	dials []*attempt
}

func newLinks() links { return links{of: make(map[string][]*link)} }

// find returns the newest link that leads to t and can be used, or nil. The newest: of
// two members met at one address, or of two lives of one member, the older is gone.
func (s *links) find(t target) *link {
	in := s.order
	if t.name != "" {
		in = s.of[t.name]
	}
	for _, l := range slices.Backward(in) {
		if t.reachedBy(l) && l.usable() {
			return l
		}
	}
	return nil
}

// add takes l in and settles the attempts to get there. It returns false if the member
// has made too many connections.
func (s *links) add(l *link) bool {
	if !l.dialed {
		n := 0
		for _, o := range s.of[l.peer.Name] {
			if !o.dialed {
				n++
			}
		}
		if n >= maxAccepted {
			return false
		}
	}
	s.of[l.peer.Name] = append(s.of[l.peer.Name], l)
	s.order = append(s.order, l)
	if !l.usable() {
		return true
	}
	for _, a := range slices.Clone(s.dials) {
		if a.target.reachedBy(l) {
			s.settle(a, l, nil)
		}
	}
	return true
}

func (s *links) remove(l *link) {
	is := func(o *link) bool { return o == l }
	if s.of[l.peer.Name] = slices.DeleteFunc(s.of[l.peer.Name], is); len(s.of[l.peer.Name]) == 0 {
		delete(s.of, l.peer.Name)
	}
	s.order = slices.DeleteFunc(s.order, is)
}

// attempt returns the dial to t, and whether it was begun by this call. A member that
// has moved is dialed at its new address while the dial to the old one goes on.
func (s *links) attempt(t target) (a *attempt, begun bool) {
	for _, a := range s.dials {
		if a.target.name == t.name && a.target.lane == t.lane && sameAddr(a.target.addr, t.addr) {
			return a, false
		}
	}
	a = &attempt{target: t, settled: make(chan struct{})}
	s.dials = append(s.dials, a)
	return a, true
}

// giveUp ends the dials of the lanes to name from first on, and returns those that exist.
func (s *links) giveUp(name string, first int) []*link {
	for _, a := range slices.Clone(s.dials) {
		if a.target.name == name && a.target.lane >= first {
			a.cancel()
			s.settle(a, nil, net.ErrClosed)
		}
	}
	var open []*link
	for _, l := range s.of[name] {
		if l.dialed && l.lane >= first {
			open = append(open, l)
		}
	}
	return open
}

// settle ends a, if it has not ended: its waiters get l or err.
func (s *links) settle(a *attempt, l *link, err error) {
	i := slices.Index(s.dials, a)
	if i < 0 {
		return
	}
	s.dials = slices.Delete(s.dials, i, i+1)
	a.link, a.err = l, err
	close(a.settled)
}

// sameAddr reports whether packets to a and b arrive at the same socket. An IPv4
// address is the same in its IPv6 form, which dual-stack sockets report.
func sameAddr(a, b net.Addr) bool {
	if a == nil || b == nil {
		return false
	}
	ap, aok := addrPort(a)
	bp, bok := addrPort(b)
	if aok != bok {
		return false
	}
	if aok {
		return ap == bp
	}
	return a.Network() == b.Network() && a.String() == b.String()
}

// addrPort returns the IP address and port of a, if it has them.
func addrPort(a net.Addr) (netip.AddrPort, bool) {
	u, ok := a.(*net.UDPAddr)
	if !ok || u == nil {
		return netip.AddrPort{}, false
	}
	ap := u.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), ap.IsValid()
}
