package main

import (
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/probe/netmap"
)

func (a *app) mapCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "map",
		Short: "Show the network map: what is believed of every pair of hosts",
		Long: `Show the network map of this host's agent. The table gives, from row to column, what one
flow gets in Mbit/s over the one-way latency. With -o json it is the matrix form of a grid
file, which plan, verify and simulate read back with --grid.

Agents that have just found each other need some seconds to measure all pairs of hosts:
--wait waits until each pair is measured or, with --predict, known by prediction. When the
time is over the map is printed as it is, and the status is 1.`,
		Example: "  gridagent map\n  gridagent map --wait 1m -o json >grid.json && gridagent plan allgather --grid grid.json --size 1MiB",
		Args:    cobra.NoArgs,
	}
	at := placeFlags(cmd)
	predict := cmd.Flags().Bool("predict", false, "fill pairs that are not measured from like pairs")
	wait := waitFlag(cmd)
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		agent, err := at.dial()
		if err != nil {
			return err
		}
		var reply *apiv1.MapResponse
		var snap *netmap.Snapshot
		known, total := 0, 0
		complete, err := awaitMap(cmd.Context(), *wait, func() (bool, error) {
			r, err := agent.Map(cmd.Context(), connect.NewRequest(&apiv1.MapRequest{Predict: *predict}))
			if err != nil {
				return false, rpcError(err)
			}
			if snap, err = netmap.ParseMatrix(r.Msg.GetMatrixJson(), time.Now()); err != nil {
				return false, fmt.Errorf("map from the agent: %w", err)
			}
			reply = r.Msg
			known, total = knownPairs(snap)
			return known == total, nil
		})
		if err != nil {
			return err
		}
		if output.value == "json" {
			_, err = a.out.Write(append(reply.GetMatrixJson(), '\n'))
		} else {
			err = a.printMap(reply, snap)
		}
		if err == nil && !complete && *wait > 0 {
			err = fmt.Errorf("the map is not complete after %v: %d of %d pairs", *wait, known, total)
		}
		return err
	})
	return cmd
}

// knownPairs counts the ordered pairs of hosts of which latency and bandwidth are known,
// which is what planning asks for, and all.
func knownPairs(s *netmap.Snapshot) (known, total int) {
	for i := range s.N() {
		for j := range s.N() {
			if i == j {
				continue
			}
			total++
			if s.Estimate(i, j).Has(netmap.FieldLatency | netmap.FieldBandwidth) {
				known++
			}
		}
	}
	return known, total
}
