package client

import (
	"bufio"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/api/line"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// pipeLine is a line to an agent that reads and says what the test wants.
func pipeLine() (*caller, net.Conn) {
	here, there := net.Pipe()
	l := &caller{conn: line.New(here, bufio.NewReader(here), line.MaxResult), ended: make(chan struct{}), waits: make(map[uint64]chan<- answered)}
	go l.receive()
	return l, there
}

// TestLineNobodyReads, in real time as who waits to write holds up a bubble's clock: where the agent is stopped, operations end when their time is over, be it that they write or wait for one that does.
func TestLineNobodyReads(t *testing.T) {
	l, there := pipeLine()
	defer there.Close()
	ends := make(chan error, 2)
	begun := time.Now()
	for _, limit := range []time.Duration{300 * time.Millisecond, 500 * time.Millisecond} {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			_, err := l.call(ctx, &apiv1.LineRequest{}, make([]byte, 250<<10))
			ends <- err
		}()
		time.Sleep(10 * time.Millisecond)
	}
	for range 2 {
		if err := <-ends; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, and its time is over", err)
		}
	}
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("ended after %v", took)
	}
	l.close()
}

// TestLineNobodyReadsTheCancel: nor is an operation held by an agent that has read its request and is stopped then.
func TestLineNobodyReadsTheCancel(t *testing.T) {
	l, there := pipeLine()
	defer there.Close()
	agent := line.New(there, bufio.NewReader(there), line.MaxInput)
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error, 1)
	go func() {
		_, err := l.call(ctx, &apiv1.LineRequest{}, nil)
		got <- err
	}()
	if _, err := agent.Receive(new(apiv1.LineRequest)); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-got:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(4 * time.Second):
		t.Fatal("its time is over, and it waits")
	}
	there.Close()
	l.close()
}

// A hookedConn calls written when something has been written to it, and reads nothing.
type hookedConn struct {
	net.Conn
	written func()
}

func (c *hookedConn) Write(b []byte) (int, error) {
	c.written()
	return len(b), nil
}

// TestLineAnswerBeforeTheEnd: an operation whose answer has come is over, though its time is, too.
func TestLineAnswerBeforeTheEnd(t *testing.T) {
	for range 200 { // of two that are there a select takes any
		here, there := net.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		l := &caller{ended: make(chan struct{}), waits: make(map[uint64]chan<- answered)}
		l.conn = line.New(&hookedConn{here, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if wait := l.waits[1]; wait != nil && ctx.Err() == nil { // the request, and not its end
				wait <- answered{&apiv1.LineAnswer{Id: 1}, nil}
				cancel()
			}
		}}, bufio.NewReader(here), line.MaxResult)
		go l.receive()
		_, err := l.call(ctx, &apiv1.LineRequest{}, nil)
		l.close()
		there.Close()
		cancel()
		if err != nil {
			t.Fatalf("its answer was there: %v", err)
		}
	}
}
