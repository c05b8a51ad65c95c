package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestCommandLines: what the pitfalls of MPI between namespaces ask for is there, and the program with its
// arguments comes last.
func TestCommandLines(t *testing.T) {
	for _, tt := range []struct {
		lib  library
		want []string
	}{
		{libraries[0], []string{
			"-launcher ssh -launcher-exec /d/rsh -iface eth0", "-hosts a0,b0 -n 2 -ppn 1", "-genv LD_PRELOAD /d/preload.so",
			"-genv PEERS_CONGESTION bbr", "-genv UCX_TLS tcp", "-genv UCX_NET_DEVICES eth0", "-genv MPIR_CVAR_NOLOCAL 1",
			"-genv MPIR_CVAR_COLLECTIVE_FALLBACK error", "-genv MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM pairwise",
		}},
		{libraries[1], []string{
			"--allow-run-as-root", "--host a0:1,b0:1 -n 2", "-x LD_PRELOAD=/d/preload.so", "-x PEERS_CONGESTION=bbr",
			"--mca plm_rsh_agent /d/rsh", "--mca plm_rsh_no_tree_spawn 1", "--mca pml ob1", "--mca btl tcp,self",
			"--mca btl_tcp_if_include eth0", "--mca oob_tcp_if_include eth0",
			"--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_alltoall_algorithm pairwise",
		}},
	} {
		settings := tt.lib.force(plan.Alltoall, algorithm{name: "pairwise", value: "pairwise"})
		program := []string{"/d/mpibench", "alltoall", "together", "3", "1", "65536"}
		args := tt.lib.mpirun(&launch{
			hosts: []string{"a0", "b0"}, launcher: "/d/rsh", preload: "/d/preload.so", tcp: "bbr", settings: settings, program: program,
		})
		line := strings.Join(args, " ") + " "
		for _, want := range tt.want {
			if !strings.Contains(line, " "+want+" ") {
				t.Errorf("%s: no %q in %s", tt.lib.tool, want, line)
			}
		}
		if !slices.Equal(args[len(args)-len(program):], program) {
			t.Errorf("%s: the program is not last: %s", tt.lib.tool, line)
		}
	}
}

func TestVersions(t *testing.T) {
	for i, text := range []string{"MPICH Version:    \t4.0.2\nMPICH Release date:\t…\n", "mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs to …\n"} {
		m := libraries[i].found.FindStringSubmatch(text)
		if m == nil || !strings.HasPrefix(m[1], "4.") {
			t.Errorf("%s: no version in %q", libraries[i].tool, text)
		}
	}
}
