package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/exchange/gantt"
	"github.com/gridagent/gridagent/exchange/mpic"
	"github.com/gridagent/gridagent/exchange/planner"
)

// pictureFlags are -o of plan and simulate, with their forms beside table and json.
type pictureFlags struct {
	format   *choice
	view     *choice
	withMain bool
}

// addPictureFlags adds -o and --view, and with code the form that is one, for which there
// must be a plan and not many.
func addPictureFlags(cmd *cobra.Command, code bool) *pictureFlags {
	f := new(pictureFlags)
	if code {
		f.format = choiceFlag(cmd, "output", "o", "how to print: a table for people, JSON for programs, a picture of the simulated run, or a C function with MPI's calls",
			"table", "json", "svg", "mpi-c")
		cmd.Flags().BoolVar(&f.withMain, "with-main", false, "with -o mpi-c: add a main that checks the function")
	} else {
		f.format = choiceFlag(cmd, "output", "o", "how to print: a table for people, JSON for programs, or a picture of the fastest run", "table", "json", "svg")
	}
	f.view = choiceFlag(cmd, "view", "", "with -o svg: a row per host and WAN link, or how many WAN transfers run at a time", "gantt", "concurrency")
	return f
}

// check refuses flags that the form does not look at.
func (f *pictureFlags) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("view") && f.format.value != "svg" {
		return usagef("--view is for -o svg")
	}
	if f.withMain && f.format.value != "mpi-c" {
		return usagef("--with-main is for -o mpi-c")
	}
	return nil
}

// printPicture prints s in one of the forms that are neither table nor JSON.
func (a *app) printPicture(s *planner.Scheduled, p *planner.Problem, f *pictureFlags) error {
	if f.format.value == "mpi-c" {
		return mpic.Write(a.out, s.Plan, mpic.Options{WithMain: f.withMain})
	}
	if s.Sim == nil {
		return fmt.Errorf("a picture needs times: %w", planner.ErrNoRates)
	}
	pool := make([]int, len(s.Plan.Hosts))
	for k, hosts := range p.Clusters() {
		for _, h := range hosts {
			pool[h] = k
		}
	}
	// The simulator's times, whatever the algorithm's own model says: links are shared.
	c := gantt.Chart{
		Plan: s.Plan, Start: s.Sim.Start, End: s.Sim.End,
		Pool: pool, PoolNames: problemPools(p), Bound: s.Bound.Seconds,
		Title: fmt.Sprintf("%s by %s, simulated: %s%s", s.Plan.Collective, s.Plan.Algorithm,
			formatSeconds(s.Sim.Makespan), ratio(s.Sim.Makespan, s.Bound.Seconds)),
	}
	if f.view.value == "concurrency" {
		c.View = gantt.ConcurrencyView
	}
	return gantt.WriteSVG(a.out, c)
}
