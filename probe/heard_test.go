package probe

import (
	"encoding/binary"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// On a fast LAN each session is a train of 8 packets, which are found at once and seem six times as fast as the link, and one
// that is long enough. Who receives it goes by the latter, as the sender does, and objects to no honest claim.
func TestShortTrainsAreNoObjection(t *testing.T) {
	const link = 118e6 // bytes a second
	synctest.Test(t, func(t *testing.T) {
		objected := 0
		r := newRecorder(&Config{
			Self:  Peer{"a0", "a"},
			Peers: func() []Peer { return []Peer{{"a1", "a"}} },
			Known: func(string, string) (netmap.Estimate, bool) { return netmap.Estimate{}, false },
			Claimed: func(string, string) (netmap.Estimate, bool) {
				return netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: link, Source: netmap.SourceProbed, Measured: time.Now()}, true
			},
			Record: func(_, _ string, e netmap.Estimate) {
				if e.Has(netmap.FieldBandwidth) {
					objected++
				}
			},
			Log: slog.New(slog.DiscardHandler),
		})
		for range 5 * 12 {
			a, b := pipes()
			c := &catcher{}
			go func() {
				m, _ := readMessage(b, opTrain)
				c.respond(t.Context(), b, m, idle, func(got reading) { r.received("a1", bandwidth(got.Rate), got.Spread) })
			}()
			res, err := initiate(t.Context(), a, message{Op: opTrain, Count: watchTrain}, func(id trainID, count int) (time.Duration, error) {
				rate := 730e6
				if count == maxTrain {
					rate = link
				}
				start, p := time.Now(), make([]byte, trainPayload-1)
				copy(p, id[:])
				time.Sleep(time.Duration(float64(count) * userPayload / link * float64(time.Second)))
				for seq := range count {
					binary.BigEndian.PutUint16(p[len(id):], uint16(seq))
					c.packet(p, nil, start.Add(time.Duration(float64(seq)*userPayload/rate*float64(time.Second))))
				}
				return time.Since(start), nil
			}, always)
			if err != nil || res.Trains != 2 || apart(float64(res.Bandwidth), link) > 0.02 {
				t.Fatalf("%+v, %v", res, err)
			}
			time.Sleep(5 * time.Second)
		}
		if got := r.arrives("a1"); apart(float64(got), link) > 0.02 || objected > 0 {
			t.Errorf("%.3g bytes a second seem to arrive, and %d times it objects; want %.3g and none", float64(got), objected, link)
		}
	})
}
