package probe

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// Whoever asks the budget before each train stays within burst + share × rate × time,
// but for the last train of each use, whose length was not known before.
func TestBudgetHolds(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rate := 1e4 * (1 + 1e4*rng.Float64()) // 0.08 to 800 Mbit/s
		const share, burst, cost = 0.01, 3 << 20, firstTrain * trainPayload
		limit := min(burst, rate*bootstrapTime.Seconds())
		start := time.Unix(1e9, 0)
		now := start
		b := budget{}
		b.spend(now, first, 0, netmap.BytesPerSec(rate), share)
		var total float64
		var last [uses]float64
		mix := rng.Float64()
		for range 500 {
			u := first
			if rng.Float64() < mix {
				u = again
			}
			if d := b.wait(now, u, cost, share, burst); d > 0 {
				now = now.Add(d)
				if d < time.Minute && b.wait(now, u, cost, share, burst) > 0 {
					t.Fatalf("seed %d: after waiting %v as told it must wait more", seed, d)
				} else if d >= time.Minute {
					continue
				}
			}
			last[u] = float64(trainPayload * (firstTrain + rng.IntN(maxTrain)))
			total += last[u]
			b.spend(now, u, int64(last[u]), netmap.BytesPerSec(rate), share)
			most := max(limit, cost) + last[first] + last[again] + share*rate*now.Sub(start).Seconds()
			if total > most*1.0001 {
				t.Fatalf("seed %d: %.0f bytes after %v at %.0f B/s, want at most %.0f", seed, total, now.Sub(start), rate, most)
			}
			now = now.Add(time.Duration(rng.Int64N(int64(time.Second))))
		}
	}
}

// What one use leaves of the share, the other gets; and no more than the share is given.
func TestBudgetShares(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tt := range []struct{ first, again, wantFirst, wantAgain float64 }{
		{1000, 1000, 950, 950},
		{1000, 0, 900, 0},
		{0, 1000, 0, 900},
		{1000, 20, 920, 0},
		{20, 1000, 0, 920},
		{10, 10, 0, 0},
	} {
		b := budget{spent: [uses]float64{tt.first, tt.again}, at: now, rate: 1e4}
		b.leak(now.Add(time.Second), 0.01)
		if b.spent != [uses]float64{tt.wantFirst, tt.wantAgain} {
			t.Errorf("%v, %v leaks to %v, want %v, %v", tt.first, tt.again, b.spent, tt.wantFirst, tt.wantAgain)
		}
	}
}

func TestBudgetSurvivesAClockThatGoesBack(t *testing.T) {
	var b budget
	now := time.Unix(1e9, 0)
	b.spend(now, first, 1000, 1e6, 0.01)
	b.leak(now.Add(-time.Hour), 0.01)
	if b.spent[first] != 1000 {
		t.Errorf("spent %g, want 1000", b.spent[first])
	}
}

// At no time do two hold the lease of one link, and all who wait get it.
func TestKeeperLeasesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(0.01, 3<<20)
		links := []siteLink{{"UT", "UK"}, {"UT", "NTH"}}
		var mu sync.Mutex
		holders := make(map[siteLink]int)
		got := 0
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				l := links[i%2]
				release, err := k.acquire(context.Background(), l, first)
				if err != nil {
					t.Errorf("%d: %v", i, err)
					return
				}
				mu.Lock()
				holders[l]++
				got++
				if holders[l] > 1 {
					t.Errorf("%d hold %v", holders[l], l)
				}
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				mu.Lock()
				holders[l]--
				mu.Unlock()
				release(1000, 1e6)
			})
		}
		start := time.Now()
		wg.Wait()
		if got != 40 || time.Since(start) != 2*time.Second {
			t.Errorf("%d leases in %v, want 40 in 2s", got, time.Since(start))
		}
	})
}

func TestKeeperRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(0.01, 1<<20)
		l := siteLink{"a", "b"}
		release, err := k.acquire(context.Background(), l, first)
		if err != nil {
			t.Fatal(err)
		}
		var busy *BusyError
		start := time.Now()
		if _, err := k.acquire(context.Background(), l, first); !errors.As(err, &busy) || time.Since(start) != leaseQueue {
			t.Errorf("held: %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := k.acquire(ctx, l, first); err == nil {
			t.Error("held, and the asker gone: granted")
		}
		if n := k.links[l].waiters; n != 0 {
			t.Errorf("%d still wait", n)
		}
		release(1<<20, 1e6)
		if _, err := k.acquire(context.Background(), l, first); !errors.As(err, &busy) || busy.Retry <= 0 {
			t.Fatalf("budget spent: %v", err)
		}
		if _, err := k.acquire(context.Background(), l, again); err != nil {
			t.Errorf("what is measured again has a budget of its own: %v", err)
		}
		k.release(l, again, 0, 0)
		time.Sleep(busy.Retry)
		release, err = k.acquire(context.Background(), l, first)
		if err != nil {
			t.Fatalf("after the time that was named: %v", err)
		}
		release(0, 0)
	})
}

func TestKeeperOf(t *testing.T) {
	members := []Peer{{"b", "UT"}, {"a", "UK"}, {"c", "UT"}, {"d", ""}, {"e", ""}}
	for site, want := range map[string]string{"UT": "b", "UK": "a", "@d": "d", "@e": "e", "NTH": ""} {
		if got := keeperOf(site, members); got != want {
			t.Errorf("keeper of %q is %q, want %q", site, got, want)
		}
	}
}
