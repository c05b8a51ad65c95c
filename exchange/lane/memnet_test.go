package lane_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// A memNet is a network of TCP connections in memory: reliable, without delay, with buffers of
// memBuffer in each direction. It works in virtual time, as the kernel's sockets do not.
type memNet struct {
	mu        sync.Mutex // guards the fields below
	listeners map[string]*memListener
	conns     []*memConn // of the dialing ends
}

const memBuffer = 64 << 10

// join is an edit of lane.Config that gives the endpoint a TCP side on n.
func (n *memNet) join(cfg *lane.Config) {
	a := cfg.Conn.LocalAddr().(*net.UDPAddr)
	cfg.Listener = n.listen(&net.TCPAddr{IP: a.IP, Port: a.Port})
	cfg.DialTCP = n.from(a.IP)
}

// from is the DialTCP of a host at ip.
func (n *memNet) from(ip net.IP) func(context.Context, net.Addr, string) (net.Conn, error) {
	return func(ctx context.Context, a net.Addr, _ string) (net.Conn, error) {
		return n.dial(ctx, &net.TCPAddr{IP: ip, Port: 40000 + n.made()}, a)
	}
}

func (n *memNet) listen(a net.Addr) net.Listener {
	l := &memListener{addr: a, queue: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = make(map[string]*memListener)
	}
	n.listeners[a.String()] = l
	return l
}

func (n *memNet) dial(ctx context.Context, from *net.TCPAddr, a net.Addr) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[a.String()]
	n.mu.Unlock()
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	up, down := newMemPipe(), newMemPipe()
	here, there := &memConn{in: down, out: up, local: from, remote: a}, &memConn{in: up, out: down, local: a, remote: from}
	select {
	case l.queue <- there:
		n.mu.Lock()
		defer n.mu.Unlock()
		n.conns = append(n.conns, here)
		return here, nil
	case <-l.closed:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// last is the dialing end of the newest connection.
func (n *memNet) last(t testing.TB) *memConn {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.conns) == 0 {
		t.Fatal("no connection was made")
	}
	return n.conns[len(n.conns)-1]
}

// made is how many connections were made so far.
func (n *memNet) made() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

type memListener struct {
	addr   net.Addr
	queue  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *memListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *memListener) Addr() net.Addr { return l.addr }

// A memPipe is one direction of a connection.
type memPipe struct {
	mu                  sync.Mutex
	cond                *sync.Cond
	buf                 []byte
	closed              bool // by either end
	vanished            bool // nothing arrives any more, and nobody is told
	readBy, writeBy     time.Time
	readTimer, writeTmr *time.Timer
}

func newMemPipe() *memPipe {
	p := new(memPipe)
	p.cond = sync.NewCond(&p.mu)
	return p
}

func (p *memPipe) do(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.cond.Broadcast()
}

func over(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

func (p *memPipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case over(p.readBy):
			return 0, os.ErrDeadlineExceeded
		case len(p.buf) > 0 && !p.vanished:
			n := copy(b, p.buf)
			p.buf = p.buf[n:]
			p.cond.Broadcast()
			return n, nil
		case p.closed:
			return 0, io.EOF
		}
		p.cond.Wait()
	}
}

func (p *memPipe) write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed:
			return n, syscall.EPIPE
		case over(p.writeBy):
			return n, os.ErrDeadlineExceeded
		}
		k := min(len(b)-n, memBuffer-len(p.buf))
		p.buf = append(p.buf, b[n:n+k]...)
		p.cond.Broadcast()
		if n += k; n == len(b) {
			return n, nil
		}
		p.cond.Wait()
	}
}

func (p *memPipe) deadline(at *time.Time, timer **time.Timer, t time.Time) {
	p.do(func() {
		*at = t
		if *timer != nil {
			(*timer).Stop()
		}
		if !t.IsZero() && !over(t) {
			*timer = time.AfterFunc(time.Until(t), func() { p.do(func() {}) })
		}
	})
}

// A memConn is one end of a connection.
type memConn struct {
	in, out       *memPipe
	local, remote net.Addr
}

func (c *memConn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *memConn) Write(b []byte) (int, error) { return c.out.write(b) }
func (c *memConn) LocalAddr() net.Addr         { return c.local }
func (c *memConn) RemoteAddr() net.Addr        { return c.remote }
func (c *memConn) Close() error {
	for _, p := range []*memPipe{c.in, c.out} {
		p.do(func() {
			p.closed = true
			for _, t := range []*time.Timer{p.readTimer, p.writeTmr} {
				if t != nil {
					t.Stop()
				}
			}
		})
	}
	return nil
}

func (c *memConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.in.deadline(&c.in.readBy, &c.in.readTimer, t)
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.out.deadline(&c.out.writeBy, &c.out.writeTmr, t)
	return nil
}

// vanish is the loss of the other end's power: nothing arrives, and nobody is told.
func (c *memConn) vanish() {
	c.in.do(func() { c.in.vanished = true })
	c.out.do(func() { c.out.vanished = true })
}
