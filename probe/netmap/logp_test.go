package netmap

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/logp"
)

// testModel is a model whose gap tends to size/(1.25 MB/s).
func testModel(t testing.TB) *logp.Model {
	t.Helper()
	m, err := logp.New([]logp.Point{
		{Size: 0, Send: 10 * time.Microsecond, Receive: 20 * time.Microsecond, Gap: 100 * time.Microsecond},
		{Size: 1 << 20, Send: 110 * time.Microsecond, Receive: 120 * time.Microsecond, Gap: 838 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

// A model travels with its host's row and is used for its site's pairs.
func TestLogPRows(t *testing.T) {
	a, b := newMap(t, "a"), newMap(t, "b")
	mod := *testModel(t)
	if err := a.SetLogP("S", mod, t0); err != nil {
		t.Fatal(err)
	}
	if err := a.SetLogP("S", logp.Model{}, t0); !errors.Is(err, logp.ErrInvalid) {
		t.Errorf("no model: %v", err)
	}
	if err := a.SetLogP("S\n", mod, t0); err == nil {
		t.Error("a site with a line feed")
	}
	slow := bandwidthOf(1, t0)
	if err := a.Set("a", "c", slow, t0); err != nil {
		t.Fatal(err)
	}
	pull(t, b, a, t0)
	hosts := []Host{{Name: "a", Site: "R"}, {Name: "b", Site: "R"}, {Name: "c", Site: "S"}, {Name: "d", Site: "S"}}
	s := b.Snapshot(hosts, t0)
	for _, tt := range []struct {
		from, to int
		want     bool
	}{{0, 2, true}, {0, 3, true}, {1, 2, true}, {2, 0, false}, {0, 1, false}, {2, 3, false}} {
		if _, ok := s.LogP(tt.from, tt.to); ok != tt.want {
			t.Errorf("model of %d→%d: %v", tt.from, tt.to, ok)
		}
	}
	// Without a bandwidth the model alone; with one of 1 Mbit/s, a tenth of the model's, that.
	if got, want := s.Gap(1, 2, 1<<20), 838*time.Millisecond; got != want {
		t.Errorf("gap of b→c %v, want %v", got, want)
	}
	if got, want := s.Gap(0, 2, 1<<20), (1 * Mbps).Time(1<<20); got != want {
		t.Errorf("gap of a→c %v, want %v", got, want)
	}
	if got, want := s.Gap(0, 2, 0), 100*time.Microsecond; got != want {
		t.Errorf("gap of nothing %v, want %v", got, want)
	}
	if got, want := s.SendOverhead(1, 3, 1<<20), 110*time.Microsecond; got != want {
		t.Errorf("overhead %v, want %v", got, want)
	}
	if _, ok := Predict(s).LogP(0, 2); !ok {
		t.Error("Predict loses the models")
	}
	sub := s.Subset([]int{2, 0})
	if _, ok := sub.LogP(1, 0); !ok {
		t.Error("Subset loses the models")
	}
	// A file keeps them.
	text, err := AppendMatrix(nil, s, t0)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseMatrix(text, t0)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got, ok := back.LogP(0, 2); !ok || got.At(1<<20) != mod.At(1<<20) {
		t.Errorf("read back: %v, %v\n%s", got, ok, text)
	}
	again, err := AppendMatrix(nil, back, t0)
	if err != nil || string(again) != string(text) {
		t.Errorf("%v: second writing differs\n%s\n%s", err, text, again)
	}
	for _, tt := range []struct{ from, to, want string }{
		{`"host":"a"`, `"host":"z"`, `"z" is not among the hosts`},
		{`"size_bytes":0`, `"size_bytes":9`, "the least size is 9 bytes"},
		{`"points"`, `"pints"`, "a model needs host and points"},
		{`"logp"`, `"logp_ms"`, "unknown key"},
	} {
		bad := strings.Replace(string(text), tt.from, tt.to, 1)
		if _, err := ParseMatrix([]byte(bad), t0); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.to, err, tt.want)
		}
	}
}
