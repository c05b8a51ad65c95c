package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/min3"
)

func (a *app) simulateCmd() *cobra.Command {
	return parent("simulate", "Run every applicable algorithm through the simulator",
		"Run every applicable algorithm through a simulator and compare them.",
		a.simulateCollectiveCmd(plan.Allgather, "  gridagent simulate allgather --grid configs/grids/paper-3site.yaml --size 64KiB\n"+
			"  gridagent simulate allgather --grid grid.json --size 1MiB -o json\n"+
			"  gridagent simulate allgather --grid grid.yaml --model ports --duplex half\n"+
			"  gridagent simulate allgather --grid grid.yaml --algorithms min3 -o svg --view concurrency >min3.svg"),
		a.simulateCollectiveCmd(plan.Alltoall, "  gridagent simulate alltoall --topology cluster.json --size 64KiB --sync receiver\n"+
			"  gridagent simulate alltoall --grid grid.yaml --size-file matrix.txt -o json"))
}

// A simulation is one row of gridagent simulate.
type simulation struct {
	Algorithm  string           `json:"algorithm"`
	Seconds    float64          `json:"makespan_s"`
	Forecast   float64          `json:"forecast_s"` // what the agents' choice goes by
	BoundRatio float64          `json:"bound_ratio"`
	Transfers  int              `json:"transfers"`
	WANBytes   map[string]int64 `json:"wan_bytes"` // by "FROM→TO", names of leaf pools
	Scheduling float64          `json:"scheduling_s"`
	Error      string           `json:"error,omitempty"` // why the algorithm does not apply; the rest is 0 then

	failed bool // it applies, and its plan could not be simulated
}

func (a *app) simulateCollectiveCmd(c plan.Collective, example string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   string(c),
		Short: fmt.Sprintf("Compare all %s algorithms on a grid or switch tree", c),
		Long: fmt.Sprintf(`Make the plan of every algorithm for an %s over the hosts of a grid or switch-tree
file and run it through a simulator. Shown are the makespan, its ratio to the bound, the
bytes over each link between pools, and the time that scheduling took. The forecast is what agents
choose by: one pass in place of a simulation, with what messages cost beside their bytes.

--model flows: host ports, the links between pools and those between switches are pipes that
flows share evenly; a host forwards a chunk as soon as it has it, and news of what is
done take their time. This is how the agents run a plan.
--model ports: the host model of the papers (equations 1-3): blocks move whole, every pair of
hosts has its own link, a host sends one and receives one at a time, or does one of both. The
bound does not hold there: links between pools have no capacity.`, c),
		Example: example,
		Args:    cobra.NoArgs,
	}
	f := addProblemFlags(cmd, c)
	if f.duplex == nil {
		f.duplex = choiceFlag(cmd, "duplex", "", "with --model ports: a host sends and receives at one time, or one of both", "full", "half")
		setting(cmd, "duplex")
	}
	model := choiceFlag(cmd, "model", "", "what is simulated: shared links, or host ports", "flows", "ports")
	chunk := byteSize(0)
	cmd.Flags().Var(&chunk, "chunk", "unit in which blocks are forwarded; 0B means what agents compare plans with, and larger ones for large blocks")
	only := cmd.Flags().StringSlice("algorithms", nil, "only these, with commas between (default: all)")
	out := addPictureFlags(cmd, false)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if err := out.check(cmd); err != nil {
			return err
		}
		algs, err := chosen(c, *only)
		if err != nil {
			return err
		}
		f.ports = model.value == "ports"
		if c == plan.Alltoall && given(cmd, "duplex") && !f.ports {
			return usagef("--duplex is for --model ports")
		}
		if err := f.check(algs...); err != nil {
			return err
		}
		problem, err := f.problem()
		if err != nil {
			return err
		}
		if problem.Snapshot == nil {
			return f.explain(planner.ErrNoRates)
		}
		sim := simulator{problem: problem, names: problemPools(problem), chunk: int64(chunk)}
		if f.ports {
			if sim.ports, err = min3.ParseDuplex(f.duplex.value); err != nil {
				return err
			}
		}
		var bound, directBound float64
		var why, direct string
		var runs []simulation
		var best *planner.Scheduled // the first of the fastest
		for _, alg := range algs {
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			done := a.busy.working("simulating " + alg.Name)
			run, s := sim.run(alg)
			done()
			if s != nil {
				bound, why = s.Bound.Seconds, explainBound(s.Bound, s.Plan.Hosts, sim.names)
				directBound, direct = s.Direct.Seconds, explainDirect(s, sim.names)
				if best == nil || s.Sim.Makespan < best.Sim.Makespan {
					best = s
				}
			}
			runs = append(runs, run)
		}
		if why == "" { // none applies: the first one's reason is the grid's, unless a plan was there
			cause := runs[max(0, slices.IndexFunc(runs, func(r simulation) bool { return r.failed }))]
			return f.explain(fmt.Errorf("%s: %s", cause.Algorithm, strings.TrimPrefix(cause.Error, cause.Algorithm+": ")))
		}
		if out.format.value == "svg" {
			return a.printPicture(best, problem, out)
		}
		if out.format.value == "json" {
			return a.printJSON(struct {
				Bound  float64      `json:"bound_s"`
				Why    string       `json:"bound"`
				Direct float64      `json:"direct_bound_s,omitempty"` // of an alltoall without relays
				Model  string       `json:"model"`
				Runs   []simulation `json:"runs"`
			}{bound, why, directBound, model.value, runs})
		}
		if direct != "" {
			why += "\ndirect: " + direct + " without relays"
		}
		return a.printSimulations(runs, sim.names, why)
	})
	return cmd
}

// chosen returns the algorithms of these names, or all.
func chosen(c plan.Collective, names []string) ([]planner.Algorithm, error) {
	if len(names) == 0 {
		return planner.Algorithms(c), nil
	}
	var algs []planner.Algorithm
	for _, name := range names {
		alg, err := planner.Named(c, strings.TrimSpace(name))
		if err != nil {
			return nil, &usageError{err}
		}
		algs = append(algs, alg)
	}
	return algs, nil
}

// A simulator runs algorithms on one problem.
type simulator struct {
	problem *planner.Problem
	names   []string    // of the leaf pools
	chunk   int64       // 0: for each plan what suits it
	ports   plan.Duplex // not 0: the host-port model
}

// forecastChunk is the chunk of forecasts.
func (m *simulator) forecastChunk() int64 {
	if m.chunk != 0 {
		return m.chunk
	}
	return int64(exchange.ForecastChunk(m.problem.LargestBlock()))
}

// run runs one algorithm; nil beside the row means that it does not apply.
func (m *simulator) run(alg planner.Algorithm) (simulation, *planner.Scheduled) {
	begin := time.Now()
	made, err := alg.Make(m.problem)
	spent := time.Since(begin)
	var s *planner.Scheduled
	if err == nil {
		chunk := m.chunk
		if chunk == 0 {
			chunk = exchange.SimulationChunk(made, m.forecastChunk())
		}
		s, err = planner.Assess(alg, m.problem, made, chunk)
	}
	makespan := 0.0
	switch {
	case err != nil:
	case m.ports == plan.DuplexUnchecked:
		makespan = s.Sim.Makespan
	default:
		if !alg.Timed { // the times are the other simulator's, and would give the order
			for i := range made.Transfers {
				made.Transfers[i].Start, made.Transfers[i].End = 0, 0
			}
		}
		var r *plan.SimResult
		if r, err = plan.SimulatePorts(made, m.problem.Snapshot, m.ports); err == nil {
			r.PoolBytes = s.Sim.PoolBytes
			s.Sim, makespan = r, r.Makespan
		}
	}
	if err != nil {
		return simulation{Algorithm: alg.Name, Error: err.Error(), failed: made != nil}, nil
	}
	_, forecast, err := planner.Forecast(m.problem, made, m.forecastChunk())
	if err != nil {
		return simulation{Algorithm: alg.Name, Error: err.Error(), failed: true}, nil
	}
	run := simulation{
		Algorithm: alg.Name, Seconds: makespan, Forecast: forecast, Transfers: len(made.Transfers),
		WANBytes: make(map[string]int64), Scheduling: spent.Seconds(),
	}
	if s.Bound.Seconds > 0 {
		run.BoundRatio = makespan / s.Bound.Seconds
	}
	for i, from := range m.names {
		for j, to := range m.names {
			if i != j {
				run.WANBytes[from+"→"+to] = s.Sim.PoolBytes[i*len(m.names)+j]
			}
		}
	}
	return run, s
}

// maxLinkTables is the largest number of pools for which bytes are shown link by link.
const maxLinkTables = 12

func (a *app) printSimulations(runs []simulation, names []string, why string) error {
	fmt.Fprintf(a.out, "bound: %s\n\n", why)
	t := a.table("algorithm", "makespan", "forecast", "x bound", "transfers", "wan bytes", "scheduled in")
	var apply []simulation
	for _, r := range runs {
		if r.Error != "" {
			continue
		}
		apply = append(apply, r)
		var wan int64
		for _, b := range r.WANBytes {
			wan += b
		}
		boundRatio := ""
		if r.BoundRatio > 0 {
			boundRatio = fmt.Sprintf("%.2f", r.BoundRatio)
		}
		t.row(r.Algorithm, formatSeconds(r.Seconds), formatSeconds(r.Forecast), boundRatio, r.Transfers, formatBytes(wan), formatSeconds(r.Scheduling))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if len(apply) < len(runs) {
		fmt.Fprintln(a.out)
	}
	for _, r := range runs {
		switch {
		case r.failed:
			fmt.Fprintf(a.out, "%s could not be simulated: %s\n", r.Algorithm, strings.TrimPrefix(r.Error, r.Algorithm+": "))
		case r.Error != "":
			fmt.Fprintf(a.out, "%s does not apply: %s\n", r.Algorithm, r.Error)
		}
	}
	if len(names) < 2 || len(names) > maxLinkTables {
		return nil
	}
	fmt.Fprintln(a.out)
	return a.printLinks(apply, names)
}

// printLinks prints the bytes over each link between pools, a row for each algorithm.
func (a *app) printLinks(runs []simulation, names []string) error {
	var links []string
	for i, from := range names {
		for j, to := range names {
			if i != j {
				links = append(links, from+"→"+to)
			}
		}
	}
	// A few pools make a column each; with more, the table would be wider than a terminal.
	if len(links) <= 6 {
		t := a.table(slices.Concat([]string{"bytes over"}, links)...)
		for _, r := range runs {
			row := []any{r.Algorithm}
			for _, l := range links {
				row = append(row, formatBytes(r.WANBytes[l]))
			}
			t.row(row...)
		}
		return t.flush()
	}
	head := []string{"bytes over"}
	for _, r := range runs {
		head = append(head, r.Algorithm)
	}
	t := a.table(head...)
	for _, l := range links {
		row := []any{l}
		for _, r := range runs {
			row = append(row, formatBytes(r.WANBytes[l]))
		}
		t.row(row...)
	}
	return t.flush()
}
