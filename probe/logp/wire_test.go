package logp

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestFormsRoundTrip(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 6))
		m := mustNew(t, random(rng))
		b, err := m.AppendBinary(nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got, err := Parse(b); err != nil || !slices.Equal(got.Points, m.Points) {
			t.Fatalf("seed %d: %v came back as %v, %v", seed, m, got, err)
		}
		for cut := range len(b) {
			if got, err := Parse(b[:cut]); !errors.Is(err, ErrInvalid) {
				t.Fatalf("seed %d: the first %d of %d bytes are %v, %v", seed, cut, len(b), got, err)
			}
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var got Model
		if err := json.Unmarshal(text, &got); err != nil || !slices.Equal(got.Points, m.Points) {
			t.Fatalf("seed %d: %s came back as %v, %v", seed, text, got, err)
		}
	}
}

// What a row of the map has to carry: a WAN's model of the sizes that are measured.
func TestBinaryIsSmall(t *testing.T) {
	points := measureAll(t, MostSize, func(size int64) time.Duration { return 30*time.Microsecond + time.Duration(size)*400 })
	for i := range points {
		points[i].Send, points[i].Receive = 8*time.Microsecond+time.Duration(points[i].Size)*5, time.Microsecond+time.Duration(points[i].Size)/3
	}
	b, err := mustNew(t, points).AppendBinary(nil)
	if err != nil || len(b) > 100 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	b, err = mustNew(t, points).Simplify(0.05).AppendBinary(nil)
	if err != nil || len(b) > 40 {
		t.Errorf("%d bytes when simplified, %v", len(b), err)
	}
}

func TestForms(t *testing.T) {
	const text = `[{"size_bytes":1,"send_overhead_s":0.000008,"receive_overhead_s":0.000001,"gap_s":0.00003},
		{"size_bytes":1024,"gap_s":0.0001}]`
	var m Model
	if err := json.Unmarshal([]byte(text), &m); !errors.Is(err, ErrInvalid) {
		t.Errorf("a send overhead that falls to 0: %v, %v", m, err)
	}
	for _, bad := range []string{
		`null`, `{}`, `[]`, `[1]`, `[{"size_bytes":1,"gap_s":0}]`,
		`[{"size_bytes":1,"gap_s":0},{"size_bytes":2}]`,
		`[{"gap_s":0},{"size_bytes":2,"gap_s":1}]`,
		`[{"size_bytes":1,"gap_s":0},{"size_bytes":2,"gap_s":-1}]`,
		`[{"size_bytes":1,"gap_s":0},{"size_bytes":2,"gap_s":3601}]`,
		`[{"size_bytes":1,"gap_s":0},{"size_bytes":2,"gap_s":1e400}]`,
		`[{"size_bytes":1,"gap_s":0},{"size_bytes":1.5,"gap_s":1}]`,
	} {
		if err := json.Unmarshal([]byte(bad), &m); err == nil {
			t.Errorf("%s is %v", bad, m)
		}
	}
	if _, err := (Model{}).AppendBinary(nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("the zero model: %v", err)
	}
	if _, err := json.Marshal(Model{}); err == nil {
		t.Error("the zero model has a JSON form")
	}
	huge := []byte{version, 2, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0}
	for name, b := range map[string][]byte{
		"nothing": nil, "version 0": {0, 2}, "255 points": {version, 255}, "a size of 2^64-1": huge,
		"a byte too many": {version, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0},
		"the same size":   {version, 2, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		if m, err := Parse(b); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{version, 2, 0, 0, 0, 0, 1, 0, 0, 0})
	for seed := range uint64(3) {
		m, err := New(random(rand.New(rand.NewPCG(seed, 7))))
		if err != nil {
			f.Fatal(err)
		}
		b, err := m.AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := Parse(in)
		if err != nil {
			return
		}
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		b, err := m.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse(b); err != nil || !slices.Equal(again.Points, m.Points) || len(b) > len(in) {
			t.Fatalf("%x: %v came back as %v, %v", in, m, again, err)
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`[{"size_bytes":1,"gap_s":0},{"size_bytes":2,"gap_s":1.5e-3}]`))
	f.Add([]byte(`[{"size_bytes":0,"send_overhead_s":1e-9,"gap_s":0},{"size_bytes":2,"send_overhead_s":3600,"gap_s":1}]`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var m Model
		if json.Unmarshal(in, &m) != nil {
			return
		}
		if m.Points == nil {
			return // null inside of a value leaves it alone
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var again Model
		if err := json.Unmarshal(text, &again); err != nil || !slices.Equal(again.Points, m.Points) {
			t.Fatalf("%q: %s came back as %v, %v", in, text, again, err)
		}
	})
}
