package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/min3"
)

func (a *app) planAllgatherCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "allgather",
		Short: "Make the plan of an allgather",
		Long: `Make the plan of an allgather over the hosts of a grid file, one rank a host. The plan
carries the bound: no schedule over these pools can be faster. The table also says what
the flow simulator predicts when the links are shared pipes.

The times in a min3 plan are those of the paper's cost model, in which every pair of
hosts has its own link. The other algorithms have no cost model: their times are the
simulator's.`,
		Example: `  gridagent plan allgather --grid configs/grids/paper-3site.yaml --size 64KiB
  gridagent plan allgather --grid grid.yaml --algorithm min3 --duplex half --size 1MiB -o json >plan.json
  gridagent plan allgather --grid grid.yaml --size-file sizes.txt`,
		Args: cobra.NoArgs,
	}
	grid := addGridFlags(cmd)
	size := addSizeFlags(cmd)
	algorithm := cmd.Flags().String("algorithm", "min3", "how to schedule: "+strings.Join(allgatherNames(), ", "))
	duplex := choiceFlag(cmd, "duplex", "", "min3's host model: a host sends and receives at one time, or one of both", "full", "half")
	setting(cmd, "duplex")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(*cobra.Command, []string) error {
		alg, err := planner.Named(*algorithm)
		if err != nil {
			return &usageError{err}
		}
		problem, err := newProblem(grid, size, duplex)
		if err != nil {
			return err
		}
		// Whole blocks: the times in the plan then keep its own order to the letter, and verify can judge them.
		s, err := planner.Schedule(alg, problem, 0)
		if err != nil {
			return err
		}
		if output.value == "json" {
			return a.printPlanJSON(s)
		}
		return a.printPlan(s, problem)
	})
	return cmd
}

func newProblem(grid *gridFlags, size *sizeFlags, duplex *choice) (*planner.Problem, error) {
	snapshot, tree, err := grid.load()
	if err != nil {
		return nil, err
	}
	sizes, err := size.sizes(snapshot.N())
	if err != nil {
		return nil, err
	}
	model, err := min3.ParseDuplex(duplex.value)
	if err != nil {
		return nil, err
	}
	return &planner.Problem{Snapshot: snapshot, Tree: tree, Sizes: sizes, Duplex: model}, nil
}

func allgatherNames() []string {
	var names []string
	for _, a := range planner.Allgathers() {
		names = append(names, a.Name)
	}
	return names
}

// printPlanJSON prints the plan with one key of ours in front, simulated_s: the plan's
// own form has no place for a second opinion, and readers pass over keys they do not know.
func (a *app) printPlanJSON(s *planner.Scheduled) error {
	data, err := s.Plan.AppendJSON(nil)
	if err != nil {
		return err
	}
	head := append([]byte(`{"simulated_s":`), strconv.AppendFloat(nil, s.Sim.Makespan, 'g', -1, 64)...)
	head = append(head, ',')
	_, err = a.out.Write(append(head, bytes.TrimPrefix(data, []byte("{"))...))
	return err
}

func (a *app) printPlan(s *planner.Scheduled, p *planner.Problem) error {
	hosts := p.Snapshot.Names()
	fmt.Fprintf(a.out, "%s allgather of %d hosts, %d transfers\n", s.Plan.Algorithm, len(hosts), len(s.Plan.Transfers))
	fmt.Fprintf(a.out, "makespan   %s\n", formatSeconds(s.Plan.Makespan))
	fmt.Fprintf(a.out, "bound      %s\n", explainBound(s.Bound, p.Snapshot, poolNames(p.Snapshot, p.Tree)))
	fmt.Fprintf(a.out, "simulated  %s%s\n\n", formatSeconds(s.Sim.Makespan), ratio(s.Sim.Makespan, s.Bound.Seconds))
	t := a.table("id", "from", "to", "blocks of", "bytes", "after", "start", "end")
	for i := range s.Plan.Transfers {
		x := &s.Plan.Transfers[i]
		origins := make([]string, len(x.Blocks))
		for k, b := range x.Blocks {
			origins[k] = hosts[b.Origin]
		}
		t.row(x.ID, hosts[x.Src], hosts[x.Dst], strings.Join(origins, " "), formatBytes(s.Plan.Bytes(x)),
			strings.Trim(fmt.Sprint(x.After), "[]"), formatSeconds(x.Start), formatSeconds(x.End))
	}
	return t.flush()
}

// ratio says how far seconds are above bound.
func ratio(seconds, bound float64) string {
	if bound <= 0 {
		return ""
	}
	return fmt.Sprintf(", %.2f x bound", seconds/bound)
}
