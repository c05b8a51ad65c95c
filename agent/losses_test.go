package agent

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// TestLosses: a pair that has met no losses itself is believed to meet those of its like, and one flow there to get what they leave of it; one of
// another link, one that the network holds, one that fills its link alone and one inside a site are not.
func TestLosses(t *testing.T) {
	const all = netmap.FieldLatency | netmap.FieldBandwidth | netmap.FieldCapacity | netmap.FieldLanes
	pair := func(rate netmap.BytesPerSec, loss float64, of int) netmap.Estimate {
		e := netmap.Estimate{Known: all, Latency: 76 * time.Millisecond, Bandwidth: rate * netmap.Mbps, Capacity: 19 * netmap.Mbps, Lanes: 3, Source: netmap.SourceProbed}
		if of > 0 {
			e.Known, e.Loss, e.LossOf = e.Known|netmap.FieldLoss, loss, of
		}
		return e
	}
	hosts := []netmap.Host{{Name: "a0", Site: "a"}, {Name: "a1", Site: "a"}, {Name: "b0", Site: "b"}, {Name: "b1", Site: "b"}}
	est := make([]netmap.Estimate, 25)
	at := func(from, to int) *netmap.Estimate { return &est[from*5+to] }
	*at(0, 1) = pair(7.8, 0, 0)       // inside a site
	*at(0, 2) = pair(7.8, 0, 1000)    // was lucky
	*at(0, 3) = pair(7.8, 8e-4, 1e4)  // eight losses
	*at(1, 2) = pair(7.8, 0, 0)       // has not sent enough to say
	*at(1, 3) = pair(18, 0, 0)        // seems to fill the link
	*at(2, 0) = pair(7.8, 1e-3, 2000) // two losses, all that are known of the way back
	*at(3, 0) = pair(1, 0, 0)         // the network holds it, and nothing was lost
	hosts = append(hosts, netmap.Host{Name: "c0", Site: "c"})
	*at(2, 4) = pair(1.2, 5e-5, 1e5) // the network holds it; its queue was full for once
	*at(3, 4) = pair(1.2, 0, 0)
	*at(4, 2) = pair(18, 1e-3, 1e4) // only trains have read it, and ten packets were lost
	*at(4, 3) = pair(2, 1e-3, 1e3)  // less than losses leave
	*at(4, 0) = pair(18, 1e-3, 3e3) // three were
	for _, to := range []int{0, 2, 3} {
		at(4, to).Known &^= netmap.FieldCapacity | netmap.FieldLanes
		at(4, to).Capacity, at(4, to).Lanes = 0, 0
	}
	got := lossesIn(netmap.NewSnapshot(7, hosts, est))
	for _, c := range []struct {
		from, to int
		loss     float64
		low, top float64 // Mbit/s
	}{
		{0, 1, 0, 7.8, 7.8},
		{0, 2, 8. / 11000, 4, 5},
		{0, 3, 8. / 11000, 4, 5},
		{1, 2, 8. / 11000, 4, 5},
		{1, 3, 8. / 11000, 18, 18},
		{2, 0, 1e-3, 7.8, 7.8},
		{2, 4, 5e-5, 1.2, 1.2},
		{3, 4, 0, 1.2, 1.2},
		{4, 2, 1e-3, 3, 4},
		{4, 3, 1e-3, 2, 2},
		{4, 0, 1e-3, 18, 18},
	} {
		e := got.Estimate(c.from, c.to)
		if rate := e.Bandwidth.Mbps(); rate < c.low || rate > c.top || e.Loss < c.loss*0.999 || e.Loss > c.loss*1.001 {
			t.Errorf("%d→%d: %.2f Mbit/s, loss %g; want %g … %g, %g", c.from, c.to, rate, e.Loss, c.low, c.top, c.loss)
		}
	}
	if e := got.Estimate(4, 2); !e.Has(netmap.FieldCapacity) || e.Capacity != 18*netmap.Mbps {
		t.Errorf("several flows are believed to get %.2f Mbit/s where trains read 18", e.Capacity.Mbps())
	}
	if e := got.Estimate(4, 3); e.Has(netmap.FieldCapacity) {
		t.Errorf("several flows are believed to get %.2f Mbit/s where nothing says so", e.Capacity.Mbps())
	}
	// Bulk probes have told what losses leave of one flow to a, and nobody what several get. Nothing was lost on the way to b, where trains read many times
	// as much, nor from b to c, where strangers may be on the link.
	told := func(loss float64) netmap.Estimate {
		e := pair(1.2, loss, 2000)
		e.Known, e.Capacity, e.Lanes = e.Known&^(netmap.FieldCapacity|netmap.FieldLanes), 0, 0
		return e
	}
	clear(est)
	*at(4, 0), *at(4, 1), *at(4, 2) = told(2e-2), told(0), told(0)
	for _, to := range []int{0, 2} {
		at(4, to).Known, at(4, to).Line = at(4, to).Known|netmap.FieldLine, 19*netmap.Mbps
	}
	*at(2, 4), *at(3, 4) = told(0), told(0)
	at(2, 4).Known, at(2, 4).Line = at(2, 4).Known|netmap.FieldLine, 2*netmap.Mbps
	young := lossesIn(netmap.NewSnapshot(7, hosts, est))
	for _, c := range []struct {
		from, to int
		want     netmap.BytesPerSec
	}{{4, 0, 19 * netmap.Mbps}, {4, 1, 19 * netmap.Mbps}, {4, 2, 19 * netmap.Mbps}, {2, 4, 0}, {3, 4, 0}} {
		e := young.Estimate(c.from, c.to)
		if e.Capacity != c.want || e.Has(netmap.FieldCapacity) != (c.want > 0) || e.Bandwidth > 1.2*netmap.Mbps {
			t.Errorf("%d→%d: one flow gets %.2f Mbit/s and several %.2f, want 1.2 and %.2f", c.from, c.to, e.Bandwidth.Mbps(), e.Capacity.Mbps(), c.want.Mbps())
		}
	}
	if got.Epoch() != 7 {
		t.Errorf("epoch %d", got.Epoch())
	}
	if p := PathOf(got.Estimate(1, 2)); p.Loss == 0 || p.Lanes() < 5 {
		t.Errorf("%+v: %d lanes: that of the knee is of flows that chance has spared", p, p.Lanes())
	}
}
