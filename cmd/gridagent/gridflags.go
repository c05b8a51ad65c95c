package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// gridFlags say over which network and pools a plan is made.
type gridFlags struct {
	grid      string
	pools     string
	criterion *choice
}

func addGridFlags(cmd *cobra.Command) *gridFlags {
	g := new(gridFlags)
	gridFlag(cmd, &g.grid, "grid file: sites and WAN links, or the output of gridagent map -o json; or the name of a built-in one, such as paper-3site")
	cmd.Flags().StringVar(&g.pools, "pools", "", "pool tree to use, as gridagent pools -o json prints it (default: built from the grid)")
	g.criterion = criterionFlag(cmd)
	return g
}

// load reads the grid and its pool tree.
func (g *gridFlags) load() (*netmap.Snapshot, *pools.Tree, error) {
	snapshot, err := loadSnapshot(g.grid)
	if err != nil {
		return nil, nil, err
	}
	tree, err := g.tree(snapshot)
	return snapshot, tree, err
}

func loadSnapshot(path string) (*netmap.Snapshot, error) {
	grid, err := loadGrid(path)
	if err != nil {
		return nil, err
	}
	return grid.Snapshot()
}

func (g *gridFlags) tree(s *netmap.Snapshot) (*pools.Tree, error) {
	if g.pools != "" {
		return loadTree(g.pools, s)
	}
	tree, err := pools.Build(s, pools.Config{Criterion: pools.Criterion(g.criterion.value)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.grid, err)
	}
	return tree, nil
}

// loadTree reads a pool tree whose hosts are those of s.
func loadTree(path string, s *netmap.Snapshot) (*pools.Tree, error) {
	data, err := readFile(path, maxPlanBytes)
	if err != nil {
		return nil, fmt.Errorf("pool tree: %w", err)
	}
	return pools.Read(path, data, s.Hosts())
}

// sizeFlags say how many bytes each rank contributes.
type sizeFlags struct {
	size byteSize
	file string
}

func addSizeFlags(cmd *cobra.Command, c plan.Collective) *sizeFlags {
	f := &sizeFlags{size: 64 << 10}
	usage, file := "bytes that each rank contributes, with unit", "file with one size a line, in rank order, for blocks of different sizes"
	if c == plan.Alltoall {
		usage, file = "bytes that each rank sends to each other, with unit", "file with the sizes that a rank sends to each rank on a line, a line for each rank, for blocks of different sizes"
	}
	cmd.Flags().Var(&f.size, "size", usage)
	cmd.Flags().StringVar(&f.file, "size-file", "", file)
	cmd.MarkFlagsMutuallyExclusive("size", "size-file")
	return f
}

// sizes returns one size for each of n ranks.
func (f *sizeFlags) sizes(n int) ([]int64, error) {
	if f.file == "" {
		sizes := make([]int64, n)
		for i := range sizes {
			sizes[i] = int64(f.size)
		}
		return sizes, nil
	}
	data, err := readFile(f.file, maxPlanBytes)
	if err != nil {
		return nil, fmt.Errorf("size file: %w", err)
	}
	return parseSizes(f.file, data, n)
}

// matrix returns the sizes of an alltoall over n ranks.
func (f *sizeFlags) matrix(n int) (plan.AlltoallSizes, error) {
	if f.file == "" {
		return plan.AlltoallSizes{Uniform: int64(f.size)}, nil
	}
	data, err := readFile(f.file, maxPlanBytes)
	if err != nil {
		return plan.AlltoallSizes{}, fmt.Errorf("size file: %w", err)
	}
	m, err := parseMatrix(f.file, data, n)
	return plan.AlltoallSizes{Matrix: m}, err
}
