package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		parsed bool
		status int
		line   string
	}{
		{"none", nil, true, exitOK, ""},
		{"failure", errors.New("disk full"), true, exitFailure, "disk full"},
		{"before the command's code", errors.New("unknown flag"), false, exitUsage, "unknown flag"},
		{"usage found late", fmt.Errorf("plan: %w", usagef("no algorithm %q", "x")), true, exitUsage, `plan: no algorithm "x"`},
		{"no agent", fmt.Errorf("call: %w", &unreachableError{"s", errors.New("refused")}), true, exitUnreachable, "call: no agent answers on s (refused): start it with gridagent join --dir DIR, or name another with --dir or --socket"},
		{"Ctrl-C", fmt.Errorf("wait: %w", context.Canceled), true, exitInterrupted, "interrupted"},
		{"several lines", errors.Join(errors.New("a"), errors.New("  b")), true, exitFailure, "a b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			a := &app{err: &out}
			if got := a.report(tt.err, tt.parsed); got != tt.status {
				t.Errorf("status %d, want %d", got, tt.status)
			}
			want := ""
			if tt.line != "" {
				want = "gridagent: " + tt.line + "\n"
			}
			if out.String() != want {
				t.Errorf("printed %q, want %q", out.String(), want)
			}
		})
	}
}

func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{"nosuch"}, {"plan", "nosuch"}, {"--nosuch"}, {"members", "extra"}, {"members", "--wait", "x"}, {"members", "--wait", "-1"},
		{"plan", "allgather"}, {"plan", "allgather", "--grid", "g", "--size", "1KiB", "--size-file", "f"},
		{"plan", "alltoall"}, {"verify"}, {"token", "revoke"}, {"version", "-o", "xml"}, {"token", "create", "--ttl", "-1s"},
		{"init", "--ttl", "0s"}, {"join", "127.0.0.1:1"},
	} {
		var out, errs bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, err: &errs}
		if status := a.run(t.Context(), args); status != exitUsage {
			t.Errorf("%v: status %d, want %d (%s)", args, status, exitUsage, errs.String())
		}
		if n := strings.Count(errs.String(), "\n"); n != 1 || !strings.HasPrefix(errs.String(), "gridagent: ") {
			t.Errorf("%v: printed %q, want one line with our name", args, errs.String())
		}
		if out.Len() > 0 {
			t.Errorf("%v: printed %q on standard output", args, out.String())
		}
	}
}

// TestIdleFlags: a flag that nothing looks at is refused, with where it belongs. What a settings file or a variable sets for all commands is not.
func TestIdleFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(file, []byte("duplex: half\ncriterion: average\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const grid, tree = "--grid paper-2site-europe", "--topology allgather-d"
	for args, want := range map[string]string{
		"simulate alltoall " + grid + " --duplex half":                                      "--duplex is for --model ports",
		"simulate allgather " + grid + " --algorithms ring --tree mateescu":                 "--tree is not for ring; it is for broadcast-trees",
		"simulate allgather " + grid + " --algorithms ring,bruck --links shared":            "--links is not for ring, bruck; it is for min3, min3+ring",
		"simulate alltoall " + tree + " --algorithms shift --sync sender":                   "--sync is not for shift; it is for aapc",
		"plan allgather " + grid + " --spanning-tree bfs":                                   "--spanning-tree is for --topology",
		"plan allgather " + grid + " --link-rate 1Mbps":                                     "--link-rate is for --topology",
		"plan allgather " + grid + " --root x":                                              "--root is for --topology",
		"simulate alltoall " + grid + " --seed 3":                                           "--seed is for --topology",
		"plan allgather " + tree + " --root x":                                              "--root is for --spanning-tree bfs and dfs",
		"plan allgather " + tree + " --root x --spanning-tree random":                       "--root is for --spanning-tree bfs and dfs",
		"plan allgather " + tree + " --seed 3":                                              "--seed is for --spanning-tree random",
		"simulate allgather " + tree + " --seed 3 --spanning-tree dfs":                      "--seed is for --spanning-tree random",
		"plan allgather " + tree + " --criterion average":                                   "--criterion is for --grid",
		"plan allgather " + grid + " --criterion average --pools t.json":                    "--criterion is for pools that are built from --grid",
		"verify - " + grid + " --criterion average":                                         "--criterion is for --pools auto",
		"verify - --link-rate 1Mbps":                                                        "--link-rate is for --topology",
		"verify - --root x":                                                                 "--root is for --topology",
		"simulate allgather " + grid + " --algorithms ring --model ports --duplex half":     "",
		"simulate alltoall " + grid + " --algorithms ring --model ports --duplex half":      "",
		"simulate allgather " + grid + " --algorithms ring,broadcast-trees --tree binomial": "",
		"simulate alltoall " + tree + " --algorithms shift --seed 3 --spanning-tree random": "",
		"plan allgather " + grid + " --algorithm ring --criterion average":                  "",
		"plan allgather " + grid + " --algorithm ring --config " + file:                     "",
		"plan allgather " + tree + " --algorithm ring --config " + file:                     "",
		"simulate alltoall " + tree + " --algorithms shift --config " + file:                "",
	} {
		status, _, errs := gridagent(t, strings.Fields(args)...)
		if want == "" && status != exitOK || want != "" && (status != exitUsage || !strings.Contains(errs, want)) {
			t.Errorf("%s: status %d, %q, want %q", args, status, errs, want)
		}
	}
	t.Setenv("GRIDAGENT_CRITERION", "average")
	if status, _, errs := gridagent(t, strings.Fields("plan allgather "+tree+" --algorithm ring")...); status != exitOK {
		t.Errorf("a variable: status %d, %q", status, errs)
	}
}

// TestAutoWhereItIsTaken: who misspells an algorithm is told of auto where the command takes it, and only there.
func TestAutoWhereItIsTaken(t *testing.T) {
	for args, takes := range map[string]bool{
		"plan allgather --grid paper-2site-europe --algorithm nosuch":            true,
		"plan alltoall --grid paper-2site-europe --algorithm nosuch":             true,
		"allgather --job j --rank 0 --ranks 2 --in i --out o --algorithm nosuch": true,
		"alltoall --job j --rank 0 --ranks 2 --in i --out o --algorithm nosuch":  true,
		"bench alltoall --job j --rank 0 --ranks 2 --algorithm nosuch":           true,
		"simulate allgather --grid paper-2site-europe --algorithms auto":         false,
		"simulate alltoall --grid paper-2site-europe --algorithms nosuch":        false,
		"demo --algorithms auto": false,
	} {
		status, _, errs := gridagent(t, strings.Fields(args)...)
		if status != exitUsage || !strings.Contains(errs, "no algorithm") || strings.Contains(errs, "and auto, which takes the best") != takes {
			t.Errorf("%s: status %d, %q", args, status, errs)
		}
	}
}
