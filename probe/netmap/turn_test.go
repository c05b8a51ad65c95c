package netmap

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A watched grid is two sites of n hosts as one map sees them: what was measured, in order.
type watched struct {
	n       int
	now     time.Time
	entries []entry // [from*2n+to]
}

func newWatched(n int) *watched {
	return &watched{n: n, now: time.Unix(1e6, 0), entries: make([]entry, 4*n*n)}
}

// measured takes a measurement of from→to, a second after the one before.
func (w *watched) measured(from, to int, rate BytesPerSec) {
	w.now = w.now.Add(time.Second)
	e := Estimate{Known: FieldBandwidth, Bandwidth: rate, Source: SourceProbed, Measured: w.now}
	at := &w.entries[from*2*w.n+to]
	at.turn = at.turning(e)
	at.est = e
}

func (w *watched) snapshot() *Snapshot {
	var hosts []Host
	for i := range 2 * w.n {
		hosts = append(hosts, Host{Name: fmt.Sprintf("h%02d", i), Site: string(rune('A' + i/w.n))})
	}
	s := NewSnapshot(1, hosts, make([]Estimate, len(w.entries)))
	s.turns = make([]turn, len(w.entries))
	for i, e := range w.entries {
		s.est[i], s.turns[i] = e.est, e.turn
	}
	return s
}

// A link falls or rises, and its pairs are measured one after the other, in any order. As soon as two senders and
// two receivers have seen it the map is right of all of them, and stays so to the last: it does not
// go back because few pairs are left that show the old rate. Then it changes again.
func TestFreshenStaysRight(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 4))
		n := 2 + rng.IntN(4)
		w := newWatched(n)
		slow := -1 // a sender with a thin port of its own
		if n > 2 && rng.IntN(2) == 0 {
			slow = rng.IntN(n)
		}
		noise := func(r BytesPerSec) BytesPerSec { return r * BytesPerSec(0.97+0.06*rng.Float64()) }
		link := BytesPerSec(1e6)
		rate := func(from int) BytesPerSec {
			if from == slow {
				return 5e4
			}
			return link
		}
		for step := range 3 {
			seen, got := map[int]bool{}, map[int]bool{}
			for _, k := range rng.Perm(n * n) {
				from, to := k/n, n+k%n
				w.measured(from, to, noise(rate(from)))
				if from != slow {
					seen[from], got[to] = true, true
				}
				if step == 0 || len(seen) < 2 || len(got) < 2 {
					continue
				}
				f := Freshen(w.snapshot())
				for k := range n * n {
					from, to := k/n, n+k%n
					if e := f.Estimate(from, to); differ(e.Bandwidth, rate(from)) > 0.1 {
						t.Fatalf("seed %d, change %d: %d→%d is %.0f on a link of %.0f (slow sender: %d)", seed, step, from, to, e.Bandwidth, link, slow)
					}
				}
			}
			old := link
			for differ(old, link) < 0.4 {
				link = BytesPerSec(2e5 * (1 + 40*rng.Float64()))
			}
		}
	}
}

// The ports of single hosts change, and the link does not: nobody else's pairs are touched.
func TestFreshenLeavesPortsAlone(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n := 2 + rng.IntN(4)
		w := newWatched(n)
		ports := make([]BytesPerSec, 2*n)
		for i := range ports {
			ports[i] = 1e7
		}
		all := func() {
			for _, k := range rng.Perm(n * n) {
				from, to := k/n, n+k%n
				w.measured(from, to, min(ports[from], ports[to], 1e6)*BytesPerSec(0.97+0.06*rng.Float64()))
			}
		}
		all()
		host := rng.IntN(2 * n)
		ports[host] = BytesPerSec(1e5 * (1 + 5*rng.Float64()))
		for range 3 { // some of its pairs first
			k := rng.IntN(n)
			from, to := host, n+k
			if host >= n {
				from, to = k, host
			}
			w.measured(from, to, ports[host])
		}
		for round := range 2 {
			s := w.snapshot()
			f := Freshen(s)
			for i := range 2 * n {
				for j := range 2 * n {
					if i != j && i != host && j != host && f.Estimate(i, j) != s.Estimate(i, j) {
						t.Fatalf("seed %d, round %d: %d→%d became %.0f when host %d of %d changed its port", seed, round, i, j, f.Estimate(i, j).Bandwidth, host, 2*n)
					}
				}
			}
			all()
		}
	}
}

// What a map has seen of a pair's changes does not depend on whether it came in a full batch or after one, and
// a measurement that confirms the rate does not make the change younger.
func TestMapRemembersTurns(t *testing.T) {
	now := time.Unix(1e6, 0)
	set := func(m *Map, to string, r BytesPerSec) {
		now = now.Add(time.Second)
		if err := m.Set(m.cfg.Self, to, Estimate{Known: FieldBandwidth, Bandwidth: r, Source: SourceProbed}, now); err != nil {
			t.Fatal(err)
		}
	}
	newMap := func(self string) *Map {
		m, err := NewMap(MapConfig{Self: self})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	a, b := newMap("a"), newMap("b")
	for _, r := range []BytesPerSec{1e6, 1.01e6, 2.5e5, 2.52e5, 2.51e5} {
		set(a, "c", r)
		if _, err := a.Publish(now.Add(time.Hour), false); err != nil {
			t.Fatal(err)
		}
		r := a.reports["a"]
		for _, x := range r.chain {
			if _, err := b.take("a", signed{x.raw, x.sig}, now.Add(2*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, m := range map[string]*Map{"a": a, "b": b} {
		s := m.Snapshot([]Host{{Name: "a", Site: "A"}, {Name: "c", Site: "C"}}, now)
		if got := s.turns[1]; differ(got.was, 1e6) > 0.02 || !got.at.Equal(time.Unix(1e6+3, 0)) {
			t.Errorf("at %s: %+v, want a fall from 1e6 in the third second", name, got)
		}
		if sub := s.Subset([]int{1, 0}); sub.turns[2] != s.turns[1] {
			t.Errorf("at %s: the subset has %+v", name, sub.turns[2])
		}
	}
}

// changedGrid is a grid of 2×n hosts whose link has fallen, and most of whose pairs have been measured since.
func changedGrid(n int, rng *rand.Rand) *watched {
	w := newWatched(n)
	for _, rate := range []BytesPerSec{1e6, 3e5} {
		for _, k := range rng.Perm(n * n) {
			if rate == 1e6 || rng.IntN(10) > 0 {
				w.measured(k/n, n+k%n, rate*BytesPerSec(0.97+0.06*rng.Float64()))
			}
		}
	}
	return w
}

// behindSlowly is [history.behind] as it reads.
func behindSlowly(p dated, witnesses, pairs []dated) (rate, old BytesPerSec, ok bool) {
	var later []dated
	for _, w := range witnesses {
		if w.turn.at.After(p.e.Measured) {
			later = append(later, w)
		}
	}
	ends := func(of []dated) (int, int) {
		from, to := map[int]bool{}, map[int]bool{}
		for _, p := range of {
			from[p.from], to[p.to] = true, true
		}
		return len(from), len(to)
	}
	from, to := ends(later)
	allFrom, allTo := ends(pairs)
	if len(later) == 0 || from < min(2, allFrom) || to < min(2, allTo) {
		return 0, 0, false
	}
	was := make([]BytesPerSec, len(later))
	for i, w := range later {
		was[i] = w.turn.was
	}
	slices.Sort(was)
	rate, old = medianRate(later), was[len(was)/2]
	return rate, old, differ(p.e.Bandwidth, rate) > freshOther
}

func TestBehindAgreesWithThePlainVersion(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 6))
		n := 1 + rng.IntN(6)
		w := changedGrid(n, rng)
		var pairs []dated
		for i, e := range w.entries {
			if e.est.Has(FieldBandwidth) {
				if rng.IntN(4) == 0 { // measured at another time
					e.est.Measured = w.now.Add(-time.Duration(rng.IntN(2*n*n)) * time.Second)
				}
				pairs = append(pairs, dated{from: i / (2 * n), to: i % (2 * n), e: e.est, turn: e.turn})
			}
		}
		witnesses := turned(pairs)
		h := historyOf(witnesses, pairs)
		for _, p := range pairs {
			rate, old, ok := h.behind(p)
			if wantRate, wantOld, want := behindSlowly(p, witnesses, pairs); ok != want || ok && (rate != wantRate || old != wantOld) {
				t.Fatalf("seed %d: %d→%d: %v %v %v, want %v %v %v", seed, p.from, p.to, rate, old, ok, wantRate, wantOld, want)
			}
		}
	}
}

func BenchmarkFreshen(b *testing.B) {
	for _, n := range []int{16, 32, 128} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			s := changedGrid(n, rand.New(rand.NewPCG(1, 6))).snapshot()
			b.ReportAllocs()
			for b.Loop() {
				Freshen(s)
			}
		})
	}
}
