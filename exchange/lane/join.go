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
// function closes the connection.
func Join(ctx context.Context, t *quic.Transport, addr net.Addr, conf *tls.Config) (*Stream, func(), error) {
	conn, err := t.Dial(ctx, addr, conf, &quic.Config{
		HandshakeIdleTimeout:  5 * time.Second,
		MaxIdleTimeout:        10 * time.Second,
		MaxIncomingStreams:    -1, // a seed only answers
		MaxIncomingUniStreams: -1,
	})
	if err != nil {
		return nil, nil, err
	}
	closeConn := func() { conn.CloseWithError(codeClosed, "done") }
	s, err := open(ctx, conn, Peer{Addr: addr}, StreamJoin)
	if err != nil {
		closeConn()
		return nil, nil, fmt.Errorf("open join stream: %w", err)
	}
	return s, closeConn, nil
}
