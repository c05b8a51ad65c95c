package probe

import (
	"context"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// TestOperatorsDoNotWait: on a link of 1.25 Mbit/s whose budget is spent, an operator's second and third
// measurement follow the first at once; and what they cost is missing to long probes, not to trains.
func TestOperatorsDoNotWait(t *testing.T) {
	cfg := gridtest.Pair(gridnet.Link{Rate: 1.25 * gridnet.Mbps, Latency: 50 * time.Millisecond})
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, nil)
		w.run(ms, false, func(ctx context.Context) {
			for _, k := range []Kind{KindCapacity, KindLogP, KindBandwidth, KindLogP} {
				begin := time.Now()
				if _, err := ms[0].prober.ProbeOnce(ctx, ms[1].peer, k, nil); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took > time.Minute {
					t.Errorf("%v took %v", k, took)
				} else {
					t.Logf("%v took %v", k, took)
				}
			}
			k := ms[0].prober.keeper
			k.mu.Lock()
			defer k.mu.Unlock()
			for l, e := range k.links {
				t.Logf("%v owes %.0f", l, e.budget.spent)
				if e.budget.spent[first]+e.budget.spent[watch]+e.budget.spent[urgent] > 1 {
					t.Errorf("%v: first, watch, again, urgent owe %.0f", l, e.budget.spent)
				}
			}
		})
	})
}
