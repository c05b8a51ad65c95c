package main

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/agent/group"
)

func (a *app) barrierCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "barrier",
		Short: "Wait until all ranks have come",
		Long: `Join the group --job as rank --rank of --ranks, and return when all ranks have. Nothing is
moved.
The call waits no longer than the first of the ranks is willing to wait (--forming-timeout): then
all end with an error that lists the missing ranks.

If a rank or its host is lost, or the ranks disagree, or not all of them come, every rank's
command ends with status 4 and the same message.`,
		Example: `  gridagent barrier --job j1 --rank 0 --ranks 3
  gridagent barrier --job j1 --rank $SLURM_PROCID --ranks $SLURM_NTASKS --forming-timeout 1h -o json`,
		Args: cobra.NoArgs,
	}
	from := new(cobra.Command)
	f := addRankFlags(from, group.Barrier, "")
	borrow(cmd, from, "dir", "socket", "job", "rank", "ranks", "timeout", "forming-timeout", "no-progress", "output")
	f.cmd = cmd
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if err := f.checkRank(); err != nil {
			return err
		}
		var opts client.Options
		return a.runRank(cmd.Context(), f, &opts, func(ctx context.Context, r *client.Rank) (*apiv1.Report, error) {
			return r.Barrier(ctx, client.Options{Timeout: f.timeout})
		})
	})
	return cmd
}
