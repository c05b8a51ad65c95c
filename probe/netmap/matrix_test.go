package netmap

import (
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
	got, err := AppendMatrix(nil, NewSnapshot(12, []Host{{"ut0", "UT"}, {"uk0", "UK"}}, est), t0)
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
		{"empty", "", "line 1: the text ends"},
		{"not an object", "[1]", "line 1: the file is a list, not an object"},
		{"cut off", hosts + bandwidth, "line 3: the text ends in the middle"},
		{"no latency", hosts + `"bandwidth_mbps":[[0,1],[1,0]]}`, "line 2: latency_s is missing"},
		{"no hosts", "{" + bandwidth + latency + "}", "line 3: hosts is missing"},
		{"empty hosts", `{"hosts":[]}`, "line 1: hosts is empty"},
		{"nameless", `{"hosts":[{"site":"UT"}]}`, "line 1: hosts[0] has no name"},
		{"number as a host", `{"hosts":[7]}`, "line 1: hosts[0]: a JSON number"},
		{"same name", "{\"hosts\":[{\"name\":\"a\"},\n{\"name\":\"a\"}]}", `line 2: hosts[1]: the name "a" is given twice, first on line 1`},
		{"few rows", hosts + `"bandwidth_mbps":[[0,1]],` + latency + "}", "line 2: bandwidth_mbps has 1 rows for 2 hosts"},
		{"short row", hosts + "\"bandwidth_mbps\":[[0,1],\n[1]]," + latency + "}", "line 3: bandwidth_mbps[1], the row of b, has 1 values for 2 hosts"},
		{"zero", hosts + "\"bandwidth_mbps\":[[0,1],\n[0,0]]," + latency + "}", "line 3: bandwidth_mbps[1][0] is 0; write null"},
		{"negative", hosts + bandwidth + `"latency_s":[[0,-0.5],[1,0]]}`, "line 3: latency_s[0][1] is -0.5, which is negative"},
		{"NaN", hosts + "\"bandwidth_mbps\":[[0,\nNaN],[1,0]]," + latency + "}", "line 3: NaN is not a number of JSON; write null"},
		{"huge", hosts + `"bandwidth_mbps":[[0,1e999],[1,0]],` + latency + "}", "line 2: bandwidth_mbps[0][1] is 1e999, out of range"},
		{"over 10 Tbit/s", hosts + `"bandwidth_mbps":[[0,2e7],[1,0]],` + latency + "}", "line 2: bandwidth_mbps[0][1] is 2e7, not in"},
		{"milliseconds", hosts + bandwidth + `"latency_s":[[0,76.5],[1,0]]}`, "line 3: latency_s[0][1] is 76.5, not in 0 … 60"},
		{"text", hosts + `"bandwidth_mbps":[[0,"1"],[1,0]],` + latency + "}", `line 2: bandwidth_mbps[0][1] is the text "1", not a number`},
		{"object as a row", hosts + `"bandwidth_mbps":[{}],` + latency + "}", "line 2: bandwidth_mbps[0] is an object, not a list"},
		{"other unit", hosts + `"latency_ms":[[0,1],[1,0]]}`, `line 2: unknown key "latency_ms"; write latency_s`},
		{"twice", hosts + bandwidth + bandwidth + latency + "}", `line 3: key "bandwidth_mbps" is given twice, first on line 2`},
		{"epoch", hosts + bandwidth + latency + `,"epoch":-1}`, "line 4: epoch is -1, not a whole number"},
		{"half a lane", hosts + bandwidth + latency + `,"lanes":[[0,1.5],[1,0]]}`, "line 4: lanes[0][1] is 1.5, not a whole number"},
		{"more", hosts + bandwidth + latency + "}{}", "line 4: more text after the end"},
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
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := ParseMatrix(in, t0)
		if err != nil {
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
