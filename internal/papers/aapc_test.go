package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// The tuned routine is the fastest scheme of those that are the paper's.
func TestTunedIsThePapers(t *testing.T) {
	if !slices.Contains(schemes(), unordered) {
		t.Fatalf("no scheme %s", unordered)
	}
	raw := new(Raw)
	for _, name := range schemes() {
		seconds := map[string]float64{unordered: 1, "aapc sender all": 3, "aapc dummy": 2}[name]
		if seconds == 0 {
			seconds = 4
		}
		algorithm, variant, _ := strings.Cut(name, " ")
		raw.Records = append(raw.Records, Record{Source: Emulated, Grid: "g", Algorithm: algorithm, Variant: variant, SizeBytes: 1}.one(seconds))
	}
	if best, ok := tuned(raw, Emulated, "g", 1); !ok || best.name() != "aapc dummy" {
		t.Errorf("tuned takes %s, want dummy", best.name())
	}
	if got := withTuned(raw).mean(Emulated, "g", "aapc tuned", 1); got != 2 {
		t.Errorf("tuned takes %v s, want 2", got)
	}
}

// A machine sends one message after the other in every scheme but the one that is said to be without that.
func TestMachinesSendInTurn(t *testing.T) {
	a, err := arenaOf(topology(4))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range schemes() {
		c, err := contenderOf(plan.Alltoall, name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.make(a, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if got := inTurn(p); got != (name != unordered) {
			t.Errorf("%s: machines send one message after the other: %v", name, got)
		}
	}
}

// inTurn reports whether no two messages of a source can be under way together: one is, directly or not, after the other.
func inTurn(p *plan.Plan) bool {
	reach := make([][]uint64, len(p.Transfers))
	order, err := p.Order()
	if err != nil {
		return false
	}
	words := (len(p.Transfers) + 63) / 64
	for _, i := range order {
		reach[i] = make([]uint64, words)
		for _, b := range p.Transfers[i].After {
			for w := range reach[i] {
				reach[i][w] |= reach[b][w]
			}
			reach[i][b/64] |= 1 << (b % 64)
		}
	}
	for i := range p.Transfers {
		for j := range i {
			after := reach[i][j/64]>>(j%64)&1 == 1 || reach[j][i/64]>>(i%64)&1 == 1
			if p.Transfers[i].Src == p.Transfers[j].Src && !after {
				return false
			}
		}
	}
	return true
}
