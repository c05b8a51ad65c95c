package lane

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

// Join dials addr as a host without a certificate and opens the join stream. conf is
// that of [JoinTLS]; its check decides whether the seed is to be trusted. The returned
// function closes the connection. Where UDP is not answered it goes through a tunnel in a connection that tcp makes, as
// [Config.DialTCP] does; nil: it does not.
func Join(ctx context.Context, t *quic.Transport, addr net.Addr, conf *tls.Config, tcp func(ctx context.Context, addr net.Addr, congestion string) (net.Conn, error)) (*Stream, func(), error) {
	udp := func(ctx context.Context) (*quic.Conn, error) { return t.Dial(ctx, addr, conf, joinConfig()) }
	if tcp == nil {
		conn, err := udp(ctx)
		if err != nil {
			return nil, nil, err
		}
		return openJoin(ctx, conn, addr, func() {})
	}
	var closeTunnel func()
	r, err := firstOf(ctx, udp, tunnelAfter, func(ctx context.Context) (*quic.Conn, error) {
		conn, done, err := joinInside(ctx, tcp, addr, t.Conn.LocalAddr(), conf)
		if err != nil {
			return nil, fmt.Errorf("inside TCP: %w", err)
		}
		closeTunnel = done
		return conn, nil
	})
	if closeTunnel != nil && !r.inside {
		closeTunnel()
	}
	if err != nil {
		return nil, nil, err
	}
	if !r.inside {
		closeTunnel = func() {}
	}
	return openJoin(ctx, r.conn, addr, closeTunnel)
}

func joinConfig() *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout:  5 * time.Second,
		MaxIdleTimeout:        10 * time.Second,
		MaxIncomingStreams:    -1, // a seed only answers
		MaxIncomingUniStreams: -1,
	}
}

// openJoin opens the stream. The function that it returns closes conn, and calls done; so does an error.
func openJoin(ctx context.Context, conn *quic.Conn, addr net.Addr, done func()) (*Stream, func(), error) {
	closeConn := func() {
		conn.CloseWithError(codeClosed, "done")
		done()
	}
	s, err := open(ctx, conn, Peer{Addr: addr}, StreamJoin)
	if err != nil {
		closeConn()
		return nil, nil, fmt.Errorf("open join stream: %w", err)
	}
	return s, closeConn, nil
}

// joinInside is the way of Join through a tunnel. The seed shows its certificate to the connection inside, so the tunnel asks for none. done ends it.
func joinInside(ctx context.Context, tcp func(context.Context, net.Addr, string) (net.Conn, error), addr, own net.Addr, conf *tls.Config) (conn *quic.Conn, done func(), err error) {
	unchecked := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}
	t, r, err := connectTunnel(ctx, tcp, unchecked, addr, own)
	if err != nil {
		return nil, nil, err
	}
	only := newTunnels(own)
	transport := &quic.Transport{Conn: only}
	only.add(t, r, func(*tunnel, error) {})
	done = func() {
		transport.Close()
		only.Close()
	}
	if conn, err = transport.Dial(ctx, addr, conf, joinConfig()); err != nil {
		done()
		return nil, nil, err
	}
	return conn, done, nil
}
