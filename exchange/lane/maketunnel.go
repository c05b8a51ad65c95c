package lane

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// How tunnels come to be at either end, and what ends with them.

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
		return nil, errTooMany
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
