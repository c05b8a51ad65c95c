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
)

func (a *app) allgatherCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "allgather",
		Short: "Contribute a file and receive the files of all ranks",
		Long: `Join the group --job as rank --rank of --ranks, contribute the file --in, and write the files
of all ranks, one after the other in rank order, to --out. The files may differ in size.
The call waits until all ranks are there, but no longer than the first of them is willing to
wait (--forming-timeout): then all end with an error that lists the missing ranks. --out is
written aside and renamed when it is whole.

If a rank or its host is lost, or the ranks disagree, or not all of them come, every rank's
command ends with status 4 and the same message.`,
		Example: `  gridagent allgather --job j1 --rank 0 --ranks 3 --in part0 --out whole
  gridagent allgather --job j1 --rank $SLURM_PROCID --ranks $SLURM_NTASKS --in part --out whole -o json`,
		Args: cobra.NoArgs,
	}
	at := placeFlags(cmd)
	job := cmd.Flags().String("job", "", "name of the group; the same at every rank")
	rank := cmd.Flags().Int("rank", 0, "this process's place in the group, from 0")
	ranks := cmd.Flags().Int("ranks", 0, "how many ranks the group has")
	in := cmd.Flags().String("in", "", "file to contribute")
	out := cmd.Flags().String("out", "", "file to write")
	force := cmd.Flags().Bool("force", false, "replace --out if it exists")
	algorithm := cmd.Flags().String("algorithm", "auto", "how to schedule, the same at every rank; auto leaves it to the agent")
	timeout := cmd.Flags().Duration("timeout", 0, "give up if the group has not formed within this time, or if the operation then takes longer; 0 means never")
	forming := cmd.Flags().Duration("forming-timeout", 10*time.Minute, "give up, for all ranks, if not all of them have joined within this time; 0 means never")
	noProgress := cmd.Flags().Bool("no-progress", false, "no progress bar (there is none anyway unless standard error is a terminal)")
	markRequired(cmd, "job", "rank", "ranks", "in", "out")
	setting(cmd, "algorithm", "forming-timeout", "no-progress")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(checkJob(*job), checkRanks(*rank, *ranks)); err != nil {
			return err
		}
		if *timeout < 0 {
			return usagef("--timeout %v: want a time of 0 or more", *timeout)
		}
		if *forming < 0 {
			return usagef("--forming-timeout %v: want a time of 0 or more", *forming)
		}
		// Before the group forms, so that no other rank waits for a misspelt name.
		if err := client.CheckFiles(*in, *out, *force); errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w; remove it, or give --force to replace it", err)
		} else if err != nil {
			return err
		}
		agent, err := at.client()
		if err != nil {
			return err
		}
		opts := client.Options{Algorithm: *algorithm, Timeout: *timeout, Overwrite: *force}
		if bar := a.progressBar(*noProgress); bar != nil {
			defer bar.stop()
			opts.Progress = bar.update
		}
		limit := *forming
		if *timeout > 0 && (limit == 0 || *timeout < limit) {
			limit = *timeout
		}
		told, done := a.waitingLine(*job, *noProgress)
		defer done()
		join := func(ctx context.Context, giveUp func()) (*client.Rank, error) {
			defer done()
			return join(ctx, giveUp, agent, *job, *rank, *ranks, limit, told)
		}
		defer agent.Close()
		report, err := allgather(cmd.Context(), join, *in, *out, opts)
		if err != nil {
			return err
		}
		if output.value == "json" {
			return a.printProto(report)
		}
		return a.printReport(report)
	})
	return cmd
}

func allgather(ctx context.Context, join func(ctx context.Context, giveUp func()) (*client.Rank, error), in, out string, opts client.Options) (*apiv1.Report, error) {
	live, giveUp := context.WithCancel(ctx)
	defer giveUp()
	r, err := join(live, giveUp)
	if err != nil {
		return nil, err
	}
	report, err := r.AllgatherFile(ctx, in, out, opts)
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

func (a *app) printReport(r *apiv1.Report) error {
	seconds := time.Duration(r.GetSeconds() * float64(time.Second))
	_, err := fmt.Fprintf(a.out, "%s allgather of %d ranks on %d hosts in %s%s; this host received %s and sent %s\n",
		r.GetAlgorithm(), r.GetRanks(), r.GetHosts(), formatDuration(seconds), ratio(r.GetSeconds(), r.GetBoundSeconds()),
		formatBytes(r.GetBytesReceived()), formatBytes(r.GetBytesSent()))
	return err
}
