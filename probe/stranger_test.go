package probe

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A host that is never to be measured does not keep the link to its site from long probes.
func TestHostThatIsNeverMeasured(t *testing.T) {
	if gridtest.Race {
		t.Skip("a world of minutes: run without the race detector, which multiplies its CPU time by ten")
	}
	cfg := small()
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, func(c *Config) {
			if c.Self.Name == "b1" {
				c.Busy = always
			}
		})
		w.run(ms, true, func(context.Context) {
			time.Sleep(3 * time.Minute)
			told := false
			for _, from := range []string{"a0", "a1"} {
				e, _ := w.known(from, "b0")
				told = told || e.Has(netmap.FieldLine)
			}
			if !told {
				t.Error("nobody knows after 3 min what one flow gets from a to b")
			}
		})
	})
}

// A declining endpoint has connections to hosts that decline whatever they are asked for, after a while.
type declining struct {
	deaf
	after, retry time.Duration

	mu sync.Mutex // guards n
	n  map[string]int
}

func (d *declining) Stats(string) (st quic.ConnectionStats, connected bool) { return st, true }

func (d *declining) Open(_ context.Context, name string, _ int, _ lane.StreamKind) (*lane.Stream, error) {
	d.mu.Lock()
	d.n[name]++
	d.mu.Unlock()
	time.Sleep(d.after)
	return nil, &BusyError{Retry: d.retry, Why: "test"}
}

// Who declines to be measured for the first time is asked ever more seldom outside the tournament, but not where it only is at
// another probe.
func TestStrangersAreAskedSeldom(t *testing.T) {
	for _, tt := range []struct {
		site        string
		retry       time.Duration
		least, most int
	}{
		{"a", busyRetry, 14, 20},
		{"b", busyRetry, 14, 20},
		{"a", slotRetry, 550, 650},
	} {
		t.Run(fmt.Sprint(tt.site, " ", tt.retry), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &declining{after: 10 * time.Millisecond, retry: tt.retry, n: make(map[string]int)}
				p, err := New(Config{
					Self: Peer{"a0", "a"}, Peers: func() []Peer { return []Peer{{"x", tt.site}} },
					Endpoint: e, Record: drop,
				})
				if err != nil {
					t.Fatal(err)
				}
				p.look()
				for range 600 {
					round, _ := roundAt(time.Now())
					p.turnSpare(t.Context(), round)
					_, into := roundAt(time.Now())
					time.Sleep(roundTime - into)
				}
				if n := e.n["x"]; n < tt.least || n > tt.most {
					t.Errorf("asked %d times in 10 min, want %d to %d", n, tt.least, tt.most)
				}
			})
		})
	}
}
