package probe

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// However much the hosts of a site want, and however their readings differ, what a keeper lends of a link in any hour that begins when it
// is no longer young is the long run's share and one long probe, and first trains of hosts that come later: below 1 %, with room for
// pings and answers.
func TestKeeperRationOfAnHour(t *testing.T) {
	if gridtest.Race {
		t.Skip("hours of leases: run without the race detector, which multiplies its CPU time by ten")
	}
	cfg := Config{Share: 0.01, LinkBurst: 64 << 20}
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 26))
			rate := 6e4 * (1 + 40*rng.Float64()) // 0.5 to 20 Mbit/s
			noise := []float64{0, 0.02, 0.1}[seed%3]
			hosts := 1 + rng.IntN(8)
			k, l := newKeeper(cfg.linkTerms()), siteLink{"a", "b"}
			start := time.Now()
			type sent struct {
				at    time.Duration
				bytes float64
			}
			var all []sent
			long, trains := int64(3*rate), 0
			for round := 0; time.Since(start) < 2*time.Hour+youth; round++ {
				q := request{host: fmt.Sprint(round % hosts), use: watch, cost: watchCost}
				switch rng.IntN(10) {
				case 0:
					q.use = first // of a host that came just now
				case 1:
					q.use, q.cost = first, long // its first long probe
				case 2:
					q.use, q.cost = again, long
				}
				bytes, read := q.cost, netmap.BytesPerSec(0)
				if q.cost == long { // where losses decide it takes all that it may
					bytes = int64(rate * longTime.Seconds() * (0.2 + 0.8*rng.Float64()))
				} else {
					read = netmap.BytesPerSec(rate * (1 + noise*(2*rng.Float64()-1)))
				}
				took := time.Duration(float64(bytes) / rate * float64(time.Second))
				if busy := lends(k, l, q, took, bytes, read); busy == nil {
					all = append(all, sent{time.Since(start), float64(bytes)})
					if q.use == watch {
						trains++
					}
				}
				time.Sleep(time.Second)
			}
			most := (accounted*cfg.Share*3600 + longTime.Seconds() + lateTime.Seconds()) * rate
			worst := 0.0
			for i, from := range all {
				sum := 0.0
				for _, s := range all[i:] {
					if s.at-from.at < time.Hour {
						sum += s.bytes
					}
				}
				if from.at >= youth {
					worst = max(worst, sum)
				}
			}
			t.Logf("seed %d: %d hosts, %.2f Mbit/s, readings off by %g: %.2f %% in the worst hour, %d trains", seed, hosts, rate*8/1e6, noise, 100*worst/rate/3600, trains)
			if worst > most {
				t.Errorf("seed %d: %.2f %% of the link in an hour, want at most %.2f %%", seed, 100*worst/rate/3600, 100*most/rate/3600)
			}
			if trains < 60 {
				t.Errorf("seed %d: %d trains in two hours", seed, trains)
			}
		})
	}
}
