package main

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

func (a *app) mapCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "map",
		Short: "Show the network map: what is believed of every pair of hosts",
		Long: `Show the network map of this host's agent. The table gives, from row to column, what one
flow gets in Mbit/s over the one-way latency. With -o json it is the matrix form of a grid
file, which plan, verify and simulate read back with --grid.`,
		Example: "  gridagent map\n  gridagent map -o json >grid.json && gridagent plan allgather --grid grid.json --size 1MiB",
		Args:    cobra.NoArgs,
	}
	at := placeFlags(cmd)
	predict := cmd.Flags().Bool("predict", false, "fill pairs that are not measured from like pairs")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		agent, err := at.dial()
		if err != nil {
			return err
		}
		reply, err := agent.Map(cmd.Context(), connect.NewRequest(&apiv1.MapRequest{Predict: *predict}))
		if err != nil {
			return rpcError(err)
		}
		if output.value == "json" {
			_, err := a.out.Write(append(reply.Msg.GetMatrixJson(), '\n'))
			return err
		}
		return a.printMap(reply.Msg)
	})
	return cmd
}
