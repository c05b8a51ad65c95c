package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
The call waits until all ranks are there. --out is written aside and renamed when it is whole.

If a rank or its host is lost, or the ranks disagree, every rank's command ends with status 4
and the same message.`,
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
	noProgress := cmd.Flags().Bool("no-progress", false, "no progress bar (there is none anyway unless standard error is a terminal)")
	markRequired(cmd, "job", "rank", "ranks", "in", "out")
	setting(cmd, "algorithm", "no-progress")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if *ranks < 1 || *rank < 0 || *rank >= *ranks {
			return usagef("--rank %d --ranks %d: want 0 ≤ rank < ranks", *rank, *ranks)
		}
		if *timeout < 0 {
			return usagef("--timeout %v: want a time of 0 or more", *timeout)
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
		report, err := allgather(cmd.Context(), agent, *job, *rank, *ranks, *in, *out, opts)
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

func allgather(ctx context.Context, agent *client.Client, job string, rank, ranks int, in, out string, opts client.Options) (*apiv1.Report, error) {
	defer agent.Close()
	live, giveUp := context.WithCancel(ctx)
	defer giveUp()
	r, err := join(live, giveUp, agent, job, rank, ranks, opts.Timeout)
	if err != nil {
		return nil, err
	}
	report, err := r.AllgatherFile(ctx, in, out, opts)
	if err != nil {
		err = callError(ctx, err)
	}
	return report, errors.Join(err, r.Close())
}

// A formingError means that not all ranks have come in time.
type formingError struct {
	present, ranks int
	limit          time.Duration
}

func (e *formingError) Error() string {
	return fmt.Sprintf("the group has not formed within %v: %d of %d ranks are there", e.limit, e.present, e.ranks)
}

// join enters the group; limit bounds the wait for the other ranks, 0 does not. The rank
// lives as long as ctx, so the limit ends ctx, by giveUp, only while the group forms.
func join(ctx context.Context, giveUp func(), agent *client.Client, job string, rank, ranks int, limit time.Duration) (*client.Rank, error) {
	inTime := func() bool { return true }
	if limit > 0 {
		inTime = time.AfterFunc(limit, giveUp).Stop
	}
	var present atomic.Int64
	r, err := agent.Join(ctx, job, rank, ranks, client.JoinOptions{Waiting: func(n int) { present.Store(int64(n)) }})
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
