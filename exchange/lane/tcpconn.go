package lane

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// What follows a TCP connection's handshake, in each direction: units, each a length of four
// bytes, big endian, and so many bytes of the stream that is open; or a mark in place of the
// length. One stream at a time is open on a connection. It begins with the dialing end's
// first unit and ends when both directions have had a mark; then the next may begin. The
// accepting end writes markEnd once before all streams: it has taken the connection in.
//
// A connection that closes without a mark has broken: TLS's own goodbye (close_notify) is
// not used, since after it nothing more can be written.
const (
	markEnd   = 0                    // the stream is complete
	markReset = 1<<32 - 1            // the writer has given up
	markMoved = 1<<32 - 2            // and says all that it has said once more on another stream; only on streams whose kind has that
	maxUnit   = 1<<31 - 1            // bytes
	unitHead  = 4                    // bytes of a length or a mark
	maxRecord = 16 << 10             // bytes that crypto/tls puts into a record
	gathered  = maxRecord - unitHead // units up to this are one record; the head of a larger one is its own
)

const (
	// finishTime is how long the end of a stream may take: its last mark, and what the
	// peer had on its way to an end that reads no more, at most maxLeftover bytes.
	finishTime  = 5 * time.Second
	maxLeftover = 256 << 10
)

var (
	errReset   = errors.New("the peer has given the stream up")
	errMoved   = errors.New("the peer goes on over another stream")
	errAborted = errors.New("stream was given up")
	errUnit    = errors.New("malformed unit on a TCP lane")
)

// A tcpConn is one TCP connection to or from a member, for one stream at a time.
type tcpConn struct {
	e      *Endpoint
	raw    net.Conn
	tls    *tls.Conn
	rw     io.ReadWriter // tls
	peer   Peer
	dialed bool
	kind   string // the congestion control that was asked for
	ctx    context.Context
	cancel context.CancelFunc // ends the connection
	keep   func() bool        // has raw outlive ctx

	ready chan *TCPStream // the answer to whoever takes it out of the pool

	sent, received atomic.Uint64 // payload, in bytes
	came           arrivedTCP

	control sync.Once // asks the kernel for
	rated   bool      // whether it is BBR that controls the congestion

	// Of the reading side; guarded by the rmu of the stream that is open.
	head [unitHead]byte
	have int   // bytes of head that were read
	left int   // bytes of the unit that were not
	next error // what the head behind it was, if no unit's: it was looked at before its time
	// Of the writing side; likewise wmu.
	broken  bool // a write has failed: where the next unit would begin is not known
	scratch []byte
}

// newTCPConn owns raw from now on. conf is made a TLS client's, if dialed, or a server's.
func (e *Endpoint) newTCPConn(raw net.Conn, conf *tls.Config, dialed bool) *tcpConn {
	raw = fastTCP(raw)
	carriesTLS(raw)
	c := &tcpConn{e: e, raw: raw, dialed: dialed, ready: make(chan *TCPStream, 1)}
	if dialed {
		c.tls = tls.Client(raw, conf)
	} else {
		c.tls = tls.Server(raw, conf)
	}
	c.rw = c.tls
	c.ctx, c.cancel = context.WithCancel(e.ctx)
	c.keep = context.AfterFunc(c.ctx, func() { raw.Close() })
	return c
}

// close ends the connection, and with it the calls that block on it.
func (c *tcpConn) close() {
	c.cancel()
	c.raw.Close()
}

// handshake ends within handshakeTime, or when ctx does. It finds out who the peer is.
func (c *tcpConn) handshake(ctx context.Context) error {
	c.raw.SetDeadline(time.Now().Add(handshakeTime))
	if err := c.tls.HandshakeContext(ctx); err != nil {
		return err
	}
	c.peer = Peer{Name: memberName(c.tls.ConnectionState()), Addr: c.raw.RemoteAddr()}
	return nil
}

// isMark reports whether err stands for a mark, after which the connection goes on.
func isMark(err error) bool { return err == io.EOF || err == errReset || err == errMoved }

// read reads bytes of the open stream. It returns io.EOF, errReset or errMoved for a mark, and what
// comes of a deadline may be tried again.
func (c *tcpConn) read(p []byte) (int, error) {
	if err := c.next; err != nil {
		c.next = nil
		return 0, err
	}
	for c.left == 0 {
		if err := c.readHead(); err != nil {
			return 0, err
		}
	}
	n, err := c.rw.Read(p[:min(len(p), c.left)])
	c.left -= n
	c.received.Add(uint64(n))
	if n > 0 {
		return n, nil // an error comes again
	}
	return 0, noEnd(err)
}

// within reports whether more than was read has come, as far as that is known without asking the kernel: of the unit, another one, or the stream's end.
func (c *tcpConn) within() bool {
	f, ok := c.raw.(*rawTCP)
	if c.left > 0 || c.next != nil || !ok {
		return c.left > 0 || c.next != nil
	}
	f.peek(true)
	defer f.peek(false)
	if err := c.readHead(); err != nil && !errors.Is(err, errNotHere) {
		c.next = err
	}
	return c.left > 0 || c.next != nil
}

func (c *tcpConn) readHead() error {
	for c.have < unitHead {
		n, err := c.rw.Read(c.head[c.have:])
		if c.have += n; c.have < unitHead && err != nil {
			return noEnd(err)
		}
	}
	c.have = 0
	switch v := binary.BigEndian.Uint32(c.head[:]); {
	case v == markEnd:
		return io.EOF
	case v == markReset:
		return errReset
	case v == markMoved:
		return errMoved
	case v > maxUnit:
		return fmt.Errorf("%w: %d bytes", errUnit, v)
	default:
		c.left = int(v)
		return nil
	}
}

// noEnd makes the end of the connection an error: streams end with marks.
func noEnd(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// write writes one unit of head and body, which are not both empty, and leaves nothing in
// buffers of ours unless follows: then another unit, or a mark, comes at once. Each record of crypto/tls is a write of its own: what fits in
// one record is one, and small records go to the kernel together. To gather large ones saves nothing (measured with 64 and 128 KiB: what the calls cost less, the copy
// costs more); but none before the last makes a packet that is not full, which would often wake the peer.
func (c *tcpConn) write(head, body []byte, follows bool) error {
	if c.broken {
		return net.ErrClosed
	}
	n := len(head) + len(body)
	buf := binary.BigEndian.AppendUint32(c.scratch[:0], uint32(n))
	buf = append(buf, head...)
	if n <= gathered {
		buf, body = append(buf, body...), nil
	}
	c.scratch = buf[:0]
	c.more(recordsOf(len(buf))+recordsOf(len(body)), len(buf)+len(body) <= small, follows)
	_, err := c.rw.Write(buf)
	if err == nil && len(body) > 0 {
		_, err = c.rw.Write(body) // from where it lies
	}
	c.broken = err != nil
	if err == nil {
		c.sent.Add(uint64(n))
	}
	return err
}

// recordsOf is how many records n bytes of one write are.
func recordsOf(n int) int { return (n + maxRecord - 1) / maxRecord }

// small is the size of a unit, in bytes, up to which its records go to the kernel together: so much of TLS itself is in them and in what may follow.
const small = mostHeld - 512

// more says that n records belong together, are together of a unit that is small, and belong with others to come if follows.
func (c *tcpConn) more(n int, small, follows bool) {
	if f, ok := c.raw.(*rawTCP); ok {
		if !follows {
			n--
		}
		f.more(n, small)
	}
}

// mark writes a mark.
func (c *tcpConn) mark(v uint32) error {
	if c.broken {
		return net.ErrClosed
	}
	c.more(1, true, false)
	_, err := c.rw.Write(binary.BigEndian.AppendUint32(c.scratch[:0], v))
	c.broken = err != nil
	return err
}

// finish waits until both ends of s have ended it, and says whether the connection may
// carry another stream.
func (c *tcpConn) finish(s *TCPStream) bool {
	select {
	case <-s.wrote:
	case <-c.ctx.Done():
		return false
	}
	s.mu.Lock()
	s.writeOver = true // deadlines of the stream are no more the connection's
	mark := uint32(markEnd)
	switch {
	case s.moved:
		mark = markMoved
	case s.aborted:
		mark = markReset
	}
	c.raw.SetWriteDeadline(time.Now().Add(finishTime))
	s.mu.Unlock()
	if !s.wmu.TryLock() {
		return false // somebody is still writing, to a peer that may not read
	}
	defer s.wmu.Unlock()
	if !s.marked && c.mark(mark) != nil {
		return false
	}
	select {
	case <-s.read:
	case <-c.ctx.Done():
		return false
	}
	s.mu.Lock()
	s.readOver = true
	c.raw.SetReadDeadline(time.Unix(1, 0)) // a Read that blocks ends
	s.mu.Unlock()
	s.rmu.Lock()
	defer s.rmu.Unlock()
	if !s.ended && !c.drain() {
		return false
	}
	return c.raw.SetDeadline(time.Time{}) == nil
}

// drain reads what the peer had on its way.
func (c *tcpConn) drain() bool {
	c.raw.SetReadDeadline(time.Now().Add(finishTime))
	buf := make([]byte, 4<<10)
	for n := 0; n < maxLeftover; {
		k, err := c.read(buf)
		if n += k; err != nil {
			return isMark(err)
		}
	}
	return false
}

// timedOut says that err is of a deadline, after which reading may go on.
func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
