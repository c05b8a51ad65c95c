package netmap

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Whatever the order of measuring, publishing and exchanging, with skewed clocks: once
// nobody has news for anybody, all maps are the same, and each reporter's newest word stands.
func TestMapsConverge(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n := 2 + rng.IntN(6)
		names := make([]string, n)
		ms := make([]*Map, n)
		skew := make([]time.Duration, n)
		for i := range ms {
			names[i] = fmt.Sprintf("h%d", i)
			ms[i] = newMap(t, names[i])
			skew[i] = time.Duration(rng.Int64N(int64(4*time.Minute))) - 2*time.Minute
		}
		said := map[string]map[peer]Estimate{} // by reporter
		now := t0
		for range 60 * n {
			now = now.Add(time.Duration(rng.Int64N(int64(time.Second))))
			i, j := rng.IntN(n), rng.IntN(n)
			if i == j {
				continue
			}
			switch rng.IntN(4) {
			case 0:
				exchange(t, ms[i], ms[j], now.Add(skew[i]), now.Add(skew[j]))
			case 1:
				flush(t, ms[i], now.Add(skew[i]))
			default:
				from, to := i, j
				if rng.IntN(2) == 0 {
					from, to = j, i
				}
				e := randomEstimate(rng)
				if err := ms[i].Set(names[from], names[to], e, now.Add(skew[i])); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				key, _ := keyOf(names[i], names[from], names[to])
				if said[names[i]] == nil {
					said[names[i]] = map[peer]Estimate{}
				}
				said[names[i]][key] = e.rounded()
			}
		}
		for i := range ms {
			flush(t, ms[i], now.Add(skew[i]))
		}
		for round := 0; ; round++ {
			news := 0
			for i := range ms {
				for j := range ms {
					if i != j {
						n, _ := exchange(t, ms[i], ms[j], now.Add(skew[i]), now.Add(skew[j]))
						news += n
					}
				}
			}
			if news == 0 {
				break
			}
			if round > 100 {
				t.Fatalf("seed %d: the maps never come to rest", seed)
			}
		}
		for _, m := range ms {
			if m.root != ms[0].root || m.root != sumOf(m) {
				t.Fatalf("seed %d: sums %x, %x, counted anew %x", seed, m.root, ms[0].root, sumOf(m))
			}
			if len(m.reports) != len(said) {
				t.Fatalf("seed %d: %d reporters, want %d", seed, len(m.reports), len(said))
			}
			for reporter, want := range said {
				row := m.row(reporter)
				for _, e := range row {
					if e.est != want[e.peer] {
						t.Fatalf("seed %d: %s holds %s's %v\n%+v\nwant %+v", seed, m.cfg.Self, reporter, e.peer, e.est, want[e.peer])
					}
				}
				if len(row) != len(want) {
					t.Fatalf("seed %d: %s holds %d entries of %s, want %d", seed, m.cfg.Self, len(row), reporter, len(want))
				}
			}
		}
	}
}

func sumOf(m *Map) (sum uint64) {
	for _, r := range m.reports {
		sum += r.hash()
	}
	return sum
}

// A host whose clock was set back across a restart is heard again after one exchange, and
// what its first life said beside stays.
func TestClockSetBackAcrossRestart(t *testing.T) {
	b := newMap(t, "b")
	first := newMap(t, "a")
	for to, mbps := range map[string]float64{"b": 1, "c": 2} {
		if err := first.Set("a", to, bandwidthOf(mbps, t0), t0); err != nil {
			t.Fatal(err)
		}
	}
	pull(t, b, first, t0)

	back := t0.Add(-time.Minute) // within the skew: the clock was corrected
	second := newMap(t, "a")
	if err := second.Set("a", "b", bandwidthOf(9, back), back); err != nil {
		t.Fatal(err)
	}
	exchange(t, second, b, back, t0)
	if n := pull(t, b, second, back); n != 1 {
		t.Fatalf("b took %d batches, want 1", n)
	}
	s := b.Snapshot([]Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}, t0)
	if got, _ := s.Bandwidth(0, 1); got != 9*Mbps {
		t.Errorf("b believes %v Mbit/s, want the 9 of a's second life", got.Mbps())
	}
	if got, _ := s.Bandwidth(0, 2); got != 2*Mbps {
		t.Errorf("b lost what a's first life said of c: %v", got.Mbps())
	}
}

// The same where the second life spoke before it heard of the first.
func TestSpokeTooEarlyAfterRestart(t *testing.T) {
	for _, back := range []time.Duration{-time.Minute, time.Minute} {
		b, first, second := newMap(t, "b"), newMap(t, "a"), newMap(t, "a")
		if err := first.Set("a", "b", bandwidthOf(1, t0), t0); err != nil {
			t.Fatal(err)
		}
		pull(t, b, first, t0)
		now := t0.Add(back)
		if err := second.Set("a", "b", bandwidthOf(9, now), now); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			pull(t, second, b, now)
		}
		if got, _ := b.Lookup("a", "b", t0); got.Bandwidth != 9*Mbps {
			t.Errorf("clock set by %v: b believes %v Mbit/s, want 9", back, got.Bandwidth.Mbps())
		}
		if second.root != b.root {
			t.Errorf("clock set by %v: the maps differ", back)
		}
	}
}

// A restarted host that listens first gets its earlier measurements back, and goes on
// publishing them.
func TestRestartRecoversOwnReports(t *testing.T) {
	b, a := newMap(t, "b"), newMap(t, "a")
	if err := a.Set("a", "b", bandwidthOf(3, t0), t0); err != nil {
		t.Fatal(err)
	}
	pull(t, b, a, t0)
	again := newMap(t, "a")
	pull(t, again, b, t0)
	if got, ok := again.Lookup("a", "b", t0); !ok || got.Bandwidth != 3*Mbps {
		t.Errorf("got %v, %v", got.Bandwidth.Mbps(), ok)
	}
	now := t0.Add(time.Hour)
	for i := range maxChain { // until there was a full batch
		if err := again.Set("a", "c", bandwidthOf(float64(1+i), now), now); err != nil {
			t.Fatal(err)
		}
		flush(t, again, now)
	}
	pull(t, b, again, now)
	if got, ok := b.Lookup("a", "b", now); !ok || got.Bandwidth != 3*Mbps {
		t.Errorf("after a full batch: %v, %v", got.Bandwidth.Mbps(), ok)
	}
	// What is six hours old is worth no more bytes.
	now = t0.Add(8 * time.Hour)
	for i := range maxChain {
		if err := again.Set("a", "c", bandwidthOf(float64(1+i), now), now); err != nil {
			t.Fatal(err)
		}
		flush(t, again, now)
	}
	pull(t, b, again, now)
	if got, ok := b.Lookup("a", "b", now); ok {
		t.Errorf("after eight hours: %v", got)
	}
}

// What one reporter costs is bounded however long it goes on: by full batches.
func TestChainsStayShort(t *testing.T) {
	a, b := newMap(t, "a"), newMap(t, "b")
	now, most := t0, 0
	for i := range 500 {
		now = now.Add(time.Second)
		for k := range 1 + i%3 {
			if err := a.Set("a", fmt.Sprintf("h%d", (i+k)%400), bandwidthOf(float64(1+i%7), now), now); err != nil {
				t.Fatal(err)
			}
		}
		pull(t, b, a, now)
		r := b.reports["a"]
		for _, held := range r.chain {
			for k := range held.entries {
				p := held.entries[k].peer
				var newest *entry
				for _, x := range r.chain {
					if e := x.find(p); e != nil {
						newest = e
					}
				}
				if r.find(p) != newest {
					t.Fatalf("after %d: the newest entry about %v is not what is found", i, p)
				}
			}
		}
		most = max(most, len(r.chain))
		if len(r.chain) > maxChain || r.rows > maxChainRows || r.bytes > 5*len(r.chain[0].raw)+2000 {
			t.Fatalf("after %d: %d batches of %d entries in %d bytes, the full one has %d", i, len(r.chain), r.rows, r.bytes, len(r.chain[0].raw))
		}
	}
	if a.root != b.root || most < 2 {
		t.Errorf("sums %x and %x, chains of at most %d", a.root, b.root, most)
	}
	if n := len(a.own.entries); n != maxRow {
		t.Errorf("a keeps %d entries, want %d", n, maxRow)
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
				if m != o {
					pull(t, m, o, t0)
				}
			}
		}
	}
	epoch := a.Epoch()
	a.Forget(later, "c", "a", "nobody")
	if a.Epoch() <= epoch {
		t.Error("forgetting did not change the epoch")
	}
	if a.root != sumOf(a) {
		t.Errorf("sum %x, counted anew %x", a.root, sumOf(a))
	}
	pull(t, a, b, later)
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
	// It comes back, and is heard.
	back := later.Add(time.Second)
	if err := c.Set("c", "a", bandwidthOf(8, back), back); err != nil {
		t.Fatal(err)
	}
	pull(t, a, c, back) // its increment follows what a has forgotten, so all of it comes
	if got, ok := a.Lookup("c", "a", back); !ok || got.Bandwidth != 8*Mbps {
		t.Errorf("after its return: %v Mbit/s, %v", got.Bandwidth.Mbps(), ok)
	}
	if n, _ := exchange(t, a, c, back, back); n != 0 {
		t.Errorf("they exchange %d batches again and again", n)
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
	pull(t, b, a, t0.Add(time.Minute))
	if got, ok := b.Lookup("a", "c", t0.Add(time.Minute)); !ok || got.Bandwidth != 2*Mbps {
		t.Errorf("b believes %v, %v", got.Bandwidth.Mbps(), ok)
	}
}

// A clock that is ahead, within the skew, does not make an estimate younger than now.
func TestSnapshotClampsTheFuture(t *testing.T) {
	m := newMap(t, "a")
	if err := m.Set("a", "b", bandwidthOf(1, t0.Add(time.Minute)), t0); err != nil {
		t.Fatal(err)
	}
	if got, _ := m.Lookup("a", "b", t0); !got.Measured.Equal(t0) {
		t.Errorf("measured %v, want now, %v", got.Measured, t0)
	}
}

// batchesOf returns all that m holds of reporter, as it travels.
func batchesOf(m *Map, reporter string) (out []signed) {
	for _, b := range m.reports[reporter].chain {
		out = append(out, signed{b.raw, b.sig})
	}
	return out
}

// A batch with a gap before it is left alone; the next exchange brings the whole.
func TestGapIsFilledLater(t *testing.T) {
	a, b := newMap(t, "a"), newMap(t, "b")
	for i := range 3 {
		now := t0.Add(time.Duration(i) * time.Second)
		if err := a.Set("a", fmt.Sprintf("h%d", i), bandwidthOf(float64(1+i), now), now); err != nil {
			t.Fatal(err)
		}
		flush(t, a, now)
	}
	all := batchesOf(a, "a")
	if len(all) != 3 {
		t.Fatalf("%d batches, want 3", len(all))
	}
	if n, err := b.merge("x", all[1:], t0); n != 0 || err != nil {
		t.Fatalf("took %d, %v without a beginning", n, err)
	}
	if n, err := b.merge("x", []signed{all[0], all[2]}, t0); n != 1 || err != nil {
		t.Fatalf("took %d, %v; want the one before the gap", n, err)
	}
	if n := pull(t, b, a, t0); n != 2 {
		t.Errorf("the next exchange brought %d batches, want 2", n)
	}
}

// craft makes a batch as a host with its own software could.
func craft(t testing.TB, reporter string, version, prev Version, entries ...entry) signed {
	t.Helper()
	b := &batch{reporter: reporter, version: version, prev: prev, entries: entries}
	if err := b.encode(); err != nil {
		t.Fatal(err)
	}
	return signed{raw: b.raw}
}

func says(host string, k kind, e Estimate) entry { return entry{peer: peer{host, k}, est: e} }

// Bad entries are left out and their reporter is named; the others count, and the chain goes on.
func TestBadEntriesAreLeftOut(t *testing.T) {
	v := versionAt(t0)
	good := bandwidthOf(5, t0)
	fast := good
	fast.Bandwidth = 2e13
	guess := good
	guess.Source = SourcePredicted
	for _, tt := range []struct {
		name string
		bad  entry
		want error
	}{
		{"itself", says("x", sent, good), ErrForeign},
		{"future sample", says("bad", received, bandwidthOf(5, t0.Add(time.Hour))), ErrFuture},
		{"absurd", says("bad", sent, fast), ErrAbsurd},
		{"prediction", says("bad", sent, guess), ErrAbsurd},
	} {
		a := newMap(t, "a")
		n, err := a.merge("y", []signed{
			craft(t, "x", v, 0, says("b", sent, good), tt.bad, says("c", received, good)),
			craft(t, "x", v+1, v, says("d", sent, good)),
			craft(t, "y", v, 0, says("a", sent, good)),
		}, t0)
		if !errors.Is(err, tt.want) || n != 3 {
			t.Errorf("%s: %d, %v; want 3, %v", tt.name, n, err, tt.want)
		}
		for _, pair := range [][2]string{{"x", "b"}, {"c", "x"}, {"x", "d"}, {"y", "a"}} {
			if e, ok := a.Lookup(pair[0], pair[1], t0); !ok || e.Bandwidth != 5*Mbps {
				t.Errorf("%s: %v is lost", tt.name, pair)
			}
		}
		for _, pair := range [][2]string{{"x", "x"}, {"x", "bad"}, {"bad", "x"}} {
			if _, ok := a.Lookup(pair[0], pair[1], t0); ok {
				t.Errorf("%s: %v was taken", tt.name, pair)
			}
		}
		// Nothing is signed here: who passed it on is as near to the culprit as one can get.
		if w := a.Warnings(t0); len(w) != 1 || !strings.Contains(w[0], "host y") || !strings.Contains(w[0], "rows of x") {
			t.Errorf("%s: warnings %q", tt.name, w)
		}
		if w := a.Warnings(t0.Add(2 * time.Hour)); len(w) != 0 {
			t.Errorf("%s: two hours later still %q", tt.name, w)
		}
	}
}

// A batch from the future is refused as a whole: its reporter's clock will come back.
func TestFutureBatchIsRefused(t *testing.T) {
	a := newMap(t, "a")
	ahead := t0.Add(time.Hour)
	n, err := a.merge("x", []signed{craft(t, "x", versionAt(ahead), 0, says("b", sent, bandwidthOf(1, t0)))}, t0)
	if n != 0 || !errors.Is(err, ErrFuture) || len(a.reports) != 0 {
		t.Errorf("%d, %v", n, err)
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
		_, err := a.merge("x", []signed{craft(t, r, versionAt(now), 0, says("a", sent, bandwidthOf(1, now)))}, now)
		if (err != nil) != (i%10 >= 4) || err != nil && !errors.Is(err, ErrTooManyHosts) {
			t.Fatalf("host %d: %v", i, err)
		}
		if i%10 == 9 {
			for k := range 10 {
				a.Forget(now, fmt.Sprintf("h%d", i-k))
			}
		}
	}
	if len(a.gone) > 4 || len(a.reports) != 0 || len(a.culprits) != 0 {
		t.Errorf("%d forgotten, %d reports, %d culprits", len(a.gone), len(a.reports), len(a.culprits))
	}
}

// One reporter cannot fill the memory: neither with rows nor with batches nor with faults.
func TestReporterIsBounded(t *testing.T) {
	a := newMap(t, "a")
	v := versionAt(t0)
	var many []entry
	for i := range maxRow + 1 {
		many = append(many, says(fmt.Sprintf("h%03d", i), sent, bandwidthOf(1, t0)))
	}
	if n, err := a.merge("x", []signed{craft(t, "x", v, 0, many...)}, t0); n != 0 || !errors.Is(err, ErrMalformed) {
		t.Errorf("%d entries: %d, %v", len(many), n, err)
	}
	for i := range Version(1000) {
		prev := v + i - 1
		if i == 0 {
			prev = 0
		}
		a.merge("x", []signed{craft(t, "x", v+i, prev, says(fmt.Sprintf("h%d", i), sent, bandwidthOf(1, t0)))}, t0)
	}
	if r := a.reports["x"]; len(r.chain) > maxChain || r.rows > maxChainRows {
		t.Errorf("%d batches of %d entries", len(r.chain), r.rows)
	}
	// And it is heard again once it speaks properly.
	if n, err := a.merge("x", []signed{craft(t, "x", v+5000, 0, says("b", sent, bandwidthOf(9, t0)))}, t0); n != 1 || err != nil {
		t.Errorf("a full batch: %d, %v", n, err)
	}
	for i := range 10 * maxCulprits {
		a.merge(fmt.Sprintf("peer%d", i), []signed{{raw: []byte{9}}}, t0.Add(time.Duration(i)*time.Second))
	}
	if n := len(a.culprits); n > maxCulprits {
		t.Errorf("%d culprits", n)
	}
	if n := len(a.hot); n > maxHot {
		t.Errorf("%d rumours", n)
	}
}

// seal stands in for signatures: what it returns for a host can be made by that host only.
func seal(host string) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) { return []byte(fmt.Sprintf("%s:%x", host, checksum(b))), nil }
}

func checksum(b []byte) (h uint64) {
	for _, c := range b {
		h = h*1099511628211 + uint64(c) + 1
	}
	return h
}

func unseal(host string, credential, message, sig []byte) error {
	want, _ := seal(host)(message)
	if string(credential) != "cert "+host || !slices.Equal(want, sig) {
		return errors.New("bad seal")
	}
	return nil
}

func signedMap(t testing.TB, self string) *Map {
	t.Helper()
	m, err := NewMap(MapConfig{Self: self, Credential: []byte("cert " + self), Sign: seal(self), Verify: unseal})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A relay that alters, makes up or leaves out rows of a third host changes nothing, and is named.
func TestRelaysCannotForge(t *testing.T) {
	honest, victim := signedMap(t, "honest"), signedMap(t, "victim")
	for i := range 3 {
		now := t0.Add(time.Duration(i) * time.Second)
		if err := honest.Set("honest", "victim", bandwidthOf(float64(5+5*i), now), now); err != nil {
			t.Fatal(err)
		}
		flush(t, honest, now)
	}
	good := batchesOf(honest, "honest")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		k := rng.IntN(len(good))
		bent := signed{slices.Clone(good[k].raw), slices.Clone(good[k].sig)}
		if rng.IntN(2) == 0 {
			bent.raw[rng.IntN(len(bent.raw))] ^= 1 << rng.IntN(8)
		} else {
			bent.sig[rng.IntN(len(bent.sig))] ^= 1 << rng.IntN(8)
		}
		if n, _ := victim.merge("liar", []signed{bent}, t0); n != 0 {
			t.Fatalf("batch %d was taken though it was altered", k)
		}
	}
	v := versionAt(t0) + 10_000_000
	made := craft(t, "honest", v, 0, says("victim", sent, bandwidthOf(1000, t0)))
	made.sig, _ = seal("liar")(made.raw)
	n, err := victim.merge("liar", []signed{made}, t0)
	if n != 0 || !errors.Is(err, ErrSignature) {
		t.Errorf("a made up batch: %d, %v", n, err)
	}
	// Leaving one out in between leaves out the rest.
	if n, err := victim.merge("liar", []signed{good[0], good[2]}, t0); n != 1 || err != nil {
		t.Errorf("with one left out: %d, %v", n, err)
	}
	w := victim.Warnings(t0)
	if len(w) != 1 || !strings.Contains(w[0], "host liar") {
		t.Errorf("warnings %q, want one that names the liar", w)
	}
	if n, err := victim.merge("other", good[1:], t0); n != 2 || err != nil {
		t.Errorf("the true ones from another peer: %d, %v", n, err)
	}
	if e, _ := victim.Lookup("honest", "victim", t0); e.Bandwidth != 15*Mbps {
		t.Errorf("the victim believes %v Mbit/s", e.Bandwidth.Mbps())
	}
	// What is well signed and absurd is its signer's fault, whoever brought it.
	b := &batch{reporter: "fool", version: v, credential: []byte("cert fool"), entries: []entry{says("victim", sent, bandwidthOf(2e7, t0))}}
	if err := b.encode(); err != nil {
		t.Fatal(err)
	}
	b.sig, _ = seal("fool")(b.raw)
	if _, err := victim.merge("honest", []signed{{b.raw, b.sig}}, t0); !errors.Is(err, ErrAbsurd) {
		t.Errorf("absurd: %v", err)
	}
	if w := victim.Warnings(t0); len(w) != 2 || !strings.Contains(w[0], "host fool") {
		t.Errorf("warnings %q, want one that names the fool", w)
	}
}

// A host that signs two batches of one version is named by whoever sees both. The first is kept, and
// the same one again, or an old one, is no fault of anybody.
func TestTwoFacedHostIsNamed(t *testing.T) {
	made := func(mbps float64, v, prev Version) signed {
		b := &batch{reporter: "liar", version: v, prev: prev, entries: []entry{says("victim", sent, bandwidthOf(mbps, t0))}}
		if b.full() {
			b.credential = []byte("cert liar")
		}
		if err := b.encode(); err != nil {
			t.Fatal(err)
		}
		sig, _ := seal("liar")(b.raw)
		return signed{b.raw, sig}
	}
	v := versionAt(t0)
	for name, full := range map[string]bool{"full": true, "delta": false} {
		m := signedMap(t, "victim")
		first := []signed{made(10, v, 0), made(20, v+1, v)}
		if n, err := m.merge("relay", first, t0); n != 2 || err != nil {
			t.Fatal(name, n, err)
		}
		replay := append([]signed{made(5, v-1, 0)}, first...) // replays: old ones, and those it has
		if n, err := m.merge("relay", replay, t0); n != 0 || err != nil || len(m.Warnings(t0)) != 0 {
			t.Errorf("%s: replays: %d taken, %v, warnings %q", name, n, err, m.Warnings(t0))
		}
		other := made(1000, v+1, v)
		if full {
			other = made(1000, v+1, 0)
		}
		forged := signed{other.raw, slices.Clone(other.sig)}
		forged.sig[len(forged.sig)-1] ^= 1
		if _, err := m.merge("relay", []signed{forged}, t0); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: a forged second face: %v", name, err)
		}
		if n, err := m.merge("other", []signed{other}, t0); n != 0 || !errors.Is(err, ErrTwoFaced) {
			t.Errorf("%s: a second face: %d taken, %v", name, n, err)
		}
		if e, _ := m.Lookup("liar", "victim", t0); e.Bandwidth != 20*Mbps {
			t.Errorf("%s: believed %v Mbit/s", name, e.Bandwidth.Mbps())
		}
		w := m.Warnings(t0)
		if len(w) != 2 || !strings.Contains(w[0], "host liar") || !strings.Contains(w[1], "host relay") {
			t.Errorf("%s: warnings %q, want the liar and who forged its signature", name, w)
		}
	}
}

// Every method at once, for the race detector.
func TestMapConcurrently(t *testing.T) {
	a, b := signedMap(t, "a"), signedMap(t, "b")
	hosts := []Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for i := range 100 {
				now := t0.Add(time.Duration(i) * time.Second)
				if err := a.Set("a", hosts[1+i%2].Name, bandwidthOf(float64(1+i), now), now); err != nil {
					t.Error(err)
				}
				if _, err := a.Publish(now, k%2 == 0); err != nil {
					t.Error(err)
				}
				exchange(t, a, b, now, now)
				exchange(t, b, a, now, now)
				a.Snapshot(hosts, now)
				a.Lookup("a", "b", now)
				b.Predictor(map[string]string{"a": "", "b": "", "c": ""}, now)
				b.Warnings(now)
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
