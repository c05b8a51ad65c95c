package main

import (
	"strings"
	"testing"
)

// TestTuneLimits: what is named twice is measured once, and a limit of the agent is told before it is asked.
func TestTuneLimits(t *testing.T) {
	status, _, errs := gridagent(t, "tune", "--iterations", "101", "--dir", t.TempDir())
	if status != exitUsage || !strings.Contains(errs, "--iterations 101: want 1 to 100") {
		t.Errorf("status %d, %s", status, errs)
	}
	if _, out, _ := gridagent(t, "tune", "--help"); !strings.Contains(out, "at most 100") {
		t.Errorf("no limit in\n%s", out)
	}
	req := tuneRequest([]string{"allgather", "allgather"}, []string{"ring", "bruck", "ring"}, []int64{1024, 64, 1024}, 2)
	if len(req.Collectives) != 1 || len(req.Algorithms) != 2 || len(req.Sizes) != 2 || req.Iterations != 2 {
		t.Error(req)
	}
}
