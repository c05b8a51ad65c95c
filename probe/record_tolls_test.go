package probe

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/gridagent/gridagent/probe/netmap"
)

// TestTollsAreTold: what exchanges count of losses on the way to a site is gathered over its hosts until it says something, joins what probes have counted, and
// is told again when there is more to say. It makes no rate younger, and is of no use before there is one.
func TestTollsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rated := netmap.Estimate{
			Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 50e6, Bandwidth: 20 * netmap.Mbps, Source: netmap.SourceProbed,
		}
		var told []netmap.Estimate
		to := ""
		r := newRecorder(&Config{
			Self:  Peer{"a0", "a"},
			Peers: func() []Peer { return []Peer{{"b0", "b"}, {"b1", "b"}, {"c0", "c"}} },
			Known: func(_, to string) (netmap.Estimate, bool) { return rated, to != "c0" },
			Record: func(_, peer string, e netmap.Estimate) {
				told, to = append(told, e), peer
			},
			Log: slog.New(slog.DiscardHandler),
		})
		count := func(peer, site string, sent, lost float64, news int) netmap.Estimate {
			t.Helper()
			told = nil
			r.met(peer, site, lossCount{sent, lost})
			if len(told) != news {
				t.Fatalf("%s, %g of %g packets: told %+v, want %d", peer, lost, sent, told, news)
			}
			if news == 0 {
				return netmap.Estimate{}
			}
			return told[0]
		}
		count("b0", "b", tollEnough-10, 1, 0)
		count("c0", "c", tollEnough-10, 1, 0) // another link
		e := count("b1", "b", 10, 1, 1)
		if to != "b1" || e.Loss != 2./tollEnough || e.LossOf != tollEnough || e.Bandwidth != rated.Bandwidth || !e.Measured.Equal(rated.Measured) || e.TellsLoss() {
			t.Errorf("to %s: told %+v", to, e)
		}
		count("b1", "b", tollEnough/2, 1, 0)  // too few again
		count("b1", "b", tollEnough/2, 1, 1)  // twice as many
		count("b1", "b", tollEnough, 2, 0)    // the same share of few more
		count("b1", "b", tollEnough, 10, 1)   // another share
		count("c0", "c", tollEnough, 2, 0)    // no rate is known there
		count("b1", "b", tollEnough, 1e9, 0)  // cannot be
		count("b0", "b", 10*tollEnough, 0, 1) // for the pair at hand
		if to != "b0" || !told[0].TellsLoss() || told[0].Loss != 0 {
			t.Errorf("to %s: told %+v", to, told[0])
		}
	})
}
