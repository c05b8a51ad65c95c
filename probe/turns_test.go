package probe

import (
	"testing"
	"testing/synctest"
	"time"
)

// A suspect that declines is asked once in a turn, and then the others are.
func TestSuspectIsAskedOnceInATurn(t *testing.T) {
	for _, retry := range []time.Duration{slotRetry, busyRetry} {
		synctest.Test(t, func(t *testing.T) {
			e := &declining{after: 2 * time.Millisecond, retry: retry, n: make(map[string]int)}
			p, err := New(Config{
				Self: Peer{"a0", "a"}, Peers: func() []Peer { return []Peer{{"b0", "b"}, {"b1", "b"}} },
				Endpoint: e, Record: drop,
			})
			if err != nil {
				t.Fatal(err)
			}
			p.look()
			turns := 0
			for range 10 {
				round, into := roundAt(time.Now())
				time.Sleep(roundTime + insideTime - into)
				round++
				m, ok := p.roster().across(round, "a", "a0")
				if !ok || m.from != "a0" {
					continue
				}
				turns++
				p.Suspect("b0")
				clear(e.n)
				p.turnAcross(t.Context(), round)
				if e.n["b0"] != 1 || e.n["b1"] == 0 {
					t.Errorf("in a turn b0, a suspect, was asked %d times, and b1 %d times", e.n["b0"], e.n["b1"])
				}
			}
			if turns == 0 {
				t.Error("a0 has no turn")
			}
		})
	}
}

// A lease that was refused for a train that watches a link shuts it for those, and not for first measurements, which have a budget of their own; and
// the other way round.
func TestRefusedWatchLeavesFirst(t *testing.T) {
	for _, refused := range []use{watch, first} {
		synctest.Test(t, func(t *testing.T) {
			e := &declining{after: 2 * time.Millisecond, retry: slotRetry, n: make(map[string]int)}
			p, err := New(Config{
				Self: Peer{"a0", "a"}, Peers: func() []Peer { return []Peer{{"b0", "b"}, {"b1", "b"}} },
				Endpoint: e, Record: drop,
			})
			if err != nil {
				t.Fatal(err)
			}
			p.look()
			turns := 0
			for range 30 { // from spareAfter on outside the tournament, too
				round, into := roundAt(time.Now())
				time.Sleep(roundTime + insideTime - into)
				round++
				if m, ok := p.roster().across(round, "a", "a0"); ok && m.from == "a0" {
					turns++
				} else if ok || p.links["b"].since.Add(spareAfter).After(time.Now()) {
					continue
				}
				p.refused("b", refused, &BusyError{Retry: 10 * time.Second})
				clear(e.n)
				p.turnAcross(t.Context(), round)
				if asked := e.n["b0"]+e.n["b1"] > 0; asked != (refused == watch) {
					t.Errorf("a lease was refused for %s: %v were asked for first measurements", useNames[refused], e.n)
				}
			}
			if turns == 0 || turns == 30 {
				t.Errorf("a0 has %d turns", turns)
			}
		})
	}
}
