package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/exchange/plan"
)

func (a *app) verifyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify PLAN",
		Short: "Prove a plan, or name the first property that it violates",
		Long: `Prove a plan from anywhere (a file, or - for standard input): that it is well-formed, acyclic,
delivers no block twice, sends only what a host holds by then, and is complete.

With --topology also, of a plan with phases, that no directed link of the switch tree carries
two transfers of a phase, and that messages are kept apart as its synchronisation claims; with --duplex that the predicted times keep the rules of the host model, with the
gaps, overheads and durations of --grid; with --pools that no block enters a pool twice.
For a plan of min3 or broadcast-trees --grid alone implies --duplex full, whose rules
half-duplex plans keep too.

The exit status is 1 if the plan violates a property; the property and its transfers are named.`,
		Example: `  gridagent verify plan.json
  gridagent verify plan.json --grid configs/grids/paper-3site.yaml --duplex half --pools auto
  gridagent plan allgather --grid g.yaml -o json | gridagent verify -`,
		Args: cobra.ExactArgs(1),
	}
	f := verifyFlags{tree: addTopologyFlags(cmd), criterion: criterionFlag(cmd)}
	gridFlag(cmd, &f.grid, "grid file, or the name of a built-in one")
	cmd.Flags().StringVar(&f.pools, "pools", "", "pool-tree file, or auto: built from --grid")
	cmd.Flags().BoolVar(&f.chunked, "chunked", false, "the times are of chunks that stream through: a host may forward a block before it is whole")
	f.duplex = choiceFlag(cmd, "duplex", "", "host model that the predicted times must keep", "auto", "full", "half", "none")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, args []string) error {
		if err := f.tree.check(cmd); err != nil {
			return err
		}
		if given(cmd, "criterion") && f.pools != "auto" {
			return usagef("--criterion is for --pools auto")
		}
		p, err := a.readPlan(args[0])
		if err != nil {
			return err
		}
		rules, proved, err := f.rules(p)
		if err != nil {
			return err
		}
		done := a.busy.working("verifying")
		err = plan.Verify(p, rules)
		done()
		var violation *plan.Violation
		if err != nil && !errors.As(err, &violation) {
			// The rules do not fit the plan, and rules come from files.
			return fmt.Errorf("%s: %w", cmp.Or(f.grid, f.tree.file, args[0]), err)
		}
		return errors.Join(a.printVerdict(p, proved, violation, output.value), err)
	})
	return cmd
}

func (a *app) readPlan(path string) (*plan.Plan, error) {
	if path == "-" {
		data, err := readAll(a.in, maxPlanBytes)
		if err != nil {
			return nil, fmt.Errorf("plan from standard input: %w", err)
		}
		return plan.Read("standard input", data)
	}
	data, err := readFile(path, maxPlanBytes)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return plan.Read(path, data)
}

// verifyFlags say against what a plan is verified.
type verifyFlags struct {
	grid, pools string
	tree        *topologyFlags
	criterion   *choice
	duplex      *choice
	chunked     bool
}

// rules returns the rules and the names of the properties that they ask for.
func (f *verifyFlags) rules(p *plan.Plan) (plan.Rules, []plan.Property, error) {
	proved := []plan.Property{plan.WellFormed, plan.Acyclic, plan.NoDuplicate, plan.Causal, plan.Complete}
	r := plan.Rules{Chunked: f.chunked}
	switch {
	case f.duplex.value == "half":
		r.Duplex = plan.HalfDuplex
	case f.duplex.value == "full", f.duplex.value == "auto" && f.grid != "" && (p.Algorithm == "min3" || p.Algorithm == "broadcast-trees"):
		r.Duplex = plan.FullDuplex
	}
	if f.grid != "" {
		snapshot, err := loadSnapshot(f.grid)
		if err != nil {
			return r, nil, err
		}
		r.Snapshot = snapshot
	}
	if r.Duplex != plan.DuplexUnchecked {
		proved = append(proved, plan.HostPort)
	}
	if f.tree.file != "" {
		t, err := f.tree.load()
		if err != nil {
			return r, nil, err
		}
		r.Topology = t
		if p.Phased() {
			proved = append(proved, plan.ContentionFree)
		}
		if p.Phased() && p.Sync != nil && p.Sync.Kind != plan.SyncDummy && (p.Sync.Block == 0 || p.Sync.Strict || p.Sync.Kind == plan.SyncBarrier) {
			proved = append(proved, plan.Synchronised)
		}
	}
	if f.pools != "" {
		sets, err := f.poolSets(p, r)
		if err != nil {
			return r, nil, err
		}
		r.Pools = sets
		proved = append(proved, plan.OncePerPool)
	}
	return r, proved, nil
}

// poolSets returns the pools as sets of indices into the plan's hosts.
func (f *verifyFlags) poolSets(p *plan.Plan, r plan.Rules) ([][]int, error) {
	if r.Snapshot == nil {
		return nil, usagef("--pools %s: give --grid too, which names the hosts of the pools", f.pools)
	}
	g := gridFlags{grid: f.grid, pools: f.pools, criterion: f.criterion}
	if f.pools == "auto" {
		g.pools = ""
	}
	tree, err := g.tree(r.Snapshot)
	if err != nil {
		return nil, err
	}
	rank := make(map[string]int, len(p.Hosts))
	for i, h := range p.Hosts {
		if r.Snapshot.Index(h) < 0 {
			return nil, fmt.Errorf("host %q of the plan is not in %s", h, f.grid)
		}
		rank[h] = i
	}
	var sets [][]int
	for _, pool := range tree.Sets() {
		set := make([]int, 0, len(pool))
		for _, h := range pool {
			if i, ok := rank[r.Snapshot.Host(h).Name]; ok { // hosts that the plan leaves out matter to no block
				set = append(set, i)
			}
		}
		if len(set) > 0 {
			sets = append(sets, set)
		}
	}
	return sets, nil
}

// printVerdict prints what was proved, or the transfers of the violation; the violation
// itself is the command's error.
func (a *app) printVerdict(p *plan.Plan, proved []plan.Property, v *plan.Violation, format string) error {
	if format == "json" {
		if v != nil {
			transfers := v.Transfers
			if transfers == nil {
				transfers = []int{}
			}
			return a.printJSON(struct {
				Valid     bool          `json:"valid"`
				Property  plan.Property `json:"property"`
				Transfers []int         `json:"transfers"`
				Detail    string        `json:"detail"`
			}{false, v.Property, transfers, v.Detail})
		}
		return a.printJSON(struct {
			Valid  bool            `json:"valid"`
			Proved []plan.Property `json:"proved"`
		}{true, proved})
	}
	if v == nil {
		names := make([]string, len(proved))
		for i, x := range proved {
			names[i] = string(x)
		}
		_, err := fmt.Fprintf(a.out, "valid: %s %s of %d hosts, %d transfers: %s\n", p.Algorithm, p.Collective, len(p.Hosts), len(p.Transfers), strings.Join(names, ", "))
		return err
	}
	// A cycle can run through the whole plan; the first transfers show where to look.
	for _, i := range v.Transfers[:min(len(v.Transfers), 12)] {
		t := &p.Transfers[i]
		fmt.Fprintf(a.out, "transfer %d: %s → %s, blocks %v, after %v, %s … %s\n", i, p.Hosts[t.Src], p.Hosts[t.Dst], t.Blocks, t.After, formatSeconds(t.Start), formatSeconds(t.End))
	}
	return nil
}
