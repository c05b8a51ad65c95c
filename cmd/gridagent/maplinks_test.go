package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// TestMapLinks: below the matrix stand the links of which one flow does not tell all, and only those.
func TestMapLinks(t *testing.T) {
	now := time.Unix(1e9, 0)
	quiet := bigMap(6, 2, func(i, j int) float64 { return 10 })
	show := func(s *netmap.Snapshot, args ...string) string {
		t.Helper()
		status, out, errs := gridagent(t, append(args, "--socket", serveAgent(t, &mapAgent{now: matrix(t, s, now)}))...)
		if status != exitOK || errs != "" {
			t.Fatalf("status %d, %q", status, errs)
		}
		return out
	}
	if out := show(quiet, "map"); strings.Contains(out, "from site to site") {
		t.Errorf("links without lanes or losses are listed:\n%s", out)
	}
	said := func(change func(i, j int, e *netmap.Estimate)) *netmap.Snapshot {
		n := quiet.N()
		est := make([]netmap.Estimate, n*n)
		for i := range n {
			for j := range n {
				est[i*n+j] = quiet.Estimate(i, j)
				if i != j {
					change(i, j, &est[i*n+j])
				}
			}
		}
		return netmap.NewSnapshot(9, quiet.Hosts(), est)
	}
	held := said(func(i, j int, e *netmap.Estimate) {
		switch {
		case i%2 == 0 && j%2 == 1: // S0 → S1: held, and one pair loses more than the others
			e.Known |= netmap.FieldCapacity | netmap.FieldLanes | netmap.FieldLoss
			e.Capacity, e.Lanes, e.Loss = 80*netmap.Mbps, 8, 0.001
			if i == 0 && j == 1 {
				e.Loss = 0.003
			}
		case i%2 == 1 && j%2 == 0: // S1 → S0: searched, and nothing was found
			e.Known |= netmap.FieldCapacity | netmap.FieldLanes | netmap.FieldLoss
			e.Capacity, e.Lanes, e.Loss = 10.2*netmap.Mbps, 1, 0
		}
	})
	busy := show(said(func(i, j int, e *netmap.Estimate) {
		if i == 2 && j == 1 { // S0 → S1: nobody has searched, and one host has counted
			e.Known |= netmap.FieldCarried
			e.Carried = 42 * netmap.Mbps
		}
	}), "map")
	if !strings.Contains(busy, "S0    S1  10        ≥42") {
		t.Errorf("what exchanges got is not in\n%s", busy)
	}
	out := show(held, "map")
	_, links, _ := strings.Cut(out, "packets are lost:\n\n")
	want := "FROM  TO  ONE FLOW  SEVERAL  LANES  LOSS              NEWEST\n" +
		"S0    S1  10        80       8      0.1% (0.1%-0.3%)  "
	if !strings.HasPrefix(links, want) || strings.Count(links, "\n") != 2 {
		t.Errorf("links\n%s, want\n%s", links, want)
	}
	if all := show(held, "map", "--all"); strings.Count(all, "\n") != 2+1+6*5 || !strings.Contains(all, "80        8      0.3%") {
		t.Errorf("--all has no line a pair:\n%s", all)
	}
	if !strings.Contains(out, " ago; one flow") {
		t.Errorf("no ages in\n%s", out)
	}
}

// TestMapAges: the head of a map says how old it is, newest to oldest, without what nobody measured.
func TestMapAges(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := bigMap(3, 1, func(i, j int) float64 { return 10 })
	est := make([]netmap.Estimate, 9)
	if got := (mapView{snap: netmap.NewSnapshot(1, s.Hosts(), est), now: now}).ages(); got != "" {
		t.Errorf("an empty map is %q old", got)
	}
	set := func(i, j int, age time.Duration, source netmap.Source) {
		e := s.Estimate(i, j)
		e.Measured, e.Source = now.Add(-age), source
		est[i*3+j] = e
	}
	set(0, 1, 5*time.Second, netmap.SourceProbed)
	view := mapView{snap: netmap.NewSnapshot(1, s.Hosts(), est), now: now}
	if got := view.ages(); got != " 5s ago" {
		t.Errorf("one pair: %q", got)
	}
	set(1, 0, 2*time.Hour, netmap.SourceObserved)
	set(1, 2, 9*time.Hour, netmap.SourcePredicted)
	view.snap = netmap.NewSnapshot(1, s.Hosts(), est)
	if got := view.ages(); got != " 5s to 2h ago" {
		t.Errorf("two measured pairs and a predicted one: %q", got)
	}
}
