package main

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/internal/demo"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// maxDemoBytes bounds what the ranks of a demo hold together.
const maxDemoBytes = 4 << 30

// demoAlgorithms run unless --algorithms says otherwise.
var demoAlgorithms = []string{"min3", "magpie", "ring"}

func (a *app) demoCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a whole grid of agents in this process, over an emulated network",
		Long: `Run the agents of a whole grid in this process over an emulated network, in real time and
without root: they find each other, measure the links, and run the same allgather by
several algorithms over the same links. Shown for each are the time, its ratio to the least
time that any schedule could take (the bound), and the bytes over each WAN link.

The exit status is 1 if any rank gets a wrong byte.`,
		Example: `  gridagent demo
  gridagent demo --hosts 6 --size 16KiB
  gridagent demo --grid configs/grids/paper-2site-europe.yaml --algorithms min3,ring,bruck -o json`,
		Args: cobra.NoArgs,
	}
	var gridPath string
	gridFlag(cmd, &gridPath, "grid file, human form, or the name of a built-in one (default: paper-3site, the grid of the Min3 paper, 8 + 4 + 8 hosts)")
	hosts := cmd.Flags().Int("hosts", 0, "hosts in all, spread over the sites as in the grid file; 0 means as there")
	size := byteSize(64 << 10)
	cmd.Flags().Var(&size, "size", "bytes that each rank contributes, with unit")
	algorithms := cmd.Flags().StringSlice("algorithms", demoAlgorithms, "algorithms to run, in order")
	seed := cmd.Flags().Uint64("seed", 1, "seed of payload and losses")
	verbose := cmd.Flags().Bool("verbose", false, "show what the agents log, on standard error")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		g, err := demoGrid(gridPath, *hosts)
		if err != nil {
			return err
		}
		if len(*algorithms) == 0 {
			return usagef("--algorithms: want at least one of %s", strings.Join(planner.Names(plan.Allgather), ", "))
		}
		if n := int64(len(g.Hosts())); int64(size) > maxDemoBytes/(n*n) {
			return usagef("--size %s: the results of %d hosts in this one process would be more than %s; want at most %s",
				formatBytes(int64(size)), n, formatBytes(int64(maxDemoBytes)), formatBytes(maxDemoBytes/(n*n)))
		}
		for _, name := range *algorithms {
			if _, err := planner.Named(plan.Allgather, name); err != nil {
				return usagef("%w", err)
			}
		}
		dir, remove, err := demo.TempDir()
		if err != nil {
			return err
		}
		defer remove()
		opts := demo.Options{Grid: g, Size: int64(size), Algorithms: *algorithms, Dir: dir, Seed: *seed}
		if *verbose {
			opts.Log = slog.New(slog.NewTextHandler(a.err, nil))
		}
		status := a.statusLine(*verbose)
		opts.Progress = status.show
		if output.value != "json" {
			opts.Tree = func(t *pools.Tree) { status.clear(); a.printDemoTree(t) }
			opts.Run = func(r demo.Run) { status.clear(); a.printDemoRun(r) }
			a.printDemoHead(g, int64(size))
		}
		report, err := demo.Execute(cmd.Context(), opts)
		status.stop()
		if output.value == "json" {
			if printErr := a.printJSON(report); err == nil {
				err = printErr
			}
		}
		if err == nil && output.value != "json" {
			err = a.printDemoSummary(report)
		}
		return err
	})
	return cmd
}

func demoGrid(path string, hosts int) (*gridfile.Grid, error) {
	if path == "" {
		path = "paper-3site"
	}
	g, err := loadGrid(path)
	if err != nil {
		return nil, err
	}
	if g.Matrix() {
		return nil, usagef("%s is in matrix form, which does not say what links are shared: the demo needs sites and wan", path)
	}
	if hosts == 0 {
		return g, nil
	}
	if g, err = demo.WithHosts(g, hosts); err != nil {
		return nil, usagef("--hosts: %w", err)
	}
	return g, nil
}

func (a *app) printDemoHead(g *gridfile.Grid, size int64) {
	var sites []string
	for _, s := range g.Sites {
		sites = append(sites, fmt.Sprintf("%s (%d hosts)", s.Name, s.Hosts))
	}
	fmt.Fprintf(a.out, "grid: %s; emulated in this process, in real time\n", strings.Join(sites, ", "))
	fmt.Fprintf(a.out, "job: allgather, one rank a host, %s each\n", formatBytes(size))
}

func (a *app) printDemoTree(t *pools.Tree) {
	fmt.Fprintf(a.out, "\npool tree, from what the agents measured:\n%s\n", strings.TrimRight(t.String(), "\n"))
}

func (a *app) printDemoRun(r demo.Run) {
	fmt.Fprintf(a.out, "\n%s: ", r.Algorithm)
	if !r.Verified {
		fmt.Fprintf(a.out, "FAILED after %s: %s\n", formatSeconds(r.Seconds), r.Error)
		return
	}
	fmt.Fprintf(a.out, "%s = %.2f x the bound of %s\n", formatSeconds(r.Seconds), r.Ratio, formatSeconds(r.Bound))
	var links []string
	for _, l := range slices.Sorted(maps.Keys(r.WANBytes)) {
		links = append(links, l+" "+formatBytes(r.WANBytes[l]))
	}
	if len(links) > 0 {
		fmt.Fprintf(a.out, "  bytes over each WAN link: %s\n", strings.Join(links, ", "))
	}
	fmt.Fprintf(a.out, "  bytes verified: every rank holds every block\n")
	if r.Late > maxLate {
		fmt.Fprintf(a.out, "  note: for %.0f %% of that time this machine was too busy to deliver the emulated packets in time;\n  the time is too long. Run the demo again when the machine is idle.\n", 100*r.Late)
	}
}

// maxLate is the share of late time from which on a run's time is not to be trusted. Idle,
// two cores show less than 0.1 %.
const maxLate = 0.02

func (a *app) printDemoSummary(r *demo.Report) error {
	fmt.Fprintf(a.out, "\nbound: %s\n\n", r.Why)
	t := a.table("algorithm", "seconds", "x bound", "wan bytes", "verified")
	for _, run := range r.Runs {
		var wan int64
		for _, b := range run.WANBytes {
			wan += b
		}
		t.row(run.Algorithm, formatSeconds(run.Seconds), fmt.Sprintf("%.2f", run.Ratio), formatBytes(wan), run.Verified)
	}
	return t.flush()
}
