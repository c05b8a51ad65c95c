package main

import (
	"fmt"
	"slices"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/agent"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/probe/gridfile"
)

func (a *app) tuneCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Measure which algorithms are fastest on the running grid, and remember it",
		Long: `Measure which algorithms are fastest on the running grid. For each collective and size, all
algorithms that are expected to take at most four times as long as the best run in turn, --iterations
times each after one to warm up, over the agents of all hosts that are alive, or of --hosts. No ranks need
to be started: the agents run them, and this host's is the coordinator.

What was measured corrects what the agent on this host expects from then on, of operations over
the same sites with about as many hosts and bytes. It is kept in experience.json in the agent's folder and
loses its weight in the course of a day. Plan on the host that will have rank 0.

  predicted  what was expected before the run
  measured   the median of the iterations, from the instant at which all hosts begin to the last byte
  *          the fastest

The links are loaded for as long as it runs. Interrupted, it ends at all hosts, and what was measured stays.`,
		Example: `  gridagent tune --dir /var/lib/gridagent
  gridagent tune --collectives allgather --sizes 1KiB,64KiB,1MiB --iterations 5
  gridagent tune --hosts a1,a2,b1 --algorithms ring,bruck --sizes 4KiB -o json`,
		Args: cobra.NoArgs,
	}
	at := placeFlags(cmd)
	flags := cmd.Flags()
	collectives := flags.StringSlice("collectives", []string{string(plan.Allgather), string(plan.Alltoall)}, "what to measure")
	hosts := flags.StringSlice("hosts", nil, "hosts that take part, beside this one (default: all that are alive)")
	algorithms := flags.StringSlice("algorithms", nil, "only these (default: all that may be the fastest; over more than 128 hosts, say which)")
	sizes := &sizeList{bytes: []int64{1 << 10, 64 << 10, 1 << 20}}
	flags.Var(sizes, "sizes", "sizes of a block with their units, and ranges like 1KiB..4MiB, which double")
	iterations := flags.Int("iterations", 3, fmt.Sprintf("operations of each algorithm and size that count, at most %d", agent.MaxTuneIterations))
	noProgress := flags.Bool("no-progress", false, "no progress line (there is none anyway unless standard error is a terminal)")
	setting(cmd, "no-progress")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if *iterations < 1 || *iterations > agent.MaxTuneIterations {
			return usagef("--iterations %d: want 1 to %d", *iterations, agent.MaxTuneIterations)
		}
		if err := checkTuned(*collectives, *algorithms); err != nil {
			return err
		}
		req := tuneRequest(*collectives, *algorithms, sizes.bytes, *iterations)
		req.Hosts = *hosts
		c, err := at.client()
		if err != nil {
			return err
		}
		defer c.Close()
		stream, err := c.Planner().Tune(cmd.Context(), connect.NewRequest(req))
		if err != nil {
			return rpcError(err)
		}
		defer stream.Close()
		line := a.statusLine(*noProgress)
		var rows []*apiv1.TuneRow
		var done *apiv1.TuneDone
		for stream.Receive() {
			m := stream.Msg()
			if p := m.GetProgress(); p != nil {
				line.show("tuning: "+oneLine(p.GetStep()), int(p.GetDone()), int(p.GetTotal()))
			}
			if r := m.GetRow(); r != nil {
				rows = append(rows, r)
			}
			if d := m.GetDone(); d != nil {
				done = d
			}
		}
		line.stop()
		// What was measured before an error is shown all the same.
		var printErr error
		switch {
		case output.value == "json":
			printErr = a.printTuningJSON(rows, done)
		case len(rows) > 0:
			printErr = a.printTuning(rows, done)
		}
		if err := stream.Err(); err != nil {
			return rpcError(err)
		}
		return printErr
	})
	return cmd
}

// tuneRequest asks for each collective, algorithm and size once.
func tuneRequest(collectives, algorithms []string, sizes []int64, iterations int) *apiv1.TuneRequest {
	req := &apiv1.TuneRequest{Collectives: eachOnce(collectives), Algorithms: eachOnce(algorithms), Iterations: uint32(iterations)}
	for _, n := range eachOnce(sizes) {
		req.Sizes = append(req.Sizes, uint64(n))
	}
	return req
}

// eachOnce returns each of list once, in order.
func eachOnce[T comparable](list []T) []T {
	var out []T
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// checkTuned refuses what there is not: each algorithm runs for each collective.
func checkTuned(collectives, algorithms []string) error {
	for _, c := range collectives {
		if c != string(plan.Allgather) && c != string(plan.Alltoall) {
			return usagef("--collectives: no collective %.32q: want %s or %s", c, plan.Allgather, plan.Alltoall)
		}
		for _, name := range algorithms {
			if _, err := planner.Named(plan.Collective(c), name); err != nil {
				return usagef("--algorithms: %w", err)
			}
		}
	}
	return nil
}

// A tuned row is one of gridagent tune -o json.
type tuned struct {
	Collective string    `json:"collective"`
	Bytes      uint64    `json:"size_bytes"`
	Algorithm  string    `json:"algorithm"`
	Predicted  float64   `json:"predicted_seconds"`
	Measured   float64   `json:"measured_seconds"`
	Seconds    []float64 `json:"seconds"`
	Bound      float64   `json:"bound_seconds"`
	Winner     bool      `json:"winner"`
}

func (a *app) printTuningJSON(rows []*apiv1.TuneRow, done *apiv1.TuneDone) error {
	out := struct {
		Hosts    uint32  `json:"hosts"`
		Complete bool    `json:"complete"`
		Saved    string  `json:"saved"`
		Rows     []tuned `json:"rows"`
	}{Hosts: done.GetHosts(), Complete: done != nil, Saved: done.GetSaved(), Rows: []tuned{}}
	for _, r := range rows {
		out.Rows = append(out.Rows, tuned{
			Collective: r.GetCollective(), Bytes: r.GetBytes(), Algorithm: r.GetAlgorithm(), Predicted: r.GetPredictedSeconds(),
			Measured: r.GetMeasuredSeconds(), Seconds: r.GetSeconds(), Bound: r.GetBoundSeconds(), Winner: r.GetWinner(),
		})
	}
	return a.printJSON(out)
}

func (a *app) printTuning(rows []*apiv1.TuneRow, done *apiv1.TuneDone) error {
	t := a.table("collective", "size", "algorithm", "predicted", "measured", "measured/predicted", "x bound", "")
	for _, r := range rows {
		ratio, bound, mark := "", "", ""
		if r.GetPredictedSeconds() > 0 {
			ratio = fmt.Sprintf("%.2f", r.GetMeasuredSeconds()/r.GetPredictedSeconds())
		}
		if r.GetBoundSeconds() > 0 {
			bound = fmt.Sprintf("%.2f", r.GetMeasuredSeconds()/r.GetBoundSeconds())
		}
		if r.GetWinner() {
			mark = "*"
		}
		t.row(r.GetCollective(), gridfile.FormatSize(int64(r.GetBytes())), r.GetAlgorithm(), formatSeconds(r.GetPredictedSeconds()),
			formatSeconds(r.GetMeasuredSeconds()), ratio, bound, mark)
	}
	if err := t.flush(); err != nil || done == nil {
		return err
	}
	_, err := fmt.Fprintf(a.out, "\nover %d hosts; kept in %s\n", done.GetHosts(), done.GetSaved())
	return err
}
