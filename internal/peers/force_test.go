package main

import (
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// What MPICH 4.0.2 and Open MPI 4.1.4 of Debian 12 say, by way of bench/variables.c. The line breaks
// of the first are lost in the library itself.
const (
	mpichSays = `Variable to select allgather algorithmauto - Internal algorithm selection (can be overridden with MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE)` +
		`brucks             - Force brucks algorithmnb                 - Force nonblocking algorithm` +
		`recursive_doubling - Force recursive doubling algorithmring               - Force ring algorithm` + "\n"
	mpichAlltoall = `Variable to select alltoall algorithmauto - Internal algorithm selection (can be overridden with MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE)` +
		`brucks                    - Force brucks algorithmnb                        - Force nonblocking algorithm` +
		`pairwise                  - Force pairwise algorithmpairwise_sendrecv_replace - Force pairwise sendrecv replace algorithm` +
		`scattered                 - Force scattered algorithm` + "\n"
	mpichLines  = "Variable to select allgather algorithm\nauto - Internal algorithm selection\nbrucks - Force brucks algorithm\nring - Force ring algorithm\n"
	openmpiSays = "Which alltoall algorithm is used. Can be locked down to choice of: 0 ignore, 1 basic linear, 2 pairwise.\n" +
		"= 0 ignore\n= 1 linear\n= 2 pairwise\n= 3 modified_bruck\n"
)

func TestReadAlgorithms(t *testing.T) {
	for text, want := range map[string]string{
		mpichSays:     "brucks=brucks nb=nb recursive_doubling=recursive_doubling ring=ring",
		mpichAlltoall: "brucks=brucks nb=nb pairwise=pairwise pairwise_sendrecv_replace=pairwise_sendrecv_replace scattered=scattered",
		mpichLines:    "brucks=brucks ring=ring",
		openmpiSays:   "linear=1 pairwise=2 modified_bruck=3",
		"":            "",
		"nothing":     "",
	} {
		var got []string
		for _, a := range readAlgorithms(text) {
			got = append(got, a.name+"="+a.value)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
	}
}

func TestApplies(t *testing.T) {
	for _, tt := range []struct {
		tool  string
		c     plan.Collective
		name  string
		ranks int
		want  bool
	}{
		{toolOpenMPI, plan.Allgather, "recursive_doubling", 8, true},
		{toolOpenMPI, plan.Allgather, "recursive_doubling", 20, false},
		{toolOpenMPI, plan.Allgather, "neighbor", 7, false},
		{toolOpenMPI, plan.Allgather, "neighbor", 20, true},
		{toolOpenMPI, plan.Alltoall, "two_proc", 2, true},
		{toolOpenMPI, plan.Alltoall, "two_proc", 3, false},
		{toolGridagent, plan.Allgather, "neighbour-exchange", 7, false},
		{toolGridagent, plan.Allgather, "neighbour-exchange", 8, true},
		{toolGridagent, plan.Allgather, "ring", 7, true},
		{toolMPICH, plan.Allgather, "recursive_doubling", 20, true}, // MPICH itself refuses
	} {
		if got, why := applies(tt.tool, tt.c, tt.name, tt.ranks); got != tt.want || got == (why != "") {
			t.Errorf("%+v: %v, %q", tt, got, why)
		}
	}
}
