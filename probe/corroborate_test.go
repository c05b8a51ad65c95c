package probe

import (
	"fmt"
	"testing"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A third host is to measure what a flow gets of a link where two have, and disagree.
func TestContested(t *testing.T) {
	says := func(from string, part float64) claim {
		return claim{from: from, e: netmap.Estimate{
			Known: netmap.FieldBandwidth | netmap.FieldLine, Source: netmap.SourceProbed, Bandwidth: netmap.BytesPerSec(1e6 * part), Line: 1e6,
		}}
	}
	plain := claim{from: "p", e: netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: 1e4, Source: netmap.SourceProbed}}
	for i, tt := range []struct {
		claims []claim
		want   bool
	}{
		{nil, false},
		{[]claim{says("a", 0.01)}, false},
		{[]claim{says("a", 0.01), plain}, false},
		{[]claim{says("a", 0.01), says("b", 1)}, true},
		{[]claim{says("a", 0.01), says("a", 0.02), says("b", 1), plain}, true},
		{[]claim{says("a", 0.3), says("b", 1)}, false},
		{[]claim{says("a", 0.01), says("self", 1)}, false},
		{[]claim{says("a", 0.01), says("b", 1), says("c", 1)}, false},
	} {
		if got := contested("self", tt.claims); got != tt.want {
			t.Errorf("case %d: contested %t, want %t", i, got, tt.want)
		}
	}
}

// What one host alone says of flows is not taken over, nor what contradicts most; what this host has
// measured is.
func TestCorroborate(t *testing.T) {
	says := func(from string, part float64) claim {
		return claim{from: from, e: netmap.Estimate{
			Known:  netmap.FieldBandwidth | netmap.FieldLine | netmap.FieldCapacity | netmap.FieldLanes,
			Source: netmap.SourceProbed, Bandwidth: netmap.BytesPerSec(1e6 * part), Line: 1e6, Capacity: 1e6, Lanes: 4,
		}}
	}
	plain := claim{from: "p", e: netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: 1e6, Source: netmap.SourceProbed}}
	for i, tt := range []struct {
		own    float64
		claims []claim
		want   string // which are left
	}{
		{0.3, []claim{says("a", 0.4)}, "a"},
		{0.3, []claim{says("a", 0.1)}, ""},
		{0, nil, ""},
		{0, []claim{plain}, ""},
		{0, []claim{says("a", 0.4)}, ""},
		{0, []claim{says("a", 0.7)}, "a"},
		{0, []claim{says("a", 0.4), says("a", 0.4), plain}, ""},
		{0, []claim{says("self", 0.01)}, "self"},
		{0, []claim{says("a", 0.5), says("b", 0.4)}, "a b"},
		{0, []claim{says("a", 0.9), says("b", 0.01)}, "a"},
		{0, []claim{says("b", 0.01), says("b", 0.01), says("b", 0.01), says("a", 0.9)}, "a"},
		{0, []claim{says("a", 0.1), says("b", 0.12), says("c", 1)}, "a b"},
		{0, []claim{says("a", 0.1), says("b", 0.12), says("c", 0.001), says("self", 0.11)}, "a b self"},
	} {
		got := ""
		for k, e := range corroborate("self", tt.own, tt.claims) {
			if e.Bandwidth != tt.claims[k].e.Bandwidth {
				t.Errorf("case %d: the rate of %s has changed", i, tt.claims[k].from)
			}
			if e.Has(netmap.FieldLine) != e.Has(netmap.FieldLanes|netmap.FieldCapacity) {
				t.Errorf("case %d: %s: known %b", i, tt.claims[k].from, e.Known)
			}
			if e.Has(netmap.FieldLine) {
				got += " " + tt.claims[k].from
			}
		}
		if want := tt.want; got != want && got != " "+want {
			t.Errorf("case %d: %q are believed, want %q", i, got, want)
		}
	}
	if r := commonRate([]claim{says("a", 0.5), says("a", 0.7)}); r != 0 {
		t.Errorf("one sender's rate is taken for that of all: %g", r)
	}
	if r := fmt.Sprint(commonRate([]claim{says("a", 0.5), says("b", 0.1), says("c", 0.6)})); r != "500000" {
		t.Errorf("the rate of three is %s, want that in the middle", r)
	}
}
