package main

import (
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// measureUneven: the makespan over the bound, of an alltoall the relayed one, of blocks that differ much. What is after the last dash of the network says how.
func measureUneven(t *testing.T, r *Reading) {
	network, shape := splitShape(r.Cell.Network)
	if shape == "" {
		t.Fatalf("network %q has no shape of blocks behind its last dash", r.Cell.Network)
	}
	onGrid(t, r.Cell, load(t, network), func(cl *gridtest.Cluster) {
		hosts := cl.EachHost()
		var job grid.Job
		if r.Cell.Collective == plan.Alltoall {
			job = cl.Alltoall("", hosts, pairSizes(r.Cell.Size, len(hosts), shape))
		} else {
			job = cl.Job("", hosts, blockSizes(r.Cell.Size, len(hosts), shape)...)
		}
		r.repeat(cl, job)
		r.Bound = boundOf(cl, job)
		r.check("makespan / bound", median(r.Makespans)/r.Bound, 0)
	})
}

// splitShape splits the network of a cell where blocks differ; shape is "" where they do not.
func splitShape(name string) (network, shape string) {
	at := strings.LastIndexByte(name, '-')
	if at < 0 || rowShapes[name[at+1:]] == nil && matrixShapes[name[at+1:]] == nil {
		return name, ""
	}
	return name[:at], name[at+1:]
}

// rowShapes say what the block of a rank has, most being the largest.
var rowShapes = map[string]func(most, rank int) int{
	"":         func(most, rank int) int { return most },
	"first":    func(most, rank int) int { return pick(rank == 0, most, kib) },
	"third":    func(most, rank int) int { return pick(rank%3 == 0, most, 0) },
	"harmonic": func(most, rank int) int { return most / (rank + 1) },
}

// matrixShapes say what one of n ranks has for another.
var matrixShapes = map[string]func(most, n, s, d int) int{
	"":      func(most, n, s, d int) int { return most },
	"first": func(most, n, s, d int) int { return pick(s == 0, most, 100) },
	"pair":  func(most, n, s, d int) int { return pick(s == 0 && d == n-1, most, kib) },
	// every rank sends one large block, one half as large, one a fifth, …, to others than its neighbour does
	"square": func(most, n, s, d int) int { k := (7*s + 13*d) % n; return most / (1 + k*k) },
}

// blockSizes are those of an allgather of n ranks.
func blockSizes(most int64, n int, shape string) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = rowShapes[shape](int(most), i)
	}
	return sizes
}

// pairSizes are those of an alltoall of n ranks.
func pairSizes(most int64, n int, shape string) func(s, d int) int {
	return func(s, d int) int { return matrixShapes[shape](int(most), n, s, d) }
}

// alltoallSizes are the same as a matrix, or one size for all.
func alltoallSizes(most int64, n int, shape string) plan.AlltoallSizes {
	if shape == "" {
		return plan.AlltoallSizes{Uniform: most}
	}
	size := pairSizes(most, n, shape)
	m := make([][]int64, n)
	for s := range m {
		for d := range n {
			m[s] = append(m[s], int64(size(s, d)))
		}
	}
	return plan.AlltoallSizes{Matrix: m}
}

func pick(first bool, a, b int) int {
	if first {
		return a
	}
	return b
}
