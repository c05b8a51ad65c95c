package probe

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// Whom a host asks for a link whose keepers refuse it: the first, after a while the second, then itself; and
// the first again, who is believed as soon as it grants something.
func TestDeniedKeepers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members := []Peer{{"a0", "a"}, {"a1", "a"}, {"a2", "a"}, {"b0", "b"}}
		p := &Prober{cfg: Config{Self: members[2], Peers: func() []Peer { return members }, Share: 0.01}, keeper: newKeeper(terms{})}
		p.links = map[string]*linkState{"b": {read: 5e5}, "c": {}}
		asked := map[string]int{}
		refused := func(d time.Duration, why string) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Minute) {
				name := p.lender("b")
				asked[name]++
				p.answered(name, "b", fmt.Errorf("lease: %w", &BusyError{time.Second, why}))
			}
		}
		if p.lender("b") != "a0" || p.lender("c") != "a0" || len(p.Warnings(time.Now())) != 0 {
			t.Fatalf("before anything: %s, %s, %q", p.lender("b"), p.lender("c"), p.Warnings(time.Now()))
		}
		refused(denyAfter-time.Minute, "budget of the link")
		p.answered("a0", "b", errors.New("no answer")) // that is counted elsewhere
		if p.lender("b") != "a0" {
			t.Errorf("before %v are over: %s", denyAfter, p.lender("b"))
		}
		refused(2*time.Minute, "budget\x1b of the link")
		if p.lender("b") != "a1" || p.lender("c") != "a0" {
			t.Errorf("after %v: %s for the link, %s for another", denyAfter, p.lender("b"), p.lender("c"))
		}
		if w := p.Warnings(time.Now()); len(w) != 1 || !strings.HasPrefix(w[0], "host a0: ") || strings.Contains(w[0], "\x1b") {
			t.Errorf("warnings %q", w)
		}
		clear(asked)
		refused(2*time.Hour, "no")
		if asked["a0"] > 15 || asked["a1"] > 30 || asked["a2"] == 0 || len(asked) != 3 {
			t.Errorf("asked in two hours: %v", asked)
		}
		time.Sleep(denyRest)
		p.answered("a0", "b", nil)
		if p.lender("b") != "a0" || strings.Contains(fmt.Sprint(p.Warnings(time.Now())), "a0") {
			t.Errorf("after a grant: %s, %q", p.lender("b"), p.Warnings(time.Now()))
		}
		// An exchange may last.
		refused(denyExchange-time.Minute, "exchange")
		if p.lender("b") != "a0" {
			t.Errorf("during an exchange: %s", p.lender("b"))
		}
		if n := len(p.links["b"].denied); n > len(members) {
			t.Errorf("%d keepers are remembered", n)
		}
	})
}

// On a slow link a turn takes its time, and an honest keeper is not taken for one that refuses.
func TestSlowKeepersAreNotDenied(t *testing.T) {
	now := time.Now()
	for _, turn := range []time.Duration{0, time.Second, denyAfter, time.Hour} {
		if d := (denial{n: 100, since: now, last: now.Add(2 * turn)}); d.lasts(turn) {
			t.Errorf("two turns of %v are a denial", turn)
		}
		if d := (denial{n: denyLeast, since: now, last: now.Add(denyAfter + denyTurns*turn)}); !d.lasts(turn) {
			t.Errorf("turns of %v: it never is one", turn)
		}
	}
}

// A keeper by whose leases another host of the site measures the link has not denied it, however unlucky this host is. Once it
// was passed over, what others measure is by leases of the next one, and says nothing for it.
func TestKeeperThatLendsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members := []Peer{{"a0", "a"}, {"a1", "a"}, {"a2", "a"}, {"b0", "b"}}
		measuring := map[string]bool{"a0": true, "a1": true, "a2": true}
		p := &Prober{keeper: newKeeper(terms{}), cfg: Config{
			Self: members[2], Peers: func() []Peer { return members }, Share: 0.01,
			Known: func(from, to string) (netmap.Estimate, bool) {
				return netmap.Estimate{Source: netmap.SourceProbed, Measured: time.Now()}, measuring[from] && to == "b0"
			},
		}}
		p.links = map[string]*linkState{"b": {read: 5e5}}
		for _, step := range []struct {
			others bool
			lender string
		}{{true, "a0"}, {false, "a1"}, {true, "a1"}} {
			measuring["a1"] = step.others
			for range 12 {
				p.answered("a0", "b", fmt.Errorf("lease: %w", &BusyError{time.Second, "budget of the link"}))
				time.Sleep(time.Minute)
			}
			if got := p.lender("b"); got != step.lender || (len(p.Warnings(time.Now())) > 0) != (got != "a0") {
				t.Errorf("others measure the link: %v: %s is asked, want %s; warnings %q", step.others, got, step.lender, p.Warnings(time.Now()))
			}
		}
	})
}

// Who has held a site's links for long is told of, honest or not.
func TestLongHoldsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(terms{})
		for i, want := range []int{0, 1, 0} {
			var release func()
			if i < 2 {
				var err error
				if release, _, err = k.hold("x"); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(holdTold - time.Minute + time.Duration(i)*time.Minute)
			if w := k.longHolds(time.Now()); len(w) != want {
				t.Errorf("step %d: %q, want %d", i, w, want)
			}
			if release != nil {
				release()
			}
		}
	})
}
