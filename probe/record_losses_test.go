package probe

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

const lossyRTT = 60 * time.Millisecond

// lossy is a recorder of a1, of a site with a0, in a grid with a site of b0 and b1, 60 ms away, to which trains of a1 have read the rate of the link
// and have lost one packet of so many.
func lossy(line netmap.BytesPerSec, one int) (r *recorder, est map[[2]string]netmap.Estimate) {
	est = make(map[[2]string]netmap.Estimate)
	rec := newRecorder(&Config{
		Self:   Peer{"a1", "a"},
		Peers:  func() []Peer { return []Peer{{"a0", "a"}, {"b0", "b"}, {"b1", "b"}} },
		Known:  func(from, to string) (netmap.Estimate, bool) { e, ok := est[[2]string{from, to}]; return e, ok },
		Record: func(from, to string, e netmap.Estimate) { est[[2]string{from, to}] = e },
	})
	for _, to := range []string{"b0", "b1"} {
		rec.active(to, lossyRTT, lossyRTT, 0, 1)
		for i := range 30 {
			res := result{Bandwidth: line, Spread: 0.01, sent: 100}
			if one > 0 && i%max(one/100, 1) == 0 {
				res.lost = 1
			}
			rec.trains(to, "b", res)
		}
	}
	return &rec, est
}

// What one host alone says that losses leave of a flow is believed where this host's trains have met as many losses, before it has done a bulk
// probe of its own; on a fat path with much loss its turn may take long.
func TestLossesCorroborate(t *testing.T) {
	const line, held = 190 * netmap.Mbps, 2.6 * netmap.Mbps
	for _, tt := range []struct {
		name string
		one  int
		says netmap.BytesPerSec
		want netmap.BytesPerSec
	}{
		{"as many losses here", 100, held, held},
		{"none here", 0, held, line},
		{"far fewer here", 1500, held, line},
		{"a lie", 100, held / 5, line},
	} {
		r, est := lossy(line, tt.one)
		est[[2]string{"a0", "b0"}] = netmap.Estimate{
			Known: netmap.FieldBandwidth | netmap.FieldLine, Bandwidth: tt.says, Line: line, Spread: 0.05,
			Readings: 3, Source: netmap.SourceProbed, Measured: time.Now(),
		}
		r.trains("b1", "b", result{Bandwidth: line, Spread: 0.01, sent: 10})
		if got := est[[2]string{"a1", "b1"}].Bandwidth; apart(float64(got), float64(tt.want)) > 0.05 {
			t.Errorf("%s: one flow gets %.3g Mbit/s, want %.3g", tt.name, got.Mbps(), tt.want.Mbps())
		}
	}
}

// A flow that loses fewer packets by chance fills its link for as long as it is watched, and queues hide a loss or two. Where losses hold it in the
// long run, one such reading, however sure, says little.
func TestFullLinkByChance(t *testing.T) {
	const line = 9.54 * netmap.Mbps
	r, est := lossy(line, 300)
	bulk := func(rate float64, spread float64, lost float64) float64 {
		res := bulkResult{Rate: netmap.BytesPerSec(rate) * netmap.Mbps, Spread: spread, Enough: lost == 0}
		if lost > 0 {
			res.Lost, res.Steady = lost, 300*lost
		}
		r.bulk("b0", res)
		r.trains("b0", "b", result{Bandwidth: line, Spread: 0.01, sent: 10})
		return est[[2]string{"a1", "b0"}].Bandwidth.Mbps()
	}
	bulk(5.4, 0.15, 14)
	bulk(4.6, 0.15, 14)
	if got := bulk(9.5, 0.001, 0); apart(got, 5) > 0.15 {
		t.Errorf("after a full link once: %.3g Mbit/s, want about 5", got)
	}
	if got := bulk(9.5, 0.001, 0); got < 8 {
		t.Errorf("%.3g Mbit/s after another: who reads the same twice has seen a change", got)
	}
}
