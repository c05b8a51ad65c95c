package lane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gridagent/gridagent/internal/headroom"
)

// serveDialed keeps c, whose first stream is s, for as long as it is of use.
func (e *Endpoint) serveDialed(c *tcpConn, s *TCPStream) {
	defer e.tcp.remove(c)
	defer c.close()
	for s != nil && c.finish(s) {
		s = e.tcp.wait(c)
	}
}

// listenTCP serves incoming TCP lanes until the endpoint ends or the listener fails.
func (e *Endpoint) listenTCP(l net.Listener) {
	conf := tcpServerTLS(e.cfg.Credentials, e.cfg.Refused)
	for {
		raw, err := l.Accept()
		switch {
		case e.ctx.Err() != nil:
			if err == nil {
				raw.Close()
			}
			return
		case errors.Is(err, net.ErrClosed):
			e.log.Warn("TCP listener was closed by somebody else", "addr", l.Addr())
			return
		case err != nil:
			e.log.Warn("TCP lanes are not accepted", "addr", l.Addr(), "err", err)
			select {
			case <-time.After(acceptPause):
			case <-e.ctx.Done():
			}
			continue
		}
		v, err := e.door.knock(raw.RemoteAddr())
		if err != nil || !e.start(func() { e.serveTCP(raw, conf, v) }) {
			raw.Close()
			if err == nil {
				e.door.gone(v)
			}
		}
	}
}

// tcpServerTLS is the configuration for incoming TCP lanes, with the checks of QUIC's member
// connections.
func tcpServerTLS(c Credentials, refused func(net.Addr, error)) *tls.Config {
	top := baseTLS(c)
	top.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		from := hello.Conn.RemoteAddr()
		if slices.Contains(hello.SupportedProtos, protoTunnel) {
			return tunnelTLS(c, from, refused), nil
		}
		conf := baseTLS(c)
		conf.NextProtos, conf.DynamicRecordSizingDisabled = []string{protoTCP}, true
		conf.ClientAuth = tls.RequestClientCert // as in serverTLS
		conf.VerifyConnection = func(cs tls.ConnectionState) error {
			_, err := verifyMember(cs, c.Roots, x509.ExtKeyUsageClientAuth)
			if err == nil && cs.NegotiatedProtocol != protoTCP {
				err = fmt.Errorf("application protocol %q, want %q", cs.NegotiatedProtocol, protoTCP)
			}
			if err != nil {
				refused(from, err)
			}
			return err
		}
		return conf, nil
	}
	return top
}

// serveTCP serves one incoming connection, a stream at a time.
func (e *Endpoint) serveTCP(raw net.Conn, conf *tls.Config, v *visitor) {
	c := e.newTCPConn(raw, conf, false)
	handed := false
	defer func() {
		if !handed {
			c.close()
		}
	}()
	err := c.handshake(e.ctx)
	e.door.gone(v)
	// That our own check has refused the peer, tcpServerTLS says; that the peer has refused
	// us, only its alert. crypto/tls exports no type for alerts over TCP.
	var alert *net.OpError
	if errors.As(err, &alert) && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate") {
		e.cfg.Refused(v.from, fmt.Errorf("%w: %w", errDialerRefused, err))
	}
	if err != nil || c.peer.Name == e.self {
		return
	}
	if c.tls.ConnectionState().NegotiatedProtocol == protoTunnel {
		err := e.takeTunnel(c)
		handed = err == nil
		e.log.Debug("tunnel", "peer", c.peer.Name, "addr", c.peer.Addr, "err", err)
		return
	}
	if !e.tcp.add(c) {
		e.log.Debug("TCP connection refused", "peer", c.peer.Name, "addr", c.peer.Addr, "err", errTooMany)
		return
	}
	defer e.tcp.remove(c)
	if c.mark(markEnd) != nil {
		return
	}
	for {
		if c.raw.SetDeadline(time.Now().Add(patience)) != nil {
			return
		}
		var kind [1]byte
		if _, err := c.read(kind[:]); err != nil {
			return
		}
		c.raw.SetDeadline(time.Time{})
		h := e.tcp.handlers[StreamKind(kind[0])]
		s := c.stream()
		if h == nil || !e.start(func() {
			headroom.Grow()
			h(c.ctx, s)
		}) {
			return
		}
		if !c.finish(s) {
			return
		}
	}
}
