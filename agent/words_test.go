package agent

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
)

// A cutter is a listener whose connections can be cut off.
type cutter struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutter) Accept() (net.Conn, error) {
	n, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conns = append(c.conns, n)
	}
	return n, err
}

// cut ends the connections that were made, as a firewall that has lost its state does: with a reset.
func (c *cutter) cut() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.conns {
		n.(*net.TCPConn).SetLinger(0)
		n.Close()
	}
	n, c.conns = len(c.conns), nil
	return n
}

// TestWords: groups inside a site talk over TCP. Where that is cut off under way they go on, over QUIC, and where nobody listens the next group begins there.
func TestWords(t *testing.T) {
	t.Parallel()
	wary := func(c *cutter) func(*Options) {
		return func(o *Options) {
			var err error
			if o.Conn, err = openSocket("127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
			if c.Listener, err = o.openListener(o.Conn.LocalAddr()); err != nil {
				t.Fatal(err)
			}
			o.Listener = c
		}
	}
	var ca, cb cutter
	first := newCluster(t, "a")
	a := startHost(t, first, wary(&ca))
	b := startHost(t, admit(t, first, "b"), wary(&cb), a)
	hosts := []*testHost{a, b}
	waitMembers(t, a, b)
	eventually(t, 30*time.Second, "lanes over TCP", func() error {
		for _, h := range hosts {
			for _, to := range []string{"a", "b"} {
				if c, _ := h.lanes.choice(to); to != h.Name() && c.kind != LaneTCP {
					return fmt.Errorf("%s to %s: %s", h.Name(), to, c.why)
				}
			}
		}
		return nil
	})
	barriers := func(job string, n int, before func(i int)) {
		t.Helper()
		var wg sync.WaitGroup
		for r, h := range hosts {
			wg.Go(func() {
				rank, err := h.client(t).Join(t.Context(), job, r, len(hosts))
				if err != nil {
					t.Errorf("%s: %v", job, err)
					return
				}
				defer rank.Close()
				for i := range n {
					if r == 0 && before != nil {
						before(i)
					}
					got, err := rank.Allgather(t.Context(), []byte{byte(i), byte(r)}, client.Options{})
					if err != nil {
						t.Errorf("%s: rank %d, operation %d: %v", job, r, i, err)
						return
					}
					if want := []byte{byte(i), 0, byte(i), 1}; !bytes.Equal(got.Data, want) {
						t.Errorf("%s: rank %d, operation %d: %v, want %v", job, r, i, got.Data, want)
					}
				}
			})
		}
		wg.Wait()
	}
	barriers("whole", 5, nil)
	if over := a.endpoint.TCPTraffic("b"); over.Sent < 200 || over.Received < 200 || over.Conns == 0 {
		t.Errorf("%+v went over TCP, want the words of a group", over)
	}
	cuts := 0
	barriers("cut", 30, func(i int) {
		if i%10 == 5 {
			cuts += ca.cut() + cb.cut()
		}
	})
	if cuts < 2 {
		t.Errorf("%d connections were cut off", cuts)
	}
	ca.Listener.Close()
	cb.Listener.Close()
	ca.cut()
	cb.cut()
	began := time.Now()
	barriers("refused", 5, nil)
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("a group took %v where TCP is refused", d)
	}
	// Who dials has been refused: on a busy machine it may be either of the two alone.
	ab, _ := a.lanes.choice("b")
	ba, _ := b.lanes.choice("a")
	if ab.kind != LaneQUIC && ba.kind != LaneQUIC {
		t.Errorf("after that data go over %s and %s: %s; %s", ab.kind, ba.kind, ab.why, ba.why)
	}
}

// TestTwice: words go twice over ways that lose packets, and long ones only where that costs less than it saves.
func TestTwice(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		way  wordWay
		n    int
		want bool
	}{
		{wordWay{}, 100, false},
		{wordWay{0.001, 100 * ms, 1e6}, 100, false},
		{wordWay{0.0023, 70 * ms, 1.3e6}, 4000, true},
		{wordWay{0.0023, 70 * ms, 1.3e6}, 20000, false}, // 15 ms of the link, and 6 saved
		{wordWay{0.02, 150 * ms, 2.5e6}, 20000, true},   // 8, and 109
		{wordWay{0.0023, 70 * ms, 0}, 20000, true},
	} {
		if got := tt.way.twice(tt.n); got != tt.want {
			t.Errorf("%d bytes over %+v go twice: %v", tt.n, tt.way, got)
		}
	}
}
