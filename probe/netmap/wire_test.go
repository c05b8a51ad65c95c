package netmap

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// gridMaps returns n agents' maps over three sites, each pair measured by its receiver and
// its latency by its sender, before any exchange.
func gridMaps(t testing.TB, n int, seed uint64) []*Map {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 6))
	ms := make([]*Map, n)
	name := func(i int) string { return fmt.Sprintf("site%d-%d", i%3, i/3) }
	for i := range ms {
		ms[i] = newMap(t, name(i))
	}
	for i := range ms {
		for j := range ms {
			if i == j {
				continue
			}
			now := t0.Add(time.Duration(rng.Int64N(int64(10 * time.Second))))
			e := bandwidthOf(1+rng.Float64()*100, now.Add(-time.Millisecond))
			e.Known |= FieldLatency | FieldCapacity | FieldLanes | FieldLoss
			e.Latency = time.Duration(rng.Int64N(int64(100 * time.Millisecond)))
			e.Capacity, e.Lanes, e.Loss, e.Spread = e.Bandwidth*3, 4, 0.001, 0.05
			if err := ms[j].Set(name(i), name(j), e, now); err != nil {
				t.Fatal(err)
			}
			lat := Estimate{Known: FieldLatency, Latency: e.Latency}
			if err := ms[i].Set(name(i), name(j), lat, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	return ms
}

func TestDeltaRoundTrip(t *testing.T) {
	for seed := range uint64(30) {
		ms := gridMaps(t, 2+int(seed%6), seed)
		for _, m := range ms[1:] {
			pull(t, ms[0], m, 0, t0.Add(time.Minute))
		}
		d := ms[0].Delta(Digest{ms[1].cfg.Self: versionAt(t0.Add(5 * time.Second))}, int(seed), t0)
		wire, err := AppendDelta(nil, d)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		back, err := ParseDelta(wire)
		if err != nil || len(d) != len(back) || len(d) > 0 && !reflect.DeepEqual(d, back) {
			t.Fatalf("seed %d: %v\n%v\n%v", seed, err, d, back)
		}
		digest := ms[0].Digest()
		wire, err = AppendDigest(nil, digest)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got, err := ParseDigest(wire); err != nil || !reflect.DeepEqual(got, digest) {
			t.Fatalf("seed %d: %v: digest %v became %v", seed, err, digest, got)
		}
		// Every prefix is refused: nothing is mistaken for a shorter message.
		for i := range wire {
			if _, err := ParseDigest(wire[:i]); !errors.Is(err, ErrMalformed) {
				t.Fatalf("seed %d: the first %d bytes of a digest: %v", seed, i, err)
			}
		}
	}
}

// The state of 20 hosts crosses a 1 Mbit/s link in a fraction of a second.
func TestStateBytes(t *testing.T) {
	ms := gridMaps(t, 20, 1)
	now := t0.Add(time.Minute)
	for _, m := range ms[1:] {
		pull(t, ms[0], m, 0, now)
	}
	full := ms[0].Delta(nil, 0, now)
	wire, err := AppendDelta(nil, full)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := AppendDigest(nil, ms[0].Digest())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("20 hosts, %d entries: %d bytes of state (%.1f an entry, %.0f ms at 1 Mbit/s), %d bytes of digest",
		full.Entries(), len(wire), float64(len(wire))/float64(full.Entries()), float64(len(wire))*8/1e3, len(digest))
	if full.Entries() != 2*20*19 || len(wire) > 20*full.Entries() {
		t.Errorf("%d entries in %d bytes, more than 20 an entry", full.Entries(), len(wire))
	}
	if len(digest) > 20*20 {
		t.Errorf("digest of %d bytes", len(digest))
	}
}

func TestParseDeltaRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []byte
		want error
	}{
		{"empty", nil, ErrMalformed},
		{"other form", []byte{9, 0, 0}, ErrMalformed},
		{"more names than bytes", []byte{1, 0xff, 0xff, 0xff, 0x7f}, ErrMalformed},
		{"names out of order", []byte{1, 2, 1, 'b', 1, 'a', 0}, ErrMalformed},
		{"empty name", []byte{1, 1, 0, 0}, ErrMalformed},
		{"more reports than bytes", []byte{1, 1, 1, 'a', 9}, ErrMalformed},
		{"no such reporter", []byte{1, 1, 1, 'a', 1, 5, 0, 0}, ErrMalformed},
		{"pair of one host", []byte{1, 1, 1, 'a', 1, 0, 0, 1, 0, 1, 0, 0}, ErrMalformed},
		{"version stands still", []byte{1, 2, 1, 'a', 1, 'b', 1, 0, 0, 1, 2, 0, 0, 0}, ErrMalformed},
		{"bandwidth 0", []byte{1, 2, 1, 'a', 1, 'b', 1, 0, 0, 1, 2, 1, 2, 0, 0, 0}, ErrAbsurd},
		{"bytes left", []byte{1, 0, 0, 0}, ErrMalformed},
	} {
		if _, err := ParseDelta(tt.in); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
	if d, err := ParseDelta([]byte{1, 2, 1, 'a', 1, 'b', 1, 0, 0, 1, 2, 1, 2, 0, 8, 0}); err != nil || d[0].Entries[0].Estimate.Bandwidth != 8 {
		t.Errorf("the same entry with 8 B/s: %v, %v", d, err)
	}
	// A source belongs to a bandwidth; without one it must not make equal beliefs differ.
	if d, err := ParseDelta([]byte{1, 2, 1, 'a', 1, 'b', 1, 0, 0, 1, 2, 1, 0x81, 3, 0, 9}); err != nil || d[0].Entries[0].Estimate.Source != SourceUnknown {
		t.Errorf("a latency with a source: %+v, %v", d, err)
	}
}

func TestAppendDeltaRefuses(t *testing.T) {
	ok := bandwidthOf(1, t0)
	for _, e := range []Entry{{"b", "c", 2, ok}, {"a", "b", 1, ok}, {"a", "b", 2, bandwidthOf(-1, t0)}} {
		if _, err := AppendDelta(nil, Delta{{Reporter: "a", Since: 1, Entries: []Entry{e}}}); err == nil {
			t.Errorf("%+v was written", e)
		}
	}
}

func FuzzParseDelta(f *testing.F) {
	for seed := range uint64(3) {
		wire, err := AppendDelta(nil, gridMaps(f, 3, seed)[0].Delta(nil, 0, t0))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := ParseDelta(in)
		if err != nil {
			return
		}
		wire, err := AppendDelta(nil, d)
		if err != nil {
			t.Fatalf("read, but cannot be written: %v", err)
		}
		if back, err := ParseDelta(wire); err != nil || !reflect.DeepEqual(d, back) {
			t.Fatalf("%v\n%v\n%v", err, d, back)
		}
		m := newMap(t, "a")
		n, _ := m.Merge(d, t0)
		if again, _ := m.Merge(d, t0); again != 0 {
			t.Fatalf("merged %d entries, and %d again", n, again)
		}
	})
}

func FuzzParseDigest(f *testing.F) {
	wire, err := AppendDigest(nil, Digest{"a": 5, "b": 1 << 50})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wire)
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := ParseDigest(in)
		if err != nil {
			return
		}
		wire, err := AppendDigest(nil, d)
		if err != nil {
			t.Fatalf("read, but cannot be written: %v", err)
		}
		if back, err := ParseDigest(wire); err != nil || !reflect.DeepEqual(d, back) {
			t.Fatalf("%v\n%v\n%v", err, d, back)
		}
	})
}
