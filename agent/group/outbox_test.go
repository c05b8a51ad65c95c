package group

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A deafConn is a conn whose peer has stopped listening: Send fails from the second
// message on. It notes when it is closed.
type deafConn struct {
	sent   int
	closed chan struct{}
}

func (c *deafConn) Send(...message) error {
	if c.sent++; c.sent > 1 {
		return errors.New("stream canceled by remote")
	}
	return nil
}
func (c *deafConn) Recv() (message, error) { <-c.closed; return message{}, errors.New("closed") }
func (c *deafConn) Close()                 { close(c.closed) }
func (c *deafConn) Abort()                 {}

// TestOutboxOutlivesItsPeer: a Send that fails must not close the conn. A rank that is
// done first leaves and stops listening; when that arrives before its last words do, which
// were lost once, closing would throw them away, and the rank would count as lost.
func TestOutboxOutlivesItsPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &deafConn{closed: make(chan struct{})}
		o := newOutbox(c, outboxRoom, nil)
		ended := make(chan struct{})
		go func() { o.run(); close(ended) }()
		time.Sleep(10 * beatPause)
		synctest.Wait()
		select {
		case <-c.closed:
			t.Error("the conn was closed though nobody had finished")
		default:
		}
		if c.sent != 2 {
			t.Errorf("%d sends, want one that goes well and one that fails", c.sent)
		}
		o.finish()
		<-ended
		select {
		case <-c.closed:
		default:
			t.Error("the conn is open after finish")
		}
	})
}

// TestHolds: near hosts wait for the start message to reach the far ones, and no latency
// holds anybody for more than maxHold.
func TestHolds(t *testing.T) {
	const ms = time.Millisecond
	latency := map[string]time.Duration{"self": 7 * time.Hour, "near": ms, "far": 50 * ms, "new": 0}
	c := &coordinator{hosts: []string{"near", "self", "far", "new"}}
	c.g = &Groups{cfg: Config{Self: "self", Latency: func(h string) time.Duration { return latency[h] }}}
	together := false
	check := func(want ...time.Duration) {
		t.Helper()
		for i, hold := range c.holds(together) {
			if hold != want[i] {
				t.Errorf("%s holds %v, want %v", c.hosts[i], hold, want[i])
			}
		}
	}
	check(49*ms, 50*ms, 0, 50*ms)
	latency["far"] = time.Hour
	check(time.Second-ms, time.Second, 0, time.Second)

	// Ranks that are to begin together wait for the words to the others as well: through a port of 10 ms a word, and a way to the other site of
	// 28 ms a word.
	together = true
	latency["far"], latency["new"] = 50*ms, 50*ms
	c.tree = &Tree{Rate: startBytes * 100}
	c.g.cfg.Way = func(h string) Way {
		if latency[h] < 50*ms {
			return Way{}
		}
		return Way{Site: "there", Rate: startBytes * 1000.0 / 28}
	}
	check(95*ms, 106*ms, 28*ms, 0)
}
