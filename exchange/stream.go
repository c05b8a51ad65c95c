package exchange

import (
	"context"
	"io"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// A Stream carries one lane's share of an exchange to one host and the answers back.
// Reads and writes are called by one goroutine each; the other methods by any, at any
// time, and they must not block. In production it is a QUIC or a TCP stream of package lane.
type Stream interface {
	io.Reader
	io.Writer
	// Close ends the writing side; what was written is still delivered.
	Close() error
	// CloseRead ends the reading side: later and blocked reads fail, and the peer may
	// be told that nobody reads. What this side wrote is not affected.
	CloseRead()
	// Abort ends both directions at once; blocked calls fail, at the peer as well.
	Abort()
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// A gatherer is a stream that writes two pieces at the price of one. A [lane.Stream] is one, and a [lane.TCPStream].
type gatherer interface {
	WriteBoth(head, body []byte) (int, error)
}

// OpenOver returns the Open of a [Config] for an endpoint.
func OpenOver(ep *lane.Endpoint) func(ctx context.Context, host string, n int) (Stream, error) {
	return func(ctx context.Context, host string, n int) (Stream, error) {
		s, err := ep.Open(ctx, host, n, lane.StreamData)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// AcceptLane is [Engine.Accept] as a handler for [lane.Endpoint.HandleStreams]: the
// sender is who the lane's certificate names.
func (e *Engine) AcceptLane(ctx context.Context, s *lane.Stream) {
	e.Accept(ctx, s.Peer.Name, s)
}

// AcceptTCP is AcceptLane for [lane.Endpoint.HandleTCPStreams].
func (e *Engine) AcceptTCP(ctx context.Context, s *lane.TCPStream) {
	e.Accept(ctx, s.Peer.Name, s)
}
