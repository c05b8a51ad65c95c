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

	"github.com/gridagent/gridagent/probe/netmap"
)

// Whoever asks the budget before each train stays within the bursts + share × rate × time,
// but for the last train of each use, whose length was not known before; and after the wait
// that was named the budget is open.
func TestBudgetHolds(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rate := 1e4 * (1 + 1e4*rng.Float64()) // 0.08 to 800 Mbit/s
		const cost = firstTrain * trainPayload
		terms := terms{share: 0.01, burst: 3 << 20}
		if rng.IntN(3) == 0 {
			terms.ceiling = 1e3 * (1 + 100*rng.Float64())
		}
		limit := min(float64(terms.burst), rate*bootstrapTime.Seconds()) + min(float64(terms.burst), rate*urgentTime.Seconds())
		start := time.Unix(1e9, 0)
		now := start
		b := budget{}
		b.spend(now, first, 0, netmap.BytesPerSec(rate), terms)
		var total float64
		var last [uses]float64
		for range 300 {
			u := use(rng.IntN(int(uses)))
			if d := b.wait(now, u, cost, terms); d > 0 {
				if d > time.Minute {
					t.Fatalf("seed %d: told to wait %v", seed, d)
				}
				now = now.Add(d)
				if b.wait(now, u, cost, terms) > 0 {
					if d < time.Minute {
						t.Fatalf("seed %d: after waiting %v as told it must wait more", seed, d)
					}
					continue
				}
			}
			last[u] = float64(trainPayload * (firstTrain + rng.IntN(maxTrain)))
			total += last[u]
			b.spend(now, u, int64(last[u]), netmap.BytesPerSec(rate), terms)
			most := limit + 3*cost + last[first] + last[watch] + last[again] + last[urgent] + last[searching] + b.allowance(terms)*now.Sub(start).Seconds()
			if total > most*1.0001 {
				t.Fatalf("seed %d: %.0f bytes after %v at %.0f B/s, want at most %.0f", seed, total, now.Sub(start), rate, most)
			}
			now = now.Add(time.Duration(rng.Int64N(int64(time.Second))))
		}
	}
}

// What is given to all uses together is the allowance, or all debts if they are less; each
// use gets its part at least.
func TestBudgetShares(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 2))
		now := time.Unix(1e9, 0)
		b := budget{at: now, rate: 1e4}
		for u := range b.spent {
			if rng.IntN(3) > 0 {
				b.spent[u] = 300 * rng.Float64()
			}
		}
		before := b.spent
		b.leak(now.Add(time.Second), terms{share: 0.01})
		var debts, given float64
		for u := range before {
			debts += before[u]
			d := before[u] - b.spent[u]
			given += d
			if d < min(before[u], 100*parts[u])-1e-9 || b.spent[u] < 0 {
				t.Fatalf("seed %d: %v leaks to %v: use %d got %g", seed, before, b.spent, u, d)
			}
		}
		if want := min(debts, 100); math.Abs(given-want) > 1e-6 {
			t.Fatalf("seed %d: %v leaks to %v: %g in all, want %g", seed, before, b.spent, given, want)
		}
	}
	sum := 0.0
	for _, p := range parts {
		sum += p
	}
	if math.Abs(sum-1) > 1e-12 {
		t.Errorf("the parts sum to %g", sum)
	}
}

func TestBudgetSurvivesAClockThatGoesBack(t *testing.T) {
	var b budget
	now := time.Unix(1e9, 0)
	b.spend(now, first, 1000, 1e6, terms{share: 0.01})
	b.leak(now.Add(-time.Hour), terms{share: 0.01})
	if b.spent[first] != 1000 {
		t.Errorf("spent %g, want 1000", b.spent[first])
	}
	var a account
	a.add(now, 1000)
	if got := a.total(now.Add(-time.Hour)); got != 1000 {
		t.Errorf("the account says %d, want 1000", got)
	}
}

// A link that has fallen is looked at as often, in its own time, as before.
func TestDebtsAreOfALinksTime(t *testing.T) {
	var b budget
	now := time.Unix(1e9, 0)
	b.spend(now, first, 1e5, 1e6, terms{share: 0.01})
	b.spend(now, watch, 0, 1e5, terms{share: 0.01})
	if got := b.spent[first]; math.Abs(got-1e4) > 1e-6 {
		t.Errorf("a tenth of the rate leaves debts of %g, want 1e4", got)
	}
	for range 50 { // readings that differ forgive nothing
		b.spend(now, watch, 0, 1.03e5, terms{share: 0.01})
		b.spend(now, watch, 0, 1e5, terms{share: 0.01})
	}
	if got := b.spent[first]; math.Abs(got-1e4) > 1e-6 {
		t.Errorf("readings that go up and down by 3 %% leave debts of %g, want 1e4", got)
	}
	b.spend(now, watch, 0, 1e7, terms{share: 0.01})
	if got := b.spent[first]; math.Abs(got-1e5) > 1e-6 {
		t.Errorf("above the rate at which they were made debts are %g, want 1e5", got)
	}
}

// The account is never less than the truth of the last hour, and its sum never more than that of
// the last hour and a half minute.
func TestAccount(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var a account
		type sent struct {
			at    time.Time
			bytes int64
		}
		var all []sent
		now := time.Unix(1e9, rng.Int64N(1e9))
		for range 400 {
			now = now.Add(time.Duration(rng.Int64N(int64(40 * time.Second))))
			if rng.IntN(50) == 0 {
				now = now.Add(time.Duration(rng.Int64N(int64(2 * time.Hour))))
			}
			n := rng.Int64N(1e6)
			a.add(now, n)
			all = append(all, sent{now, n})
			var least, most int64
			for _, s := range all {
				if age := now.Sub(s.at); age < time.Hour {
					least += s.bytes
					most += s.bytes
				} else if age < time.Hour+accountSpan {
					most += s.bytes
				}
			}
			if got := a.total(now); got < least || got > most {
				t.Fatalf("seed %d: %d, want %d to %d", seed, got, least, most)
			}
		}
	}
}

// ask is what a host asks for a first train.
func ask(u use) request { return request{use: u, cost: firstTrain * trainPayload} }

// At no time do two hold the lease of one link, and all who wait get it.
func TestKeeperLeasesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(terms{share: 0.01, burst: 3 << 20})
		links := []siteLink{{"UT", "UK"}, {"UT", "NTH"}}
		var mu sync.Mutex
		holders := make(map[siteLink]int)
		got := 0
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				l := links[i%2]
				q := ask(first)
				q.host, q.cost = fmt.Sprintf("h%d", i), firstCost+1 // a long probe's
				release, err := k.acquire(context.Background(), l, q)
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
		k := newKeeper(terms{share: 0.01, burst: 1 << 20})
		l := siteLink{"a", "b"}
		release, err := k.acquire(context.Background(), l, ask(first))
		if err != nil {
			t.Fatal(err)
		}
		var busy *BusyError
		start := time.Now()
		if _, err := k.acquire(context.Background(), l, ask(again)); !errors.As(err, &busy) || time.Since(start) != leaseQueue {
			t.Errorf("held: %v after %v", err, time.Since(start))
		}
		time.Sleep(insideTime)
		for _, u := range []use{first, watch} { // trains of a turn
			round, _ := roundAt(time.Now())
			_, err := k.acquire(context.Background(), l, ask(u))
			if r, into := roundAt(time.Now()); !errors.As(err, &busy) || r != round+1 || into >= insideTime || into+busy.Retry >= insideTime {
				t.Errorf("held: %v, %v into round %d of what a turn of round %d has asked for, want before the next turns", err, into, r, round)
			}
			time.Sleep(insideTime)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := k.acquire(ctx, l, ask(first)); err == nil {
			t.Error("held, and the asker gone: granted")
		}
		if n := len(k.links[l].waiters); n != 0 {
			t.Errorf("%d still wait", n)
		}
		release(1<<20, 1e6)
		if _, err := k.acquire(context.Background(), l, ask(first)); !errors.As(err, &busy) || busy.Retry <= 0 {
			t.Fatalf("budget spent: %v", err)
		}
		retry := busy.Retry
		release, err = k.acquire(context.Background(), l, ask(again))
		if err != nil {
			t.Fatalf("what is measured again has a budget of its own: %v", err)
		}
		release(0, 0)
		for wait := retry; ; wait = busy.Retry { // each is at most a minute
			time.Sleep(wait)
			if release, err = k.acquire(context.Background(), l, ask(first)); err == nil {
				break
			} else if !errors.As(err, &busy) || busy.Retry < time.Second || time.Since(start) > time.Hour {
				t.Fatalf("after the time that was named: %v", err)
			}
		}
		release(0, 0)
	})
}

// A link is watched at most so often; whose reading is outdated gets its turn all the same, and
// during an exchange nobody else does, once in 10 s.
func TestKeeperWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(terms{share: 0.01, burst: 1 << 20})
		l := siteLink{"a", "b"}
		take := func(q request, rate netmap.BytesPerSec) time.Duration {
			q.cost = watchCost
			release, err := k.acquire(context.Background(), l, q)
			var busy *BusyError
			if errors.As(err, &busy) {
				return busy.Retry
			} else if err != nil {
				t.Fatal(err)
			}
			release(watchCost, rate)
			return 0
		}
		if d := take(request{use: watch}, 1e7); d != 0 {
			t.Fatalf("the first waits %v", d)
		}
		if d := take(request{use: watch, read: 1e7}, 1e7); d <= 0 || d > watchGap {
			t.Errorf("the second is told to wait %v", d)
		}
		time.Sleep(watchGap)
		if d := take(request{use: watch, read: 1e7}, 2.5e6); d != 0 {
			t.Errorf("after the gap it waits %v", d)
		}
		if d := take(request{use: watch, read: 2.5e6}, 2.5e6); d == 0 {
			t.Error("who knows of the fall gets another train at once")
		}
		for i := range 8 {
			if d := take(request{use: watch, read: 1e7}, 2.5e6); d != 0 {
				t.Errorf("host %d has not seen that the link fell, and waits %v", i, d)
			}
		}
		time.Sleep(time.Minute)
		if d := take(request{use: watch, read: 2.5e6, busy: true}, 2.5e6); d == 0 {
			t.Error("watched during an exchange")
		}
		if d := take(request{use: urgent, busy: true}, 2.5e6); d != 0 {
			t.Errorf("a second opinion during an exchange waits %v", d)
		}
		if d := take(request{use: urgent, busy: true}, 2.5e6); d <= 0 || d > urgentGap {
			t.Errorf("another one waits %v", d)
		}
	})
}

// A holder that claims to have sent more than a link carries is not believed.
func TestKeeperBoundsClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(terms{share: 0.01, burst: 1 << 20})
		l := siteLink{"a", "b"}
		release, err := k.acquire(context.Background(), l, ask(again))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		release(maxBulkBytes, 1e6)
		if got := k.costs(time.Now()); len(got) != 1 || got[0].LastHour > 2*firstCost+2e6 || got[0].Capacity != 1e6 {
			t.Errorf("%+v", got)
		}
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

// What a lease asks for survives the way, and no other use is understood.
func TestLeaseMessage(t *testing.T) {
	for u := range uses {
		q := request{use: u, cost: 12345, read: 1e6}
		m := leaseMessage("UK", q)
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
		if got, err := m.request(); err != nil || got != q {
			t.Errorf("%+v became %+v, %v", q, got, err)
		}
	}
	if _, err := (message{Op: opLease, Use: "all of it"}).request(); !errors.Is(err, errInvalid) {
		t.Errorf("an unknown use: %v", err)
	}
}
