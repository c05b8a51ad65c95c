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
With -o json it is a file that plan and simulate read back with --pools.`,
		Example: "  gridagent pools\n  gridagent pools --criterion average -o json",
		Args:    cobra.NoArgs,
	}
	at := placeFlags(cmd)
	criterion := criterionFlag(cmd)
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		agent, err := at.dial()
		if err != nil {
			return err
		}
		reply, err := agent.Pools(cmd.Context(), connect.NewRequest(&apiv1.PoolsRequest{Criterion: criterion.value}))
		if err != nil {
			return rpcError(err)
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
