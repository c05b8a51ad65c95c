// Package configs holds the networks that come with gridagent, so that commands run from the
// binary alone: grids of sites and WAN links, and switch trees. grids/README.md says where
// each comes from and what is assumed.
//
// Place in the flow: data beside it; commands read it where --grid or --topology gives
// a name instead of a file.
package configs

import (
	"embed"
	"slices"
	"strings"
)

//go:embed grids/*.yaml grids/*.json
var files embed.FS

const (
	gridEnding     = ".yaml"
	topologyEnding = ".json"
)

// Grid returns the grid file of this name, which is that of the file without ending.
func Grid(name string) (data []byte, ok bool) { return read(name, gridEnding) }

// Topology returns the switch-tree file of this name, which is that of the file without ending.
func Topology(name string) (data []byte, ok bool) { return read(name, topologyEnding) }

// Grids returns the names that [Grid] knows, sorted.
func Grids() []string { return names(gridEnding) }

// Topologies returns the names that [Topology] knows, sorted.
func Topologies() []string { return names(topologyEnding) }

func read(name, ending string) ([]byte, bool) {
	data, err := files.ReadFile("grids/" + name + ending)
	return data, err == nil
}

func names(ending string) []string {
	entries, err := files.ReadDir("grids")
	if err != nil {
		return nil // cannot be: the pattern of the embedded files names the folder
	}
	var out []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ending); ok {
			out = append(out, name)
		}
	}
	slices.Sort(out) // the folder is sorted with the endings on
	return out
}
