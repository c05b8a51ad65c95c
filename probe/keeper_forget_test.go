package probe

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A still endpoint is a deaf one that may be told to close what is idle.
type still struct{ deaf }

func (still) CloseIdle(string, time.Duration) {}

// A keeper in whose life more sites come and go than it remembers links goes on lending.
func TestKeeperForgetsSites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stay, hours = 30, 3 // hosts without a label, each a site of its own
		var mu sync.Mutex
		var born int
		p, err := New(Config{
			Self: Peer{"a0", "a"}, Endpoint: still{}, Record: drop,
			Peers: func() []Peer {
				mu.Lock()
				defer mu.Unlock()
				var ps []Peer
				for k := range stay {
					ps = append(ps, Peer{Name: fmt.Sprint("h", born+k)})
				}
				return ps
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan struct{})
		go func() { p.spares(ctx); close(ended) }() // until cancel
		for range hours * 60 {
			for _, q := range p.cfg.Peers() {
				give, err := p.lease(ctx, q.site(), request{use: first, cost: firstCost})
				if err != nil {
					t.Fatalf("the link to %s: %v", q.Name, err)
				}
				give(firstCost, 1e6)
			}
			time.Sleep(time.Minute)
			mu.Lock()
			born += stay
			mu.Unlock()
		}
		cancel()
		<-ended
		if n := len(p.keeper.links); n > (60+5)*stay {
			t.Errorf("%d links are remembered of %d sites in an hour", n, 60*stay)
		}
	})
}

// What a keeper knows of a link stays while somebody has or wants the lease, a host of the other site is a member, or the last hour's
// bytes are to be told: a site that is away for a minute gets no new burst.
func TestKeeperKeepsLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(terms{share: 0.01, burst: 1 << 20})
		link := func(to string) siteLink { return siteLink{"a", to} }
		hold := func(to string) func() {
			release, err := k.acquire(t.Context(), link(to), request{use: first, cost: firstCost})
			if err != nil {
				t.Fatal(err)
			}
			return func() { release(0, 0) }
		}
		hold("member")()
		hold("gone")()
		held, wanted := hold("held"), hold("wanted")
		lends(k, link("spent"), request{use: first, cost: firstCost}, time.Second, firstCost, 1e6)
		got := make(chan func())
		go func() { got <- hold("wanted") }()
		synctest.Wait()
		forget := func(want ...string) {
			t.Helper()
			k.forget(map[string]bool{"member": true}, time.Now())
			for _, to := range []string{"member", "gone", "held", "wanted", "spent"} {
				expected := false
				for _, w := range want {
					expected = expected || w == to
				}
				if (k.links[link(to)] != nil) != expected {
					t.Errorf("the link to %q is remembered: %v", to, !expected)
				}
			}
		}
		forget("member", "held", "wanted", "spent")
		wanted()
		release := <-got
		forget("member", "held", "wanted", "spent")
		held()
		release()
		forget("member", "spent")
		time.Sleep(time.Hour + accountSpan)
		forget("member")
	})
}
