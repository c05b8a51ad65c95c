package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
)

// rankFlags are the flags of every command that is a rank for one operation.
type rankFlags struct {
	cmd         *cobra.Command
	collective  plan.Collective
	at          *place
	job         string
	rank, ranks int
	in, out     string
	force       bool
	algorithm   string
	plan        string
	timeout     time.Duration
	forming     time.Duration
	noProgress  bool
	explain     bool
	output      *choice
}

func addRankFlags(cmd *cobra.Command, c plan.Collective, in string) *rankFlags {
	f := &rankFlags{cmd: cmd, collective: c, at: placeFlags(cmd)}
	flags := cmd.Flags()
	flags.StringVar(&f.job, "job", "", "name of the group; the same at every rank")
	flags.IntVar(&f.rank, "rank", 0, "this process's place in the group, from 0")
	flags.IntVar(&f.ranks, "ranks", 0, "how many ranks the group has")
	flags.StringVar(&f.in, "in", "", in)
	flags.StringVar(&f.out, "out", "", "file to write")
	flags.BoolVar(&f.force, "force", false, "replace --out if it exists")
	flags.StringVar(&f.algorithm, "algorithm", planner.Auto, "how to schedule, the same at every rank; auto leaves it to the agent: auto, "+strings.Join(planner.Names(c), ", "))
	flags.StringVar(&f.plan, "plan", "", "plan to run in place of an algorithm's (gridagent plan -o json); not every rank must give it")
	flags.DurationVar(&f.timeout, "timeout", 0, "give up if the group has not formed within this time, or if the operation then takes longer; 0 means never")
	flags.DurationVar(&f.forming, "forming-timeout", 10*time.Minute, "give up, for all ranks, if not all of them have joined within this time; 0 means never")
	flags.BoolVar(&f.noProgress, "no-progress", false, "no progress bar (there is none anyway unless standard error is a terminal)")
	flags.BoolVar(&f.explain, "explain", false, "print why this algorithm was chosen")
	markRequired(cmd, "job", "rank", "ranks", "in", "out")
	setting(cmd, "forming-timeout", "no-progress")
	if c != plan.Alltoall {
		setting(cmd, "algorithm") // as in gridagent plan: one name is not for both
	}
	f.output = outputFlag(cmd)
	return f
}

// checkRank refuses what needs no agent to be seen. It is called before the group forms, so
// that no other rank waits for a misspelt name.
func (f *rankFlags) checkRank() error {
	if err := errors.Join(checkJob(f.job), checkRanks(f.rank, f.ranks)); err != nil {
		return err
	}
	if f.algorithm != planner.Auto && f.algorithm != "" {
		if _, err := planner.Asked(f.planned(), f.algorithm); err != nil {
			return &usageError{err}
		}
	}
	if f.plan != "" && f.algorithm != planner.Auto {
		return usagef("--plan %s --algorithm %s: give one of the two, or --algorithm auto where a setting says otherwise", f.plan, f.algorithm)
	}
	if f.timeout < 0 {
		return usagef("--timeout %v: want a time of 0 or more", f.timeout)
	}
	if f.forming < 0 {
		return usagef("--forming-timeout %v: want a time of 0 or more", f.forming)
	}
	return nil
}

// check is checkRank, and looks at the files.
func (f *rankFlags) check() error {
	if err := f.checkRank(); err != nil {
		return err
	}
	for _, file := range []struct{ flag, path string }{{"--in", f.in}, {"--out", f.out}} {
		if err := checkNamed(file.flag, file.path); err != nil {
			return err
		}
	}
	return checkFiles(f.in, f.out, f.force)
}

// checkNamed refuses a path that is empty, as of a variable that is not set.
func checkNamed(flag, path string) error {
	if path == "" {
		return usagef("%s \"\": want the name of a file", flag)
	}
	return nil
}

// checkFiles refuses files that cannot be read or written; one that is empty is not looked at.
func checkFiles(in, out string, force bool) error {
	err := client.CheckFiles(in, out, force)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; remove it, or give --force to replace it", err)
	}
	return err
}

// planned is what the collective is planned as.
func (f *rankFlags) planned() plan.Collective {
	if f.collective == group.Broadcast {
		return plan.Allgather
	}
	return f.collective
}

// options reads the plan and returns what the client needs to know. The agents prove the
// plan again, and that it fits the group; who reads it here learns of a mistake by line.
func (f *rankFlags) options() (client.Options, error) {
	opts := client.Options{Algorithm: f.algorithm, Timeout: f.timeout, Overwrite: f.force}
	if f.plan == "" {
		return opts, nil
	}
	data, err := readFile(f.plan, maxPlanBytes)
	if err != nil {
		return opts, fmt.Errorf("plan: %w", err)
	}
	p, err := plan.Read(f.plan, data)
	if err != nil {
		return opts, err
	}
	if p.Collective != f.planned() {
		return opts, fmt.Errorf("%s: it is the plan of an %s", f.plan, p.Collective)
	}
	if err := plan.Verify(p, plan.Rules{Chunked: true}); err != nil {
		return opts, fmt.Errorf("%s: %w", f.plan, err)
	}
	opts.Plan = data
	return opts, nil
}

// runRank joins the group, has do run the operation, and prints its report.
func (a *app) runRank(ctx context.Context, f *rankFlags, opts *client.Options, do func(ctx context.Context, r *client.Rank) (*apiv1.Report, error)) error {
	agent, err := f.at.client()
	if err != nil {
		return err
	}
	defer agent.Close()
	if bar := a.progressBar(f.noProgress); bar != nil {
		defer bar.stop()
		opts.Progress = bar.update
	}
	report, err := a.operate(ctx, f, agent, do)
	if err != nil {
		return err
	}
	if f.output.value == "json" {
		return a.printProto(report)
	}
	return a.printReport(f, report)
}

func (a *app) operate(ctx context.Context, f *rankFlags, agent *client.Client, do func(ctx context.Context, r *client.Rank) (*apiv1.Report, error)) (*apiv1.Report, error) {
	limit := f.forming
	if f.timeout > 0 && (limit == 0 || f.timeout < limit) {
		limit = f.timeout
	}
	live, giveUp := context.WithCancel(ctx)
	defer giveUp()
	told, done := a.waitingLine(f.job, f.noProgress)
	defer done()
	r, err := join(live, giveUp, agent, f.job, f.rank, f.ranks, limit, told)
	done()
	if err != nil {
		return nil, err
	}
	report, err := do(ctx, r)
	switch {
	case err == nil:
		return report, r.Close()
	case ctx.Err() != nil:
		return nil, errors.Join(ctx.Err(), r.Close())
	}
	err = rpcError(err)
	return nil, errors.Join(err, r.Fail(err)) // the others are told why
}

// A formingError means that an agent which was to end the wait for the other ranks did not.
type formingError struct {
	present, ranks int
	limit          time.Duration
}

func (e *formingError) Error() string {
	return fmt.Sprintf("the group has not formed within %v: %d of %d ranks are there", e.limit, e.present, e.ranks)
}

// agentGrace is how long after the limit the agent may take to say who is missing.
const agentGrace = 10 * time.Second

// join enters the group; limit bounds the wait for the other ranks, 0 does not. It is the
// agents that end the wait, for all ranks in the same words; an agent that hangs is not
// waited for. The rank lives as long as ctx, which giveUp ends.
func join(ctx context.Context, giveUp func(), agent *client.Client, job string, rank, ranks int, limit time.Duration, told func(present int, missing string)) (*client.Rank, error) {
	inTime := func() bool { return true }
	if limit > 0 && limit < math.MaxInt64-agentGrace {
		inTime = time.AfterFunc(limit+agentGrace, giveUp).Stop
	}
	var present atomic.Int64
	opts := client.JoinOptions{Limit: limit, Waiting: func(n int, missing string) {
		present.Store(int64(n))
		told(n, missing)
	}}
	if limit == 0 {
		opts.Limit = -1 // the client's word for never
	}
	r, err := agent.Join(ctx, job, rank, ranks, opts)
	switch {
	case !inTime():
		if err == nil { // it formed at the last moment
			r.Close()
		}
		return nil, &formingError{int(present.Load()), ranks, limit}
	case err != nil:
		return nil, callError(ctx, err)
	}
	return r, nil
}

// waitingLine shows on a terminal, once the wait has lasted a moment, which ranks told has
// named last, until done is called.
func (a *app) waitingLine(job string, off bool) (told func(present int, missing string), done func()) {
	line := a.statusLine(off)
	var mu sync.Mutex // guards the variables below
	var text string
	due, over := false, false
	show := func() {
		if due && !over && text != "" {
			line.show(text, 0, 0)
		}
	}
	timer := time.AfterFunc(progressDelay, func() {
		mu.Lock()
		defer mu.Unlock()
		due = true
		show()
	})
	told = func(_ int, missing string) {
		mu.Lock()
		defer mu.Unlock()
		text = waitingText(job, missing)
		show()
	}
	return told, func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
		line.stop()
	}
}

func waitingText(job, missing string) string {
	noun := "rank"
	if strings.ContainsAny(missing, ",-") {
		noun = "ranks"
	}
	return fmt.Sprintf("waiting for %s %s of job %s", noun, missing, job)
}

// callError prefers our own Ctrl-C over the broken call that it caused.
func callError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return rpcError(err)
}
