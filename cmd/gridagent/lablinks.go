package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/lab"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// linkArgs are the words for a link in set, cut and heal.
const linkArgs = `A link is named by its two ends: two sites (the direction from the first to the second, and the
other one too unless --one-way), or two switches joined by a cable. One name is a host: its port.`

// completeLink completes the ends of links, and hosts.
func completeLink(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	name, _ := cmd.Flags().GetString("name")
	spec, err := lab.Made(name)
	if err != nil || len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	if len(args) == 0 {
		for _, h := range spec.Hosts {
			names = append(names, h.Name)
		}
	}
	for _, l := range spec.Links() {
		if len(args) == 0 {
			names = append(names, l.From)
		} else if l.From == args[0] {
			names = append(names, l.To)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

func labLink(args []string) lab.Link {
	l := lab.Link{From: args[0]}
	if len(args) > 1 {
		l.To = args[1]
	}
	return l
}

func (a *app) labSetCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set FROM [TO]",
		Short: "Change a link while it is in use",
		Long: `Change a link while it is in use. What is not given stays as it is.

` + linkArgs + `
Ports and cables have only a bandwidth.`,
		Example: `  gridagent lab set UT NTH --bandwidth 0.3Mbps
  gridagent lab set UT NTH --one-way --loss 1% --latency 80ms
  gridagent lab set UK NTH --bandwidth 1Mbps --capacity 8Mbps
  gridagent lab set UT NTH --block-udp
  gridagent lab set ut0 --bandwidth 10Mbps`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeLink,
	}
	name := labNameFlag(cmd)
	oneWay := cmd.Flags().Bool("one-way", false, "only from FROM to TO")
	var bandwidth, capacity bitRate
	var loss share
	var latency, jitter time.Duration
	var queue int
	cmd.Flags().Var(&bandwidth, "bandwidth", "what one flow gets")
	cmd.Flags().Var(&capacity, "capacity", "what all flows get together; if it is more than the bandwidth, that is a ceiling per flow")
	cmd.Flags().DurationVar(&latency, "latency", 0, "one way")
	cmd.Flags().DurationVar(&jitter, "jitter", 0, "largest random extra delay of a packet")
	cmd.Flags().Var(&loss, "loss", "share of packets lost at random, such as 0.1%")
	cmd.Flags().IntVar(&queue, "queue", 0, "packets that wait before the bottleneck; 0 means one bandwidth-delay product, at least 64")
	blockUDP := cmd.Flags().Bool("block-udp", false, "lose UDP and let TCP pass, as some firewalls do; --block-udp=false ends that")
	blockTCP := cmd.Flags().Bool("block-tcp", false, "lose TCP and let UDP pass; --block-tcp=false ends that")
	cmd.MarkFlagsOneRequired("bandwidth", "capacity", "latency", "jitter", "loss", "queue", "block-udp", "block-tcp")
	cmd.RunE = a.command(func(cmd *cobra.Command, args []string) error {
		for flag, d := range map[string]time.Duration{"latency": latency, "jitter": jitter} {
			if d < 0 || d > gridnet.MaxDelay {
				return usagef("--%s %v: want 0 to %v", flag, d, gridnet.MaxDelay)
			}
		}
		if queue < 0 || queue > gridnet.MaxQueue {
			return usagef("--queue %d: want 0 to %d", queue, gridnet.MaxQueue)
		}
		c := lab.Change{Latency: durationOf(cmd, "latency", &latency), Jitter: durationOf(cmd, "jitter", &jitter)}
		if cmd.Flags().Changed("bandwidth") {
			v := float64(bandwidth)
			c.Bandwidth = &v
		}
		if cmd.Flags().Changed("capacity") {
			v := float64(capacity)
			c.Capacity = &v
		}
		if cmd.Flags().Changed("loss") {
			v := float64(loss)
			c.Loss = &v
		}
		if cmd.Flags().Changed("queue") {
			c.Queue = &queue
		}
		if cmd.Flags().Changed("block-udp") {
			c.BlockUDP = blockUDP
		}
		if cmd.Flags().Changed("block-tcp") {
			c.BlockTCP = blockTCP
		}
		return a.onLab(*name, func(l *lab.Client) error {
			return l.Set(cmd.Context(), labLink(args), !*oneWay, c)
		})
	})
	return cmd
}

func (a *app) onLab(name string, do func(*lab.Client) error) error {
	if err := checkLabName(name); err != nil {
		return err
	}
	l, err := lab.Dial(name)
	if err != nil {
		return err
	}
	defer l.Close()
	return do(l)
}

func (a *app) labCutCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cut A [B]",
		Short: "Cut a link, or pull the cable of a host",
		Long:  "Cut a link: packets are lost until heal.\n\n" + linkArgs,
		Example: `  gridagent lab cut UT NTH
  gridagent lab cut ut0`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeLink,
	}
	name := labNameFlag(cmd)
	oneWay := cmd.Flags().Bool("one-way", false, "between sites: only from A to B")
	cmd.RunE = a.command(func(cmd *cobra.Command, args []string) error {
		return a.onLab(*name, func(l *lab.Client) error { return l.Cut(cmd.Context(), labLink(args), !*oneWay) })
	})
	return cmd
}

func (a *app) labHealCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "heal A [B]",
		Short: "Undo cut",
		Long:  "Undo cut.\n\n" + linkArgs,
		Example: `  gridagent lab heal UT NTH
  gridagent lab heal ut0`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeLink,
	}
	name := labNameFlag(cmd)
	oneWay := cmd.Flags().Bool("one-way", false, "between sites: only from A to B")
	cmd.RunE = a.command(func(cmd *cobra.Command, args []string) error {
		return a.onLab(*name, func(l *lab.Client) error { return l.Heal(cmd.Context(), labLink(args), !*oneWay) })
	})
	return cmd
}

func (a *app) labStatsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show what each link and port has carried and lost",
		Long: `Show what each link and port has carried and lost since the lab came up: packets and IP bytes,
in each direction. The last line says whether this machine kept up: packets between sites that
were not fetched in time and are lost, and those that were handed over late.`,
		Example: `  gridagent lab stats
  gridagent lab stats -o json`,
		Args: cobra.NoArgs,
	}
	name := labNameFlag(cmd)
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		return a.onLab(*name, func(l *lab.Client) error {
			s, err := l.Stats(cmd.Context())
			if err != nil {
				return err
			}
			if output.value == "json" {
				return a.printJSON(s)
			}
			return a.printLabStats(s)
		})
	})
	return cmd
}

func (a *app) printLabStats(s *lab.Stats) error {
	t := a.table("link", "packets", "bytes", "dropped", "why")
	for _, w := range s.WAN {
		var dropped uint64
		why := cutNow(w.Cut)
		for _, reason := range slices.Sorted(maps.Keys(w.Dropped)) {
			dropped += w.Dropped[reason].Packets
			why = append(why, fmt.Sprintf("%s %d", reason, w.Dropped[reason].Packets))
		}
		t.row(w.From+"→"+w.To, w.Delivered.Packets, formatBytes(int64(w.Delivered.Bytes)), dropped, strings.Join(why, ", "))
	}
	port := func(link string, p lab.PortStats) {
		why := cutNow(p.Cut)
		if p.Dropped > 0 {
			why = append(why, fmt.Sprintf("queue full %d", p.Dropped))
		}
		t.row(link, p.Sent.Packets, formatBytes(int64(p.Sent.Bytes)), p.Dropped, strings.Join(why, ", "))
	}
	for _, p := range s.Trunks {
		port(p.From+"→"+p.To, p)
	}
	for _, h := range s.Hosts {
		h.Out.Cut, h.In.Cut = h.Cut, h.Cut
		port(h.Host+" out", h.Out)
		port(h.Host+" in", h.In)
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.out, "\nbetween sites %d packets were missed, and %d of %d were more than 1 ms late, the worst by %s\n",
		s.Missed, s.Late.Over, s.Late.Packets, formatSeconds(s.Late.Worst))
	return err
}

func cutNow(cut bool) []string {
	if cut {
		return []string{"cut now"}
	}
	return nil
}

// A share is a flag that takes a percentage.
type share float64

var _ pflag.Value = (*share)(nil)

func (s *share) String() string { return gridfile.FormatPercent(float64(*s)) }
func (s *share) Type() string   { return "percent" }

func (s *share) Set(text string) error {
	v, err := gridfile.ParsePercent(text)
	if err != nil {
		return err
	}
	*s = share(v)
	return nil
}

// durationOf returns the value of a flag, nil where it was not given.
func durationOf(cmd *cobra.Command, name string, v *time.Duration) *time.Duration {
	if !cmd.Flags().Changed(name) {
		return nil
	}
	return v
}
