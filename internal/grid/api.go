package grid

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gridagent/gridagent/agent/client"
)

// A memListener takes the connections of clients in the same process: a bubble has no
// Unix sockets.
type memListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newMemListener() *memListener {
	return &memListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *memListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (l *memListener) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, io.ErrClosedPipe
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Client returns a client of the agent on host i.
func (g *Grid) Client(i int) *client.Client { return client.NewDialer(g.Hosts[i].api.dial) }

// A barrier opens when n have come.
type barrier struct {
	mu   sync.Mutex // guards left
	left int
	open chan struct{}
	at   time.Time // set before open is closed
}

func newBarrier(n int) *barrier { return &barrier{left: n, open: make(chan struct{})} }

func (b *barrier) wait(ctx context.Context) (time.Time, error) {
	b.mu.Lock()
	b.left--
	if b.left == 0 {
		b.at = time.Now()
		close(b.open)
	}
	b.mu.Unlock()
	select {
	case <-b.open:
		return b.at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

// rank is one client process: it joins, waits until all ranks have, and runs one allgather.
func (g *Grid) rank(ctx context.Context, job string, rank, ranks int, h *Host, block []byte, opts client.Options, ready *barrier) (o Outcome) {
	c := client.NewDialer(h.api.dial)
	defer c.Close()
	r, err := c.Join(ctx, job, rank, ranks)
	if err != nil {
		return Outcome{Err: err}
	}
	defer r.Close()
	start, err := ready.wait(ctx)
	if err != nil {
		return Outcome{Err: err}
	}
	res, err := r.Allgather(ctx, block, opts)
	if err != nil {
		return Outcome{Err: err}
	}
	defer res.Close()
	o.Took = time.Since(start)
	o.Result = append([]byte(nil), res.Data...)
	o.Report = res.Report
	return o
}
