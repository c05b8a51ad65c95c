package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
)

func (a *app) planCmd() *cobra.Command {
	return parent("plan", "Make the plan of a collective from a grid or switch-tree file",
		`Make the plan of a collective from a grid or switch-tree file: every transfer with its
order and its predicted times. Nothing is sent and no agent is needed. Or, by plan cache, see the
plans that the agent on this host keeps.`,
		a.planAllgatherCmd(), a.planAlltoallCmd(), a.planCacheCmd())
}

func (a *app) planAllgatherCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "allgather",
		Short: "Make the plan of an allgather",
		Long: `Make the plan of an allgather over the hosts of a grid file (sites and links) or of a
switch-tree file (the switches of one cluster), one rank a host. The plan carries the
bound: no schedule can be faster. The table also says what the flow simulator predicts
when the links are shared pipes.

The times in the plans of min3 and broadcast-trees are those of the papers' cost model, in
which every pair of hosts has its own link. The other algorithms have no cost model:
their times are the simulator's, for whole blocks and to the letter of the plan. What it
calls simulated is the run by agents: chunk by chunk, as gridagent simulate has it. Without bandwidth_mbps in a switch-tree file there are none.

--algorithm auto forecasts all of them and takes the one that is expected to be the fastest, the
first of equals; --explain says what was expected of the others. A forecast takes milliseconds where the
simulator takes seconds, and knows what a message costs beside its bytes.`,
		Example: `  gridagent plan allgather --grid configs/grids/paper-3site.yaml --size 64KiB
  gridagent plan allgather --grid grid.yaml --algorithm min3 --duplex half --size 1MiB -o json >plan.json
  gridagent plan allgather --topology cluster.json --algorithm lr3 --size 64KiB
  gridagent plan allgather --grid grid.yaml --size-file sizes.txt
  gridagent plan allgather --grid grid.yaml -o svg >plan.svg`,
		Args: cobra.NoArgs,
	}
	return a.planCollective(cmd, plan.Allgather)
}

func (a *app) planAlltoallCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "alltoall",
		Short: "Make the plan of an alltoall",
		Long: `Make the plan of an alltoall over the hosts of a switch-tree file (the switches of one
cluster) or of a grid file (sites and links), one rank a host: every rank has a block for
every other. The plan carries the bound: no schedule can be faster, with or without relays.

aapc makes phases in which no link carries two messages, as few as there can be. Without
synchronisation (--sync) hosts run out of step and messages of different phases meet;
pairwise synchronisation (sender, receiver) keeps apart those that share a link.`,
		Example: `  gridagent plan alltoall --topology cluster.json --algorithm aapc --sync receiver -o json >plan.json
  gridagent plan alltoall --topology cluster.json --algorithm aapc --sync barrier --sync-block 4 --within sender
  gridagent plan alltoall --topology cluster.json --algorithm aapc -o mpi-c --with-main >alltoall.c
  gridagent plan alltoall --grid grid.yaml --algorithm group-shuffle --fanout 4 --size 1MiB
  gridagent plan alltoall --grid grid.yaml --size-file matrix.txt`,
		Args: cobra.NoArgs,
	}
	return a.planCollective(cmd, plan.Alltoall)
}

// planCollective adds flags and code, which the collectives share.
func (a *app) planCollective(cmd *cobra.Command, c plan.Collective) *cobra.Command {
	f := addProblemFlags(cmd, c)
	algorithm := cmd.Flags().String("algorithm", planner.Auto, "how to schedule: auto, "+strings.Join(planner.Names(c), ", "))
	if c == plan.Allgather {
		setting(cmd, "algorithm")
	}
	explain := cmd.Flags().Bool("explain", false, "with --algorithm auto and a table: say what was expected of each algorithm")
	out := addPictureFlags(cmd, true)
	cmd.RunE = a.command(func(*cobra.Command, []string) error {
		if err := out.check(cmd); err != nil {
			return err
		}
		if *algorithm != planner.Auto {
			alg, err := planner.Asked(c, *algorithm)
			if err != nil {
				return &usageError{err}
			}
			if err := f.check(alg); err != nil {
				return err
			}
		}
		f.auto = *algorithm == planner.Auto
		problem, err := f.problem()
		if err != nil {
			return err
		}
		s, choice, err := a.schedule(c, *algorithm, problem)
		if err != nil {
			return f.explain(err)
		}
		switch out.format.value {
		case "json":
			return a.printPlanJSON(s)
		case "table":
			if choice != nil {
				fmt.Fprintf(a.out, "auto chose %s: %s\n", choice.Algorithm.Name, choice.Reason())
			}
			if choice != nil && *explain {
				if err := a.printCandidates(choice.Candidates); err != nil {
					return err
				}
			}
			return a.printPlan(s, problem)
		}
		return a.printPicture(s, problem, out)
	})
	return cmd
}

// schedule makes the plan of the named algorithm, or of the best one; choice then says why.
func (a *app) schedule(c plan.Collective, name string, p *planner.Problem) (s *planner.Scheduled, choice *planner.Selection, err error) {
	chunk := int64(exchange.ForecastChunk(p.LargestBlock()))
	if name != planner.Auto {
		alg, err := planner.Asked(c, name)
		if err != nil {
			return nil, nil, err
		}
		defer a.busy.working("planning by " + name)()
		made, err := alg.Make(p)
		if err != nil {
			return nil, nil, err
		}
		s, err = planner.Assess(alg, p, made, exchange.SimulationChunk(made, chunk))
		return s, nil, err
	}
	done := func() {}
	defer func() { done() }()
	choice, err = planner.Select(p, chunk, planner.Advice{Report: func(alg planner.Algorithm) {
		done()
		done = a.busy.working("planning by " + alg.Name)
	}})
	if err != nil {
		return nil, nil, err
	}
	if s, err = planner.Assess(choice.Algorithm, p, choice.Plan, exchange.SimulationChunk(choice.Plan, chunk)); err != nil {
		return nil, nil, err
	}
	return s, choice, nil
}

// printCandidates says what was expected of each algorithm.
func (a *app) printCandidates(candidates []planner.Candidate) error {
	t := a.table("algorithm", "forecast", "why not")
	for _, c := range candidates {
		forecast := "-"
		if c.Forecast > 0 {
			forecast = formatSeconds(c.Forecast)
		}
		t.row(c.Algorithm, forecast, c.Why)
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.out)
	return err
}

// explain says which file an error of the planner is about, and what mends it.
func (f *problemFlags) explain(err error) error {
	switch {
	case errors.Is(err, planner.ErrNoRates):
		return fmt.Errorf("%s: %w: add it, or name an algorithm that does not ask for it", f.tree.file, err)
	case f.grid.grid != "":
		return fmt.Errorf("%s: %w", f.grid.grid, err)
	}
	return fmt.Errorf("%s: %w", f.tree.file, err)
}

// printPlanJSON prints the plan with one key of ours in front, simulated_s: the plan's
// own form has no place for a second opinion, and readers pass over keys they do not know.
func (a *app) printPlanJSON(s *planner.Scheduled) error {
	data, err := s.Plan.AppendJSON(nil)
	if err != nil {
		return err
	}
	if s.Sim != nil {
		head := append([]byte(`{"simulated_s":`), strconv.AppendFloat(nil, s.Sim.Makespan, 'g', -1, 64)...)
		data = append(append(head, ','), bytes.TrimPrefix(data, []byte("{"))...)
	}
	_, err = a.out.Write(data)
	return err
}

func (a *app) printPlan(s *planner.Scheduled, p *planner.Problem) error {
	hosts := s.Plan.Hosts
	phases := ""
	if s.Plan.Phases > 0 {
		phases = fmt.Sprintf(" in %d phases", s.Plan.Phases)
	}
	fmt.Fprintf(a.out, "%s %s of %d hosts, %d transfers%s\n", s.Plan.Algorithm, s.Plan.Collective, len(hosts), len(s.Plan.Transfers), phases)
	if s.Sim == nil {
		fmt.Fprintln(a.out, "no times: the switch tree has no bandwidth_mbps")
	} else {
		fmt.Fprintf(a.out, "makespan   %s\n", formatSeconds(s.Plan.Makespan))
		fmt.Fprintf(a.out, "bound      %s\n", explainBound(s.Bound, hosts, problemPools(p)))
		if direct := explainDirect(s, problemPools(p)); direct != "" {
			fmt.Fprintf(a.out, "direct     %s without relays\n", direct)
		}
		fmt.Fprintf(a.out, "simulated  %s%s\n", formatSeconds(s.Sim.Makespan), ratio(s.Sim.Makespan, s.Bound.Seconds))
	}
	fmt.Fprintln(a.out)
	t := a.table("id", "phase", "from", "to", "blocks", "bytes", "after", "sync", "start", "end")
	for i := range s.Plan.Transfers {
		x := &s.Plan.Transfers[i]
		blocks := make([]string, len(x.Blocks))
		for k, b := range x.Blocks {
			blocks[k] = hosts[b.Origin]
			if b.Dest != plan.All {
				blocks[k] += "→" + hosts[b.Dest]
			}
			if s.Plan.Pieces(b) > 1 {
				blocks[k] += fmt.Sprintf("[%d]", b.Piece)
			}
		}
		phase := ""
		if x.Phase >= 0 {
			phase = strconv.Itoa(x.Phase)
		}
		t.row(x.ID, phase, hosts[x.Src], hosts[x.Dst], strings.Join(blocks, " "), formatBytes(s.Plan.Bytes(x)),
			strings.Trim(fmt.Sprint(x.After), "[]"), x.Sync, formatSeconds(x.Start), formatSeconds(x.End))
	}
	return t.flush()
}

// problemPools names the clusters of p.
func problemPools(p *planner.Problem) []string {
	if p.Topology != nil {
		return []string{"cluster"}
	}
	return poolNames(p.Snapshot, p.Clusters())
}

// ratio says how far seconds are above bound.
func ratio(seconds, bound float64) string {
	if bound <= 0 {
		return ""
	}
	return fmt.Sprintf(", %.2f x bound", seconds/bound)
}
