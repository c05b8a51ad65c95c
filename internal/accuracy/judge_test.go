package main

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// good returns a reading of each row with which every bound is kept by a little.
func good() []Reading {
	const f = 1e6
	w := World{Mbps: 10, RTT: 20 * time.Millisecond, Hosts: 2}
	return []Reading{
		{Cell: Cell{Row: Flow, World: w, Seed: 1, Idle: time.Minute}, Got: map[string][]float64{
			"truth": {f}, "early": {f, f}, "late": {1.04 * f, 0.96 * f, 1.14 * f}, "rtt": {0.0209}, "late own": {3}}},
		{Cell: Cell{Row: RoundTrip, World: World{Mbps: 10, RTT: time.Second}, Seed: 1}, Got: map[string][]float64{"rtt": {1.019, 0.981}}},
		{Cell: Cell{Row: Capacity, World: w, Seed: 1}, Got: map[string][]float64{
			"truth": {f}, "one": {f / 8}, "knee": {8}, "capacity": {1.09 * f, 0.91 * f}, "lanes": {4, 16}}},
		{Cell: Cell{Row: Bytes, Grid: "x", Seed: 1}, Got: map[string][]float64{
			"probe": {0.005, 0.001}, "other sockets": {0.004, 0.001}, "gossip": {0.1, 0}, "quic": {0.1, 0}, "all": {0.2, 0}}},
		{Cell: Cell{Row: FallIdle, Grid: "x", Seed: 1, For: time.Minute}, Got: map[string][]float64{"first": {1}, "median": {2}, "map": {30}, "tree": {29}}},
		{Cell: Cell{Row: FallBusy, Grid: "x", Seed: 1, For: time.Minute}, Got: map[string][]float64{"first": {1}, "median": {2}, "map": {5}, "tree": {5}, "exchange": {50}}},
		{Cell: Cell{Row: Wobble, Grid: "x", Seed: 1, For: time.Hour}, Got: map[string][]float64{"shapes": {0}, "epochs": {0}}},
		{Cell: Cell{Row: Cost, Grid: "x", Seed: 1}, Got: map[string][]float64{"on": {10.05, 20}, "off": {10, 20}}},
	}
}

func TestJudge(t *testing.T) {
	for _, l := range judge(good()) {
		if !l.OK {
			t.Errorf("%s: %q is not ok, bound %s", l.Row, l.Measured, l.Bound)
		}
	}
	spoil := map[Row][]func(g map[string][]float64){
		Flow: {
			func(g map[string][]float64) { g["late"] = []float64{1.06e6, 1.06e6, 1e6} },
			func(g map[string][]float64) { g["late"] = []float64{1e6, 1e6, 0.84e6} },
			func(g map[string][]float64) { delete(g, "late") },
			func(g map[string][]float64) { delete(g, "truth") },
		},
		RoundTrip: {
			func(g map[string][]float64) { g["rtt"] = []float64{1.021} },
			func(g map[string][]float64) { g["rtt"] = []float64{1, 0.979} },
			func(g map[string][]float64) { delete(g, "rtt") },
		},
		Capacity: {
			func(g map[string][]float64) { g["capacity"] = []float64{1e6, 1.11e6} },
			func(g map[string][]float64) { g["capacity"] = []float64{0} },
			func(g map[string][]float64) { g["lanes"] = []float64{3, 8} },
			func(g map[string][]float64) { g["lanes"] = []float64{8, 17} },
			func(g map[string][]float64) { delete(g, "lanes") },
		},
		Bytes: {
			func(g map[string][]float64) { g["probe"] = []float64{0.001, 0.0095} },
			func(g map[string][]float64) { delete(g, "probe") },
		},
		FallIdle: {
			func(g map[string][]float64) { g["map"] = []float64{30.25} },
			func(g map[string][]float64) { g["tree"] = []float64{31} },
			func(g map[string][]float64) { delete(g, "tree") },
		},
		FallBusy: {func(g map[string][]float64) { g["map"] = []float64{5.25} }},
		Wobble: {
			func(g map[string][]float64) { g["epochs"] = []float64{1} },
			func(g map[string][]float64) { g["shapes"] = []float64{2} },
		},
		Cost: {
			func(g map[string][]float64) { g["on"] = []float64{10.21, 20} },
			func(g map[string][]float64) { delete(g, "off") },
		},
	}
	for row, ways := range spoil {
		for i, spoil := range ways {
			all := good()
			at := slices.IndexFunc(all, func(r Reading) bool { return r.Cell.Row == row })
			spoil(all[at].Got)
			for _, l := range judge(all) {
				if l.OK == (l.Row == row) && !(row == Flow && l.Row == RoundTrip) {
					t.Errorf("%s, way %d: line %s says %v: %s", row, i, l.Row, l.OK, l.Measured)
				}
			}
		}
	}
	failed := good()
	failed[3].Failed = "no agents"
	for _, l := range judge(failed) {
		if l.OK == (l.Row == Bytes) {
			t.Errorf("a reading of %s that failed: %s says %v", Bytes, l.Row, l.OK)
		}
	}
}

// TestReadingsSurviveTheirFile: what the page is made from is what was measured.
func TestReadingsSurviveTheirFile(t *testing.T) {
	raw := &Raw{Command: "x", Date: "today", Readings: good()}
	data, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	var back Raw
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if a, b := markdown(raw), markdown(&back); a != b {
		t.Errorf("%s\nis not\n%s", a, b)
	}
	for _, l := range strings.Split(markdown(raw), "\n") {
		if strings.Contains(l, "NaN") || strings.Contains(l, "NOT") {
			t.Error(l)
		}
	}
	var text bytes.Buffer
	if err := writeText(&text, judge(raw.Readings), true); err != nil || strings.Count(text.String(), " ok ") != len(order)-1 { // no drawn grid is among them
		t.Errorf("%v\n%s", err, &text)
	}
}

// TestCellsHaveNames: a cell is found again by its name, so no two have the same, and --only can choose any.
func TestCellsHaveNames(t *testing.T) {
	for _, list := range [][]Cell{fullCells(defaultRTT, 2), quickCells()} {
		seen := make(map[string]bool)
		for _, c := range list {
			if seen[c.String()] {
				t.Errorf("two cells are called %v", c)
			}
			seen[c.String()] = true
			data, err := json.Marshal(c)
			var back Cell
			if err == nil {
				err = json.Unmarshal(data, &back)
			}
			if err != nil || back != c {
				t.Errorf("%v comes back as %v: %v", c, back, err)
			}
		}
		for _, row := range order {
			if row != RoundTrip && row != Random && !slices.ContainsFunc(list, func(c Cell) bool { return c.Row == row }) {
				t.Errorf("no cell of %s", row)
			}
		}
	}
}

func TestKnee(t *testing.T) {
	for want := 1; want <= 64; want++ {
		calls := 0
		got := knee(func(k int) bool { calls++; return k >= want })
		if got != want || calls > 13 {
			t.Errorf("%d after %d tries, want %d", got, calls, want)
		}
	}
	if got := knee(func(int) bool { return false }); got != 64 {
		t.Errorf("never enough: %d", got)
	}
}

func TestStatistics(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		v := make([]float64, 1+rng.IntN(9))
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		before := slices.Clone(v)
		m, far := median(v), worst(v)
		below, above := 0, 0
		for _, x := range v {
			if x <= m {
				below++
			}
			if x >= m {
				above++
			}
			if math.Abs(x) > math.Abs(far) {
				t.Fatalf("seed %d: worst of %v is %v", seed, v, far)
			}
		}
		if 2*below < len(v) || 2*above < len(v) || !slices.Contains(v, far) || !slices.Equal(v, before) {
			t.Fatalf("seed %d: median of %v is %v, worst %v", seed, v, m, far)
		}
	}
	if !math.IsNaN(median(nil)) || !math.IsNaN(worst(nil)) {
		t.Error("nothing has a median, or a worst")
	}
	if m, e := meanError([]float64{1, 3}); m != 2 || math.Abs(e-1) > 1e-9 {
		t.Errorf("%v ± %v, want 2 ± 1", m, e)
	}
}
