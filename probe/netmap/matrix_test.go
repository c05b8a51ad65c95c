package netmap

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestMatrixGolden(t *testing.T) {
	est := make([]Estimate, 4)
	est[1] = Estimate{
		Known: FieldLatency | FieldBandwidth | FieldCapacity | FieldLoss, Latency: 50 * time.Millisecond,
		Bandwidth: 1.44 * Mbps, Capacity: 10 * Mbps, Loss: 0.001, Measured: t0.Add(-1500 * time.Millisecond), Source: SourceProbed,
	}
	est[2] = Estimate{Known: FieldLatency, Latency: 6 * time.Microsecond}
	got, err := AppendMatrix(nil, NewSnapshot(12, []Host{{Name: "ut0", Site: "UT"}, {Name: "uk0", Site: "UK"}}, est), t0)
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "hosts": [
    {"name":"ut0","site":"UT"},
    {"name":"uk0","site":"UK"}
  ],
  "bandwidth_mbps": [
    [0,1.44],
    [null,0]
  ],
  "latency_s": [
    [0,0.05],
    [0.000006,0]
  ],
  "capacity_mbps": [
    [0,10],
    [null,0]
  ],
  "loss": [
    [0,0.001],
    [null,0]
  ],
  "source": [
    [0,3],
    [null,0]
  ],
  "age_s": [
    [0,1.5],
    [null,0]
  ],
  "epoch": 12
}
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What is written is read back: the same set of known fields, rates to eleven digits, and
// a second writing gives the same text. A missing measurement never becomes a number.
func TestMatrixRoundTrip(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := randomSnapshot(rng, 1+rng.IntN(7))
		text, err := AppendMatrix(nil, s, t0)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		back, err := ParseMatrix(text, t0)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		if back.Epoch() != s.Epoch() || fmt.Sprint(back.Hosts()) != fmt.Sprint(s.Hosts()) {
			t.Fatalf("seed %d: epoch %d hosts %v", seed, back.Epoch(), back.Hosts())
		}
		for i := range s.N() {
			for j := range s.N() {
				if i == j {
					continue
				}
				a, b := s.Estimate(i, j), back.Estimate(i, j)
				if a.Known != b.Known || a.Latency != b.Latency || a.Gap != b.Gap || a.Lanes != b.Lanes || a.Source != b.Source ||
					!near(float64(a.Bandwidth), float64(b.Bandwidth)) || !near(a.Loss, b.Loss) || a.Measured.Sub(b.Measured).Abs() > time.Microsecond {
					t.Fatalf("seed %d: %d→%d\n%+v\n%+v", seed, i, j, a, b)
				}
			}
		}
		again, err := AppendMatrix(nil, back, t0)
		if err != nil || string(again) != string(text) {
			t.Fatalf("seed %d: %v: second writing differs\n%s\n%s", seed, err, text, again)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-11*math.Abs(a) }

func randomSnapshot(rng *rand.Rand, n int) *Snapshot {
	hosts := make([]Host, n)
	est := make([]Estimate, n*n)
	for i := range hosts {
		hosts[i] = Host{Name: fmt.Sprintf("h%d", i), Site: string(rune('A' + rng.IntN(3)))}
	}
	for i := range est {
		est[i] = randomEstimate(rng)
	}
	return NewSnapshot(rng.Uint64(), hosts, est)
}

func TestMatrixErrorsNameLineAndReason(t *testing.T) {
	const hosts = `{"hosts":[{"name":"a"},{"name":"b"}],` + "\n"
	const bandwidth = `"bandwidth_mbps":[[0,1],[1,0]],` + "\n"
	const latency = `"latency_s":[[0,1],[1,0]]` + "\n"
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "line 1: not JSON: unexpected end"},
		{"not an object", "[1]", "line 1: want an object, found a list"},
		{"cut off", hosts + bandwidth, "line 3: not JSON: unexpected end"},
		{"no latency", hosts + `"bandwidth_mbps":[[0,1],[1,0]]}`, "line 2: latency_s is missing"},
		{"no hosts", "{" + bandwidth + latency + "}", "line 3: hosts is missing"},
		{"empty hosts", `{"hosts":[]}`, "line 1: hosts: the list is empty"},
		{"nameless", `{"hosts":[{"site":"UT"}]}`, "line 1: hosts[0]: the host has no name"},
		{"port of nothing", `{"hosts":[{"name":"a","port_mbps":0}]}`, "line 1: hosts[0]: port_mbps: 0 is not in 8e-06 … 1e+07; leave out what nobody knows"},
		{"port as text", `{"hosts":[{"name":"a","port_mbps":"1"}]}`, `line 1: hosts[0]: port_mbps: want a number, found "1"`},
		{"number as a name", `{"hosts":[{"name":7}]}`, "line 1: hosts[0]: name: want a string, found 7"},
		{"control character", "{\"hosts\":[{\"name\":\"a\"},\n{\"name\":\"b\\u001b[2J\"}]}", `line 2: hosts[1]: name: "b\x1b[2J" holds the control character '\x1b'`},
		{"line break", `{"hosts":[{"name":"a","site":"U\nT"}]}`, `line 1: hosts[0]: site: "U\nT" holds the control character '\n'`},
		{"long name", `{"hosts":[{"name":"` + strings.Repeat("n", 300) + `"}]}`, `line 1: hosts[0]: name: "` + strings.Repeat("n", 40) + `…" is longer than 255 bytes`},
		{"minus infinity", hosts + "\"bandwidth_mbps\":[[0,1],\n[-Infinity,1]]," + latency + "}", "line 3: not JSON: Infinity is not a number"},
		{"many digits", hosts + `"bandwidth_mbps":[[0,` + strings.Repeat("9", 5000) + `],[1,0]],` + latency + "}", "line 2: bandwidth_mbps[0][1]: " + strings.Repeat("9", 40) + "… is too large"},
		{"number as a host", `{"hosts":[7]}`, "line 1: hosts[0]: want an object, found 7"},
		{"same name", "{\"hosts\":[{\"name\":\"a\"},\n{\"name\":\"a\"}]}", `line 2: hosts[1]: the name "a" is given twice, first on line 1`},
		{"few rows", hosts + `"bandwidth_mbps":[[0,1]],` + latency + "}", "line 2: bandwidth_mbps has 1 rows for 2 hosts"},
		{"short row", hosts + "\"bandwidth_mbps\":[[0,1],\n[1]]," + latency + "}", "line 3: bandwidth_mbps[1], the row of b, has 1 values for 2 hosts"},
		{"zero", hosts + "\"bandwidth_mbps\":[[0,1],\n[0,0]]," + latency + "}", "line 3: bandwidth_mbps[1][0]: 0; write null"},
		{"negative", hosts + bandwidth + `"latency_s":[[0,-0.5],[1,0]]}`, "line 3: latency_s[0][1]: -0.5 is negative"},
		{"NaN", hosts + "\"bandwidth_mbps\":[[0,\nNaN],[1,0]]," + latency + "}", "line 3: not JSON: NaN is not a number; a value that was not measured is null"},
		{"huge", hosts + `"bandwidth_mbps":[[0,1e999],[1,0]],` + latency + "}", "line 2: bandwidth_mbps[0][1]: 1e999 is too large"},
		{"over 10 Tbit/s", hosts + `"bandwidth_mbps":[[0,2e7],[1,0]],` + latency + "}", "line 2: bandwidth_mbps[0][1]: 2e+07 is not in"},
		{"milliseconds", hosts + bandwidth + `"latency_s":[[0,76.5],[1,0]]}`, "line 3: latency_s[0][1]: 76.5 is not in 0 … 60"},
		{"text", hosts + `"bandwidth_mbps":[[0,"1"],[1,0]],` + latency + "}", `line 2: bandwidth_mbps[0][1]: want a number, found "1"`},
		{"object as a row", hosts + `"bandwidth_mbps":[{}],` + latency + "}", "line 2: bandwidth_mbps[0]: want a list, found an object"},
		{"other unit", hosts + `"latency_ms":[[0,1],[1,0]]}`, `line 2: unknown key "latency_ms"; write latency_s`},
		{"twice", hosts + bandwidth + bandwidth + latency + "}", `line 3: key "bandwidth_mbps" is given twice, first on line 2`},
		{"epoch", hosts + bandwidth + latency + `,"epoch":-1}`, "line 4: epoch: -1 is not a whole number"},
		{"half a lane", hosts + bandwidth + latency + `,"lanes":[[0,1.5],[1,0]]}`, "line 4: lanes[0][1]: 1.5 is not a whole number"},
		{"more", hosts + bandwidth + latency + "}{}", "line 4: not JSON: invalid character '{' after top-level value"},
		{"syntax", hosts + "\n\n!", "line 4: not JSON"},
	} {
		_, err := ParseMatrix([]byte(tt.text), t0)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestMatrixTakesWhatALaterReleaseAdds(t *testing.T) {
	s, err := ParseMatrix([]byte(`{"epoch":3,"weather":{"deep":[1,{}]},"latency_s":[[7,0.1],[null,-1]],
		"bandwidth_mbps":[[null,8],[null,-3]],"hosts":[{"name":"a","rack":4},{"name":"b"}]}`), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	want := Estimate{Known: FieldLatency | FieldBandwidth, Latency: 100 * time.Millisecond, Bandwidth: 1e6, Source: SourceDeclared}
	if got := s.Estimate(0, 1); got != want {
		t.Errorf("a→b is %+v, want %+v", got, want)
	}
	if got := s.Estimate(1, 0); got != (Estimate{}) {
		t.Errorf("b→a is %+v, want nothing known", got)
	}
}

func FuzzParseMatrix(f *testing.F) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 2))
		text, err := AppendMatrix(nil, randomSnapshot(rng, 1+int(seed)), t0)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("{\"hosts\":[{\"name\":\"a\\n\"}],\n\"latency_s\":[[null]],\"bandwidth_mbps\":[[NaN]]}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := ParseMatrix(in, t0)
		if err != nil {
			if e, ok := errors.AsType[*FormatError](err); !ok || e.Line < 1 || e.Line > 1+bytes.Count(in, []byte("\n")) {
				t.Fatalf("%v names no line of the file", err)
			}
			return
		}
		text, err := AppendMatrix(nil, s, t0)
		if err != nil {
			t.Fatalf("read, but cannot be written: %v", err)
		}
		back, err := ParseMatrix(text, t0)
		if err != nil {
			t.Fatalf("written, but cannot be read: %v\n%s", err, text)
		}
		for i := range s.N() {
			for j := range s.N() {
				if i != j && s.Estimate(i, j).Known != back.Estimate(i, j).Known {
					t.Fatalf("%d→%d: %+v became %+v", i, j, s.Estimate(i, j), back.Estimate(i, j))
				}
			}
		}
	})
}
