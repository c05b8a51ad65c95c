package probe

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A receiver that says that next to nothing arrives does not end the measuring of a link that one host reads, and gets it no more probes
// than the link's budget has.
func TestLowWordEndsNoMeasuring(t *testing.T) {
	const truth = 5e5 // bytes a second
	tm := terms{share: 0.0075, burst: 1 << 20}
	l, h := siteLink{"a", "b"}, "h"
	lent := func(t *testing.T, k *keeper, u use) {
		t.Helper()
		start := time.Now()
		for {
			busy := lends(k, l, request{host: h, use: u, cost: watchCost}, 300*time.Millisecond, watchCost, truth)
			if took := time.Since(start); busy == nil && took < time.Hour {
				return
			} else if took >= time.Hour {
				t.Fatalf("no lease to %s in %v", useNames[u], took)
			}
			time.Sleep(busy.Retry)
		}
	}
	for _, lie := range []netmap.BytesPerSec{1, 1e-6, 100} {
		for _, late := range []bool{false, true} { // or in the middle of a session that it holds up
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(tm)
				for range 20 {
					lent(t, k, watch)
					time.Sleep(watchGap)
				}
				held := 300 * time.Millisecond
				if late {
					held = sessionTime
				}
				time.Sleep(time.Minute)
				if busy := lends(k, l, request{host: h, use: watch, cost: watchCost}, held, watchCost, lie); busy != nil {
					t.Fatal(busy)
				}
				lent(t, k, watch)
				time.Sleep(time.Minute)
				lent(t, k, watch) // what was charged meanwhile is no debt of the honest rate
			})
		}
	}
	synctest.Test(t, func(t *testing.T) { // the first word of all, after a train that was lost
		k := newKeeper(tm)
		for _, q := range []struct {
			use  use
			says netmap.BytesPerSec
		}{{watch, 0}, {urgent, 1}} {
			if busy := lends(k, l, request{host: h, use: q.use, cost: watchCost}, 300*time.Millisecond, watchCost, q.says); busy != nil {
				t.Fatal(busy)
			}
		}
		lent(t, k, watch)
	})
	for _, lie := range []netmap.BytesPerSec{1, 1e-6, 1000} { // always
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(tm)
			start, sent := time.Now(), 0
			for time.Since(start) < 2*time.Hour {
				if busy := lends(k, l, request{host: h, use: watch, cost: watchCost}, 100*time.Millisecond, watchCost, lie); busy == nil {
					sent += watchCost
				}
				time.Sleep(time.Second)
			}
			if most := tm.share * truth * 2 * 3600; float64(sent) > most || sent < 2*watchCost {
				t.Errorf("%g B/s, said all the time: %d bytes in two hours, want at most %.0f", float64(lie), sent, most)
			}
		})
	}
}
