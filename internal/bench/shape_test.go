package bench_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/bench"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// TestShapes runs each shape of both collectives. Every rank has looked at every byte; what crosses the link and what ranks receive is what the shape says.
func TestShapes(t *testing.T) {
	const size = 40_000
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "4Mbps", "20ms", 2, 2), Seed: 46}, func(c *gridtest.Cluster) {
		for _, op := range []plan.Collective{plan.Allgather, plan.Alltoall} {
			names, _ := bench.ShapesOf(op)
			for _, name := range names {
				shape := bench.Shape(name)
				what := fmt.Sprintf("%s %s", op, name)
				ranks := c.EachHost()
				n := len(ranks)
				outs := run(c, what, ranks, bench.Config{Collective: op, Sizes: []int64{size}, Iterations: 1, Shape: shape}, nil, nil)
				for rank, o := range outs {
					if o.err != nil {
						c.T.Fatalf("%s: rank %d: %v", what, rank, o.err)
					}
				}
				var across, moved int64
				for from := range n {
					for to := range n {
						if from == to {
							continue
						}
						var bytes int64
						if op == plan.Alltoall {
							bytes = shape.Matrix(size, n)[from][to]
						} else {
							bytes = shape.Blocks(size, n)[from]
						}
						moved += bytes
						// Ranks 0 and 1 are at site a. Of an allgather one copy crosses.
						if from < 2 && to >= 2 && (op == plan.Alltoall || to == 2) {
							across += bytes
						}
					}
				}
				r := outs[0].report
				if s := r.Sizes[0]; len(s.WAN) == 0 || s.WAN[0].From != "a" || s.WAN[0].Bytes != float64(across) {
					c.T.Errorf("%s: %v over the WAN, want %d from a to b", what, s.WAN, across)
				} else if want := 8 * float64(moved) / float64(n) / s.Mean / 1e6; s.Mbps < want*0.999 || s.Mbps > want*1.001 {
					c.T.Errorf("%s: %g Mbit/s, want %g", what, s.Mbps, want)
				}
				if shape.Even() != (r.Shape == "") {
					c.T.Errorf("%s: reported as %q", what, r.Shape)
				}
			}
		}
	})
}

// TestShapeSizes: of the blocks that are sent none is larger than the size says, one is as large, and all but even have blocks that differ; what is no shape is refused.
func TestShapeSizes(t *testing.T) {
	for _, op := range []plan.Collective{plan.Allgather, plan.Alltoall} {
		names, _ := bench.ShapesOf(op)
		for _, name := range names {
			for _, most := range []int64{0, 1, 50, 1 << 20} {
				for n := 2; n <= 64; n++ {
					shape := bench.Shape(name)
					rows := [][]int64{nil}
					if op == plan.Allgather {
						rows[0] = shape.Blocks(most, n)
					} else {
						rows = shape.Matrix(most, n)
					}
					var largest, least int64 = -1, 1 << 40
					for from, row := range rows {
						for to, b := range row {
							if op == plan.Allgather || from != to { // what a rank has for itself crosses nothing
								largest, least = max(largest, b), min(least, b)
							}
						}
					}
					alike := shape.Even() || name == "square" && n == 2 // two ranks have one block each
					if largest != most || least < 0 || most == 1<<20 && (largest == least) != alike {
						t.Errorf("%s %s of %d for %d ranks: from %d to %d", op, name, most, n, least, largest)
					}
				}
			}
		}
		if err := bench.Shape("round").Check(op); err == nil {
			t.Errorf("%s: no error", op)
		}
	}
}

// TestSquare: each rank sends the largest block to one other and gets one, and so it is with the second, and all others down to the least; to itself it has less.
func TestSquare(t *testing.T) {
	const most = 1 << 20
	for n := 2; n <= 64; n++ {
		rows := bench.Shape("square").Matrix(most, n)
		for r := range n {
			for way, at := range map[string]func(other int) int64{
				"sends": func(other int) int64 { return rows[r][other] },
				"gets":  func(other int) int64 { return rows[other][r] },
			} {
				var sizes []int64
				for other := range n {
					if other != r {
						sizes = append(sizes, at(other))
					}
				}
				slices.Sort(sizes)
				slices.Reverse(sizes)
				for k, b := range sizes {
					if want := int64(most / (1 + k*k)); b != want {
						t.Fatalf("%d ranks: rank %d %s %d as number %d, want %d: %d", n, r, way, b, k, want, sizes)
					}
				}
			}
		}
	}
}
