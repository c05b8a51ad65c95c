package probe

import (
	"context"
	"io"
	"math"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// Strangers whose packets come at random make a bulk probe longer and less sure, and not biased: what it reads while its own
// slow start fills the queue is a fifth too much, and a part of a second agrees with itself by chance.
func TestBulkBesideStrangers(t *testing.T) {
	if gridtest.Race {
		t.Skip("seconds of CPU, and twelve times as much with the race detector")
	}
	const runs = 12
	rate := 1.16 * gridnet.Mbps
	inBulkWorld(t, gridtest.Pair(gridnet.Link{Rate: rate, Latency: 10 * time.Millisecond}), nil, func(ctx context.Context, t *testing.T, w *bulkWorld) {
		for _, l := range [][2]string{{"a", "b"}, {"b", "a"}} {
			if _, err := w.n.StartCross(gridnet.CrossTraffic{From: l[0], To: l[1], Rate: 0.3 * rate, Poisson: true}); err != nil {
				t.Error(err)
				return
			}
		}
		truth := w.truth(ctx, 1, 5*time.Second, 2*time.Minute)
		var mean, z float64
		for range runs {
			time.Sleep(time.Second)
			r, err := w.from.prober.bulk(ctx, w.to.peer, bulkOptions{link: linkTruth(rate), bytes: 2 << 20})
			if err != nil {
				t.Error(err)
				return
			}
			off := float64(r.Rate)/truth - 1
			t.Logf("%.3f Mbit/s, %+.1f %%, spread %.3f, enough %v, %d kB in %v", r.Rate.Mbps(), 100*off, r.Spread, r.Enough, r.Bytes/1000, r.Took)
			mean, z = mean+off/runs, z+off*off/r.Spread/r.Spread/runs
			if !r.Enough || r.Took > 8*time.Second {
				t.Errorf("enough %v after %v", r.Enough, r.Took)
			}
		}
		z = math.Sqrt(z)
		t.Logf("%+.1f %% in the mean; errors are %.1f times what is stated", 100*mean, z)
		if math.Abs(mean) > 0.06 || z > 2 {
			t.Errorf("%+.1f %% in the mean, want at most 6; errors are %.1f times what is stated, want at most 2", 100*mean, z)
		}
	})
}

// A bulk probe that meets flows of users, which give way to it and take back, does not wait until their rates are steady.
func TestBulkMeetsUsers(t *testing.T) {
	if gridtest.Race {
		t.Skip("seconds of CPU, and twelve times as much with the race detector")
	}
	const ms = time.Millisecond
	for _, tt := range []struct {
		link  gridnet.Link
		flows int
		after time.Duration // of their start
	}{
		{gridnet.Link{Rate: 1.25 * gridnet.Mbps, Latency: 50 * ms}, 1, 0},
		{gridnet.Link{Rate: 2.5 * gridnet.Mbps, Latency: 20 * ms}, 3, 3 * time.Second},
		{gridnet.Link{Rate: 5 * gridnet.Mbps, Latency: 5 * ms}, 3, 3 * time.Second},
	} {
		inBulkWorld(t, gridtest.Pair(tt.link), nil, func(ctx context.Context, t *testing.T, w *bulkWorld) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() { // ends below
				for range w.arrived {
				}
			}()
			for i := range tt.flows {
				s, err := w.from.endpoint.Open(ctx, "b0", 1+i, lane.StreamData)
				if err != nil {
					t.Error(err)
					return
				}
				context.AfterFunc(ctx, s.Abort)
				go io.Copy(s, zeros{})
			}
			time.Sleep(tt.after)
			link := linkTruth(tt.link.Rate)
			r, err := w.from.prober.bulk(ctx, w.to.peer, bulkOptions{link: link, rtt: 2 * tt.link.Latency, bytes: int64(link * bootstrapTime.Seconds()), time: maxBulkTime})
			part := float64(r.Rate) / link
			t.Logf("%.2f of the link, spread %.3f, enough %v, %d kB in %v, %v", part, r.Spread, r.Enough, r.Bytes/1000, r.Took, err)
			if err != nil || r.Took > 7500*time.Millisecond {
				t.Errorf("%v after %v, want at most 7.5s", err, r.Took)
			}
			if fair := 1 / float64(tt.flows+1); part < fair/2 || part > min(2*fair, fills) || r.Spread <= steadyError {
				t.Errorf("%.2f of a link that %d others have, spread %.3f", part, tt.flows, r.Spread)
			}
			cancel()
			time.Sleep(time.Second)
			close(w.arrived)
		})
	}
}
