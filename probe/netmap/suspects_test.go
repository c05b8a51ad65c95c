package netmap

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// grid makes n maps whose hosts each measured every pair that they are part of, with noise,
// and exchanges all. report returns what host i says of from→to.
func reportedGrid(t testing.TB, n int, now time.Time, report func(i, from, to int) Estimate) *Map {
	t.Helper()
	ms := make([]*Map, n)
	name := func(i int) string { return fmt.Sprintf("h%d", i) }
	for i := range ms {
		ms[i] = newMap(t, name(i))
		for j := range n {
			if i == j {
				continue
			}
			for _, pair := range [][2]int{{i, j}, {j, i}} {
				if e := report(i, pair[0], pair[1]); e.Known != 0 {
					if err := ms[i].Set(name(pair[0]), name(pair[1]), e, now); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	for _, m := range ms[1:] {
		pull(t, ms[0], m, now)
	}
	return ms[0]
}

// A liar is found among honest hosts, whatever it lies about, and nobody else is blamed;
// what it says gives way to what the other end measured.
func TestLiarIsNamedAndBounded(t *testing.T) {
	lies := map[string]func(*Estimate){
		"ten times the rate": func(e *Estimate) { e.Bandwidth *= 10 },
		"a tenth":            func(e *Estimate) { e.Bandwidth /= 10 },
		"far away":           func(e *Estimate) { e.Latency = 500 * time.Millisecond },
	}
	for what, lie := range lies {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 11))
			n := 3 + rng.IntN(12)
			liar := rng.IntN(n)
			truth := make([]Estimate, n*n)
			for i := range truth {
				truth[i] = bandwidthOf(1+99*rng.Float64(), t0)
				truth[i].Known |= FieldLatency
				truth[i].Latency = time.Duration(1+rng.IntN(40)) * time.Millisecond
				if back := i%n*n + i/n; back < i { // half of the same round trip
					truth[i].Latency = truth[back].Latency
				}
			}
			m := reportedGrid(t, n, t0, func(i, from, to int) Estimate {
				e := truth[from*n+to]
				e.Bandwidth *= BytesPerSec(0.8 + 0.4*rng.Float64())
				e.Measured = t0.Add(-time.Duration(rng.Int64N(int64(4 * time.Minute))))
				if i == liar {
					lie(&e)
				}
				return e
			})
			got := m.Suspects(t0)
			if len(got) != 1 || got[0].Host != fmt.Sprintf("h%d", liar) || len(got[0].Contradicts) != n-1 {
				t.Fatalf("%s, seed %d, %d hosts: suspects %+v, want h%d", what, seed, n, got, liar)
			}
			if w := m.Warnings(t0); len(w) != 1 || !strings.Contains(w[0], got[0].Host) || !strings.Contains(w[0], "→") {
				t.Errorf("%s, seed %d: warnings %q", what, seed, w)
			}
			hosts := make([]Host, n)
			for i := range hosts {
				hosts[i].Name = fmt.Sprintf("h%d", i)
			}
			s := m.Snapshot(hosts, t0)
			for i := range n {
				for j := range n {
					if i == j {
						continue
					}
					e, want := s.Estimate(i, j), truth[i*n+j]
					if r := e.Bandwidth / want.Bandwidth; r < 0.79 || r > 1.21 || e.Latency != want.Latency {
						t.Fatalf("%s, seed %d: h%d→h%d is %.3g Mbit/s, %v; the truth %.3g, %v", what, seed, i, j, e.Bandwidth.Mbps(), e.Latency, want.Bandwidth.Mbps(), want.Latency)
					}
				}
			}
		}
	}
}

// Honest hosts are not suspected: not with noise, nor while half of them have not yet seen
// that a link changed, nor with old reports.
func TestHonestHostsAreNotSuspected(t *testing.T) {
	if raceDetector {
		t.Skip("arithmetic: run without the race detector, which multiplies its CPU time by ten")
	}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 12))
		sites := 2 + rng.IntN(3)
		n := sites * (2 + rng.IntN(4))
		m := reportedGrid(t, n, t0, func(i, from, to int) Estimate {
			e := bandwidthOf(10*(0.6+0.8*rng.Float64()), t0.Add(-time.Duration(rng.Int64N(int64(20*time.Minute)))))
			if from%sites == 0 && to%sites == 1 && i%2 == 0 {
				e.Bandwidth /= 8 // only they have measured that link since it fell
			}
			return e
		})
		if got := m.Suspects(t0); len(got) != 0 {
			t.Fatalf("seed %d, %d hosts at %d sites: %v", seed, n, sites, got)
		}
	}
	// Nobody can say which of two hosts lies.
	m := reportedGrid(t, 2, t0, func(i, _, _ int) Estimate { return bandwidthOf(float64(1+99*i), t0) })
	if got := m.Suspects(t0); len(got) != 0 {
		t.Errorf("of two hosts: %v", got)
	}
	// And an hour later nothing is left to compare.
	m = reportedGrid(t, 4, t0, func(i, _, _ int) Estimate { return bandwidthOf(1+99*float64(i/3), t0) })
	if got := m.Suspects(t0); len(got) != 1 {
		t.Errorf("h3 lies: %v", got)
	}
	if got := m.Suspects(t0.Add(time.Hour)); len(got) != 0 {
		t.Errorf("an hour later: %v", got)
	}
}

// A liar stays named while it goes on and nobody measures beside it: for half an hour, and no longer than it lies. Reports as old
// make no suspect of a host that was none, as its links may have changed since.
func TestLiarStaysNamed(t *testing.T) {
	const truth, lie = 10, 1000
	for _, tc := range []struct {
		first, then float64 // what h4 says of its pairs
		after       time.Duration
		want        bool
	}{
		{lie, lie, 10 * time.Minute, true},
		{lie, lie, contraryAge + time.Minute, false},
		{lie, truth, 10 * time.Minute, false},
		{truth, lie, 10 * time.Minute, false},
	} {
		m := reportedGrid(t, 5, t0, func(i, _, _ int) Estimate {
			if i == 4 {
				return bandwidthOf(tc.first, t0)
			}
			return bandwidthOf(truth, t0)
		})
		if got := m.Suspects(t0); (len(got) == 1) != (tc.first == lie) {
			t.Fatalf("%+v: suspects %v at first", tc, got)
		}
		now, h4 := t0.Add(tc.after), newMap(t, "h4")
		for i := range 4 {
			if err := h4.Set("h4", fmt.Sprintf("h%d", i), bandwidthOf(tc.then, now), now); err != nil {
				t.Fatal(err)
			}
		}
		pull(t, m, h4, now)
		if e, ok := m.Claimed("h4", "h0"); !ok || e.Bandwidth != BytesPerSec(tc.then)*Mbps {
			t.Fatalf("%+v: h4 claims %+v", tc, e)
		}
		if got := m.Suspects(now); (len(got) == 1 && got[0].Host == "h4") != tc.want {
			t.Errorf("%+v: suspects %v", tc, got)
		}
	}
}

// Where only a suspect has reported a pair, its rates do not count, so that Predict fills
// in what like pairs have.
func TestSuspectsOwnPairs(t *testing.T) {
	m := reportedGrid(t, 5, t0, func(i, from, to int) Estimate {
		e := bandwidthOf(10, t0)
		e.Known |= FieldLatency
		e.Latency = time.Millisecond
		if i == 4 {
			e.Bandwidth *= 20
		}
		if i == 0 && (from == 4 || to == 4) {
			return Estimate{}
		}
		return e
	})
	if got := m.Suspects(t0); len(got) != 1 || got[0].Host != "h4" {
		t.Fatalf("suspects %v", got)
	}
	e, ok := m.Lookup("h4", "h0", t0)
	if !ok || e.Has(FieldBandwidth) || !e.Has(FieldLatency) {
		t.Errorf("h4→h0 is %+v", e)
	}
	hosts := []Host{{Name: "h0"}, {Name: "h1"}, {Name: "h2"}, {Name: "h4"}}
	if e := Predict(m.Snapshot(hosts, t0)).Estimate(3, 0); e.Bandwidth != 10*Mbps || e.Source != SourcePredicted {
		t.Errorf("predicted %v Mbit/s", e.Bandwidth.Mbps())
	}
	sites := map[string]string{"h0": "", "h1": "", "h2": "", "h3": "", "h4": ""}
	if e := m.Predictor(sites, t0).Fill(e, Host{}, Host{}); e.Bandwidth != 10*Mbps {
		t.Errorf("the predictor says %v Mbit/s", e.Bandwidth.Mbps())
	}
}

// A receiver that takes back what it saw says nothing of the pair: the sender is then believed, if it is no suspect.
func TestObjectionTakenBack(t *testing.T) {
	for _, liar := range []bool{true, false} {
		m := reportedGrid(t, 5, t0, func(i, _, _ int) Estimate {
			e := bandwidthOf(10, t0)
			if liar && i == 4 {
				e.Bandwidth /= 100
			}
			return e
		})
		if err := m.Set("h4", "h0", Estimate{Measured: t0.Add(time.Second)}, t0.Add(time.Second)); err != nil { // h0 speaks
			t.Fatal(err)
		}
		now := t0.Add(time.Minute)
		if got := m.Suspects(now); (len(got) == 1) != liar {
			t.Fatalf("liar %v: suspects %v", liar, got)
		}
		e, _ := m.Lookup("h4", "h0", now)
		if e.Has(FieldBandwidth) == liar || !liar && e.Bandwidth != 10*Mbps {
			t.Errorf("liar %v: h4→h0 is %+v", liar, e)
		}
	}
}

// A sender alone measures latencies, so only the way back can show that it lies. A look that comes
// while half of the hosts have not yet seen a change blames nobody.
func TestLatencyLiarIsNamed(t *testing.T) {
	const truth = 20 * time.Millisecond
	for what, said := range map[string]time.Duration{"no time": 0, "far away": 10 * time.Second} {
		for seed := range uint64(10) {
			rng := rand.New(rand.NewPCG(seed, 14))
			n := 4 + rng.IntN(9)
			liar := rng.IntN(n)
			m := reportedGrid(t, n, t0, func(i, from, to int) Estimate {
				if i != from {
					return Estimate{}
				}
				e := bandwidthOf(10, t0.Add(-time.Duration(rng.Int64N(int64(2*time.Hour)))))
				e.Known |= FieldLatency
				e.Latency = truth + time.Duration(rng.IntN(1000))*time.Microsecond
				if i == liar {
					e.Latency = said
				}
				return e
			})
			if got := m.Suspects(t0); len(got) != 0 {
				t.Fatalf("%s, seed %d: suspected at once: %v", what, seed, got)
			}
			now := t0.Add(contraryTime)
			got := m.Suspects(now)
			if len(got) != 1 || got[0].Host != fmt.Sprintf("h%d", liar) || len(got[0].Contradicts) != n-1 {
				t.Fatalf("%s, seed %d, %d hosts: suspects %v, want h%d", what, seed, n, got, liar)
			}
			hosts := make([]Host, n)
			for i := range hosts {
				hosts[i].Name = fmt.Sprintf("h%d", i)
			}
			s := m.Snapshot(hosts, now)
			for i := range n {
				for j := range n {
					if e := s.Estimate(i, j); i != j && (e.Latency-truth).Abs() > time.Millisecond {
						t.Fatalf("%s, seed %d: h%d→h%d is %v, want about %v (h%d lies)", what, seed, i, j, e.Latency, truth, liar)
					}
					if e, ok := m.Lookup(hosts[i].Name, hosts[j].Name, now); i != j && (!ok || e != s.Estimate(i, j)) {
						t.Fatalf("%s, seed %d: h%d→h%d: looked up %+v, in the snapshot %+v", what, seed, i, j, e, s.Estimate(i, j))
					}
				}
			}
		}
	}
}

// Receivers report only where they object. Two liars must not make suspects of those who
// object to both, and to nobody else.
func TestObjectingHostsAreNotSuspected(t *testing.T) {
	const n = 8
	m := reportedGrid(t, n, t0, func(i, from, to int) Estimate {
		e := bandwidthOf(10, t0)
		if from > 1 { // an honest sender: nobody objects
			e.Known = 0
			if i == from {
				e = bandwidthOf(10, t0)
			}
			return e
		}
		switch {
		case i == from:
			e.Bandwidth *= 100
		case to == 5 || from == 0 && to == 6: // the others have not looked yet
		default:
			e.Known = 0
		}
		return e
	})
	if got := m.Suspects(t0); len(got) != 0 {
		t.Errorf("h5 objects to h0 and h1, h6 to h0: suspects %v, want nobody yet", got)
	}
}

// The order of the pairs does not matter, and two liars that do not agree are both found.
func TestFindSuspects(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 13))
		n := 5 + rng.IntN(8)
		liars := rng.Perm(n)[:2]
		slices.Sort(liars)
		var all []contradiction
		for i := range n {
			for j := range n {
				if i != j {
					c := contradiction{from: fmt.Sprintf("h%02d", i), to: fmt.Sprintf("h%02d", j)}
					if slices.Contains(liars, i) || slices.Contains(liars, j) {
						c.example = c.from + "→" + c.to
					}
					all = append(all, c)
				}
			}
		}
		var first []Suspect
		for k := range 3 {
			got := findSuspects(all)
			if len(got) != 2 || got[0].Host != fmt.Sprintf("h%02d", liars[0]) || got[1].Host != fmt.Sprintf("h%02d", liars[1]) {
				t.Fatalf("seed %d: %v, want %v", seed, got, liars)
			}
			if k == 0 {
				first = got
			} else if fmt.Sprint(first) != fmt.Sprint(got) {
				t.Fatalf("seed %d: %v in another order %v", seed, first, got)
			}
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
	}
}
