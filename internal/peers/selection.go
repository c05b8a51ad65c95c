package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
)

// Names of algorithms that stand for a choice.
const (
	byDefault = "default" // a library's own choice
	all       = "all"
)

// A selection says which algorithms run, as --algorithms has it.
type selection []choice

// A choice is one word of it.
type choice struct {
	tool string // "" means every one
	name string
}

func (c choice) String() string {
	if c.tool == "" {
		return c.name
	}
	return c.tool + ":" + c.name
}

func parseSelection(words []string) (selection, error) {
	var s selection
	for _, w := range words {
		tool, name, ok := strings.Cut(w, ":")
		if !ok {
			tool, name = "", w
		}
		if name == "" || (ok && !slices.Contains(allTools, tool)) {
			return nil, fmt.Errorf("--algorithms %q: want NAME or LIBRARY:NAME", w)
		}
		s = append(s, choice{tool, name})
	}
	return s, nil
}

// of returns the algorithms of tool that are selected, in the order of known: those that
// the tool has, its own choice first.
func (s selection) of(tool string, known []string) []string {
	var out []string
	for i, name := range known {
		for _, c := range s {
			if c.tool != "" && c.tool != tool {
				continue
			}
			if c.name == all || c.name == name || (i == 0 && c.name == byDefault) {
				out = append(out, name)
				break
			}
		}
	}
	return out
}

// check returns an error for a word that selects nothing of known, the algorithms of each tool that takes part. Where none
// does, as of links alone, no word has a say.
func (s selection) check(known map[string][]string) error {
	for _, c := range s {
		selects := func(tool string) bool { return len(selection{c}.of(tool, known[tool])) > 0 }
		if len(known) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(known)), selects) {
			return fmt.Errorf("--algorithms %q: nobody who takes part has it", c)
		}
	}
	return nil
}

// own returns the algorithms of gridagent's agents. Those that need a switch tree are left out:
// an agent has measured pairs of hosts and knows no switches.
func own(c plan.Collective) []string {
	names := []string{planner.Auto}
	for _, n := range planner.Names(c) {
		if !slices.Contains([]string{"aapc", "lr1", "lr2", "lr3"}, n) {
			names = append(names, n)
		}
	}
	return names
}

// routine splits a word of --generated into the algorithm and the flags of gridagent plan.
func routine(word string) (name string, flags []string) {
	fields := strings.Fields(word)
	if len(fields) == 0 {
		return "", nil
	}
	return fields[0], fields[1:]
}

// makes tells whether gridagent has an algorithm of that name for the collective.
func makes(c plan.Collective, name string) bool {
	return slices.Contains(planner.Names(c), name) || name == planner.Auto
}
