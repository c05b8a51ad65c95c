package main

import (
	"fmt"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

func (a *app) poolsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pools",
		Short: "Show the pool tree: hosts clustered by bandwidth",
		Long: `Show the pool tree that the agent builds from the current network map: hosts are together
in a pool if links of at least the pool's threshold connect them, in both directions.
With -o json it is a file that plan and simulate read back with --pools.

Agents that have just found each other need some seconds to measure all pairs of hosts.
Until then there is no tree: --wait waits for it.`,
		Example: "  gridagent pools --wait 1m\n  gridagent pools --criterion average -o json",
		Args:    cobra.NoArgs,
	}
	at := placeFlags(cmd)
	criterion := criterionFlag(cmd)
	wait := waitFlag(cmd)
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		agent, err := at.dial()
		if err != nil {
			return err
		}
		var reply *connect.Response[apiv1.PoolsResponse]
		var missing error
		complete, err := awaitMap(cmd.Context(), *wait, func() (bool, error) {
			r, err := agent.Pools(cmd.Context(), connect.NewRequest(&apiv1.PoolsRequest{Criterion: criterion.value}))
			if connect.CodeOf(err) == connect.CodeUnavailable && connect.IsWireError(err) {
				missing = rpcError(err) // the agent says how many pairs it lacks
				return false, nil
			}
			reply = r
			return err == nil, rpcError(err)
		})
		switch {
		case err != nil:
			return err
		case !complete && *wait == 0:
			return fmt.Errorf("%w, or give --wait 1m", missing)
		case !complete:
			return fmt.Errorf("after %v: %w", *wait, missing)
		}
		if output.value == "json" {
			_, err := a.out.Write(append(reply.Msg.GetTreeJson(), '\n'))
			return err
		}
		_, err = fmt.Fprintf(a.out, "map epoch %d\n%s\n", reply.Msg.GetEpoch(), reply.Msg.GetRendered())
		return err
	})
	return cmd
}

// criterionFlag adds --criterion.
func criterionFlag(cmd *cobra.Command) *choice {
	c := choiceFlag(cmd, "criterion", "", "what holds a pool together: a connected component of fast links, or averages as in the paper's text", "component", "average")
	setting(cmd, "criterion")
	return c
}
