package main

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/bench"
)

const benchLong = `Every rank runs the command, against the agent on its own host: one group for the whole
benchmark. For each size there are --warmup operations and then --iterations that count. In each,
the ranks meet at a barrier that lets all begin at the same moment, and each stops the time of its own call:
from handing its data to the agent until the result is in its memory. With --together=false each rank begins when it
leaves the barrier, as in benchmarks of MPI: who leaves late finds data on their way, and over links of 40 ms times are
shorter by up to as much. An iteration takes as long as its slowest rank. Then every
rank looks at every byte; blocks hold a pattern of operation, source, destination and offset. Wrong
data ends all ranks with status 1 and the same words.

Rank 0 prints, the others print nothing:
  mean, min, max  over the iterations
  bound           the least time that any schedule could take over the links as the agents have
                  measured them, payload only; a dash where the map has gaps or nothing moves
  x bound         mean / bound; below 1 where the links carry more than was measured
  bus             %s,
                  in Mbit/s: the bus bandwidth of nccl-tests; with another --shape than even in the mean of all ranks
  site to site    bytes that the hosts of one site sent to those of another, by the agents' site
                  labels, mean of an operation. Counted is what the agents hand to their lanes, again
                  where a lane broke: payload, without headers, acknowledgements and what QUIC
                  sends again

-o json has every iteration of every rank.

If a rank or its host is lost, or the ranks disagree, or not all of them come, every rank's
command ends with status 4 and the same message.`

func (a *app) benchCmd() *cobra.Command {
	return parent("bench", "Time allgather or alltoall over the running grid",
		"Time a collective between the hosts of the running grid, the way that users of MPI know.",
		a.benchAllgatherCmd(), a.benchAlltoallCmd())
}

func (a *app) benchAllgatherCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "allgather",
		Short: "Time allgathers of blocks of given sizes",
		Long: `Time the allgather in which each rank contributes a block of --sizes.

` + fmt.Sprintf(benchLong, "(ranks-1) x size / mean, what each rank receives from the others"),
		Example: `  gridagent bench allgather --job b1 --rank 0 --ranks 3
  gridagent bench allgather --job b1 --rank $SLURM_PROCID --ranks $SLURM_NTASKS --sizes 64KiB,256KiB --iterations 3 --warmup 1
  gridagent bench allgather --job b1 --rank 0 --ranks 3 --sizes 1KiB..4MiB --algorithm ring -o json
  gridagent bench allgather --job b1 --rank 0 --ranks 3 --sizes 1MiB --shape harmonic
  gridagent bench allgather --job b1 --rank 0 --ranks 3 --sizes 64KiB --plan plan.json`,
		Args: cobra.NoArgs,
	}
	f := addBenchFlags(cmd, plan.Allgather, "size of the block that each rank contributes")
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		opts, err := f.options()
		if err != nil {
			return err
		}
		return a.runBench(cmd.Context(), f, client.AlltoallOptions{Options: opts})
	})
	return cmd
}

func (a *app) benchAlltoallCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "alltoall",
		Short: "Time alltoalls of blocks of given sizes",
		Long: `Time the alltoall in which each rank has a block of --sizes for every rank.

` + fmt.Sprintf(benchLong, "(ranks-1) x size / mean, what each rank sends to the others"),
		Example: `  gridagent bench alltoall --job b1 --rank 0 --ranks 3
  gridagent bench alltoall --job b1 --rank $SLURM_PROCID --ranks $SLURM_NTASKS --sizes 4KiB,64KiB --iterations 5
  gridagent bench alltoall --job b1 --rank 0 --ranks 3 --sizes 4MiB --shape pair
  gridagent bench alltoall --job b1 --rank 0 --ranks 3 --sizes 1KiB..1MiB --algorithm aapc --sync sender -o json`,
		Args: cobra.NoArgs,
	}
	f := addBenchFlags(cmd, plan.Alltoall, "size of the block that each rank has for each rank")
	sync := addProblemFlags(new(cobra.Command), plan.Alltoall) // the same words as in gridagent plan
	borrow(cmd, sync.cmd, "sync", "sync-block", "within", "sync-strict", "fanout")
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		all := &alltoallFlags{
			rankFlags: f.rankFlags, sync: sync.sync, within: sync.within,
			syncBlock: sync.syncBlock, strict: sync.strict, fanout: sync.fanout,
		}
		opts, err := all.scheduling()
		if err != nil {
			return err
		}
		if opts.Options, err = f.options(); err != nil {
			return err
		}
		return a.runBench(cmd.Context(), f, opts)
	})
	return cmd
}

// runBench joins the group, runs the benchmark, and prints what came of it, at rank 0. What was
// measured before an error is printed as well.
func (a *app) runBench(ctx context.Context, f *benchFlags, opts client.AlltoallOptions) error {
	agent, err := f.at.client()
	if err != nil {
		return err
	}
	defer agent.Close()
	status, err := within(ctx, answerTime, agent.API().Status, connect.NewRequest(&apiv1.StatusRequest{}))
	if err != nil {
		return callError(ctx, err)
	}
	line := a.statusLine(f.noProgress)
	cfg := bench.Config{
		Collective: f.collective, Rank: f.rank, Site: status.Msg.GetSite(),
		Sizes: f.sizes.bytes, Shape: bench.Shape(f.shape.value), Iterations: f.iterations, Warmup: f.warmup, Apart: !f.together, Options: opts,
		Progress: func(size int64, done, total int) {
			line.show(fmt.Sprintf("%s of %s:", f.collective, formatBytes(size)), done, total)
		},
	}
	var report *bench.Report
	var agreed error // an error that all ranks have come to: none is to blame for the others' end
	_, err = a.operate(ctx, f.rankFlags, agent, func(ctx context.Context, r *client.Rank) (*apiv1.Report, error) {
		var err error
		report, err = bench.Run(ctx, r, cfg)
		if agreed = benchAgreed(err); agreed != nil {
			return nil, nil
		}
		return nil, err
	})
	line.stop()
	if f.rank == 0 && report != nil && (err == nil && agreed == nil || len(report.Sizes) > 0) {
		if printErr := a.printBench(f, report, errors.Join(agreed, err) == nil); err == nil {
			err = printErr
		}
	}
	return errors.Join(agreed, err)
}

// benchAgreed returns err if it is one that all ranks get without being told.
func benchAgreed(err error) error {
	var wrong *bench.WrongDataError
	var mismatch *bench.MismatchError
	switch {
	case errors.As(err, &wrong):
		return err
	case errors.As(err, &mismatch):
		return &benchMismatch{mismatch}
	}
	return nil
}

// A benchMismatch is to the exit status what the agents' own mismatch is.
type benchMismatch struct{ err *bench.MismatchError }

func (e *benchMismatch) Error() string { return e.err.Error() }
func (e *benchMismatch) Unwrap() error {
	return &client.GroupError{Kind: "mismatch", Rank: e.err.Rank, Host: e.err.Host, Cause: e.err.Cause}
}
