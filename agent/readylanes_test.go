package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

func TestReadyOver(t *testing.T) {
	const far = netmap.FieldLatency | netmap.FieldBandwidth
	mbps := func(v float64) netmap.BytesPerSec { return netmap.BytesPerSec(v * 1e6 / 8) }
	at := func(rate, capacity, loss float64, rtt time.Duration) netmap.Estimate {
		e := netmap.Estimate{Latency: rtt / 2, Bandwidth: mbps(rate), Known: far}
		if capacity > 0 {
			e.Capacity, e.Known = mbps(capacity), e.Known|netmap.FieldCapacity
		}
		if loss > 0 {
			e.Loss, e.LossOf, e.Known = loss, 10000, e.Known|netmap.FieldLoss
		}
		return e
	}
	for name, c := range map[string]struct {
		e           netmap.Estimate
		here, there int
		lanes       int
		pause       time.Duration
	}{
		"nothing known":             {netmap.Estimate{}, 8, 8, 0, 0},
		"near":                      {at(100, 0, 0, time.Millisecond), 8, 8, 0, 0},
		"the papers' slowest link":  {at(1.25, 0, 0, 100*time.Millisecond), 8, 8, 1, 8388608 * time.Microsecond},
		"lossy":                     {at(1.25, 20, 0.01, 100*time.Millisecond), 8, 8, 2, 524288 * time.Microsecond},
		"flows are held":            {at(2.5, 10.5, 0, 48*time.Millisecond), 3, 1, 2, 374491 * time.Microsecond},
		"flows are held, one pair":  {at(2.5, 40, 0, 48*time.Millisecond), 1, 1, 4, 32768 * time.Microsecond},
		"held, few pairs in a plan": {at(3.3, 17.5, 0, 5*time.Millisecond), 2, 4, 2, 149797 * time.Microsecond},
		"held, of many pairs":       {at(3.3, 35, 0, 5*time.Millisecond), 4, 8, 1, 149797 * time.Microsecond},
		"held, for few pings":       {at(1.25, 40, 0, 100*time.Millisecond), 30, 30, 1, 983040 * time.Microsecond},
		"lossy, for few pings":      {at(1.25, 4, 0.01, 100*time.Millisecond), 18, 18, 1, 5898240 * time.Microsecond},
		"many hosts, a slow link":   {at(1.25, 0, 0, 100*time.Millisecond), 16, 16, 0, 0},
		"many hosts, a fast link":   {at(1000, 0, 0, 100*time.Millisecond), 100, 100, 1, 131072 * time.Microsecond},
	} {
		if w := readyOver(c.e, c.here, c.there); w.lanes != c.lanes || (w.pause-c.pause).Abs() > time.Microsecond {
			t.Errorf("%s: %d lanes, %v after a handshake; want %d, %v", name, w.lanes, w.pause, c.lanes, c.pause)
		}
	}
}

// TestReadyInsideSite: the lane that data go over is there before an exchange wants it, and once only.
func TestReadyInsideSite(t *testing.T) {
	for kind, lane := range map[string]string{LaneTCP: "", LaneQUIC: LaneQUIC} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			first := newCluster(t, "a")
			a := startHost(t, first, func(o *Options) { o.Lane = lane })
			id := admit(t, first, "b")
			id.Settings.Site = first.Settings.Site
			waitMembers(t, a, startHost(t, id, nil, a))
			eventually(t, 30*time.Second, "the way to b", func() error {
				if c, way := a.lanes.choice("b"); c.kind != kind || way.rtt == 0 {
					return fmt.Errorf("over %s: %s", c.kind, c.why)
				}
				return nil
			})
			for range 3 {
				a.makeReady(t.Context())
			}
			over := a.endpoint.TCPTraffic("b")
			if kind == LaneTCP && (!a.endpoint.RestsTCP("b", "") || over.Conns > 2) { // one to b, and one from there
				t.Errorf("%d connections over TCP, one resting: %v", over.Conns, a.endpoint.RestsTCP("b", ""))
			}
			if kind == LaneQUIC && (!a.endpoint.Keep("b", 0) || a.endpoint.RestsTCP("b", "")) {
				t.Error("no lane of QUIC, or one of TCP")
			}
		})
	}
}
