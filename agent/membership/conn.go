package membership

import (
	"net"
	"sync"

	"github.com/gridagent/gridagent/exchange/lane"
)

// A streamConn makes a stream look like the net.Conn that memberlist wants. Deadlines
// and addresses are the stream's own.
type streamConn struct {
	*lane.Stream
	once   sync.Once
	closed func(*streamConn) // forgets it; called once
	failed func(error)       // is told why a read failed; nil for a stream that a peer opened
}

var _ net.Conn = (*streamConn)(nil)

func (c *streamConn) LocalAddr() net.Addr  { return c.Local }
func (c *streamConn) RemoteAddr() net.Addr { return c.Peer.Addr }

// Read is the stream's. That the other end does not accept this host's certificate shows
// only here: TLS 1.3 lets a client begin before the server has looked at it.
func (c *streamConn) Read(p []byte) (int, error) {
	n, err := c.Stream.Read(p)
	if err != nil && c.failed != nil {
		c.failed(err)
	}
	return n, err
}

// Close ends the write side in order, so that what was written arrives, and gives up
// the read side. memberlist calls it after its last Write, never beside one.
func (c *streamConn) Close() error {
	err := c.Stream.Close()
	c.CancelRead(0)
	c.once.Do(func() { c.closed(c) })
	return err
}
