package probe

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// drop records nothing.
func drop(_, _ string, _ netmap.Estimate) {}

// A suspect of the own site that the host cannot afford to measure is asked for again after a pause.
func TestSuspectThatCannotBeAfforded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{
			Self: Peer{"a0", "a"}, Peers: func() []Peer { return []Peer{{"a1", "a"}} },
			Endpoint: deaf{}, Record: drop, HourlyCap: 1 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		p.charge(1 << 20)
		p.look()
		p.Suspect("a1")
		peer, _, ok := p.nextSuspect()
		if !ok || peer.Name != "a1" {
			t.Fatalf("suspect %v, %v", peer, ok)
		}
		var busy *BusyError
		if err := p.opinion(t.Context(), peer); !errors.As(err, &busy) {
			t.Fatalf("beyond the hourly cap: %v", err)
		}
		if _, rest, ok := p.nextSuspect(); ok || rest <= 0 || rest > 2*time.Second {
			t.Fatalf("at once again: %v, after %v", ok, rest) // second would never rest
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.second(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if n := p.Stats().Refused; n < 15 || n > 31 { // a second to two apart, for doubtTime
			t.Errorf("asked for %d times", n)
		}
	})
}
