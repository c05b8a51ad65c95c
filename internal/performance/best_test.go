package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// others are the algorithms of other libraries and papers: all allgathers of package baseline that the planner lists. Those that send most at once come
// last: what they leave behind in queues and windows is nobody's start.
var others = []string{"ring", "neighbour-exchange", "recursive-doubling", "bruck", "spreading-simple", "mpich-g2", "magpie", "broadcast-trees", "simple"}

// noRival says why what is of package baseline as well is not among the others. There is none.
var noRival = map[string]string{}

// measureBest: the makespan of the agents' choice over that of the best baseline in the same bubble. Two runs of one plan differ by a per cent
// or so, hence the least of each. All runs of one algorithm come one behind the other, and the first of them is not counted: it opens lanes,
// and mends what the algorithm before has left. A baseline that sends everything to one host at once loses packets, after which quic-go's
// congestion windows are small, and the next exchange takes 2 to 6 % longer than the one behind it. The agents' choice comes
// first: nothing is known from the others.
func measureBest(t *testing.T, r *Reading) {
	onGrid(t, r.Cell, load(t, r.Cell.Network), func(cl *gridtest.Cluster) {
		job := jobOf(cl, r.Cell, "")
		r.Bound = cl.Bound(job).Seconds()
		r.once(cl, job)
		time.Sleep(time.Second) // queues empty
		r.Makespans, r.Lost, r.Predicted, r.Elapsed = nil, nil, nil, nil
		r.repeat(cl, job)
		own := slices.Min(r.Makespans)
		best, least := "", math.Inf(1)
		for _, alg := range others {
			for i := range 1 + r.Cell.Runs {
				took := cl.MustRun(jobOf(cl, r.Cell, alg)).Makespan.Seconds()
				time.Sleep(time.Second) // queues empty
				if i > 0 && took < least {
					best, least = alg, took
				}
			}
		}
		r.check("makespan / best baseline", own/least, r.Cell.Limit*1.01)
		r.Note = fmt.Sprintf("best baseline: %s, %.4g s", best, least)
	})
}

// TestOthers: "the best baseline" is of all that there are. What the planner has of package baseline its source says. Of an alltoall the page has
// no such row.
func TestOthers(t *testing.T) {
	of := ofBaseline(t, "allgathers")
	if len(of) < 9 || len(ofBaseline(t, "alltoalls")) < 6 {
		t.Fatalf("of package baseline are %q: the source is read in a wrong way", of)
	}
	for _, name := range of {
		if (noRival[name] != "") == slices.Contains(others, name) {
			t.Errorf("%s is of package baseline: want it beside the agents' choice, or else a reason", name)
		}
	}
	for _, name := range others {
		if _, err := planner.Named(plan.Allgather, name); err != nil || !slices.Contains(of, name) {
			t.Errorf("%s: no baseline of the planner's (%v)", name, err)
		}
	}
	for _, c := range cellsOf[Best]() {
		if c.Collective != plan.Allgather {
			t.Errorf("%v: others are allgathers", c)
		}
	}
}

// ofBaseline returns the names of the planner's algorithms in a list that package baseline makes: a row's first string is its name.
func ofBaseline(t *testing.T, list string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../exchange/planner/algorithms.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != list {
			return true
		}
		for _, row := range v.Values[0].(*ast.CompositeLit).Elts {
			name, made := "", false
			ast.Inspect(row, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); name == "" && err == nil {
						name = text
					}
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "baseline" {
						made = true
					}
				}
				return true
			})
			if made {
				names = append(names, name)
			}
		}
		return false
	})
	return names
}
