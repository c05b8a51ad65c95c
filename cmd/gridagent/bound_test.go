package main

import (
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

func testSnapshot(sites ...string) *netmap.Snapshot {
	hosts := make([]netmap.Host, len(sites))
	for i, s := range sites {
		hosts[i] = netmap.Host{Name: string(rune('a' + i)), Site: s}
	}
	return netmap.NewSnapshot(0, hosts, make([]netmap.Estimate, len(hosts)*len(hosts)))
}

func TestPoolNames(t *testing.T) {
	tests := []struct {
		name   string
		sites  []string
		leaves [][]int
		want   []string
	}{
		{"pools are sites", []string{"X", "X", "Y"}, [][]int{{0, 1}, {2}}, []string{"X", "Y"}},
		{"a site in two pools", []string{"X", "X", "Y"}, [][]int{{0}, {1}, {2}}, []string{"a", "b", "Y"}},
		{"two sites in one pool", []string{"X", "Y", "Z"}, [][]int{{0, 1}, {2}}, []string{"a", "Z"}},
		{"no labels", []string{"", "", ""}, [][]int{{0, 1}, {2}}, []string{"a", "c"}},
	}
	for _, tt := range tests {
		if got := poolNames(testSnapshot(tt.sites...), tt.leaves); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestExplainBound(t *testing.T) {
	s, names := testSnapshot("X", "X", "Y"), []string{"X", "Y"}
	for want, b := range map[string]plan.Bound{
		"1.5s: 1MiB into X+Y at 8 Mbit/s":    {Seconds: 1.5, Set: []int{0, 1}, Host: -1, Bytes: 1 << 20, Rate: 1e6},
		"20ms: 512B into host c at 8 Mbit/s": {Seconds: 0.02, Host: 2, Bytes: 512, Rate: 1e6},
		"0s: nothing moves":                  {Host: -1},
	} {
		if got := explainBound(b, s.Names(), names); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
