package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gridagent/gridagent/configs"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// loadGrid reads the grid file at path, or the built-in grid of that name.
func loadGrid(path string) (*gridfile.Grid, error) {
	name, data, err := readNetwork(path, ".yaml", configs.Grid, configs.Grids)
	if err != nil {
		return nil, fmt.Errorf("grid file: %w", err)
	}
	return gridfile.Parse(name, data)
}

// readTopologyFile returns the switch-tree file at path, or the built-in one of that name,
// and what errors are to call it.
func readTopologyFile(path string) (name string, data []byte, err error) {
	name, data, err = readNetwork(path, ".json", configs.Topology, configs.Topologies)
	if err != nil {
		err = fmt.Errorf("switch-tree file: %w", err)
	}
	return name, data, err
}

// readNetwork prefers the file at path. Where there is none, a path without folder and ending
// may be the name of what is built in; a folder of that name, of results say, hides nothing.
func readNetwork(path, ending string, builtIn func(string) ([]byte, bool), names func() []string) (string, []byte, error) {
	data, err := readFile(path, maxPlanBytes)
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR)
	if !missing || path == "" || filepath.Base(path) != path || filepath.Ext(path) != "" {
		return path, data, err
	}
	if data, ok := builtIn(path); ok {
		return path + ending, data, nil
	}
	return path, nil, fmt.Errorf("%w; built in are %s", err, strings.Join(names(), ", "))
}

// completeNames completes a flag that takes a file or one of these names.
func completeNames(names func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var fit []cobra.Completion
		for _, name := range names() {
			if strings.HasPrefix(name, typed) {
				fit = append(fit, name)
			}
		}
		return fit, cobra.ShellCompDirectiveDefault
	}
}

// gridFlag adds --grid, which takes a file or a built-in name.
func gridFlag(cmd *cobra.Command, path *string, usage string) {
	cmd.Flags().StringVar(path, "grid", "", usage)
	// An error here means that two flags share a name, which pflag has already refused.
	_ = cmd.RegisterFlagCompletionFunc("grid", completeNames(configs.Grids))
}

// A bitRate is a flag that takes a rate with its unit; 0 means that it was not given.
type bitRate netmap.BytesPerSec

var _ pflag.Value = (*bitRate)(nil)

func (b *bitRate) Type() string { return "rate" }

func (b *bitRate) String() string {
	if *b == 0 {
		return "" // help shows no default
	}
	return gridfile.FormatRate(netmap.BytesPerSec(*b))
}

func (b *bitRate) Set(s string) error {
	r, err := gridfile.ParseRate(s)
	if err == nil && r == 0 {
		err = errors.New("want more than 0")
	}
	if err != nil {
		return err
	}
	*b = bitRate(r)
	return nil
}
