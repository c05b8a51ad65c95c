package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/bench"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// Tools that can take part.
const (
	toolIperf     = "iperf3"
	toolMPICH     = "mpich"
	toolOpenMPI   = "openmpi"
	toolGridagent = "gridagent"
)

var allTools = []string{toolIperf, toolMPICH, toolOpenMPI, toolGridagent}

// A config is the command line.
type config struct {
	Binary         string // of gridagent
	Lab            string
	Grid, Topology string
	LinkRate       string
	Drawn          uint64 // seed of a grid, 0 without
	Seed           uint64

	Collectives []plan.Collective
	Sizes       []int64
	Shape       bench.Shape
	Iterations  int
	Warmup      int
	Together    bool
	Tools       []string
	Algorithms  selection
	Settle      time.Duration
	Declare     bool
	Generated   []string // "NAME FLAGS…" of gridagent plan
	Congestion  []string // "" is the system's own

	TimeLimit time.Duration
	JSON      bool
}

const usageText = `Times MPICH, Open MPI and gridagent over the same links of a lab on this machine, in one run.

  scripts/peers --grid GRID | --topology TREE | --drawn SEED [flags]

Examples:
  scripts/peers --grid paper-3site --sizes 64KiB
  scripts/peers --grid paper-3site-loss --congestion cubic,bbr --algorithms default -o json >peers.json
  scripts/peers --topology aapc-conf-b --link-rate 5Mbps --collective alltoall --sizes 8KiB,32KiB
  scripts/peers --topology aapc-conf-b --link-rate 5Mbps --collective alltoall --algorithms default \
      --generated 'aapc --sync receiver,aapc --sync barrier,aapc --sync none'
  scripts/peers --grid internal/peers/testdata/small.yaml --sizes 16KiB --algorithms openmpi:ring,gridagent:auto
  scripts/peers --grid paper-3site --libraries iperf3
  scripts/peers --drawn 7 --algorithms default --generated none
  scripts/peers --grid paper-3site --collective allgather --sizes 1MiB --shape first

GRID and TREE are files, or the names of those that are built in. A time is that of the slowest
rank; every byte is checked. x bound is the mean over the least time that any schedule could
take over the declared links. WAN is what crossed the links between sites or switches, all of
them together, IP bytes for one operation, with what the benchmark's own barrier took; x least: over
what had to cross them. cpu is the share of this machine's processors in use: from 90 % on the time may be
the machine's. agents is the CPU time of all of them for one operation, memory the most that one of them has had resident meanwhile.
Of the links: what all flows get and what one gets, IP bytes; what of the latter is for TCP's
payload (1448 bytes of a packet of 1500); and the payload that iperf3 received.

Flags:
`

// parse reads the command line. The error is pflag.ErrHelp where help was asked for.
func parse(args []string, usage func(string)) (*config, error) {
	c := new(config)
	f := pflag.NewFlagSet("peers", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() { usage(usageText + f.FlagUsages()) }
	f.StringVar(&c.Grid, "grid", "", "grid file, or the name of a built-in one")
	f.StringVar(&c.Topology, "topology", "", "switch-tree file, or the name of a built-in one")
	f.Uint64Var(&c.Drawn, "drawn", 0, "in place of --grid: draw a grid that nobody has looked at from this seed, above 0")
	f.StringVar(&c.LinkRate, "link-rate", "", "with --topology: rate of every link, in place of the file's")
	collective := f.String("collective", "both", "allgather, alltoall or both")
	sizes := f.StringSlice("sizes", []string{"64KiB"}, "sizes of a block, with units")
	_, gathers := bench.ShapesOf(plan.Allgather)
	_, totals := bench.ShapesOf(plan.Alltoall)
	shape := f.String("shape", string(bench.Even), "what blocks have where --sizes is the largest, by default algorithms (MPI_Allgatherv, MPI_Alltoallv). Allgather: "+
		strings.Join(gathers, "; ")+". Alltoall: "+strings.Join(totals, "; "))
	f.IntVar(&c.Iterations, "iterations", 3, "operations of each size that count")
	f.IntVar(&c.Warmup, "warmup", 1, "operations of each size before those that count")
	f.BoolVar(&c.Together, "together", true, "all ranks of an operation begin at the same moment; =false: each when it leaves the barrier before it, as benchmarks of MPI do, which over links of long latency shows less than an operation takes")
	f.StringSliceVar(&c.Tools, "libraries", allTools, "who takes part: "+strings.Join(allTools, ", "))
	algorithms := f.StringSlice("algorithms", []string{"all"}, "default (a library's own choice; auto for gridagent), all, or names; LIBRARY:NAME is for one library only")
	f.StringSliceVar(&c.Generated, "generated", []string{"default"}, "algorithms of gridagent that MPI programs run as routines of plan -o mpi-c, and agents as plans, with flags of gridagent plan behind the name; default: lr3 and aapc on a switch tree, min3 on a grid; none: no such runs")
	f.StringSliceVar(&c.Congestion, "congestion", []string{"cubic"}, "congestion control of TCP, a lab for each: cubic, bbr, reno; system: as it is")
	f.DurationVar(&c.Settle, "settle", 2*time.Minute, "how long agents go on measuring before the first run, from when their map has all pairs: what many flows get takes minutes")
	f.BoolVar(&c.Declare, "declare", false, "with --topology: tell the agents the switch tree, as an operator may with gridagent join --switches; without it they take all hosts to be on one switch")
	f.DurationVar(&c.TimeLimit, "time-limit", 3*time.Minute, "end a run that takes longer")
	f.StringVar(&c.Lab, "name", "peers", "name of the lab that is made")
	f.Uint64Var(&c.Seed, "seed", 1, "seed of the links' losses")
	f.StringVar(&c.Binary, "gridagent", "gridagent", "binary of gridagent")
	output := f.StringP("output", "o", "table", "table or json")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("argument %q is not known; see --help", f.Arg(0))
	}
	var err error
	if c.Collectives, err = collectives(*collective); err != nil {
		return nil, err
	}
	if c.Sizes, err = parseSizes(*sizes); err != nil {
		return nil, err
	}
	c.Shape = bench.Shape(*shape)
	if c.Algorithms, err = parseSelection(*algorithms); err != nil {
		return nil, err
	}
	if *output != "table" && *output != "json" {
		return nil, fmt.Errorf("--output %q: want table or json", *output)
	}
	c.JSON = *output == "json"
	return c, c.check()
}

func collectives(name string) ([]plan.Collective, error) {
	switch name {
	case "both":
		return []plan.Collective{plan.Allgather, plan.Alltoall}, nil
	case string(plan.Allgather), string(plan.Alltoall):
		return []plan.Collective{plan.Collective(name)}, nil
	}
	return nil, fmt.Errorf("--collective %q: want allgather, alltoall or both", name)
}

// maxSize keeps counts of MPI, which are ints, in range.
const maxSize = 1 << 30

func parseSizes(list []string) ([]int64, error) {
	var sizes []int64
	for _, text := range list {
		n, err := gridfile.ParseSize(text)
		if err == nil && n > maxSize {
			err = fmt.Errorf("size %s: at most 1GiB", text)
		}
		if err != nil {
			return nil, fmt.Errorf("--sizes: %w", err)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

func (c *config) check() error {
	for _, t := range c.Tools {
		if !slices.Contains(allTools, t) {
			return fmt.Errorf("--libraries %q: want some of %s", t, strings.Join(allTools, ", "))
		}
	}
	switch {
	case howMany(c.Grid != "", c.Topology != "", c.Drawn != 0) != 1:
		return errors.New("give one of --grid, --topology and --drawn")
	case c.LinkRate != "" && c.Topology == "":
		return errors.New("--link-rate is for --topology: a grid file says its rates itself")
	case c.Declare && c.Topology == "":
		return errors.New("--declare is for --topology: a grid has no switches to be told of")
	case c.Iterations < 1 || c.Warmup < 0:
		return fmt.Errorf("--iterations %d --warmup %d: want at least 1 and 0", c.Iterations, c.Warmup)
	case c.Settle < 0:
		return fmt.Errorf("--settle %v: want no less than 0", c.Settle)
	case c.TimeLimit <= 0:
		return fmt.Errorf("--time-limit %v: want more than 0", c.TimeLimit)
	case len(c.Sizes) == 0 || len(c.Tools) == 0 || len(c.Congestion) == 0:
		return errors.New("--sizes, --libraries and --congestion want at least one word each")
	}
	for _, op := range c.Collectives {
		if err := c.Shape.Check(op); err != nil {
			return fmt.Errorf("--shape: %w; --collective says of which", err)
		}
	}
	for i, name := range c.Congestion {
		if name == "system" {
			c.Congestion[i] = ""
		}
	}
	return c.checkGenerated()
}

func howMany(given ...bool) (n int) {
	for _, g := range given {
		if g {
			n++
		}
	}
	return n
}

// checkGenerated puts in what default stands for, and refuses what no collective knows.
func (c *config) checkGenerated() error {
	switch {
	case !c.Shape.Even() && len(c.Generated) == 1 && (c.Generated[0] == "none" || c.Generated[0] == "default"):
		c.Generated = nil
	case !c.Shape.Even() && len(c.Generated) > 0:
		return errors.New("--generated with --shape: routines are for blocks of one size")
	case len(c.Generated) == 1 && c.Generated[0] == "none":
		c.Generated = nil
	case len(c.Generated) == 1 && c.Generated[0] == "default" && c.Topology != "":
		c.Generated = []string{"lr3", "aapc"}
	case len(c.Generated) == 1 && c.Generated[0] == "default":
		c.Generated = []string{"min3"}
	}
	for _, g := range c.Generated {
		name, _ := routine(g)
		if !makes(plan.Allgather, name) && !makes(plan.Alltoall, name) {
			return fmt.Errorf("--generated %q: gridagent has no such algorithm", name)
		}
	}
	return nil
}
