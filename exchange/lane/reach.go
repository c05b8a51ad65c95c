package lane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	// tunnelAfter is how long UDP may leave a dial of lane 0 without an answer before a tunnel is tried beside it: quic-go has sent
	// its first packet several times by then. tunnelSoon is the same while other hosts are known to be reached by tunnels only.
	tunnelAfter = 2500 * time.Millisecond
	tunnelSoon  = 500 * time.Millisecond
	// doubtPause is how long after a doubt of one host another is not heeded.
	doubtPause = 20 * time.Second
)

// ErrUDPBlocked means that a lane cannot be dialed since UDP does not reach the peer; lane 0 goes through a tunnel.
var ErrUDPBlocked = errors.New("UDP does not get through to this host; its lane 0 is in a TCP connection")

// Tunnelled reports whether UDP does not reach the member called name, so that what is for it goes inside a TCP connection.
func (e *Endpoint) Tunnelled(name string) bool {
	if e.Tunnels() == 0 {
		return false
	}
	addr, ok := e.cfg.Resolve(name)
	return ok && e.instead(addr) != nil
}

// instead returns the tunnel that carries what is for addr in place of UDP, or nil. A member behind a translator has dialed its own from another address than
// that at which it is reached: it is known by its name.
func (e *Endpoint) instead(addr net.Addr) *tunnel {
	if e.Tunnels() == 0 {
		return nil
	}
	if t := e.tunnels.instead(addr); t != nil {
		return t
	}
	for _, t := range e.tunnels.members() {
		if at, ok := e.cfg.Resolve(t.member); ok && sameAddr(at, addr) {
			return t
		}
	}
	return nil
}

// Tunnels returns how many TCP connections carry datagrams now.
func (e *Endpoint) Tunnels() int {
	if e.tunnels == nil {
		return 0
	}
	return int(e.tunnels.some.Load())
}

// A reached is a connection that was dialed, and whether it is inside a tunnel.
type reached struct {
	conn   *quic.Conn
	inside bool
	copies *copies // of the socket of another lane than 0
}

// reach dials lane 0 at addr: over UDP, or in a tunnel if UDP is not answered and the host can be reached over TCP.
func (e *Endpoint) reach(ctx context.Context, addr net.Addr) (reached, error) {
	conf := memberTLS(e.cfg.Credentials, 0)
	udp := func(ctx context.Context) (*quic.Conn, error) { return e.transport.Dial(ctx, addr, conf, e.quicConf) }
	if e.tunnels == nil || e.cfg.DialTCP == nil {
		conn, err := udp(ctx)
		return reached{conn: conn}, err
	}
	if t := e.instead(addr); t != nil {
		conn, err := e.tunnelTransport.Dial(ctx, net.UDPAddrFromAddrPort(t.addr), conf, e.quicConf)
		return reached{conn: conn, inside: true}, err
	}
	wait := tunnelAfter
	if e.Tunnels() > 0 {
		wait = tunnelSoon
	}
	return firstOf(ctx, udp, wait, func(ctx context.Context) (*quic.Conn, error) {
		conn, _, err := e.dialInside(ctx, addr)
		return conn, err
	})
}

// dialInside makes a tunnel to the host whose UDP socket is at addr, and in it the connection of lane 0.
func (e *Endpoint) dialInside(ctx context.Context, addr net.Addr) (*quic.Conn, *tunnel, error) {
	t, err := e.dialTunnel(ctx, addr)
	if err != nil {
		return nil, nil, fmt.Errorf("tunnel over TCP: %w", err)
	}
	conn, err := e.tunnelTransport.Dial(ctx, addr, memberTLS(e.cfg.Credentials, 0), e.quicConf)
	if err != nil {
		t.close()
		return nil, nil, fmt.Errorf("in a tunnel over TCP: %w", err)
	}
	return conn, t, nil
}

// adoptLane0 takes in a connection that was dialed to the member for its lane 0, with no dial of anybody's waiting. It returns nil, and the connection is closed, if
// another member has answered or the endpoint has ended.
func (e *Endpoint) adoptLane0(r reached, member string) *link {
	l := newLink(r.conn, 0, true)
	l.inside = r.inside
	if l.peer.Name != member || e.adopt(e.ctx, l) != nil {
		r.conn.CloseWithError(codeClosed, "not who was called")
		return nil
	}
	return l
}

// Doubt is for who has waited in vain for an answer from the host at addr, a member. If it does not answer over UDP and can be reached over TCP, a tunnel carries what is for it, and
// new streams on lane 0, until UDP is answered again. Connections that exist are left alone. It does not block, and does nothing twice in doubtPause.
func (e *Endpoint) Doubt(addr *net.UDPAddr) {
	if e.tunnels == nil || e.cfg.DialTCP == nil || e.instead(addr) != nil || !e.tunnels.doubt(addr, time.Now()) {
		return
	}
	e.start(func() {
		if e.udpAnswered(addr) {
			return
		}
		conn, t, err := e.dialInside(e.ctx, addr)
		if err != nil {
			e.log.Debug("no answer over UDP, and no tunnel", "addr", addr, "err", err)
			return
		}
		l := e.adoptLane0(reached{conn: conn, inside: true}, t.member)
		if l == nil {
			t.close()
			return
		}
		e.serve(l)
	})
}

// firstOf returns the connection that is made first, by udp or by inside a tunnel, tried when udp has taken wait or could not send. If neither makes one the error
// is that of both, as far as they were tried. The one that comes too late is closed; when firstOf returns the goroutines have ended.
func firstOf(ctx context.Context, udp func(context.Context) (*quic.Conn, error), wait time.Duration, inside func(context.Context) (*quic.Conn, error)) (reached, error) {
	type outcome struct {
		reached
		err error
	}
	outcomes := make(chan outcome, 2)
	racing, stop := context.WithCancel(ctx)
	var dials sync.WaitGroup
	dial := func(in bool, f func(context.Context) (*quic.Conn, error)) {
		dials.Go(func() {
			conn, err := f(racing)
			outcomes <- outcome{reached{conn: conn, inside: in}, err}
		})
	}
	defer func() {
		stop()
		dials.Wait()
		for len(outcomes) > 0 {
			if o := <-outcomes; o.err == nil {
				o.conn.CloseWithError(codeClosed, "another way was quicker")
			}
		}
	}()
	dial(false, udp)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var errs []error
	for dialed := 1; len(errs) < dialed; {
		again := false
		select {
		case o := <-outcomes:
			if o.err == nil {
				return o.reached, nil
			}
			if errs = append(errs, o.err); !o.inside {
				slices.Reverse(errs) // that of UDP is the first: whether the host was silent is what callers ask of it
			}
			again = !o.inside && !answered(o.err)
		case <-timer.C:
			again = true
		}
		if again && dialed == 1 && ctx.Err() == nil {
			dialed++
			dial(true, inside)
		}
	}
	return reached{}, errors.Join(errs...)
}

// answered reports whether err, with which a dial has ended, says that the peer was there.
func answered(err error) bool {
	var transport *quic.TransportError
	var application *quic.ApplicationError
	var version *quic.VersionNegotiationError
	return errors.As(err, &transport) || errors.As(err, &application) || errors.As(err, &version)
}
