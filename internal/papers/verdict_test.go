package main

import (
	"fmt"
	"strings"
	"testing"
)

// Above 64 KB and not below is neither from 16 KiB on nor from the least size, and small is at most 16 KiB.
func TestWinsBetween(t *testing.T) {
	for _, tt := range []struct {
		first        int64
		ok           bool
		above, small verdict // figure 10, figure 8
	}{
		{0, false, differs, differs},
		{1 << 10, true, partly, agrees},
		{16 << 10, true, partly, agrees},
		{64 << 10, true, partly, partly},
		{128 << 10, true, agrees, partly},
		{256 << 10, true, agrees, partly},
		{512 << 10, true, partly, partly},
	} {
		if got := winsBetween(tt.first, tt.ok, 64<<10+1, 256<<10); got != tt.above {
			t.Errorf("first win at %d, %v, above 64 KB: %s, want %s", tt.first, tt.ok, got, tt.above)
		}
		if got := winsBetween(tt.first, tt.ok, 0, smallSize); got != tt.small {
			t.Errorf("first win at %d, %v, at all but small sizes: %s, want %s", tt.first, tt.ok, got, tt.small)
		}
	}
}

// winsFromOn is what an experiment of grids could have measured: its Min3 wins from a size on, and is a little slower below.
func winsFromOn(e *experiment, first int64) *Raw {
	raw := invented(e, 0)
	for i := range raw.Records {
		switch r := &raw.Records[i]; {
		case r.Algorithm != "min3":
			*r = r.one(1)
		case r.SizeBytes >= first:
			*r = r.one(0.1)
		default:
			*r = r.one(1.1)
		}
	}
	return raw
}

// verdicts are those of the findings that say what, each once.
func verdicts(e *experiment, raw *Raw, says string) string {
	seen := make(map[verdict]bool)
	var all []string
	for _, f := range e.page(raw).findings {
		if strings.Contains(f.says, says) && !seen[f.verdict] {
			seen[f.verdict] = true
			all = append(all, string(f.verdict))
		}
	}
	return strings.Join(all, " ")
}

// Where Min3 begins to win decides in the figures of grids.
func TestWhereMin3Wins(t *testing.T) {
	for _, tt := range []struct {
		e     *experiment
		says  string
		first int64
		want  string
	}{
		{&min3Fig10, "above 64 KB", 1 << 10, "partly"},
		{&min3Fig10, "above 64 KB", 16 << 10, "partly"}, // it was taken for above
		{&min3Fig10, "above 64 KB", 256 << 10, "agrees"},
		{&min3Fig10, "above 64 KB", 512 << 10, "partly"},
		{&min3Fig10, "above 64 KB", 1 << 30, "differs"},
		{&min3Fig8, "all but small", 16 << 10, "agrees"},
		{&min3Fig8, "all but small", 64 << 10, "partly"},
		{&min3Fig8, "all but small", 1 << 30, "differs"},
	} {
		if got := verdicts(tt.e, winsFromOn(tt.e, tt.first), tt.says); got != tt.want {
			t.Errorf("%s, wins from %s on: %s, want %s", tt.e.id, inBytes(tt.first), got, tt.want)
		}
	}
}

// A ring of shorter paths is faster than one of longer ones where that is more than a tie, wherever it is in the paper.
func TestHops(t *testing.T) {
	for _, tt := range []struct {
		theirs, ours []float64
		want         verdict
	}{
		{[]float64{1.06, 1.01, 1.22}, []float64{1.03, 1.001, 1.05}, agrees},
		{[]float64{1.06, 1.01, 1.22}, []float64{1.004, 1.003, 1.001}, partly}, // the order alone
		{[]float64{1.06, 1.01, 1.22}, []float64{1.03, 0.999, 1.05}, partly},
		{[]float64{1.06, 1.01, 1.22}, []float64{1.03, 0.99, 0.99}, differs},
		{[]float64{1.06, 1.01, 1.22}, []float64{1, 1, 1}, differs},
	} {
		var h hops
		for i := range tt.theirs {
			h.add(tt.theirs[i], tt.ours[i])
		}
		if got := h.verdict(); got != tt.want {
			t.Errorf("%v here, %v in the paper: %s, want %s (%s)", tt.ours, tt.theirs, got, tt.want, h.String())
		}
	}
}

// Both claims of the table of hops are judged.
func TestHopsAreTwoFindings(t *testing.T) {
	raw := invented(&ringsTable1, 0)
	for i := range raw.Records {
		r := &raw.Records[i]
		*r = r.one(map[string]float64{"allgather-d lr1": 1.005, "allgather-d lr2": 1, "allgather-d lr3": 1, "allgather-a lr1": 0.9}[r.Grid+" "+r.name()])
	}
	if got := verdicts(&ringsTable1, raw, "two hops"); got != "partly" {
		t.Errorf("0.5 %% faster: %s, want partly", got)
	}
	if got := verdicts(&ringsTable1, raw, "one hop"); got != "agrees" {
		t.Errorf("10 %% faster: %s, want agrees", got)
	}
}

// What costs a thousandth does not agree, and what is nearly all is above nine tenths.
func TestCostsOfScheduling(t *testing.T) {
	for _, tt := range []struct {
		pools, schedule float64 // of the paper's total
		cost, parts     string
	}{
		{0.01, 0.8, "agrees", "agrees"},
		{0.01, 0.2, "partly", "agrees"},
		{0.2, 0.8, "agrees", "partly"},
		{0.5, 0.4, "agrees", "differs"},
		{0.0001, 0.0009, "differs", "partly"},
		{0, 20, "differs", "agrees"},
	} {
		raw := &Raw{}
		for _, s := range table3 {
			for variant, share := range map[string]float64{"pools": max(tt.pools, 1e-9), "schedule, half duplex": tt.schedule, "schedule, full duplex": tt.schedule} {
				raw.Records = append(raw.Records, Record{Source: Timed, Algorithm: "min3", Variant: variant, Grid: s.arena}.one(s.total*1e-6*share))
			}
		}
		name := fmt.Sprintf("pools %v and schedule %v of the paper's cost", tt.pools, tt.schedule)
		if got := verdicts(&min3Table3, raw, "scheduling costs"); got != tt.cost {
			t.Errorf("%s: the cost %s, want %s", name, got, tt.cost)
		}
		if got := verdicts(&min3Table3, raw, "nearly all"); got != tt.parts {
			t.Errorf("%s: the parts %s, want %s", name, got, tt.parts)
		}
	}
}
