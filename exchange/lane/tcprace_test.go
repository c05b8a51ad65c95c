package lane_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// TestTCPDialRace: of connections whose first packets are lost another is tried soon, on ways for which a congestion control is chosen; near by,
// and where one is there or is refused in time, one is all.
func TestTCPDialRace(t *testing.T) {
	const way = 100 * time.Millisecond // of a dial that gets through
	for _, c := range []struct {
		name       string
		congestion string
		lost       int32 // of the first dials
		refused    bool
		dials      int32
		least      time.Duration
		most       time.Duration
	}{
		{"nothing is lost", "bbr", 0, false, 1, way, way + 10*time.Millisecond},
		{"the first is lost", "bbr", 1, false, 2, way, 2 * time.Second},
		{"two are lost", "bbr", 2, false, 3, way, 4 * time.Second},
		{"refused", "bbr", 0, true, 1, way, way + 10*time.Millisecond},
		{"near by", "", 1, false, 1, 9 * time.Second, 11 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, cl *cluster) {
				n := new(memNet)
				var dials atomic.Int32
				a := startTCP(cl, n, "a0", nil, func(cfg *lane.Config) {
					dial := cfg.DialTCP
					cfg.DialTCP = func(ctx context.Context, addr net.Addr, congestion string) (net.Conn, error) {
						if dials.Add(1) <= c.lost {
							<-ctx.Done()
							return nil, context.Cause(ctx)
						}
						time.Sleep(way)
						if c.refused {
							return nil, syscall.ECONNREFUSED
						}
						return dial(ctx, addr, congestion)
					}
				})
				b := startTCP(cl, n, "b0", nil)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				s, err := a.OpenTCP(ctx, "b0", c.congestion, echo)
				took := time.Since(began)
				if want := c.refused || c.congestion == ""; (err != nil) != want {
					t.Errorf("error %v, want one: %v", err, want)
				}
				if got := dials.Load(); got != c.dials {
					t.Errorf("%d dials, want %d", got, c.dials)
				}
				if took < c.least || took > c.most {
					t.Errorf("it took %v, want %v to %v", took, c.least, c.most)
				}
				if err == nil {
					if err := sayTCP(s, []byte("x")); err != nil {
						t.Error(err)
					}
					synctest.Wait()
					if got := a.TCPTraffic("b0").Conns; got != 1 {
						t.Errorf("%d connections are open, want one", got)
					}
				}
				a.stop()
				b.stop()
			})
		})
	}
}
