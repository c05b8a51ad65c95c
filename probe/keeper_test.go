package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// lends grants host one lease of l for held, after which it says that it has sent bytes and read
// rate. It returns the refusal, nil if there was none.
func lends(k *keeper, l siteLink, q request, held time.Duration, bytes int64, rate netmap.BytesPerSec) *BusyError {
	release, err := k.acquire(context.Background(), l, q)
	var busy *BusyError
	if errors.As(err, &busy) {
		return busy
	}
	time.Sleep(held)
	release(bytes, rate)
	return nil
}

// Hosts that ask for a link all the time and hold it for as long as they may leave the others a
// third of the turns that they would have, and their requests do not crowd out those of others.
func TestKeeperRationsHogs(t *testing.T) {
	if gridtest.Race {
		t.Skip("hours of leases: run without the race detector, which multiplies its CPU time by ten")
	}
	alone, _ := hogged(t, 0, 0)
	for _, lease := range []time.Duration{longLease, leaseTime, leaseFree, time.Second} {
		turns, held := hogged(t, 2, lease)
		if most := 2*(rationBurst+time.Duration(rationShare*float64(2*time.Hour))) + 4*lease; held > most {
			t.Errorf("held by two hogs, for %v each time, for %v of 2h, want at most %v", lease, held, most)
		}
		if 3*turns < alone {
			t.Errorf("beside hogs that hold a link for %v the others had %d turns, alone %d", lease, turns, alone)
		}
	}
}

// hogged plays two hours of a link that four hosts want to watch and hogs to hold. It returns how many
// turns the four had, and how long the hogs, for lease at a time, held the link.
func hogged(t *testing.T, hogs int, lease time.Duration) (turns int, held time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		k, l := newKeeper(terms{share: 0.01, burst: 1 << 20}), siteLink{"a", "b"}
		end := time.Now().Add(2 * time.Hour)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for hog := range hogs {
			for range 20 { // requests at the same time
				wg.Go(func() {
					for time.Now().Before(end) {
						q := request{host: fmt.Sprintf("hog%d", hog), use: again, cost: 1}
						if busy := lends(k, l, q, lease, 1, 0); busy != nil {
							time.Sleep(min(busy.Retry, 10*time.Second))
							continue
						}
						mu.Lock()
						held += lease
						mu.Unlock()
					}
				})
			}
		}
		for h := range 4 {
			wg.Go(func() {
				for time.Now().Before(end) {
					if lends(k, l, request{host: fmt.Sprintf("h%d", h), use: watch, cost: watchCost}, time.Second, watchCost, 1e7) == nil {
						mu.Lock()
						turns++
						mu.Unlock()
					}
					time.Sleep(10 * time.Second)
				}
			})
		}
		wg.Wait()
		if e := k.links[l]; len(e.waiters) != 0 || len(e.rations.peers) > hogs {
			t.Errorf("left over: %d that wait, %d rations", len(e.waiters), len(e.rations.peers))
		}
	})
	return turns, held
}

// One host's word does not change what a link may carry: a host that reads another rate than all
// others of its site, or says so, neither raises nor lowers it, whatever it says.
func TestKeeperRateIsNotOnOnesWord(t *testing.T) {
	const truth = 5e5
	words := map[string]func(*rand.Rand, int) netmap.BytesPerSec{
		"of another place": func(*rand.Rand, int) netmap.BytesPerSec { return 25 * truth },
		"next to nothing":  func(*rand.Rand, int) netmap.BytesPerSec { return 1 },
		"at random": func(rng *rand.Rand, _ int) netmap.BytesPerSec {
			return netmap.BytesPerSec(math.Exp(rng.Float64() * math.Log(float64(netmap.MaxRate))))
		},
	}
	for what, say := range words {
		for seed := range uint64(5) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 1))
				tm := terms{share: 0.0075, burst: 1 << 20}
				k, l := newKeeper(tm), siteLink{"a", "b"}
				honest := 2 + rng.IntN(4)
				read := make([]netmap.BytesPerSec, honest)
				begin, turns, seconds := time.Now(), 0, 0
				for step := 0; time.Since(begin) < 20*time.Minute; step++ {
					if time.Since(begin) > 5*time.Minute {
						seconds++
					}
					h := step % (honest + 1)
					if h == honest {
						lends(k, l, request{host: "liar", use: watch, cost: watchCost}, 0, maxBulkBytes, say(rng, step))
					} else {
						rate := netmap.BytesPerSec(truth * (0.95 + rng.Float64()/10))
						if lends(k, l, request{host: fmt.Sprintf("h%d", h), use: watch, cost: watchCost, read: read[h]}, 100*time.Millisecond, watchCost, rate) == nil {
							read[h] = rate
							if time.Since(begin) > 5*time.Minute {
								turns++
							}
						}
					}
					if got := k.links[l].budget.rate; step > 6*(honest+1) && (got < 0.9*truth || got > 1.1*truth) {
						t.Fatalf("%s, seed %d: with %d honest hosts the link counts as one of %.3g B/s at step %d, want %g", what, seed, honest, got, step, truth)
					}
					time.Sleep(time.Second)
				}
				// 3.75 kB a second are allowed; of what the liar claims the most that it can have sent.
				if turns < 60 {
					t.Errorf("%s, seed %d: %d honest hosts had %d turns in 15 minutes", what, seed, honest, turns)
				}
				if sum := k.links[l].account.total(time.Now()); float64(sum) > 1.2*(tm.share*truth*1200+truth*bootstrapTime.Seconds()) {
					t.Errorf("%s, seed %d: %d bytes were let through", what, seed, sum)
				}
			})
		}
	}
}

// What hosts read of a link: the newest is news only from who has read something else before.
func TestLinkReadings(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var l linkReadings
	for i, tt := range []struct {
		host         string
		rate         float64
		changed      bool
		median, last float64
	}{
		{"a", 4e6, false, 4e6, 4e6},
		{"x", 100e6, true, 4e6, 100e6}, // the first that it says
		{"b", 4e6, true, 4e6, 4e6},
		{"x", 101e6, false, 4e6, 4e6}, // as ever
		{"c", 4.1e6, false, 4e6, 4.1e6},
		{"a", 1e6, true, 4e6, 1e6}, // the link falls
		{"b", 1e6, false, 1e6, 1e6},
		{"c", 1e6, false, 1e6, 1e6},
		{"x", 100e6, false, 1e6, 1e6},
	} {
		now = now.Add(time.Second)
		if got := l.said(tt.host, tt.rate, now); got != tt.changed || l.rate() != tt.median || l.newest != tt.last {
			t.Errorf("%d: %s says %g: change %v, median %g, newest %g; want %v, %g, %g", i, tt.host, tt.rate, got, l.rate(), l.newest, tt.changed, tt.median, tt.last)
		}
	}
	for i := range 10 * readers {
		l.said(fmt.Sprint(i), 1e6, now)
	}
	if len(l.last) > readers {
		t.Errorf("%d hosts are remembered", len(l.last))
	}
	if l.said("a", 1e6, now.Add(2*readerAge)); len(l.last) != 1 {
		t.Errorf("%d hosts are remembered after %v", len(l.last), 2*readerAge)
	}
}

// Hosts that ask for a link with absurd costs and vanish do not end the measuring of it.
func TestKeeperVanishingHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, l := newKeeper(terms{share: 0.0075, burst: 1 << 20}), siteLink{"a", "b"}
		for h := range 3 {
			lends(k, l, request{host: fmt.Sprint(h), use: first, cost: firstCost}, 200*time.Millisecond, firstCost, 5e5)
		}
		for u := range uses {
			if busy := lends(k, l, request{host: "x", use: u, cost: maxBulkBytes}, 0, maxBulkBytes, 0); busy != nil {
				time.Sleep(busy.Retry)
				lends(k, l, request{host: "x", use: u, cost: maxBulkBytes}, 0, maxBulkBytes, 0)
			}
		}
		time.Sleep(time.Minute)
		for u := range uses {
			if u == glancing || u == together { // there is one, and whoever has it
				continue
			}
			if busy := lends(k, l, request{host: "h", use: u, cost: watchCost}, 0, watchCost, 5e5); busy != nil {
				t.Errorf("a minute later %s waits %v more", useNames[u], busy.Retry)
			}
			time.Sleep(10 * time.Second)
		}
	})
}
