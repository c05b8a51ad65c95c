package lane_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

const quiet = time.Minute

// Lane 0 is closed when neither end has use for it and it had no streams for long enough.
func TestCloseIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.start("b0")
		both := func(want int, why string) {
			t.Helper()
			a.CloseIdle("b0", quiet)
			b.CloseIdle("a0", quiet)
			time.Sleep(2 * time.Second)
			if n, m := a.Links(), b.Links(); n != want || m != want {
				t.Errorf("%s: %d and %d connections, want %d", why, n, m, want)
			}
		}
		a.mustTalk(t, "b0", 0)
		both(1, "just used")
		time.Sleep(2 * quiet)
		a.CloseIdle("b0", quiet)
		a.CloseIdle("b0", quiet)
		a.CloseIdle("nobody", quiet)
		time.Sleep(2 * time.Second)
		a.wantLinks(t, 1) // b has not said so
		a.mustTalk(t, "b0", 0)
		time.Sleep(2 * quiet) // a's word has lapsed, by time and by the stream
		b.CloseIdle("a0", quiet)
		time.Sleep(2 * time.Second)
		b.wantLinks(t, 1)
		both(1, "a stream has ended since a has looked")
		time.Sleep(quiet)
		both(0, "spare at both")
		b.mustTalk(t, "a0", 0)
		both(1, "dialed again")
		s := a.open(t, "b0", held)
		time.Sleep(3 * quiet)
		both(1, "with a stream from a")
		s.Abort()
		b.mustTalk(t, "a0", 0)
		time.Sleep(3 * quiet)
		both(1, "with a stream that ended at an unknown time")
		time.Sleep(quiet)
		both(0, "spare again")
		a.stop()
		b.stop()
	})
}

// Streams that are opened while connections are closed all around are never cut.
func TestCloseIdleCutsNothing(t *testing.T) {
	for seed := range uint64(5) {
		inBubble(t, func(t *testing.T, c *cluster) {
			long := func(cfg *lane.Config) { cfg.IdleTimeout = time.Minute }
			a, b := c.start("a0", long), c.start("b0", long)
			closed := 0 // by a
			var tasks sync.WaitGroup
			for i, n := range []*node{a, b} {
				to := []string{"b0", "a0"}[i]
				tasks.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(i)))
					for k := range 100 {
						time.Sleep(time.Duration(rng.IntN(25_000)) * time.Millisecond)
						if err := n.talk(to, 0); err != nil {
							t.Errorf("seed %d: stream %d to %s: %v", seed, k, to, err)
						}
					}
				})
				tasks.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(2+i)))
					for range 300 {
						time.Sleep(time.Duration(rng.IntN(10_000)) * time.Millisecond)
						n.CloseIdle(to, 0)
						if i == 0 && n.Links() == 0 {
							closed++
						}
					}
				})
			}
			tasks.Wait()
			time.Sleep(10 * time.Second)
			if n, m := a.Links(), b.Links(); n > 3 || m > 3 {
				t.Errorf("seed %d: %d and %d connections are left", seed, n, m)
			}
			if closed == 0 {
				t.Errorf("seed %d: nothing was ever closed", seed)
			}
			a.stop()
			b.stop()
		})
	}
}
