package group

import (
	"io"
	"sync"
)

// pipe returns the two ends of a conn inside one agent: a coordinator talks to the
// member on its own host as to any other.
func pipe() (conn, conn) {
	done := make(chan struct{})
	var once sync.Once
	ab, ba := make(chan message, 16), make(chan message, 16)
	closeBoth := func() { once.Do(func() { close(done) }) }
	return &pipeConn{ab, ba, done, closeBoth}, &pipeConn{ba, ab, done, closeBoth}
}

type pipeConn struct {
	out       chan<- message
	in        <-chan message
	done      chan struct{}
	closeBoth func()
}

func (c *pipeConn) Send(said ...message) error {
	for _, m := range said {
		select {
		case <-c.done:
			return io.ErrClosedPipe
		default:
		}
		select {
		case c.out <- m:
		case <-c.done:
			return io.ErrClosedPipe
		}
	}
	return nil
}

func (c *pipeConn) Recv() (message, error) {
	select {
	case m := <-c.in:
		return m, nil
	default:
	}
	select {
	case m := <-c.in:
		return m, nil
	case <-c.done:
		select {
		case m := <-c.in: // what was sent before the close still counts
			return m, nil
		default:
			return message{}, io.EOF
		}
	}
}

func (c *pipeConn) Close() { c.closeBoth() }
func (c *pipeConn) Abort() { c.closeBoth() }
