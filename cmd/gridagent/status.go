package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

func (a *app) statusCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what this host's agent is and does",
		Long: `Show what this host's agent is and does: its cluster, the members that it sees, how much
of the network map is measured, what measuring has cost and may cost, the epoch of the pool tree
(gridagent pools), the groups it carries ranks of, and the connections and gossip packets
that it refused, and over what the data of exchanges go to each host, with the reason (QUIC, or TLS over TCP). Links between sites are listed on the host that keeps their budget. Warnings
come last, each on a line of its own: what an operator should look at.`,
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
	if p := s.GetPrediction(); p.GetPairsTested() > 0 {
		line("predictions", "off by %s in the median, %s for nine of ten, of %d measured pairs that were predicted as a test",
			formatShare(p.GetErrorMedian()), formatShare(p.GetErrorP90()), p.GetPairsTested())
	}
	if e := s.GetPoolsEpoch(); e > 0 {
		line("pool tree", "epoch %d", e)
	} else {
		line("pool tree", "none yet")
	}
	line("probed", "%s", formatBytes(s.GetProbeBytes()))
	if c := s.GetProbeCost(); c != nil {
		line("probe budget", "%s", formatBudget(c))
		for _, l := range c.GetLinks() {
			line("link "+siteName(l.GetFromSite())+" → "+siteName(l.GetToSite()), "%s", formatLinkCost(l, c.GetShare()))
		}
	}
	line("map traffic", "sent %s, received %s", formatBytes(s.GetMapBytesSent()), formatBytes(s.GetMapBytesReceived()))
	line("refused", "%d connections, %d gossip packets", s.GetRefusedConnections(), s.GetRefusedGossip())
	line("socket buffers", "receive %s, send %s", formatBytes(s.GetSocketReceiveBuffer()), formatBytes(s.GetSocketSendBuffer()))
	if !s.GetUdpSegmentation() {
		line("segmentation", "off: QUIC sends packet by packet, at twice the CPU time")
	}
	if mode := s.GetLaneMode(); mode != "" {
		line("data lanes", "%s, TCP port %s", mode, orDash(s.GetTcpAddress()))
	}
	for _, l := range laneGroups(s.GetLanes()) {
		line("  "+l.kind, "%s", l)
	}
	for _, g := range s.GetGroups() {
		ranks := make([]string, len(g.GetLocalRanks()))
		for i, r := range g.GetLocalRanks() {
			ranks[i] = fmt.Sprint(r)
		}
		line("group "+g.GetJob(), "%s, ranks %s of %d here", g.GetState(), strings.Join(ranks, " "), g.GetRanks())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, warning := range s.GetWarnings() {
		if _, err := fmt.Fprintf(a.out, "warning: %s\n", oneLine(warning)); err != nil {
			return err
		}
	}
	return nil
}

// formatBudget says what the host may send and has sent.
func formatBudget(c *apiv1.ProbeCost) string {
	most := "no cap"
	if n := c.GetBytesPerHourCap(); n > 0 {
		most = "at most " + formatBytes(n) + " an hour"
	}
	return fmt.Sprintf("%s of each link, %s; %s in the last hour", formatShare(c.GetShare()), most, formatBytes(c.GetBytesLastHour()))
}

// formatLinkCost says what probes sent over a link in the last hour, and which share of what it
// could have carried that is. In the first hours it may be above the budget's share: a link that
// nobody has measured yet is given a burst.
func formatLinkCost(l *apiv1.LinkCost, share float64) string {
	sent := formatBytes(l.GetBytesLastHour()) + " in the last hour"
	carried := l.GetCapacityMbps() * 1e6 / 8 * time.Hour.Seconds()
	if carried <= 0 {
		return sent + ", capacity not known"
	}
	return fmt.Sprintf("%s, %s of %s Mbit/s (budget %s)", sent, formatShare(float64(l.GetBytesLastHour())/carried), significant(l.GetCapacityMbps()), formatShare(share))
}

// oneLine keeps what other hosts have worded on its line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
