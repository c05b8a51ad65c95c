package netmap

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/logp"
)

// logpModel is one of a host where a message costs overhead and a link of rate.
func logpModel(t testing.TB, overhead time.Duration, rate BytesPerSec) logp.Model {
	t.Helper()
	m, err := logp.New([]logp.Point{
		{Size: 1, Send: overhead, Receive: overhead, Gap: overhead},
		{Size: 1 << 20, Send: 2 * overhead, Receive: 2 * overhead, Gap: overhead + rate.Time(1<<20)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A host that lies in its LogP models speaks for itself alone where two others of its site have measured,
// whatever the order of the hosts.
func TestLogPLiarSpeaksForItself(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 31))
		n := 4 + rng.IntN(20)
		hosts := make([]Host, n)
		for i := range hosts {
			hosts[i] = Host{Name: string(rune('a' + i)), Site: "R"}
		}
		hosts[n-1].Site = "S"
		order := rng.Perm(n - 1)
		liar, measured := order[0], order[1:3+rng.IntN(n-3)]
		s := NewSnapshot(1, hosts, make([]Estimate, n*n))
		lie := logpModel(t, maxShortMessage, 1000)
		if seed%2 == 0 {
			lie = logpModel(t, 0, MaxRate)
		}
		for i := range n - 1 { // by host, as a map's snapshot has them
			switch m := logpModel(t, time.Duration(50+rng.IntN(100))*time.Microsecond, 4*Mbps); {
			case i == liar:
				s.models = append(s.models, modelRow{i, "S", lie})
			default:
				for _, k := range measured {
					if k == i {
						s.models = append(s.models, modelRow{i, "S", m})
					}
				}
			}
		}
		for from := range n - 1 {
			m, ok := s.LogP(from, n-1)
			gap := m.At(1).Gap
			if from == liar {
				if gap != lie.At(1).Gap {
					t.Errorf("seed %d: the liar's own model is %v", seed, gap)
				}
			} else if !ok || gap < 50*time.Microsecond || gap > 150*time.Microsecond {
				t.Fatalf("seed %d: %d hosts, of which %v and the liar %d have measured: host %d has a gap of %v, %v", seed, n, measured, liar, from, gap, ok)
			}
		}
	}
}

// A model that no path has is refused where it is set, and its signer is named where it arrives.
func TestAbsurdLogP(t *testing.T) {
	a, b := newMap(t, "a"), newMap(t, "b")
	absurd := logpModel(t, time.Hour/4, Mbps)
	if err := a.SetLogP("S", absurd, t0); !errors.Is(err, ErrAbsurd) {
		t.Errorf("set: %v", err)
	}
	if err := a.SetLogP("S", logpModel(t, maxShortMessage, 1000), t0); err != nil {
		t.Errorf("the slowest that is one: %v", err)
	}
	a.setOwn(&entry{peer: peer{name: "S", kind: overhead}, model: &absurd})
	if err := a.Set("a", "c", bandwidthOf(4, t0), t0); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Publish(t0, false); err != nil {
		t.Fatal(err)
	}
	tip := a.reports["a"].tip()
	if n, err := b.merge("c", []signed{{tip.raw, tip.sig}}, t0); n != 1 || !errors.Is(err, ErrAbsurd) {
		t.Errorf("%d batches are taken, %v", n, err)
	}
	s := b.Snapshot([]Host{{Name: "a", Site: "R"}, {Name: "c", Site: "S"}}, t0)
	if m, ok := s.LogP(0, 1); ok {
		t.Errorf("b believes %v", m)
	}
	if e, ok := b.Lookup("a", "c", t0); !ok || e.Bandwidth != 4*Mbps {
		t.Errorf("what else a says is lost: %+v", e)
	}
	if w := b.Warnings(t0); len(w) != 1 || !strings.Contains(w[0], "rows of a") || !strings.Contains(w[0], "LogP") {
		t.Errorf("warnings %q", w)
	}
}
