package exchange

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gridagent/gridagent/exchange/plan"
)

// leaf returns the plan in which host 1 gets a block of size bytes from host 0 and sends nothing.
func leaf(size int64) *plan.Plan {
	b := newPlanner(plan.Allgather, 2)
	b.add(0, 1, plan.Block{Origin: 0, Dest: plan.All})
	b.p.Sizes = []int64{size, 0}
	return b.p
}

// TestArrivesBeforeExecute: all that a host is to get may come after its run is known to the streams that wait, and before its goroutine goes on.
func TestArrivesBeforeExecute(t *testing.T) {
	for _, unsure := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			g := newFakeGrid(t, hostNames(2), nil)
			j := newJob(t, rand.New(rand.NewPCG(1, 110)), leaf(1000), 100)
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := g.engines["host0"].Run(t.Context(), j.parts[0], j.data[0]); err != nil {
					t.Error(err)
				}
			})
			sure := make(chan struct{})
			if unsure {
				j.data[1].Sure = sure
			}
			e := g.engines["host1"]
			x, err := newRun(t.Context(), e, j.parts[1], j.data[1])
			if err != nil {
				t.Fatal(err)
			}
			if err := e.begin(x); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // all that host 0 has sent is here
			select {
			case <-x.done:
			default:
				t.Fatal("something is missing: the test tests nothing")
			}
			select {
			case <-x.landed:
				if unsure {
					t.Error("landed before it is sure of the others")
				}
			default:
			}
			close(sure)
			if err := x.execute(context.Background()); err != nil {
				t.Error(err)
			}
			if err := j.check(1); err != nil {
				t.Error(err)
			}
			x.cancel(nil)
			wg.Wait()
			g.accepts.Wait()
		})
	}
}
