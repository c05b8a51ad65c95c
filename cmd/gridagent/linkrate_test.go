package main

import (
	"strings"
	"testing"
)

// TestLinkRateBounds: --link-rate has the bounds of the file's bandwidth_mbps.
func TestLinkRateBounds(t *testing.T) {
	for rate, want := range map[string]int{"1bps": exitUsage, "8bps": exitOK, "10000Gbps": exitOK, "10001Gbps": exitUsage, "1e300Gbps": exitUsage} {
		for _, args := range [][]string{{"plan", "allgather", "--size", "1KiB"}, {"simulate", "alltoall", "--size", "1KiB"}} {
			status, _, errs := gridagent(t, append(args, "--topology", "allgather-d", "--link-rate", rate)...)
			if status != want || want == exitUsage && !strings.Contains(errs, "--link-rate") {
				t.Errorf("%s --link-rate %s: status %d, want %d: %s", args[0], rate, status, want, errs)
			}
		}
	}
}
