package lane

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
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
	if e.tunnels == nil || e.tunnels.some.Load() == 0 {
		return false
	}
	addr, ok := e.cfg.Resolve(name)
	return ok && e.instead(addr) != nil
}

// instead returns the tunnel that carries what is for addr in place of UDP, or nil. A member behind a translator has dialed its own from another address than
// that at which it is reached: it is known by its name.
func (e *Endpoint) instead(addr net.Addr) *tunnel {
	if e.tunnels == nil || e.tunnels.some.Load() == 0 {
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
}

// reach dials lane 0 at addr: over UDP, or in a tunnel if UDP is not answered and the host can be reached over TCP.
func (e *Endpoint) reach(ctx context.Context, addr net.Addr) (reached, error) {
	conf := memberTLS(e.cfg.Credentials, 0)
	udp := func(ctx context.Context) (*quic.Conn, error) { return e.transport.Dial(ctx, addr, conf, e.quicConf) }
	if e.tunnels == nil || e.cfg.DialTCP == nil {
		conn, err := udp(ctx)
		return reached{conn, false}, err
	}
	inside := func(ctx context.Context) (*quic.Conn, error) {
		return e.tunnelTransport.Dial(ctx, addr, conf, e.quicConf)
	}
	if t := e.instead(addr); t != nil {
		conn, err := e.tunnelTransport.Dial(ctx, net.UDPAddrFromAddrPort(t.addr), conf, e.quicConf)
		return reached{conn, true}, err
	}
	wait := tunnelAfter
	if e.tunnels.some.Load() > 0 {
		wait = tunnelSoon
	}
	return firstOf(ctx, udp, wait, func(ctx context.Context) (*quic.Conn, error) {
		t, err := e.dialTunnel(ctx, addr)
		if err != nil {
			return nil, fmt.Errorf("tunnel over TCP: %w", err)
		}
		conn, err := inside(ctx)
		if err != nil {
			t.close()
			return nil, fmt.Errorf("in a tunnel over TCP: %w", err)
		}
		return conn, nil
	})
}

// Doubt is for who has waited in vain for an answer from the host at addr, a member. If it does not answer over UDP and can be reached over TCP, a tunnel carries what is for it, and
// new streams on lane 0, until UDP is answered again. Connections that exist are left alone. It does not block, and does nothing twice in doubtPause.
func (e *Endpoint) Doubt(addr *net.UDPAddr) {
	if e.tunnels == nil || e.cfg.DialTCP == nil || e.tunnels.find(addr) != nil || !e.tunnels.doubt(addr, time.Now()) {
		return
	}
	e.start(func() {
		if e.udpAnswered(addr) {
			return
		}
		t, err := e.dialTunnel(e.ctx, addr)
		if err != nil {
			e.log.Debug("no answer over UDP, and no tunnel", "addr", addr, "err", err)
			return
		}
		conn, err := e.tunnelTransport.Dial(e.ctx, addr, memberTLS(e.cfg.Credentials, 0), e.quicConf)
		if err != nil {
			t.close()
			return
		}
		l := newLink(conn, 0, true)
		l.inside = true
		if l.peer.Name != t.member || e.adopt(e.ctx, l) != nil {
			conn.CloseWithError(codeClosed, "not who was called")
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
			outcomes <- outcome{reached{conn, in}, err}
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
			errs = append(errs, o.err)
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

// dialTunnel makes a tunnel to the host whose UDP socket is at addr, and has it served.
func (e *Endpoint) dialTunnel(ctx context.Context, addr net.Addr) (*tunnel, error) {
	conf := memberTLS(e.cfg.Credentials, 0)
	t, r, err := connectTunnel(ctx, e.cfg.DialTCP, conf, addr, e.Addr())
	if err != nil {
		return nil, err
	}
	t.member = memberName(t.tls.ConnectionState())
	if t.member == e.self {
		t.close()
		return nil, ErrSelf
	}
	if !e.tunnels.add(t, r, e.tunnelEnded) {
		t.close()
		return nil, net.ErrClosed
	}
	e.start(func() { e.retry(t) })
	e.log.Info("UDP is not answered: datagrams go inside a TCP connection", "peer", t.member, "addr", t.addr)
	return t, nil
}

// connectTunnel connects to the TCP port with the number of addr's and has the other end take the tunnel. own is where this host's UDP socket is.
func connectTunnel(ctx context.Context, dial func(context.Context, net.Addr, string) (net.Conn, error), conf *tls.Config, addr, own net.Addr) (*tunnel, *bufio.Reader, error) {
	to, ok := addrPort(addr)
	from, fromOK := addrPort(own)
	if !ok || !fromOK {
		return nil, nil, fmt.Errorf("tunnel from %v to %v: want addresses of UDP", own, addr)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTime, fmt.Errorf("no connection within %v", handshakeTime))
	defer cancel()
	raw, err := dial(ctx, net.TCPAddrFromAddrPort(to), "")
	if err != nil {
		return nil, nil, err
	}
	conf = conf.Clone()
	conf.NextProtos = []string{protoTunnel}
	over := tls.Client(raw, conf)
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	t := newTunnel(raw, over, "", to)
	r := bufio.NewReaderSize(over, 16<<10)
	if err = over.HandshakeContext(ctx); err == nil {
		err = t.introduce(r, from.Port())
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		t.close()
		return nil, nil, err
	}
	return t, r, nil
}

// tunnelTLS is the configuration for incoming tunnels. A host without a certificate may have one; a certificate of another cluster is refused.
func tunnelTLS(c Credentials, from net.Addr, refused func(net.Addr, error)) *tls.Config {
	conf := baseTLS(c)
	conf.NextProtos, conf.ClientAuth = []string{protoTunnel}, tls.RequestClientCert
	conf.VerifyConnection = func(cs tls.ConnectionState) error {
		if len(cs.PeerCertificates) == 0 {
			return nil
		}
		_, err := verifyMember(cs, c.Roots, x509.ExtKeyUsageClientAuth)
		if err != nil {
			refused(from, err)
		}
		return err
	}
	return conf
}

// takeTunnel has an incoming tunnel, whose handshake is through, served. It does not wait for its end.
func (e *Endpoint) takeTunnel(c *tcpConn) error {
	t := newTunnel(c.raw, c.tls, c.peer.Name, netip.AddrPort{})
	r := bufio.NewReaderSize(c.tls, 16<<10)
	if err := t.welcome(r); err != nil {
		return err
	}
	limit := time.Time{}
	if t.member == "" {
		limit = time.Now().Add(joinTimeout + handshakeTime)
	}
	c.raw.SetDeadline(limit)
	t.put(nil)
	c.keep() // until those in it have said goodbye
	if !e.tunnels.add(t, r, e.tunnelEnded) {
		return errTooMany
	}
	c.cancel()
	return nil
}

// tunnelEnded ends the connections in t, unless there is another tunnel to the same host.
func (e *Endpoint) tunnelEnded(t *tunnel, err error) {
	e.log.Debug("tunnel ended", "peer", t.member, "addr", t.addr, "err", err, "lost", t.lost.Load())
	addr := net.UDPAddrFromAddrPort(t.addr)
	if e.tunnels.find(addr) != nil {
		return
	}
	e.mu.Lock()
	var inside []*link
	for _, l := range e.links.order {
		if l.inside && sameAddr(l.peer.Addr, addr) {
			inside = append(inside, l)
		}
	}
	e.mu.Unlock()
	for _, l := range inside {
		l.conn.CloseWithError(codeClosed, "the tunnel has ended") // the goroutine that serves it does the rest
	}
}
