package netmap

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"
)

func newMap(t testing.TB, self string) *Map {
	t.Helper()
	m, err := NewMap(MapConfig{Self: self})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// bandwidthOf is a probed estimate of mbps Mbit/s, measured at t.
func bandwidthOf(mbps float64, t time.Time) Estimate {
	return Estimate{Known: FieldBandwidth, Bandwidth: BytesPerSec(mbps) * Mbps, Source: SourceProbed, Measured: t}
}

// pull brings to what from has and to lacks, as two agents do.
func pull(t testing.TB, to, from *Map, limit int, now time.Time) int {
	t.Helper()
	changed, err := to.Merge(from.Delta(to.Digest(), limit, now), now)
	if err != nil {
		t.Fatalf("%s pulls from %s: %v", to.cfg.Self, from.cfg.Self, err)
	}
	return changed
}

func TestSetRefuses(t *testing.T) {
	m, err := NewMap(MapConfig{Self: "a", MaxHosts: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []string{"b", "c"} {
		if err := m.Set("a", h, bandwidthOf(1, t0), t0); err != nil {
			t.Fatal(err)
		}
	}
	before := m.Epoch()
	for _, tt := range []struct {
		from, to string
		e        Estimate
		want     error
	}{
		{"b", "c", bandwidthOf(1, t0), ErrForeign},
		{"a", "a", bandwidthOf(1, t0), ErrForeign},
		{"a", "d", bandwidthOf(1, t0), ErrTooManyHosts},
		{"a", "b", bandwidthOf(math.NaN(), t0), ErrAbsurd},
		{"a", "b", bandwidthOf(-1, t0), ErrAbsurd},
		{"a", "b", bandwidthOf(2e7, t0), ErrAbsurd},
		{"a", "b", Estimate{Known: FieldLatency, Latency: 61 * time.Second}, ErrAbsurd},
		{"a", "b", Estimate{Known: FieldBandwidth, Bandwidth: 5, Source: SourcePredicted}, ErrAbsurd},
		{"a", "b", bandwidthOf(1, t0.Add(time.Hour)), ErrFuture},
	} {
		if err := m.Set(tt.from, tt.to, tt.e, t0); !errors.Is(err, tt.want) {
			t.Errorf("%s→%s %+v: got %v, want %v", tt.from, tt.to, tt.e, err, tt.want)
		}
	}
	if m.Epoch() != before {
		t.Error("what was refused changed the epoch")
	}
}

func TestEpochGrowsWithValuesOnly(t *testing.T) {
	m := newMap(t, "a")
	hosts := []Host{{Name: "a"}, {Name: "b"}}
	set := func(mbps float64, at time.Time) uint64 {
		if err := m.Set("a", "b", bandwidthOf(mbps, at), at); err != nil {
			t.Fatal(err)
		}
		return m.Snapshot(hosts, at).Epoch()
	}
	one := set(5, t0)
	same := set(5, t0.Add(time.Minute))
	two := set(6, t0.Add(2*time.Minute))
	if one == 0 || same != one || two <= one {
		t.Errorf("epochs %d, %d (same value), %d (new value)", one, same, two)
	}
	if got := m.Snapshot(hosts, t0.Add(time.Hour)).Estimate(0, 1).Measured; !got.Equal(t0.Add(2 * time.Minute)) {
		t.Errorf("measured %v", got)
	}
}

func TestUpdateKeepsOtherFields(t *testing.T) {
	m := newMap(t, "a")
	for i, e := range []Estimate{bandwidthOf(5, t0), {Known: FieldLatency, Latency: time.Millisecond}} {
		if err := m.Update("a", "b", e, t0.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	want := Estimate{
		Known: FieldBandwidth | FieldLatency, Bandwidth: 5 * Mbps, Latency: time.Millisecond,
		Source: SourceProbed, Measured: t0.Add(time.Second),
	}
	if got := m.Snapshot([]Host{{Name: "a"}, {Name: "b"}}, t0.Add(time.Second)).Estimate(0, 1); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// Rates are the receiver's word, delays the sender's, unless the other is much newer.
func TestSnapshotJoinsBothEnds(t *testing.T) {
	at := func(mbps float64, lat time.Duration, when time.Time) Estimate {
		e := bandwidthOf(mbps, when)
		e.Known |= FieldLatency
		e.Latency = lat
		return e
	}
	for _, tt := range []struct {
		name           string
		receiverLag    time.Duration
		mbps           float64
		latency        time.Duration
		senderSilent   bool
		receiverSilent bool
	}{
		{"both", 0, 4, 10, false, false},
		{"receiver a little older", 4 * time.Minute, 4, 10, false, false},
		{"receiver outdated", 6 * time.Minute, 5, 10, false, false},
		{"sender outdated", -6 * time.Minute, 4, 20, false, false},
		{"sender silent", 0, 4, 20, true, false},
		{"receiver silent", 0, 5, 10, false, true},
	} {
		a, b := newMap(t, "a"), newMap(t, "b")
		now := t0.Add(time.Hour)
		if !tt.senderSilent {
			if err := a.Set("a", "b", at(5, 10, t0), now); err != nil {
				t.Fatal(err)
			}
		}
		if !tt.receiverSilent {
			if err := b.Set("a", "b", at(4, 20, t0.Add(-tt.receiverLag)), now); err != nil {
				t.Fatal(err)
			}
		}
		pull(t, a, b, 0, now)
		e := a.Snapshot([]Host{{Name: "a"}, {Name: "b"}}, now).Estimate(0, 1)
		if e.Bandwidth != BytesPerSec(tt.mbps)*Mbps || e.Latency != tt.latency || !e.Has(FieldBandwidth|FieldLatency) {
			t.Errorf("%s: %v Mbit/s, %v; want %v, %v", tt.name, e.Bandwidth.Mbps(), e.Latency, tt.mbps, tt.latency)
		}
	}
}

// Whatever the order of measuring and pulling, with cut deltas and skewed clocks: once
// nobody has news for anybody, all maps are the same, and each reporter's newest word stands.
func TestMapsConverge(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n := 2 + rng.IntN(6)
		hosts := make([]Host, n)
		ms := make([]*Map, n)
		skew := make([]time.Duration, n)
		for i := range ms {
			hosts[i].Name = fmt.Sprintf("h%d", i)
			ms[i] = newMap(t, hosts[i].Name)
			skew[i] = time.Duration(rng.Int64N(int64(4*time.Minute))) - 2*time.Minute
		}
		last := map[[3]int]Estimate{} // reporter, from, to
		now := t0
		for range 40 * n {
			now = now.Add(time.Duration(rng.Int64N(int64(time.Second))))
			i, j := rng.IntN(n), rng.IntN(n)
			if i == j {
				continue
			}
			if rng.IntN(2) == 0 {
				pull(t, ms[i], ms[j], rng.IntN(4), now.Add(skew[i]))
				continue
			}
			from, to := i, j
			if rng.IntN(2) == 0 {
				from, to = j, i
			}
			e := randomEstimate(rng)
			if err := ms[i].Set(hosts[from].Name, hosts[to].Name, e, now.Add(skew[i])); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			last[[3]int{i, from, to}] = e.rounded()
		}
		for round := 0; ; round++ {
			news := 0
			for i := range ms {
				for j := range ms {
					if i != j {
						news += pull(t, ms[i], ms[j], 7, now.Add(skew[i]))
					}
				}
			}
			if news == 0 {
				break
			}
			if round > 1000 {
				t.Fatalf("seed %d: the maps never come to rest", seed)
			}
		}
		for i, m := range ms {
			if !reflect.DeepEqual(m.Digest(), ms[0].Digest()) {
				t.Fatalf("seed %d: digests %v and %v", seed, m.Digest(), ms[0].Digest())
			}
			held := 0
			for r, rep := range m.reports {
				for key, e := range rep.entries {
					from, to := r, key.name
					if key.incoming {
						from, to = to, from
					}
					if want := last[[3]int{index(r), index(from), index(to)}]; e.est != want {
						t.Fatalf("seed %d: %s holds %s's %s→%s\n%+v\nwant %+v", seed, hosts[i].Name, r, from, to, e.est, want)
					}
					held++
				}
			}
			if held != len(last) {
				t.Fatalf("seed %d: %s holds %d entries of %d", seed, hosts[i].Name, held, len(last))
			}
		}
	}
}

func index(name string) (i int) {
	fmt.Sscanf(name, "h%d", &i)
	return i
}

// A host whose clock was set back across a restart is heard again after one exchange.
func TestClockSetBackAcrossRestart(t *testing.T) {
	b := newMap(t, "b")
	first := newMap(t, "a")
	if err := first.Set("a", "b", bandwidthOf(1, t0), t0); err != nil {
		t.Fatal(err)
	}
	if err := first.Set("a", "c", bandwidthOf(2, t0), t0); err != nil {
		t.Fatal(err)
	}
	pull(t, b, first, 0, t0)

	back := t0.Add(-time.Minute) // within the skew: the clock was corrected
	second := newMap(t, "a")
	if err := second.Set("a", "b", bandwidthOf(9, back), back); err != nil {
		t.Fatal(err)
	}
	if got := pull(t, b, second, 0, back); got != 1 {
		t.Fatalf("b took %d new entries, want 1", got)
	}
	s := b.Snapshot([]Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}, t0)
	if got, _ := s.Bandwidth(0, 1); got != 9*Mbps {
		t.Errorf("b believes %v Mbit/s, want the 9 of a's second life", got.Mbps())
	}
	if got, _ := s.Bandwidth(0, 2); got != 2*Mbps {
		t.Errorf("b lost what a's first life said of c: %v", got.Mbps())
	}
}

// A restarted host that listens first gets its earlier measurements back.
func TestRestartRecoversOwnReports(t *testing.T) {
	b, a := newMap(t, "b"), newMap(t, "a")
	if err := a.Set("a", "b", bandwidthOf(3, t0), t0); err != nil {
		t.Fatal(err)
	}
	pull(t, b, a, 0, t0)
	again := newMap(t, "a")
	pull(t, again, b, 0, t0)
	if got, ok := again.Snapshot([]Host{{Name: "a"}, {Name: "b"}}, t0).Bandwidth(0, 1); !ok || got != 3*Mbps {
		t.Errorf("got %v, %v", got.Mbps(), ok)
	}
}

func TestForget(t *testing.T) {
	a, b, c := newMap(t, "a"), newMap(t, "b"), newMap(t, "c")
	later := t0.Add(time.Minute)
	for _, set := range []struct {
		m        *Map
		from, to string
	}{{a, "a", "c"}, {b, "c", "b"}, {c, "c", "a"}, {a, "a", "b"}} {
		if err := set.m.Set(set.from, set.to, bandwidthOf(7, t0), t0); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		for _, m := range []*Map{a, b, c} {
			for _, o := range []*Map{a, b, c} {
				pull(t, m, o, 0, t0)
			}
		}
	}
	epoch := a.Epoch()
	a.Forget(later, "c", "a", "nobody")
	if a.Epoch() <= epoch {
		t.Error("forgetting did not change the epoch")
	}
	pull(t, a, b, 0, later)
	hosts := []Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	s := a.Snapshot(hosts, later)
	for _, pair := range [][2]int{{0, 2}, {2, 0}, {2, 1}} {
		if s.Estimate(pair[0], pair[1]).Known != 0 {
			t.Errorf("%v came back after being forgotten", pair)
		}
	}
	if _, ok := s.Bandwidth(0, 1); !ok {
		t.Error("a→b was forgotten too")
	}
	// It comes back, on a clock that is behind, and is heard.
	if err := c.Set("c", "a", bandwidthOf(8, t0), t0.Add(30*time.Second)); err != nil {
		t.Fatal(err)
	}
	pull(t, a, c, 0, later)
	if left := c.Delta(a.Digest(), 0, later).Entries(); left != 0 {
		t.Errorf("a would fetch %d entries of c again and again", left)
	}
	if got, ok := a.Snapshot(hosts, later).Bandwidth(2, 0); !ok || got != 8*Mbps {
		t.Errorf("after its return: %v Mbit/s, %v", got.Mbps(), ok)
	}
}

// What is measured of a forgotten host afterwards reaches agents that forgot it too, even
// if the clock that dates it is behind that of the forgetting.
func TestMeasuredAgainAfterForget(t *testing.T) {
	a, b := newMap(t, "a"), newMap(t, "b")
	for _, m := range []*Map{a, b} {
		if err := m.Set(m.cfg.Self, "c", bandwidthOf(1, t0), t0); err != nil {
			t.Fatal(err)
		}
		m.Forget(t0.Add(time.Minute), "c")
	}
	if err := a.Set("a", "c", bandwidthOf(2, t0), t0.Add(30*time.Second)); err != nil {
		t.Fatal(err)
	}
	if n := pull(t, b, a, 0, t0.Add(time.Minute)); n != 1 {
		t.Errorf("b took %d entries, want 1", n)
	}
}

// A clock that is ahead, within the skew, does not make an estimate younger than now.
func TestSnapshotClampsTheFuture(t *testing.T) {
	m := newMap(t, "a")
	if err := m.Set("a", "b", bandwidthOf(1, t0.Add(time.Minute)), t0); err != nil {
		t.Fatal(err)
	}
	if got := m.Snapshot([]Host{{Name: "a"}, {Name: "b"}}, t0).Estimate(0, 1).Measured; !got.Equal(t0) {
		t.Errorf("measured %v, want now, %v", got, t0)
	}
}

// A report with a gap before it is used, but does not hide the gap from the next digest.
func TestGapIsFilledLater(t *testing.T) {
	a, b := newMap(t, "a"), newMap(t, "b")
	for i := range 4 {
		if err := a.Set("a", fmt.Sprintf("h%d", i), bandwidthOf(float64(1+i), t0), t0); err != nil {
			t.Fatal(err)
		}
	}
	d := a.Delta(Digest{}, 0, t0)
	tail := Delta{{Reporter: "a", Since: d[0].Entries[1].Version, Entries: d[0].Entries[2:]}}
	if n, err := b.Merge(tail, t0); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	// Nor does b pass on what it cannot vouch to be complete.
	if n := newMap(t, "c"); pull(t, n, b, 0, t0) != 0 || len(n.Digest()) != 0 {
		t.Fatalf("c learned %v from a map with a gap", n.Digest())
	}
	if n := pull(t, b, a, 0, t0); n != 2 {
		t.Fatalf("the next pull brought %d entries, want the 2 of the gap", n)
	}
	if n := len(a.Delta(b.Digest(), 0, t0)); n != 0 {
		t.Errorf("still %d reports to fetch", n)
	}
}

// A report is taken up to its first bad entry; other reports are not touched by it.
func TestMergeStopsAtABadEntry(t *testing.T) {
	v := versionAt(t0)
	good := bandwidthOf(5, t0)
	for _, tt := range []struct {
		name string
		bad  Entry
		want error
	}{
		{"foreign", Entry{"w", "y", v + 2, good}, ErrForeign},
		{"future version", Entry{"x", "a", versionAt(t0.Add(time.Hour)), good}, ErrFuture},
		{"future sample", Entry{"x", "a", v + 2, bandwidthOf(5, t0.Add(time.Hour))}, ErrFuture},
		{"absurd", Entry{"a", "x", v + 2, bandwidthOf(math.Inf(1), t0)}, ErrAbsurd},
		{"falling version", Entry{"a", "x", v, good}, nil},
	} {
		a := newMap(t, "a")
		n, err := a.Merge(Delta{
			{Reporter: "x", Entries: []Entry{{"x", "b", v + 1, good}, tt.bad, {"x", "c", v + 3, good}}},
			{Reporter: "y", Entries: []Entry{{"y", "a", v, good}}},
		}, t0)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		if n != 2 || a.Digest()["x"] != v+1 || a.Digest()["y"] != v {
			t.Errorf("%s: %d taken, digest %v", tt.name, n, a.Digest())
		}
	}
}

func TestMapIsBounded(t *testing.T) {
	a, err := NewMap(MapConfig{Self: "a", MaxHosts: 4})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		now := t0.Add(time.Duration(i) * time.Second)
		r := fmt.Sprintf("h%d", i)
		_, err := a.Merge(Delta{{Reporter: r, Entries: []Entry{{r, "a", versionAt(now), bandwidthOf(1, now)}}}}, now)
		if (err != nil) != (i%10 >= 3) || err != nil && !errors.Is(err, ErrTooManyHosts) {
			t.Fatalf("host %d: %v", i, err)
		}
		if i%10 == 9 {
			for k := range 10 {
				a.Forget(now, fmt.Sprintf("h%d", i-k))
			}
		}
	}
	if len(a.hosts) != 1 || len(a.gone) > 4 || len(a.reports) != 0 {
		t.Errorf("%d hosts, %d forgotten, %d reports", len(a.hosts), len(a.gone), len(a.reports))
	}
}

func TestNewMapRefuses(t *testing.T) {
	for _, cfg := range []MapConfig{{}, {Self: "a", MaxHosts: -1}, {Self: "a", MaxHosts: MaxHosts + 1}, {Self: "a", MaxSkew: -1}} {
		if _, err := NewMap(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

// Every method at once, for the race detector.
func TestMapConcurrently(t *testing.T) {
	a, b := newMap(t, "a"), newMap(t, "b")
	hosts := []Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for i := range 100 {
				now := t0.Add(time.Duration(i) * time.Second)
				if err := a.Set("a", hosts[1+i%2].Name, bandwidthOf(float64(1+i), now), now); err != nil {
					t.Error(err)
				}
				pull(t, b, a, k, now)
				pull(t, a, b, k, now)
				a.Snapshot(hosts, now)
				if i == 50 {
					b.Forget(now, "c")
				}
			}
		})
	}
	wg.Wait()
	if a.Epoch() == 0 || b.Epoch() == 0 {
		t.Error("nothing happened")
	}
}
