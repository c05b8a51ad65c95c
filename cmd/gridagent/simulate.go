package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/planner"
)

func (a *app) simulateCmd() *cobra.Command {
	return parent("simulate", "Run every applicable algorithm through the simulator",
		"Run every applicable algorithm through the flow simulator and compare them.", a.simulateAllgatherCmd())
}

// A simulation is one row of gridagent simulate.
type simulation struct {
	Algorithm  string           `json:"algorithm"`
	Seconds    float64          `json:"makespan_s"`
	BoundRatio float64          `json:"bound_ratio"`
	Transfers  int              `json:"transfers"`
	WANBytes   map[string]int64 `json:"wan_bytes"` // by "FROM→TO", names of leaf pools
	Scheduling float64          `json:"scheduling_s"`
	Error      string           `json:"error,omitempty"` // why the algorithm does not apply; the rest is 0 then
}

func (a *app) simulateAllgatherCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "allgather",
		Short: "Compare all allgather algorithms on a grid file",
		Long: `Make the plan of every algorithm for an allgather over the hosts of a grid file and run it
through the flow simulator, in which host ports and the links between pools are pipes that
flows share evenly, and hosts forward a chunk as soon as they have it. Shown are the
makespan, its ratio to the bound, the bytes over each link between pools, and the time that
scheduling took.`,
		Example: "  gridagent simulate allgather --grid configs/grids/paper-3site.yaml --size 64KiB\n  gridagent simulate allgather --grid grid.json --size 1MiB -o json",
		Args:    cobra.NoArgs,
	}
	grid := addGridFlags(cmd)
	size := addSizeFlags(cmd)
	duplex := choiceFlag(cmd, "duplex", "", "min3's host model: a host sends and receives at one time, or one of both", "full", "half")
	setting(cmd, "duplex")
	chunk := byteSize(0)
	cmd.Flags().Var(&chunk, "chunk", "unit in which blocks are forwarded; 0B means what the engine would use")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		problem, err := newProblem(grid, size, duplex)
		if err != nil {
			return err
		}
		names := poolNames(problem.Snapshot, problem.Tree)
		unit := int64(chunk)
		if unit == 0 {
			unit = int64(exchange.DefaultChunk(slices.Max(problem.Sizes)))
		}
		var bound float64
		var why string
		var runs []simulation
		for _, alg := range planner.Allgathers() {
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			run, s := simulateOne(alg, problem, names, unit)
			if s != nil {
				bound, why = s.Bound.Seconds, explainBound(s.Bound, problem.Snapshot, names)
			}
			runs = append(runs, run)
		}
		if why == "" { // none applies: the first one's reason is the grid's
			return fmt.Errorf("%s: %s", runs[0].Algorithm, runs[0].Error)
		}
		if output.value == "json" {
			return a.printJSON(struct {
				Bound float64      `json:"bound_s"`
				Why   string       `json:"bound"`
				Runs  []simulation `json:"runs"`
			}{bound, why, runs})
		}
		return a.printSimulations(runs, names, why)
	})
	return cmd
}

// simulateOne runs one algorithm; nil beside the row means that it does not apply.
func simulateOne(alg planner.Algorithm, p *planner.Problem, names []string, chunk int64) (simulation, *planner.Scheduled) {
	begin := time.Now()
	made, err := alg.Make(p)
	spent := time.Since(begin)
	if err != nil {
		return simulation{Algorithm: alg.Name, Error: err.Error()}, nil
	}
	s, err := planner.Assess(alg, p, made, chunk)
	if err != nil {
		return simulation{Algorithm: alg.Name, Error: err.Error()}, nil
	}
	run := simulation{
		Algorithm: alg.Name, Seconds: s.Sim.Makespan, Transfers: len(made.Transfers),
		WANBytes: make(map[string]int64), Scheduling: spent.Seconds(),
	}
	if s.Bound.Seconds > 0 {
		run.BoundRatio = s.Sim.Makespan / s.Bound.Seconds
	}
	for i, from := range names {
		for j, to := range names {
			if i != j {
				run.WANBytes[from+"→"+to] = s.Sim.PoolBytes[i*len(names)+j]
			}
		}
	}
	return run, s
}

// maxLinkTables is the largest number of pools for which bytes are shown link by link.
const maxLinkTables = 12

func (a *app) printSimulations(runs []simulation, names []string, why string) error {
	fmt.Fprintf(a.out, "bound: %s\n\n", why)
	t := a.table("algorithm", "makespan", "x bound", "transfers", "wan bytes", "scheduled in")
	for _, r := range runs {
		if r.Error != "" {
			t.row(r.Algorithm, "does not apply: "+r.Error)
			continue
		}
		var wan int64
		for _, b := range r.WANBytes {
			wan += b
		}
		boundRatio := ""
		if r.BoundRatio > 0 {
			boundRatio = fmt.Sprintf("%.2f", r.BoundRatio)
		}
		t.row(r.Algorithm, formatSeconds(r.Seconds), boundRatio, r.Transfers, formatBytes(wan), formatSeconds(r.Scheduling))
	}
	if err := t.flush(); err != nil || len(names) < 2 || len(names) > maxLinkTables {
		return err
	}
	fmt.Fprintln(a.out)
	head := []string{"bytes over"}
	for _, r := range runs {
		head = append(head, r.Algorithm)
	}
	t = a.table(head...)
	for i, from := range names {
		for j, to := range names {
			if i == j {
				continue
			}
			row := []any{from + "→" + to}
			for _, r := range runs {
				row = append(row, formatBytes(r.WANBytes[from+"→"+to]))
			}
			t.row(row...)
		}
	}
	return t.flush()
}
