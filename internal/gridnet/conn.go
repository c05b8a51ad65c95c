package gridnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// A Conn is a UDP socket of an emulated host. It does what a kernel's does: ReadFrom
// cuts a datagram to the buffer, WriteTo waits while the socket's send buffer is full
// (a real NIC pushes back as well; a drop there would look like loss on the path), a
// datagram that nobody reads in time is dropped. All methods may be called concurrently.
type Conn struct {
	net      *Network // whose lock guards what follows
	host     *host
	endpoint endpoint
	seq      uint64
	closed   bool

	received     fifo // for ReadFrom
	unread, room int  // IP bytes in received, and how many fit
	readable     sync.Cond
	readBy       deadline

	waiting, limit int // IP bytes in the egress port, and where WriteTo blocks
	writable       sync.Cond
	writeBy        deadline
}

var _ net.PacketConn = (*Conn)(nil)

// ReadFrom returns the length and sender (a *net.UDPAddr) of the next datagram. The
// error wraps net.ErrClosed or os.ErrDeadlineExceeded.
func (c *Conn) ReadFrom(b []byte) (int, net.Addr, error) {
	w := c.net.world
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for {
		if err := c.usable(&c.readBy); err != nil {
			c.readable.Signal() // this one may have been woken for a datagram
			return 0, nil, c.failed("read", nil, err)
		}
		if p := c.received.pop(); p != nil {
			c.unread -= p.size
			n, from := copy(b, p.data[:p.held]), p.src.addrPort()
			w.recycle(p)
			if c.received.len > 0 {
				c.readable.Signal()
			}
			return n, net.UDPAddrFromAddrPort(from), nil
		}
		c.readable.Wait()
	}
}

// WriteTo sends a datagram to a *net.UDPAddr. It blocks while the send buffer is full.
// What happens on the way is not an error: a datagram larger than [MaxPayload], or to
// nowhere, is dropped and counted.
func (c *Conn) WriteTo(b []byte, to net.Addr) (int, error) {
	dst, err := addrPortOf(to)
	if err != nil {
		return 0, c.failed("write", to, err)
	}
	n := c.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		n.catchUp()
		if err := c.usable(&c.writeBy); err != nil {
			c.writable.Signal() // this one may have been woken for the room
			return 0, c.failed("write", to, err)
		}
		if c.waiting < c.limit {
			n.world.send(c, b, dst)
			n.rouse()
			return len(b), nil
		}
		c.writable.Wait()
	}
}

// LocalAddr returns the *net.UDPAddr of the socket.
func (c *Conn) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(c.endpoint.addrPort()) }

// Close ends all calls with net.ErrClosed and frees the port. What was written is still sent.
func (c *Conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return c.failed("close", nil, net.ErrClosed)
	}
	c.close()
	return nil
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets when ReadFrom gives up, also one that waits already. Zero means never.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(&c.readBy, &c.readable, t)
}

// SetWriteDeadline sets when WriteTo gives up, also one that waits already. Zero means never.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(&c.writeBy, &c.writable, t)
}

// SetReadBuffer sets how many IP bytes wait for ReadFrom, at most 8 MiB. As a kernel
// does, it grants what it can and returns no error for the rest.
func (c *Conn) SetReadBuffer(bytes int) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return c.failed("set", nil, net.ErrClosed)
	}
	c.room = min(max(bytes, MTU), maxReadBuffer)
	return nil
}

// SetWriteBuffer sets where WriteTo blocks, at most [Config.SendBuffer]: a kernel caps
// it at wmem_max, and the 7 MiB that quic-go asks for would be 0.7 s of queue at 85 Mbit/s.
func (c *Conn) SetWriteBuffer(bytes int) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return c.failed("set", nil, net.ErrClosed)
	}
	c.limit = min(max(bytes, MTU), c.net.sendBuffer)
	return nil
}

// usable returns why a call cannot go on. The lock is held.
func (c *Conn) usable(d *deadline) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case d.passed():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// take puts a datagram into the receive buffer, or returns false. The lock is held.
func (c *Conn) take(p *packet) bool {
	if c.unread+p.size > c.room {
		return false
	}
	c.unread += p.size
	c.received.push(p)
	c.readable.Signal()
	return true
}

// sent gives the room of p back when it has left the host. The lock is held.
func (c *Conn) sent(p *packet) {
	c.waiting -= p.size
	if c.waiting < c.limit {
		c.writable.Signal()
	}
}

// close is Close without its lock.
func (c *Conn) close() {
	c.closed = true
	delete(c.host.sockets, c.endpoint.port())
	c.readBy.stop()
	c.writeBy.stop()
	for p := c.received.pop(); p != nil; p = c.received.pop() {
		c.net.world.recycle(p)
	}
	c.unread = 0
	c.readable.Broadcast()
	c.writable.Broadcast()
}

func (c *Conn) setDeadline(d *deadline, waiters *sync.Cond, t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return c.failed("set", nil, net.ErrClosed)
	}
	d.stop()
	d.at = t
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, func() {
			// The lock orders this with a reader between its check and its wait.
			c.net.mu.Lock()
			defer c.net.mu.Unlock()
			waiters.Broadcast()
		})
	}
	waiters.Broadcast()
	return nil
}

// failed dresses an error as package net does, so that Timeout and errors.Is work.
func (c *Conn) failed(op string, to net.Addr, err error) error {
	return &net.OpError{Op: op, Net: "udp", Source: c.LocalAddr(), Addr: to, Err: err}
}

// A deadline is a time and the timer that wakes those who wait for it.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// addrPortOf returns the IPv4 address and port of a.
func addrPortOf(a net.Addr) (netip.AddrPort, error) {
	u, ok := a.(*net.UDPAddr)
	if !ok || u == nil {
		return netip.AddrPort{}, fmt.Errorf("address %v (%T) is not a *net.UDPAddr", a, a)
	}
	ap := u.AddrPort()
	ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	if !ap.Addr().Is4() {
		return netip.AddrPort{}, fmt.Errorf("address %v is not IPv4", a)
	}
	return ap, nil
}
