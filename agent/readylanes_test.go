package agent

import (
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
		"nothing known":            {netmap.Estimate{}, 8, 8, 0, 0},
		"near":                     {at(100, 0, 0, time.Millisecond), 8, 8, 0, 0},
		"the papers' slowest link": {at(1.25, 0, 0, 100*time.Millisecond), 8, 8, 1, 8388608 * time.Microsecond},
		"lossy":                    {at(1.25, 20, 0.01, 100*time.Millisecond), 8, 8, 2, 524288 * time.Microsecond},
		"many hosts, a slow link":  {at(1.25, 0, 0, 100*time.Millisecond), 16, 16, 0, 0},
		"many hosts, a fast link":  {at(1000, 0, 0, 100*time.Millisecond), 100, 100, 1, 131072 * time.Microsecond},
	} {
		if w := readyOver(c.e, c.here, c.there); w.lanes != c.lanes || (w.pause-c.pause).Abs() > time.Microsecond {
			t.Errorf("%s: %d lanes, %v after a handshake; want %d, %v", name, w.lanes, w.pause, c.lanes, c.pause)
		}
	}
}
