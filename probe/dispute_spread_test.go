package probe

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// Trains on a fast link read what differs by factors. An honest sender believes one of these rates and the receiver another, which is
// no lie; what is beyond all that was read is, however unsure the receiver is, and so is what a sure one has not read.
func TestDisputeMindsTheSpread(t *testing.T) {
	wild := []netmap.BytesPerSec{2800 * netmap.Mbps, 712 * netmap.Mbps, 300 * netmap.Mbps, 3100 * netmap.Mbps, 600 * netmap.Mbps}
	sure := []netmap.BytesPerSec{712 * netmap.Mbps, 705 * netmap.Mbps, 720 * netmap.Mbps}
	tests := []struct {
		name     string
		reads    []netmap.BytesPerSec
		spread   float64
		claim    netmap.BytesPerSec
		disputed bool
	}{
		{"within what trains read", wild, 30, 2804 * netmap.Mbps, false},
		{"below it", wild, 30, 160 * netmap.Mbps, false},
		{"far beyond", wild, 30, 9000 * netmap.Mbps, true},
		{"far below", wild, 30, 20 * netmap.Mbps, true},
		{"trains that agree, each unsure", sure, 30, 2804 * netmap.Mbps, true},
		{"a sure receiver", sure, 0.02, 1200 * netmap.Mbps, true},
		{"a sure receiver, low", sure, 0.02, 160 * netmap.Mbps, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said netmap.Estimate
				r := newRecorder(&Config{
					Self:  Peer{"b", "s"},
					Peers: func() []Peer { return []Peer{{"a", "s"}} },
					Known: func(string, string) (netmap.Estimate, bool) { return netmap.Estimate{}, false },
					Claimed: func(string, string) (netmap.Estimate, bool) {
						return netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: tt.claim, Measured: time.Now()}, true
					},
					Record: func(_, _ string, e netmap.Estimate) { said = e },
					Log:    slog.New(slog.DiscardHandler),
				})
				for i := range 20 {
					r.received("a", tt.reads[i%len(tt.reads)], tt.spread)
					time.Sleep(10 * time.Second)
				}
				if disputed := said.Known != 0; disputed != tt.disputed {
					t.Errorf("disputed %t, want %t: said %v with spread %.2f", disputed, tt.disputed, said.Bandwidth.Mbps(), said.Spread)
				}
				if most := 10.0; tt.disputed && said.Spread > most {
					t.Errorf("an objection with a spread of %.2f, which says nothing to others", said.Spread)
				}
			})
		})
	}
}
