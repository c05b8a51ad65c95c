package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRoom: of a rank's operations only the first so many from the lowest open one on are asked for, in whatever order they end.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := newNumbers()
		const all, many = 40, 5
		var mu sync.Mutex
		asked := make(map[uint64]bool)
		for n := uint64(1); n <= all; n++ {
			ns.next, ns.open[n] = n+1, true
			go func() {
				if left, err := ns.room(t.Context(), n, many, 0); err != nil || left != 0 {
					t.Errorf("operation %d: %v, %v", n, left, err)
				}
				mu.Lock()
				asked[n] = true
				mu.Unlock()
			}()
		}
		end := func(n uint64) {
			ns.mu.Lock()
			ns.close(n)
			ns.mu.Unlock()
		}
		check := func(most uint64) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(asked) != int(most) || !asked[most] {
				t.Errorf("%d operations are asked for, want the first %d", len(asked), most)
			}
		}
		check(many)
		end(2) // the lowest is open
		check(many)
		end(1)
		check(many + 2)
		for n := uint64(3); n <= all; n++ {
			end(n)
			check(min(n+many, all))
		}
		if len(ns.waits) != 0 || ns.low != ns.next {
			t.Errorf("%d waits are left, the lowest is %d of %d", len(ns.waits), ns.low, ns.next)
		}
	})
}

// TestRoomHasATime: who waits for room has the time of the operation, and the agent what is left of it.
func TestRoomHasATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := newNumbers()
		ns.next, ns.open[1], ns.open[2] = 3, true, true
		begun := time.Now()
		if _, err := ns.room(t.Context(), 2, 1, time.Second); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := ns.room(ctx, 2, 1, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, and its context has ended", err)
		}
		time.AfterFunc(time.Second, func() {
			ns.mu.Lock()
			ns.close(1)
			ns.mu.Unlock()
		})
		if left, err := ns.room(t.Context(), 2, 1, time.Minute); err != nil || left != 59*time.Second {
			t.Errorf("%v are left, %v", left, err)
		}
	})
}
