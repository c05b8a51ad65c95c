package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A library is an implementation of MPI, by the names that Debian and Ubuntu give its programs.
type library struct {
	tool     string
	cc       string
	version  []string // command that prints it
	found    *regexp.Regexp
	mpirun   func(*launch) []string
	force    func(plan.Collective, algorithm) []string // settings NAME=VALUE, as mpirun takes them
	refuses  string                                    // what the library says of an algorithm that does not apply
	variable func(plan.Collective) string              // that forces an algorithm
}

// A launch is a program that mpirun starts, one rank on each host.
type launch struct {
	hosts    []string
	launcher string // takes the place of ssh
	preload  string
	tcp      string   // congestion control, "" for the system's
	settings []string // NAME=VALUE: environment for MPICH, parameters for Open MPI
	program  []string
}

// env is what the preloaded library needs in a rank.
func (l *launch) env() []string {
	env := []string{"LD_PRELOAD=" + l.preload}
	if l.tcp != "" {
		env = append(env, "PEERS_CONGESTION="+l.tcp)
	}
	return env
}

// iface is the interface of every host of a lab.
const iface = "eth0"

var libraries = []library{
	{
		tool: toolMPICH, cc: "mpicc.mpich",
		version: []string{"mpichversion"}, found: regexp.MustCompile(`MPICH Version:\s*(\S+)`),
		mpirun: mpichRun, force: mpichForce, variable: mpichVariable,
		refuses: "User set collective algorithm is not usable",
	},
	{
		tool: toolOpenMPI, cc: "mpicc.openmpi",
		version: []string{"mpirun.openmpi", "--version"}, found: regexp.MustCompile(`\(Open(?:RTE| MPI)\) (\S+)`),
		mpirun: openmpiRun, force: openmpiForce, variable: openmpiVariable,
		refuses: "MPI_ERR_UNSUPPORTED_OPERATION",
	},
}

// mpichRun speaks TCP between all ranks, those of one machine included: ch4:ucx, the device of
// Debian's package. Other devices ignore the variables of UCX.
func mpichRun(l *launch) []string {
	args := []string{"mpirun.mpich", "-launcher", "ssh", "-launcher-exec", l.launcher, "-iface", iface,
		"-hosts", strings.Join(l.hosts, ","), "-n", fmt.Sprint(len(l.hosts)), "-ppn", "1"}
	settings := append(append(l.env(), "UCX_TLS=tcp", "UCX_NET_DEVICES="+iface, "MPIR_CVAR_NOLOCAL=1",
		// An algorithm that does not apply is an error, and not silently another one.
		"MPIR_CVAR_COLLECTIVE_FALLBACK=error"), l.settings...)
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		args = append(args, "-genv", name, value)
	}
	return append(args, l.program...)
}

// openmpiRun speaks TCP between all ranks; each host starts its daemon from the first one.
func openmpiRun(l *launch) []string {
	hosts := make([]string, len(l.hosts))
	for i, h := range l.hosts {
		hosts[i] = h + ":1"
	}
	args := []string{"mpirun.openmpi", "--allow-run-as-root", "--host", strings.Join(hosts, ","), "-n", fmt.Sprint(len(hosts)),
		"--map-by", "node", "--bind-to", "none"}
	for _, v := range l.env() {
		args = append(args, "-x", v)
	}
	settings := append([]string{
		"plm_rsh_agent=" + l.launcher, "plm_rsh_no_tree_spawn=1", "orte_keep_fqdn_hostnames=1",
		"pml=ob1", "btl=tcp,self", "btl_tcp_if_include=" + iface, "oob_tcp_if_include=" + iface,
		"mpi_yield_when_idle=1",
	}, l.settings...)
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		args = append(args, "--mca", name, value)
	}
	return append(args, l.program...)
}

// A sizeLine is what mpibench says of one size, or that it begins or is done.
type sizeLine struct {
	Bytes   int64     `json:"size_bytes"`
	Ranks   int       `json:"ranks"`
	Wrong   int       `json:"wrong_ranks"` // how many, over all calls
	Seconds []float64 `json:"seconds"`     // of the slowest rank, by iteration
	Begin   bool      `json:"begin"`
	Done    bool      `json:"done"`
}

// A job is one start of an MPI program.
type job struct {
	lib        library
	collective plan.Collective
	algorithm  algorithm
	program    string
	sizes      []int64
}

// errRefused means that a library cannot use the algorithm for this many ranks.
var errRefused = errors.New("does not apply")

// runMPI runs the program and calls told for each size, with what counters said before and after it.
// It returns what the program said on standard error.
func (t *testbed) runMPI(ctx context.Context, r job, tools *programs, told func(line sizeLine, before, after reading)) (string, error) {
	var hosts []string
	for _, h := range t.net.hosts {
		hosts = append(hosts, h.Name)
	}
	l := &launch{hosts: hosts, launcher: tools.launcher, preload: tools.preload, tcp: t.congestion,
		program: []string{r.program, string(r.collective), t.begin(), fmt.Sprint(t.Iterations), fmt.Sprint(t.Warmup)}}
	for _, n := range r.sizes {
		word, err := t.sizeWord(r.collective, n)
		if err != nil {
			return "", err
		}
		l.program = append(l.program, word)
	}
	if r.algorithm.value != "" {
		l.settings = r.lib.force(r.collective, r.algorithm)
	}
	var before reading
	var failed error
	line := func(text string) bool {
		var s sizeLine
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return false // a warning of the library's
		}
		now, err := t.count(ctx)
		failed = errors.Join(failed, err)
		if !s.Begin && !s.Done {
			told(s, before, now)
		}
		before = now
		return s.Done
	}
	// Sockets and shared files of the libraries go where they are swept away. Not so what lab exec looks
	// for: an unprivileged user's labs may be under the TMPDIR of before.
	inside := append([]string{"env", "TMPDIR=" + filepath.Join(t.dir, "tmp")}, r.lib.mpirun(l)...)
	var errs tail
	_, err := command{argv: t.in(hosts[0], inside...), mark: t.mark + ".mpi", limit: t.TimeLimit, line: line, errs: &errs}.run(ctx)
	if err != nil && strings.Contains(errs.String(), r.lib.refuses) {
		err = fmt.Errorf("%s's %s %w to %d ranks", r.lib.tool, r.algorithm.name, errRefused, len(hosts))
	}
	return errs.String(), errors.Join(err, failed)
}

// begin is what mpibench is told of how ranks begin an operation.
func (t *testbed) begin() string {
	if t.Together {
		return "together"
	}
	return "apart"
}

// sizeWord is what mpibench is told of a size: with a file of all sizes where blocks differ.
func (t *testbed) sizeWord(c plan.Collective, size int64) (string, error) {
	word := fmt.Sprint(size)
	if t.Shape.Even() {
		return word, nil
	}
	var rows [][]int64
	if n := len(t.net.hosts); c == plan.Alltoall {
		rows = t.Shape.Matrix(size, n)
	} else {
		rows = [][]int64{t.Shape.Blocks(size, n)}
	}
	var text strings.Builder
	for _, row := range rows {
		fmt.Fprintln(&text, strings.Trim(fmt.Sprint(row), "[]"))
	}
	file := filepath.Join(t.dir, fmt.Sprintf("sizes-%s-%d", c, size))
	return word + ":" + file, os.WriteFile(file, []byte(text.String()), 0o600)
}
