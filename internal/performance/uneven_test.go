package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// measureUneven: the makespan over the bound, of an alltoall the relayed one, of blocks that differ much. What is after the last dash of the network says how.
func measureUneven(t *testing.T, r *Reading) {
	at := strings.LastIndexByte(r.Cell.Network, '-')
	onGrid(t, r.Cell, load(t, r.Cell.Network[:at]), func(cl *gridtest.Cluster) {
		job, err := unevenJob(cl, r.Cell, r.Cell.Network[at+1:])
		if err != nil {
			t.Fatal(err)
		}
		r.repeat(cl, job)
		r.Bound = boundOf(cl, job)
		r.check("makespan / bound", median(r.Makespans)/r.Bound, 0)
	})
}

// unevenJob has a rank on every host; Cell.Size is the largest block.
func unevenJob(cl *gridtest.Cluster, c Cell, shape string) (grid.Job, error) {
	hosts, most := cl.EachHost(), int(c.Size)
	n := len(hosts)
	rows := map[string]func(rank int) int{
		"first":    func(rank int) int { return pick(rank == 0, most, kib) },
		"third":    func(rank int) int { return pick(rank%3 == 0, most, 0) },
		"harmonic": func(rank int) int { return most / (rank + 1) },
	}
	matrices := map[string]func(s, d int) int{
		"first": func(s, d int) int { return pick(s == 0, most, 100) },
		"pair":  func(s, d int) int { return pick(s == 0 && d == n-1, most, kib) },
		// every rank sends one large block, one half as large, one a fifth, …, to others than its neighbour does
		"square": func(s, d int) int { k := (7*s + 13*d) % n; return most / (1 + k*k) },
	}
	if c.Collective == plan.Alltoall {
		if size := matrices[shape]; size != nil {
			return cl.Alltoall("", hosts, size), nil
		}
	} else if size := rows[shape]; size != nil {
		sizes := make([]int, n)
		for i := range sizes {
			sizes[i] = size(i)
		}
		return cl.Job("", hosts, sizes...), nil
	}
	return grid.Job{}, fmt.Errorf("no uneven %s %q", c.Collective, shape)
}

func pick(first bool, a, b int) int {
	if first {
		return a
	}
	return b
}
