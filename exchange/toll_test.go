package exchange

import (
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/probe/netmap"
)

// TestTally: what is lost while round trips show a queue, or did at the last look, is of the exchange, and what is lost otherwise of the path.
func TestTally(t *testing.T) {
	const ms = time.Millisecond
	st := quic.ConnectionStats{MinRTT: 100 * ms}
	far := tally{path: Path{RTT: 100 * ms, Rate: 20 * netmap.Mbps}}
	look := func(c *tally, latest, smoothed time.Duration, sent, lost uint64) {
		st.LatestRTT, st.SmoothedRTT = latest, smoothed
		st.PacketsSent, st.PacketsLost = st.PacketsSent+sent, st.PacketsLost+lost
		c.look(st)
	}
	want := func(c *tally, sent, lost uint64, why string) {
		t.Helper()
		if got := c.take(); got.Sent != sent || got.Lost != lost {
			t.Errorf("%s: %d of %d packets lost, want %d of %d", why, got.Lost, got.Sent, lost, sent)
		}
	}
	look(&far, 100*ms, 100*ms, 1000, 50)
	want(&far, 0, 0, "before the first look")
	look(&far, 101*ms, 103*ms, 100, 2)
	look(&far, 108*ms, 104*ms, 100, 1)
	want(&far, 200, 3, "calm")
	look(&far, 130*ms, 108*ms, 100, 9)
	look(&far, 104*ms, 108*ms, 100, 9)
	want(&far, 0, 0, "a queue, and the look behind it")
	look(&far, 104*ms, 104*ms, 10, 1)
	look(&far, 104*ms, 140*ms, 100, 9)
	want(&far, 10, 1, "calm again until a queue shows in the mean")
	look(&far, 104*ms, 104*ms, 10, 1)
	far.again()
	st.PacketsSent, st.PacketsLost = 7, 0
	look(&far, 104*ms, 104*ms, 0, 0)
	want(&far, 0, 0, "another connection")

	late := tally{path: far.path} // its connection was opened while a queue stood
	st.MinRTT = 140 * ms
	look(&late, 141*ms, 141*ms, 100, 0)
	look(&late, 141*ms, 141*ms, 100, 10)
	want(&late, 0, 0, "round trips longer than the map says")

	for what, p := range map[string]Path{
		"nothing known": {}, "a fast link": {RTT: 100 * ms, Rate: 10_000 * netmap.Mbps},
	} {
		c := tally{path: p}
		st.MinRTT = 100 * ms
		for range 3 {
			look(&c, 101*ms, 101*ms, 100, 1)
		}
		want(&c, 0, 0, what)
	}
}
