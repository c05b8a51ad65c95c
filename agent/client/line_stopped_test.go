package client

import (
	"bufio"
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
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
		if err := <-ends; !errors.Is(err, context.DeadlineExceeded) && time.Since(begun) < 500*time.Millisecond {
			t.Errorf("%v", err)
		}
	}
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("ended after %v", took)
	}
	l.close()
}

// TestLineAnswerBeforeTheEnd: an operation whose answer has come is over, though its time is, too.
func TestLineAnswerBeforeTheEnd(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			l, there := pipeLine()
			defer there.Close()
			agent := line.New(there, bufio.NewReader(there), line.MaxInput)
			ctx, cancel := context.WithCancel(context.Background())
			got := make(chan error, 1)
			go func() {
				_, err := l.call(ctx, &apiv1.LineRequest{}, nil)
				got <- err
			}()
			req := new(apiv1.LineRequest)
			if _, err := agent.Receive(req); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // it waits for its answer
			l.mu.Lock()
			l.waits[req.Id] <- answered{&apiv1.LineAnswer{Id: req.Id}, nil}
			cancel()
			l.mu.Unlock()
			if err := <-got; err != nil {
				t.Fatalf("its answer was there: %v", err)
			}
			l.close()
		})
	}
}
