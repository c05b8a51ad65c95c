package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/gridagent/gridagent/exchange/plan"
)

// An algorithm is one that a library lets its user force.
type algorithm struct {
	name  string
	value string // of the library's variable; "": nothing is forced
}

func mpichVariable(c plan.Collective) string {
	return "MPIR_CVAR_" + strings.ToUpper(string(c)) + "_INTRA_ALGORITHM"
}

func mpichForce(c plan.Collective, a algorithm) []string {
	return []string{mpichVariable(c) + "=" + a.value}
}

func openmpiVariable(c plan.Collective) string { return "coll_tuned_" + string(c) + "_algorithm" }

func openmpiForce(c plan.Collective, a algorithm) []string {
	return []string{"coll_tuned_use_dynamic_rules=1", openmpiVariable(c) + "=" + a.value}
}

// forcible asks a library for its algorithms, by way of MPI's tools interface: its own choice is the first.
func forcible(ctx context.Context, l library, variables string, m mark) (map[plan.Collective][]algorithm, error) {
	out := make(map[plan.Collective][]algorithm)
	for _, c := range []plan.Collective{plan.Allgather, plan.Alltoall} {
		text, err := command{argv: []string{variables, l.variable(c)}, mark: m, limit: grace,
			env: []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}}.run(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s's algorithms: %w", l.tool, err)
		}
		found := readAlgorithms(text)
		if len(found) == 0 {
			return nil, fmt.Errorf("%s's algorithms: %s lists none: %q", l.tool, l.variable(c), text)
		}
		out[c] = append([]algorithm{{name: byDefault}}, found...)
	}
	return out, nil
}

// MPICH describes a variable in words, "Variable to select … algorithm", then "NAME - Force … algorithm" for
// each, and in some builds the line breaks between them are lost. Open MPI has an enumeration, which
// bench/variables.c prints as "= VALUE NAME"; its 0 is the library's own choice.
var (
	inWords      = regexp.MustCompile(`(?:algorithm|phase|\)|\n)\s*([a-z0-9_]+?)\s+- Force`)
	inEnumerator = regexp.MustCompile(`(?m)^= (-?[0-9]+) (\S+)$`)
)

func readAlgorithms(text string) []algorithm {
	var found []algorithm
	for _, m := range inEnumerator.FindAllStringSubmatch(text, -1) {
		if m[1] != "0" {
			found = append(found, algorithm{name: m[2], value: m[1]})
		}
	}
	if found != nil {
		return found
	}
	for _, m := range inWords.FindAllStringSubmatch(text, -1) {
		found = append(found, algorithm{name: m[1], value: m[1]})
	}
	return found
}

// applies tells whether a library runs an algorithm for this many ranks, and not another one in its place
// without a word: Open MPI 4.1 takes bruck for recursive_doubling of ranks that are no power of
// two, and ring for neighbor of an odd number. MPICH is told to refuse (see mpichRun). gridagent makes no
// plan of neighbour-exchange for an odd number.
func applies(tool string, c plan.Collective, name string, ranks int) (bool, string) {
	switch {
	case tool == toolGridagent && name == "neighbour-exchange" && ranks%2 != 0:
		return false, "is for an even number of ranks"
	case tool != toolOpenMPI:
	case name == "two_proc" && ranks != 2:
		return false, "is for two ranks"
	case c == plan.Allgather && name == "recursive_doubling" && ranks&(ranks-1) != 0:
		return false, "is for a power of two of ranks; Open MPI would take bruck"
	case c == plan.Allgather && name == "neighbor" && ranks%2 != 0:
		return false, "is for an even number of ranks; Open MPI would take ring"
	}
	return true, ""
}
