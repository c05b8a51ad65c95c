package probe

import (
	"context"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// In an hour that begins when the links are no longer young, all that probers send stays below 1 % of either way between two sites:
// trains, long probes and pings, headers, acknowledgements and the answers to what comes the other way, and what keeps the
// connections alive. One way is a sixteenth of the other, as a host's uplink may be, and carries the answers of both.
func TestRationOfAnHour(t *testing.T) {
	if gridtest.Race {
		t.Skip("an hour: run without the race detector, which multiplies its CPU time by ten")
	}
	cfg := gridnet.Config{
		Sites: []gridnet.Site{
			{Name: "a", Hosts: gridtest.Hosts("a", 1), Rate: 200 * gridnet.Mbps, Latency: 50 * time.Microsecond},
			{Name: "b", Hosts: gridtest.Hosts("b", 1), Rate: 200 * gridnet.Mbps, Latency: 50 * time.Microsecond},
		},
		Links: []gridnet.Link{
			{From: "a", To: "b", Rate: 19.2 * gridnet.Mbps, Latency: 25 * time.Millisecond},
			{From: "b", To: "a", Rate: 1.2 * gridnet.Mbps, Latency: 25 * time.Millisecond},
		},
	}
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, nil)
		w.run(ms, true, func(context.Context) {
			time.Sleep(youth)
			before, trains := n.Stats(), w.bytes()
			time.Sleep(time.Hour)
			after, trains2 := n.Stats(), w.bytes()
			for _, l := range cfg.Links {
				a, _ := after.Link(l.From, l.To)
				b, _ := before.Link(l.From, l.To)
				share := func(bytes float64) float64 { return 100 * bytes / float64(l.Rate) / time.Hour.Seconds() }
				sent := float64(trains2[siteLink{l.From, l.To}] - trains[siteLink{l.From, l.To}])
				t.Logf("%s→%s: %.2f %% of the link, of which trains %.2f %%", l.From, l.To, share(float64(a.Delivered.Bytes-b.Delivered.Bytes)), share(sent))
				if got := share(float64(a.Delivered.Bytes - b.Delivered.Bytes)); got > 0.9 {
					t.Errorf("%s→%s: %.2f %% of the link in an hour, want at most 0.9 %%", l.From, l.To, got)
				}
				if sent < 60*slowTrain*trainPayload {
					t.Errorf("%s→%s: %.0f bytes of trains in an hour: less than one a minute", l.From, l.To, sent)
				}
			}
		})
	})
}
