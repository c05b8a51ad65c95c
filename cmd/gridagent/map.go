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
		Long: fmt.Sprintf(`Show the network map of this host's agent. The table gives, from row to column, what one
flow gets in Mbit/s over the one-way latency:

  1.19 / 50ms    one flow gets 1.19 Mbit/s in the steady state; half of the round trip is 50 ms
  ~1.19 / 50ms   predicted from pairs between the same two sites (--predict)
  ? / 50ms       the bandwidth has not been measured yet

On a terminal colours show which bandwidths are old or uncertain. Below stand the links of
which several lanes get more than one flow, and those that lose packets. More than %d hosts are
listed a line a pair, more than %d summed up by pairs of sites. With --all every pair has a
line:

  Mbit/s     what one flow gets, in 10⁶ bit/s of user data, in the steady state
  spread     how far its readings lie apart, or how wide the last one was; - where only one was seen
  latency    one way, which is half of the round trip
  capacity   what several lanes get together, in Mbit/s, and how many lanes that takes;
             ≥ where nobody has searched: what exchanges were seen to get
  loss       share of packets that the path loses by itself; - where too few were sent to tell
  age        since the newest measurement of the bandwidth, by the clock of the host that took it
  source     probed (trains of packets, bulk transfers), observed (on an exchange),
             predicted (from like pairs) or declared (in a file)

How it is measured, and how to check it: docs/measurement.md.

With -o json it is the matrix form of a grid file, which plan, verify and simulate read back
with --grid, and map diff compares. With -o csv it is a line a pair (RFC 4180), with empty
fields where nothing is known. Both forms are described in docs/formats.md.

Agents that have just found each other need some seconds to measure all pairs of hosts:
--wait waits until each pair is measured or, with --predict, known by prediction, and until
links between sites that are new, up to 15 s old, have been looked at for what several flows
get. When the time is over the map is printed as it is; where pairs are missing the status
is 1.`, maxMapColumns, maxMapHosts),
		Example: `  gridagent map
  gridagent map --all --color always | less -R              # everything of every pair
  gridagent map --predict                                   # what plans see
  gridagent map --wait 1m -o json >grid.json && gridagent plan allgather --grid grid.json --size 1MiB
  gridagent map -o csv >map.csv
  gridagent map -o json | jq '.loss'                        # keys and units: docs/formats.md
  gridagent map diff                                        # what has changed`,
		Args: cobra.NoArgs,
	}
	at := placeFlags(cmd)
	predict := cmd.Flags().Bool("predict", false, "fill pairs that are not measured from like pairs")
	all := cmd.Flags().Bool("all", false, "a line for every pair of hosts, with all that is known of it")
	color := colorFlag(cmd)
	wait := waitFlag(cmd)
	output := choiceFlag(cmd, "output", "o", "how to print: a table for people, JSON (a grid file) or CSV (a line a pair) for programs", "table", "json", "csv")
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		agent, err := at.dial()
		if err != nil {
			return err
		}
		var reply *apiv1.MapResponse
		var snap *netmap.Snapshot
		var now time.Time
		known, total := 0, 0
		complete, err := awaitMap(cmd.Context(), *wait, func() (bool, error) {
			r, err := agent.Map(cmd.Context(), connect.NewRequest(&apiv1.MapRequest{Predict: *predict}))
			if err != nil {
				return false, rpcError(err)
			}
			now = time.Now()
			if snap, err = netmap.ParseMatrix(r.Msg.GetMatrixJson(), now); err != nil {
				return false, fmt.Errorf("map from the agent: %w", err)
			}
			reply = r.Msg
			known, total = knownPairs(snap)
			return known == total && r.Msg.GetLinksUnseen() == 0, nil
		})
		if err != nil {
			return err
		}
		switch output.value {
		case "json":
			_, err = a.out.Write(append(reply.GetMatrixJson(), '\n'))
		case "csv":
			err = writeMapCSV(a.out, snap, now)
		default:
			err = a.printMap(mapView{reply: reply, snap: snap, now: now, all: *all, p: a.painter(color.value)})
		}
		if err == nil && !complete && known < total && *wait > 0 {
			err = fmt.Errorf("the map is not complete after %v: %d of %d pairs", *wait, known, total)
		}
		return err
	})
	cmd.AddCommand(a.mapDiffCmd())
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
