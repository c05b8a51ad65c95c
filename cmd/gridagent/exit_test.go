package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
