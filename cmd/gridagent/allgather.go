package main

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/exchange/plan"
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

--algorithm auto takes what the agent expects to be fastest: by a forecast over its map of the
network, corrected by what operations took before; a ring until the map is complete.

--plan runs a plan made elsewhere, after proving it: its hosts must be those of the group, in
any order, and its sizes what the ranks on each host have together.

If a rank or its host is lost, or the ranks disagree, or not all of them come, every rank's
command ends with status 4 and the same message.`,
		Example: `  gridagent allgather --job j1 --rank 0 --ranks 3 --in part0 --out whole
  gridagent allgather --job j1 --rank $SLURM_PROCID --ranks $SLURM_NTASKS --in part --out whole -o json
  gridagent allgather --job j1 --rank 0 --ranks 3 --in part0 --out whole --plan plan.json`,
		Args: cobra.NoArgs,
	}
	f := addRankFlags(cmd, plan.Allgather, "file to contribute")
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		opts, err := f.options()
		if err != nil {
			return err
		}
		return a.runRank(cmd.Context(), f, &opts, func(ctx context.Context, r *client.Rank) (*apiv1.Report, error) {
			return r.AllgatherFile(ctx, f.in, f.out, opts)
		})
	})
	return cmd
}
