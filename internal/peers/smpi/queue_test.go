package smpi

import (
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
)

// TestQueued: the plan still is one of the same collective, keeps its edges, and at no time are two transfers
// of a pair on their way. The plan that it was made from is as before.
func TestQueued(t *testing.T) {
	for _, c := range []plan.Collective{plan.Allgather, plan.Alltoall} {
		for _, s := range plans(t, c) {
			edges := 0
			before := make([][]int, len(s.Plan.Transfers))
			for i, tr := range s.Plan.Transfers {
				edges += len(tr.After)
				before[i] = slices.Clone(tr.After)
			}
			q, err := Queued(s.Plan)
			if err != nil {
				t.Fatal(err)
			}
			sim, err := plan.Simulate(q, s.Network, plan.SimOptions{})
			if err != nil {
				t.Fatal(err)
			}
			sim.Stamp(q)
			if err := plan.Verify(q, plan.Rules{}); err != nil {
				t.Errorf("%s %s: %v", c, q.Algorithm, err)
			}
			for i := range q.Transfers {
				a := &q.Transfers[i]
				for _, k := range before[i] {
					if !slices.Contains(a.After, k) {
						t.Fatalf("%s %s: transfer %d no longer comes after %d", c, q.Algorithm, i, k)
					}
				}
				if !slices.Equal(s.Plan.Transfers[i].After, before[i]) {
					t.Fatalf("%s %s: transfer %d of the original has changed", c, q.Algorithm, i)
				}
				for j := range i {
					b := &q.Transfers[j]
					if a.Src == b.Src && a.Dst == b.Dst && a.Start < b.End-1e-12 && b.Start < a.End-1e-12 {
						t.Fatalf("%s %s: transfers %d and %d, %s→%s, at one time", c, q.Algorithm, j, i, q.Hosts[a.Src], q.Hosts[a.Dst])
					}
				}
			}
		}
	}
}

// TestInStep: no transfer of a loop begins before its destination has ended the iteration before.
func TestInStep(t *testing.T) {
	for _, s := range plans(t, plan.Alltoall) {
		if s.Plan.Algorithm != "pairwise-mpich" && s.Plan.Algorithm != "bruck" {
			continue
		}
		q, err := InStep(s.Plan)
		if err != nil {
			t.Fatal(err)
		}
		sim, err := plan.Simulate(q, s.Network, plan.SimOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := len(q.Hosts)
		for i := range q.Transfers {
			for j := range i / n * n { // the list is in iterations of n transfers
				if dst := q.Transfers[i].Dst; q.Transfers[j].Src == dst && sim.Start[i] < sim.End[j]-1e-12 {
					t.Fatalf("%s: transfer %d begins at %v s, while %s sends %d until %v", q.Algorithm, i, sim.Start[i], q.Hosts[dst], j, sim.End[j])
				}
			}
		}
	}
	p, err := plan.NewAlltoall("uneven", []string{"a", "b", "c"}, plan.AlltoallSizes{Uniform: 1})
	if err != nil {
		t.Fatal(err)
	}
	p.Transfers = []plan.Transfer{{Src: 0, Dst: 1, Blocks: []plan.Block{{Origin: 0, Dest: 1}}}}
	if _, err := InStep(p); err == nil {
		t.Error("a plan that is no loop is taken")
	}
}

// plans schedules c on the 3-site grid by every algorithm that applies.
func plans(t *testing.T, c plan.Collective) []*planner.Scheduled {
	t.Helper()
	w := world(t, "paper-3site.yaml")
	p := w.Problem
	p.Collective, p.Sizes, p.Alltoall = c, []int64{65536}, plan.AlltoallSizes{Uniform: 65536}
	p.Sizes = slices.Repeat(p.Sizes, len(p.Hosts()))
	var out []*planner.Scheduled
	for _, a := range planner.Algorithms(c) {
		if s, err := planner.Schedule(a, &p, 0); err == nil {
			out = append(out, s)
		}
	}
	if len(out) < 8 {
		t.Fatalf("%d algorithms of %s apply", len(out), c)
	}
	return out
}

func world(t *testing.T, file string) *World {
	t.Helper()
	w, err := LoadGrid("../../../configs/grids/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
