package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/exchange/plan"
)

// A lone rank is rank 0 of two, without agents: what rank 1 says is given, and its blocks are right.
type lone struct {
	says [][]byte // greeting, observation
	call int
}

func (l *lone) Hosts() []string { return []string{"a", "b"} }

func (l *lone) Allgather(_ context.Context, block []byte, _ client.Options) (*client.Result, error) {
	says := l.says[min(l.call, len(l.says)-1)]
	l.call++
	return &client.Result{Data: append(block[:len(block):len(block)], says...), Sizes: []int64{int64(len(block)), int64(len(says))}}, nil
}

// Alltoall has blocks of no bytes.
func (l *lone) Alltoall(context.Context, []byte, client.AlltoallOptions) (*client.Result, error) {
	return &client.Result{Sizes: []int64{0, 0}, Report: &apiv1.Report{Algorithm: "shift"}}, nil
}

func (l *lone) Barrier(context.Context, client.Options) (*apiv1.Report, error) {
	return &apiv1.Report{}, nil
}

// FuzzWhatOthersSay reads as rank 0 what another rank says, which may run anything.
func FuzzWhatOthersSay(f *testing.F) {
	cfg := Config{Collective: plan.Alltoall, Sizes: []int64{0}, Iterations: 1}
	hello, err := json.Marshal(greeting{Version: greetingVersion, Site: "B", Terms: cfg.terms()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(hello, []byte(`[{"s":1,"a":0.5,"alg":"shift","sent":{"A":3}}]`))
	f.Add(hello, []byte(`[{"s":1,"wrong":{"from":7,"says":"zeros"}}]`))
	f.Add([]byte(`{"bench":3,"terms":[["collective"],[]]}`), []byte(`{}`))
	f.Add([]byte(`{"bench":3}`), []byte(`null`))
	f.Add([]byte(`{"bench":1}`), []byte(`null`))
	f.Add([]byte("the content of a file"), []byte{})
	f.Fuzz(func(t *testing.T, greets, observes []byte) {
		r, err := Run(t.Context(), &lone{says: [][]byte{greets, observes}}, cfg)
		var mismatch *MismatchError
		var wrong *WrongDataError
		switch {
		case errors.As(err, &mismatch):
			if mismatch.Rank != 1 || mismatch.Host != "b" {
				t.Errorf("%+v", mismatch)
			}
		case errors.As(err, &wrong):
			if wrong.Rank != 1 || wrong.Host != "b" {
				t.Errorf("%+v", wrong)
			}
		case err != nil:
			t.Error(err)
		case len(r.Sizes) != 1 || len(r.Sizes[0].Iterations) != 1 || math.IsNaN(r.Sizes[0].Ratio):
			t.Errorf("%+v", r)
		default:
			if _, err := json.Marshal(r); err != nil {
				t.Error(err) // -o json could not print it
			}
		}
	})
}

// TestOtherVersions: a rank of a release whose benchmark is another one is refused, also where its terms read alike, and who reads that knows what to do.
func TestOtherVersions(t *testing.T) {
	cfg := Config{Collective: plan.Alltoall, Sizes: []int64{0}, Iterations: 1, Shape: "square"}
	for version, says := range map[int]string{
		0: "rank 1 runs no benchmark of this version: run gridagent bench of the same release at every rank",
		1: "rank 1 runs version 1 of the benchmark, and this is version 3: run gridagent bench of the same release at every rank", // its square is another
		2: "rank 1 runs version 2 of the benchmark, and this is version 3: run gridagent bench of the same release at every rank", // its ranks meet otherwise
		3: "",
		4: "rank 1 runs version 4 of the benchmark, and this is version 3: run gridagent bench of the same release at every rank",
	} {
		hello, err := json.Marshal(greeting{Version: version, Site: "B", Terms: cfg.terms()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(t.Context(), &lone{says: [][]byte{hello, []byte(`[{"s":1,"a":0.5,"alg":"shift"}]`)}}, cfg)
		var mismatch *MismatchError
		if says == "" && err != nil || says != "" && (!errors.As(err, &mismatch) || mismatch.Cause != says || mismatch.Rank != 1 || mismatch.Host != "b") {
			t.Errorf("version %d: %v, want %q", version, err, says)
		}
	}
}

// TestSummary checks the figures of iterations of which one has no bound.
func TestSummary(t *testing.T) {
	s := &Size{Bytes: 1e6, Iterations: []Iteration{
		{Seconds: 1, Bound: 1, Algorithm: "min3", WAN: []Crossing{{"A", "B", 10}}},
		{Seconds: 4, Algorithm: "ring", WAN: []Crossing{{"A", "B", 20}, {"B", "A", 6}}},
		{Seconds: 4, Bound: 2, Algorithm: "min3", WAN: []Crossing{}},
	}}
	s.summarise(4e6)
	if s.Mean != 3 || s.Min != 1 || s.Max != 4 || s.Bound != 1.5 || s.Ratio != 2 || s.Algorithm != "min3,ring" {
		t.Errorf("%+v", s)
	}
	if want := 8 * 4.0 / 3; math.Abs(s.Mbps-want) > 1e-9 {
		t.Errorf("%g Mbit/s, want %g", s.Mbps, want)
	}
	if len(s.WAN) != 2 || s.WAN[0].From != "A" || math.Abs(s.WAN[0].Bytes-10) > 1e-9 || math.Abs(s.WAN[1].Bytes-2) > 1e-9 {
		t.Errorf("over the WAN: %v", s.WAN)
	}
}

// TestCheck refuses what cannot be measured.
func TestCheck(t *testing.T) {
	good := Config{Collective: plan.Allgather, Sizes: []int64{0, MaxResult / 2}, Iterations: 1}
	if err := good.check(2); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Config){
		"collective": func(c *Config) { c.Collective = "broadcast" },
		"rank":       func(c *Config) { c.Rank = 2 },
		"below":      func(c *Config) { c.Rank = -1 },
		"iterations": func(c *Config) { c.Iterations = 0 },
		"warmup":     func(c *Config) { c.Warmup = -1 },
		"no size":    func(c *Config) { c.Sizes = nil },
		"negative":   func(c *Config) { c.Sizes = []int64{-1} },
		"huge":       func(c *Config) { c.Sizes = []int64{MaxResult} },
	} {
		bad := good
		edit(&bad)
		if err := bad.check(2); err == nil {
			t.Errorf("%s: %+v was taken", name, bad)
		}
	}
}
