package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/exchange/ring"
)

func (a *app) studyCmd() *cobra.Command {
	return parent("study", "Repeat the studies of the papers that need no network",
		"Repeat the studies of the papers that need no network, and print the data of their figures.", a.studyRingsCmd())
}

func (a *app) studyRingsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rings",
		Short: "Path lengths of logical rings on random networks of switches",
		Long: `Draw random networks of switches, take a breadth-first, a depth-first and a random spanning
tree of each, and compare the maximum path lengths of the logical rings LR1 (depth-first)
and LR3 (optimal): Figure 11 of Faraj, Patarasuk & Yuan. A path length is a number of switches.

WORST is the largest length seen, AT MOST 3 the share of networks on which LR3's is 3 or less,
and RANK ORDER how many messages of a ring in rank order meet on the most loaded link.`,
		Example: `  gridagent study rings
  gridagent study rings --hosts 128,512 --samples 200 --seed 7 -o json`,
		Args: cobra.NoArgs,
	}
	var cfg ring.StudyConfig
	cmd.Flags().IntSliceVar(&cfg.Hosts, "hosts", []int{64, 128, 256, 512, 1024}, "numbers of hosts, with commas between")
	cmd.Flags().Float64Var(&cfg.HostsPerSwitch, "hosts-per-switch", 5, "hosts on a switch, on average")
	cmd.Flags().Float64Var(&cfg.Degree, "degree", 4, "links of a switch to others, on average")
	cmd.Flags().IntVar(&cfg.Samples, "samples", 50, "networks of each size")
	cmd.Flags().Uint64Var(&cfg.Seed, "seed", 1, "equal seeds draw equal networks")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if cfg.Samples < 1 || cfg.HostsPerSwitch <= 0 || cfg.Degree <= 0 || len(cfg.Hosts) == 0 || slices.Min(cfg.Hosts) < 1 {
			return usagef("--hosts, --hosts-per-switch, --degree and --samples: want numbers above 0")
		}
		defer a.busy.working("drawing networks")()
		rows, err := ring.Study(cmd.Context(), cfg)
		if err != nil {
			if cmd.Context().Err() != nil {
				return err
			}
			return &usageError{err}
		}
		if output.value == "json" {
			return a.printStudy(rows)
		}
		t := a.table("hosts", "switches", "spanning tree", "lr1", "worst", "lr3", "worst", "at most 3", "rank order")
		for _, r := range rows {
			t.row(r.Hosts, r.Switches, r.Spanning, fmt.Sprintf("%.2f", r.LR1), r.WorstLR1,
				fmt.Sprintf("%.2f", r.LR3), r.WorstLR3, fmt.Sprintf("%.0f%%", 100*r.ThreeHops), fmt.Sprintf("%.1f", r.RankLoad))
		}
		return t.flush()
	})
	return cmd
}

func (a *app) printStudy(rows []ring.StudyRow) error {
	type row struct {
		Hosts     int     `json:"hosts"`
		Switches  int     `json:"switches"`
		Spanning  string  `json:"spanning_tree"`
		LR1       float64 `json:"lr1"`
		WorstLR1  int     `json:"lr1_worst"`
		LR3       float64 `json:"lr3"`
		WorstLR3  int     `json:"lr3_worst"`
		ThreeHops float64 `json:"lr3_at_most_3"`
		RankLoad  float64 `json:"rank_order_load"`
	}
	out := make([]row, len(rows))
	for i, r := range rows {
		out[i] = row{r.Hosts, r.Switches, string(r.Spanning), r.LR1, r.WorstLR1, r.LR3, r.WorstLR3, r.ThreeHops, r.RankLoad}
	}
	return a.printJSON(struct {
		Rows []row `json:"rows"`
	}{out})
}
