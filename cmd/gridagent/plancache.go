package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/probe/gridfile"
)

func (a *app) planCacheCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Show the plans that this host's agent keeps, and what it has learnt",
		Long: `Show the plans that this host's agent keeps for operations that come again, and what it has learnt
of how operations went. The agent that plans an operation is that of rank 0's host.

A plan is run again for the same collective over the same hosts in the same order with the same sizes. It
is dropped when an estimate that it stands on has moved by more than 15 % (of a latency by more than a
quarter), when the pool tree or a declared switch tree has changed, when operations have shown that
another algorithm is faster, or when there is no room for it. One that another algorithm has outdone waits
aside, up to 16 do, and is run again without being made anew if it turns out to be the faster one after all.

learnt  by what forecasts of an algorithm are multiplied, for operations over the same sites with about
        as many hosts and bytes: the median of what they took over their forecast, less decided the fewer
        and the older they are. gridagent tune measures on purpose.
--explain shows for each plan which other algorithms were considered.`,
		Example: `  gridagent plan cache --dir /var/lib/gridagent
  gridagent plan cache --explain
  gridagent plan cache -o json | jq .hits`,
		Args: cobra.NoArgs,
	}
	at := placeFlags(cmd)
	explain := cmd.Flags().Bool("explain", false, "show what was considered for each plan")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		agent, err := at.client()
		if err != nil {
			return err
		}
		defer agent.Close()
		reply, err := within(cmd.Context(), answerTime, agent.Planner().PlanCache, connect.NewRequest(&apiv1.PlanCacheRequest{}))
		if err != nil {
			return rpcError(err)
		}
		if output.value == "json" {
			return a.printProto(reply.Msg)
		}
		return a.printPlanCache(reply.Msg, *explain, time.Now())
	})
	return cmd
}

func (a *app) printPlanCache(r *apiv1.PlanCacheResponse, explain bool, now time.Time) error {
	plans := fmt.Sprintf("%d plans", len(r.GetPlans()))
	aside := 0
	for _, p := range r.GetPlans() {
		if p.GetAside() {
			aside++
		}
	}
	if aside > 0 {
		plans += fmt.Sprintf(", of which %d wait aside,", aside)
	}
	fmt.Fprintf(a.out, "%s in %s; %d operations run by a kept plan, %d planned anew\n",
		plans, formatBytes(r.GetBytes()), r.GetHits(), r.GetMisses())
	if len(r.GetPlans()) > 0 {
		fmt.Fprintln(a.out)
		t := a.table("collective", "algorithm", "hosts", "block", "predicted", "bound", "hits", "used", "parts", "memory")
		for _, p := range r.GetPlans() {
			name := p.GetAlgorithm()
			if p.GetAsked() != "" {
				name += " (asked for)"
			}
			if p.GetAside() {
				name += " (aside)"
			}
			t.row(p.GetCollective(), name, p.GetHosts(), gridfile.FormatSize(int64(p.GetBlockBytes())), formatSeconds(p.GetPredictedSeconds()),
				formatSeconds(p.GetBoundSeconds()), p.GetHits(), ago(now, p.GetUsed().AsTime()), formatBytes(p.GetPartBytes()), formatBytes(p.GetMemoryBytes()))
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	if explain {
		for _, p := range r.GetPlans() {
			if err := a.printKept(p); err != nil {
				return err
			}
		}
	}
	if err := a.printDrops(r, now); err != nil {
		return err
	}
	if len(r.GetCorrections()) == 0 {
		return nil
	}
	fmt.Fprintf(a.out, "\nlearnt:\n")
	t := a.table("collective", "sites", "hosts", "block", "algorithm", "x forecast", "median", "operations", "last")
	for _, c := range r.GetCorrections() {
		t.row(c.GetCollective(), orDash(oneLine(c.GetSites())), fmt.Sprintf("%d-%d", c.GetHostsFrom(), c.GetHostsTo()),
			gridfile.FormatSize(int64(c.GetBytesFrom()))+" up", c.GetAlgorithm(), significant(c.GetFactor()), significant(c.GetMedian()),
			c.GetSamples(), ago(now, c.GetLast().AsTime()))
	}
	return t.flush()
}

// printKept prints what was considered for one plan.
func (a *app) printKept(p *apiv1.KeptPlan) error {
	fmt.Fprintf(a.out, "\n%s of %s over %d hosts: %s, %s\n", p.GetCollective(), gridfile.FormatSize(int64(p.GetBlockBytes())), p.GetHosts(), p.GetAlgorithm(), oneLine(p.GetReason()))
	t := a.table("algorithm", "predicted", "x forecast", "why not")
	for _, c := range p.GetCandidates() {
		predicted, factor := "-", "-"
		if c.GetPredictedSeconds() > 0 {
			predicted, factor = formatSeconds(c.GetPredictedSeconds()), significant(c.GetFactor())
		}
		t.row(c.GetAlgorithm(), predicted, factor, oneLine(c.GetWhy()))
	}
	return t.flush()
}

func (a *app) printDrops(r *apiv1.PlanCacheResponse, now time.Time) error {
	if len(r.GetDrops()) == 0 {
		return nil
	}
	var counts []string
	for _, d := range r.GetDropped() {
		counts = append(counts, fmt.Sprintf("%d %s", d.GetCount(), d.GetKind()))
	}
	slices.Sort(counts)
	fmt.Fprintf(a.out, "\ndropped (%s):\n", strings.Join(counts, ", "))
	t := a.table("when", "collective", "algorithm", "hosts", "block", "kind", "why")
	for _, d := range r.GetDrops() {
		t.row(ago(now, d.GetTime().AsTime()), d.GetCollective(), d.GetAlgorithm(), d.GetHosts(), gridfile.FormatSize(int64(d.GetBlockBytes())), d.GetKind(), oneLine(d.GetWhy()))
	}
	return t.flush()
}

// ago says how long before now t was.
func ago(now, t time.Time) string {
	return shortDuration(max(now.Sub(t), 0).Truncate(time.Second)) + " ago"
}
