package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

func (a *app) statusCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what this host's agent is and does",
		Long: `Show what this host's agent is and does: its cluster, the members that it sees, how much
of the network map is measured, what probing has cost, the groups it carries ranks of,
and the connections and gossip packets that it refused.`,
		Example: "  gridagent status --dir /var/lib/gridagent\n  gridagent status -o json | jq .members_alive",
		Args:    cobra.NoArgs,
	}
	at := placeFlags(cmd)
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		agent, err := at.dial()
		if err != nil {
			return err
		}
		reply, err := agent.Status(cmd.Context(), connect.NewRequest(&apiv1.StatusRequest{}))
		if err != nil {
			return rpcError(err)
		}
		if output.value == "json" {
			return a.printProto(reply.Msg)
		}
		return a.printStatus(reply.Msg)
	})
	return cmd
}

func (a *app) printStatus(s *apiv1.StatusResponse) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) // Flush returns the writer's error
	}
	role := ""
	if s.GetAuthority() {
		role = ", holds the authority"
	}
	line("host", "%s (site %s%s)", s.GetHost(), orDash(s.GetSite()), role)
	line("cluster", "%s", s.GetCluster())
	line("address", "%s", s.GetAddress())
	line("version", "%s", s.GetVersion())
	line("up since", "%s", s.GetStarted().AsTime().Local().Format(time.DateTime))
	line("members alive", "%d", s.GetMembersAlive())
	line("map", "epoch %d: %d of %d pairs measured, %d predicted", s.GetMapEpoch(), s.GetPairsMeasured(), s.GetPairsTotal(), s.GetPairsPredicted())
	line("probed", "%s", formatBytes(s.GetProbeBytes()))
	line("refused", "%d connections, %d gossip packets", s.GetRefusedConnections(), s.GetRefusedGossip())
	line("socket buffers", "receive %s, send %s", formatBytes(s.GetSocketReceiveBuffer()), formatBytes(s.GetSocketSendBuffer()))
	for _, g := range s.GetGroups() {
		ranks := make([]string, len(g.GetLocalRanks()))
		for i, r := range g.GetLocalRanks() {
			ranks[i] = fmt.Sprint(r)
		}
		line("group "+g.GetJob(), "%s, ranks %s of %d here", g.GetState(), strings.Join(ranks, " "), g.GetRanks())
	}
	return w.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
