package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/probe/netmap"
)

// maxDiffPairs is how many changed pairs are listed unasked. More are summed up by sites.
const maxDiffPairs = 24

func (a *app) mapDiffCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff [FROM [TO]]",
		Short: "Show what changed between two network maps",
		Long: fmt.Sprintf(`Show what changed between two network maps: hosts that came and went, and pairs of hosts
whose bandwidth, latency, capacity or loss moved by more than --threshold of the smaller value.

FROM and TO are epochs of the pool tree, of which the agent keeps the map that each stood on
(the last few; gridagent pools shows the current epoch), or files of gridagent map -o json or any
other grid file. Without TO, FROM is compared with the map as it is now; without both, the
change that brought the current pool tree about, until now. A file whose name is a number is
given as ./NAME.

More than %d changed pairs are summed up by pairs of sites; --all lists them. The status is 0
whether anything changed or not.`, maxDiffPairs),
		Example: `  gridagent map diff
  gridagent map diff 3 4 --threshold 0.25
  gridagent map -o json >before.json; sleep 600; gridagent map diff before.json
  gridagent map diff monday.json tuesday.json -o json`,
		Args: cobra.MaximumNArgs(2),
	}
	at := placeFlags(cmd)
	threshold := cmd.Flags().Float64("threshold", 0.10, "how far a value must move, as a share of the smaller one")
	all := cmd.Flags().Bool("all", false, "list every pair, however many changed")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, args []string) error {
		if !(*threshold >= 0) { // NaN too
			return usagef("--threshold %v: want 0 or more, such as 0.1 for a tenth", *threshold)
		}
		two, err := a.twoMaps(cmd.Context(), at, args)
		if err != nil {
			return err
		}
		d, err := netmap.Compare(two.before, two.after, *threshold)
		if err != nil {
			return err
		}
		if output.value == "json" {
			return a.printJSON(diffReport(two, d, *threshold))
		}
		return a.printDiff(two, d, *threshold, *all)
	})
	return cmd
}

// twoMaps are the two sides of a diff, and what to call them.
type twoMaps struct {
	before, after *netmap.Snapshot
	from, to      string
}

// twoMaps reads the maps that args name: files, or the agent's.
func (a *app) twoMaps(ctx context.Context, at *place, args []string) (*twoMaps, error) {
	var epochs [2]uint64
	files := 0
	for i, arg := range args {
		if strings.Trim(arg, "0123456789") != "" {
			files++
			continue
		}
		var err error
		if epochs[i], err = strconv.ParseUint(arg, 10, 64); err != nil || epochs[i] == 0 {
			return nil, usagef("epoch %.64q: pool trees are numbered from 1; a file of that name is given as ./%.64s", arg, arg)
		}
	}
	switch {
	case files == 0:
		return a.twoEpochs(ctx, at, epochs[0], epochs[1])
	case files < len(args):
		return nil, usagef("map diff %s %s: give two epochs or two files; gridagent map -o json >FILE saves the map as it is", args[0], args[1])
	}
	before, err := readMap(args[0])
	if err != nil {
		return nil, err
	}
	two := &twoMaps{before: before, from: args[0]}
	if len(args) == 2 {
		two.to = args[1]
		two.after, err = readMap(args[1])
		return two, err
	}
	two.to = "now"
	agent, err := at.dial()
	if err != nil {
		return nil, err
	}
	r, err := agent.Map(ctx, connect.NewRequest(&apiv1.MapRequest{}))
	if err != nil {
		return nil, rpcError(err)
	}
	if two.after, err = netmap.ParseMatrix(r.Msg.GetMatrixJson(), time.Now()); err != nil {
		return nil, fmt.Errorf("map from the agent: %w", err)
	}
	return two, nil
}

// twoEpochs asks the agent for the maps of two pool trees; 0 as in MapDiffRequest.
func (a *app) twoEpochs(ctx context.Context, at *place, from, to uint64) (*twoMaps, error) {
	agent, err := at.dial()
	if err != nil {
		return nil, err
	}
	r, err := agent.MapDiff(ctx, connect.NewRequest(&apiv1.MapDiffRequest{From: from, To: to}))
	if err != nil {
		return nil, rpcError(err)
	}
	now := time.Now()
	two := &twoMaps{from: fmt.Sprintf("epoch %d", r.Msg.GetFrom()), to: "now"}
	if r.Msg.GetTo() != 0 {
		two.to = fmt.Sprintf("epoch %d", r.Msg.GetTo())
	}
	if two.before, err = netmap.ParseMatrix(r.Msg.GetFromJson(), now); err != nil {
		return nil, fmt.Errorf("map of %s from the agent: %w", two.from, err)
	}
	if two.after, err = netmap.ParseMatrix(r.Msg.GetToJson(), now); err != nil {
		return nil, fmt.Errorf("map of %s from the agent: %w", two.to, err)
	}
	return two, nil
}

// readMap reads whatever --grid takes, so that a live map can be held against a declared grid too.
func readMap(name string) (*netmap.Snapshot, error) {
	g, err := loadGrid(name)
	if err != nil {
		return nil, err
	}
	return g.Snapshot()
}

func (a *app) printDiff(two *twoMaps, d *netmap.Diff, threshold float64, all bool) error {
	fmt.Fprintf(a.out, "%s → %s: %d of %d pairs of hosts moved by more than %s\n", two.from, two.to, len(d.Changes), d.Pairs, formatShare(threshold))
	for _, h := range d.Came {
		fmt.Fprintf(a.out, "host %s came (site %s)\n", h.Name, siteName(h.Site))
	}
	for _, h := range d.Left {
		fmt.Fprintf(a.out, "host %s left (site %s)\n", h.Name, siteName(h.Site))
	}
	for _, r := range d.Relabelled {
		fmt.Fprintf(a.out, "host %s is in site %s, was in %s\n", r.Host.Name, siteName(r.Host.Site), siteName(r.Before))
	}
	if len(d.Changes) == 0 {
		return nil
	}
	fmt.Fprintln(a.out)
	if len(d.Changes) > maxDiffPairs && !all {
		return a.printDiffSites(d)
	}
	t := a.table("from", "to", "Mbit/s", "latency", "capacity", "loss")
	for _, c := range d.Changes {
		row := []any{c.From.Name, c.To.Name}
		for _, f := range netmap.DiffFields {
			row = append(row, formatMove(c, f))
		}
		t.row(row...)
	}
	return t.flush()
}

// formatMove shows before→after of one part, or nothing where that did not move.
func formatMove(c netmap.Change, f netmap.Field) string {
	if c.Moved&f == 0 {
		return ""
	}
	return formatField(c.Before, f) + "→" + formatField(c.After, f)
}

func formatField(e netmap.Estimate, f netmap.Field) string {
	if !e.Has(f) {
		return "?"
	}
	switch f {
	case netmap.FieldBandwidth:
		return significant(e.Bandwidth.Mbps())
	case netmap.FieldCapacity:
		return significant(e.Capacity.Mbps())
	case netmap.FieldLatency:
		return formatDuration(e.Latency)
	}
	return formatShare(e.Loss)
}

// diffFieldNames are the keys of the matrix form, and the heads of the table.
var diffFieldNames = map[netmap.Field]struct{ key, head string }{
	netmap.FieldBandwidth: {"bandwidth_mbps", "Mbit/s"},
	netmap.FieldLatency:   {"latency_s", "latency"},
	netmap.FieldCapacity:  {"capacity_mbps", "capacity"},
	netmap.FieldLoss:      {"loss", "loss"},
}

// printDiffSites shows a line for every part that moved between two sites.
func (a *app) printDiffSites(d *netmap.Diff) error {
	t := a.table("from", "to", "what", "rose", "fell", "new", "gone", "median")
	for _, s := range d.Sites() {
		for _, m := range s.Moved {
			mid := ""
			if m.Rose+m.Fell > 0 {
				mid = formatField(m.Before, m.Field) + "→" + formatField(m.After, m.Field)
			}
			t.row(siteName(s.From), siteName(s.To), diffFieldNames[m.Field].head, m.Rose, m.Fell, m.Came, m.Gone, mid)
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.out, "\n%d pairs of hosts: --all lists them\n", len(d.Changes))
	return err
}
