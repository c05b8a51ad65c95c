package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/configs"
	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/min3"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// problemFlags say what plan and simulate are about: a collective, a network, sizes, and
// the choices that some algorithms leave open.
type problemFlags struct {
	cmd        *cobra.Command
	collective plan.Collective
	grid       *gridFlags
	tree       *topologyFlags
	size       *sizeFlags

	duplex    *choice
	links     *choice
	trees     *choice
	sync      *choice
	syncBlock int
	within    *choice
	strict    bool
	fanout    int

	auto  bool // all algorithms are tried
	ports bool // hosts are simulated as --duplex says
}

func addProblemFlags(cmd *cobra.Command, c plan.Collective) *problemFlags {
	f := &problemFlags{cmd: cmd, collective: c, grid: addGridFlags(cmd), tree: addTopologyFlags(cmd), size: addSizeFlags(cmd, c)}
	cmd.MarkFlagsMutuallyExclusive("grid", "topology")
	flags := cmd.Flags()
	switch c {
	case plan.Allgather:
		f.duplex = choiceFlag(cmd, "duplex", "", "host model of min3 and broadcast-trees: a host sends and receives at one time, or one of both", "full", "half")
		setting(cmd, "duplex")
		f.links = choiceFlag(cmd, "links", "", "min3's links between pools: each pair of hosts has its own (the paper), or transfers share the capacity; auto takes shared unless told",
			min3.Separate.String(), min3.Shared.String())
		f.trees = choiceFlag(cmd, "tree", "", "trees of broadcast-trees", string(baseline.Clustered), string(baseline.Mateescu), string(baseline.Binomial))
	case plan.Alltoall:
		f.sync = choiceFlag(cmd, "sync", "", "how aapc keeps messages of different phases apart", syncValues...)
		flags.IntVar(&f.syncBlock, "sync-block", 0, "partial synchronisation of aapc: phases per block (0: every phase is kept from the next)")
		f.within = choiceFlag(cmd, "within", "", "with --sync barrier --sync-block: synchronisation inside a block; order also with sender", "none", "order", "sender", "receiver")
		flags.BoolVar(&f.strict, "sync-strict", false, "with --sync-block: order all contending messages of different blocks, which the papers' way does not")
		flags.IntVar(&f.fanout, "fanout", 0, "partners that a host of group-shuffle serves at a time (0: 5, or all others where they are fewer)")
	}
	return f
}

// syncValues lists the values of --sync, the default first: what the size and the switches ask for.
var syncValues = []string{"auto", "receiver", "sender", "barrier", "dummy", "order", "none"}

// problem reads the files.
func (f *problemFlags) problem() (*planner.Problem, error) {
	p, err := f.network()
	if err != nil {
		return nil, err
	}
	p.Collective = f.collective
	n := len(p.Hosts())
	if f.collective == plan.Alltoall {
		p.Alltoall, err = f.size.matrix(n)
	} else {
		p.Sizes, err = f.size.sizes(n)
	}
	if err != nil {
		return nil, err
	}
	p.Options, err = f.options()
	return p, err
}

func (f *problemFlags) network() (*planner.Problem, error) {
	if err := f.tree.check(f.cmd); err != nil {
		return nil, err
	}
	switch criterion := given(f.cmd, "criterion"); {
	case f.tree.file != "":
		t, err := f.tree.load()
		if err != nil {
			return nil, err
		}
		if f.grid.pools != "" {
			return nil, usagef("--pools is for --grid: the hosts of a switch tree are one pool")
		}
		if criterion {
			return nil, usagef("--criterion is for --grid: the hosts of a switch tree are one pool")
		}
		return planner.OnTopology(t), nil
	case f.grid.grid != "":
		if criterion && f.grid.pools != "" {
			return nil, usagef("--criterion is for pools that are built from --grid: leave it away, or --pools %s", f.grid.pools)
		}
		snapshot, tree, err := f.grid.load()
		if err != nil {
			return nil, err
		}
		return &planner.Problem{Snapshot: snapshot, Tree: tree}, nil
	}
	return nil, usagef("over which network? Give --grid FILE (sites and links) or --topology FILE (the switches of one cluster)")
}

func (f *problemFlags) options() (planner.Options, error) {
	var o planner.Options
	var err error
	if f.collective == plan.Allgather {
		if o.Duplex, err = min3.ParseDuplex(f.duplex.value); err != nil {
			return o, err
		}
		if o.Links, err = min3.ParseLinks(f.links.value); err != nil {
			return o, err
		}
		if f.auto && !f.cmd.Flags().Changed("links") {
			o.Links = min3.Shared
		}
		o.Trees, err = baseline.ParseTreeKind(f.trees.value)
		return o, err
	}
	o.Tuned = f.auto && !slices.ContainsFunc([]string{"sync", "sync-block", "within", "sync-strict"}, f.cmd.Flags().Changed)
	o.AAPC.Block, o.AAPC.Strict = f.syncBlock, f.strict
	if o.AAPC.Sync, err = phase.ParseSync(f.sync.value); err != nil {
		return o, err
	}
	if o.AAPC.Within, err = phase.ParseSync(f.within.value); err != nil {
		return o, err
	}
	if o.AAPC.Sync == phase.Auto && o.AAPC != (phase.Options{Sync: phase.Auto}) && !f.cmd.Flags().Changed("sync") {
		o.AAPC.Sync = phase.Receiver // auto knows no blocks
	}
	if err := o.AAPC.Check(); err != nil {
		return o, &usageError{err}
	}
	if f.fanout < 0 || f.cmd.Flags().Changed("fanout") && f.fanout == 0 {
		return o, usagef("--fanout %d: want 1 or more", f.fanout)
	}
	o.Fanout = f.fanout
	return o, nil
}

// optionFlags are the flags that only some algorithms look at.
var optionFlags = []string{"duplex", "links", "tree", "sync", "sync-block", "within", "sync-strict", "fanout"}

// check refuses flags that none of algs looks at: whoever gives one expects a difference.
func (f *problemFlags) check(algs ...planner.Algorithm) error {
	for _, name := range optionFlags {
		looks := func(a planner.Algorithm) bool { return slices.Contains(a.Options, name) }
		if !given(f.cmd, name) || slices.ContainsFunc(algs, looks) || name == "duplex" && f.ports {
			continue
		}
		var names []string
		for _, a := range algs {
			names = append(names, a.Name)
		}
		return usagef("--%s is not for %s%s", name, strings.Join(names, ", "), takers(f.collective, name))
	}
	return nil
}

// takers says which algorithms look at the flag.
func takers(c plan.Collective, flag string) string {
	var names []string
	for _, a := range planner.Algorithms(c) {
		if slices.Contains(a.Options, flag) {
			names = append(names, a.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; it is for " + strings.Join(names, ", ")
}

// topologyFlags say which switch tree.
type topologyFlags struct {
	file     string
	rate     bitRate
	spanning *choice
	root     string
	seed     uint64
}

func addTopologyFlags(cmd *cobra.Command) *topologyFlags {
	f := new(topologyFlags)
	cmd.Flags().StringVar(&f.file, "topology", "", "switch-tree file: the switches of one cluster and the hosts on them; or the name of a built-in one, such as allgather-d")
	// An error here means that two flags share a name, which pflag has already refused.
	_ = cmd.RegisterFlagCompletionFunc("topology", completeNames(configs.Topologies))
	cmd.Flags().Var(&f.rate, "link-rate", "with --topology: rate of every link, with unit, in place of the file's")
	f.spanning = choiceFlag(cmd, "spanning-tree", "", "of a topology with loops, the tree to use: breadth first, depth first, random; none refuses loops",
		"none", string(plan.SpanBFS), string(plan.SpanDFS), string(plan.SpanRandom))
	cmd.Flags().StringVar(&f.root, "root", "", "switch where --spanning-tree bfs or dfs begins (default: the first of the file)")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "seed of --spanning-tree random")
	return f
}

// check refuses those of cmd's flags for switch trees that nothing looks at.
func (f *topologyFlags) check(cmd *cobra.Command) error {
	for _, name := range []string{"link-rate", "spanning-tree", "root", "seed"} {
		if f.file == "" && given(cmd, name) {
			return usagef("--%s is for --topology", name)
		}
	}
	// As of the file's bandwidth_mbps, which it takes the place of.
	if r := netmap.BytesPerSec(f.rate); f.file != "" && f.rate != 0 && (r < 1 || r > netmap.MaxRate) {
		return usagef("--link-rate %v: want %v to %v", &f.rate, gridfile.FormatRate(1), gridfile.FormatRate(netmap.MaxRate))
	}
	kind := plan.Spanning(f.spanning.value)
	if given(cmd, "root") && kind != plan.SpanBFS && kind != plan.SpanDFS {
		return usagef("--root is for --spanning-tree %s and %s", plan.SpanBFS, plan.SpanDFS)
	}
	if given(cmd, "seed") && kind != plan.SpanRandom {
		return usagef("--seed is for --spanning-tree %s", plan.SpanRandom)
	}
	return nil
}

func (f *topologyFlags) load() (*plan.Topology, error) {
	t, err := f.tree()
	if err == nil && f.rate != 0 {
		t = t.WithBandwidth(netmap.BytesPerSec(f.rate))
	}
	return t, err
}

func (f *topologyFlags) tree() (*plan.Topology, error) {
	name, data, err := readTopologyFile(f.file)
	if err != nil {
		return nil, err
	}
	if f.spanning.value == "none" {
		t, err := plan.ReadTopology(name, data)
		if err != nil {
			if _, e := plan.ReadGraph(name, data); e == nil {
				return nil, fmt.Errorf("%w; --spanning-tree bfs, dfs or random leaves links out", err)
			}
		}
		return t, err
	}
	g, err := plan.ReadGraph(name, data)
	if err != nil {
		return nil, err
	}
	root := 0
	if f.root != "" {
		if root = slices.Index(g.Switches(), f.root); root < 0 {
			return nil, usagef("--root %q is no switch of %s", f.root, f.file)
		}
	}
	return g.SpanningTree(plan.Spanning(f.spanning.value), root, rand.New(rand.NewPCG(f.seed, 0)))
}
