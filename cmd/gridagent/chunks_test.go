package main

import (
	"strings"
	"testing"
)

// TestPlanLargeBlocks: blocks that make too many of the usual chunks are simulated in larger ones, and a cause is told as it is.
func TestPlanLargeBlocks(t *testing.T) {
	for _, args := range [][]string{
		{"plan", "allgather", "--grid", "paper-3site", "--size", "700MiB", "--algorithm", "ring"},
		{"simulate", "allgather", "--grid", "paper-3site", "--size", "700MiB", "--algorithms", "ring,lr3"},
	} {
		if status, out, errs := gridagent(t, args...); status != exitOK || !strings.Contains(out, "ring") {
			t.Errorf("%s: status %d, %s", args[0], status, errs)
		}
	}
	status, _, errs := gridagent(t, "simulate", "allgather", "--grid", "paper-3site", "--size", "700MiB", "--chunk", "16KiB", "--algorithms", "lr3,ring")
	if status != exitFailure || !strings.Contains(errs, "ring: ") || !strings.Contains(errs, "choose larger ones") {
		t.Errorf("status %d, %s: want what is wrong with ring, which applies", status, errs)
	}
}
