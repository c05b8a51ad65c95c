package main

import (
	"fmt"
	"strings"
	"testing"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// TestLaneGroups: hosts with the same kind of lane for the same kind of reason share a line, and no
// line is longer for a grid that is.
func TestLaneGroups(t *testing.T) {
	var lanes []*apiv1.LaneStatus
	for i := range 20 {
		lanes = append(lanes, &apiv1.LaneStatus{Host: fmt.Sprintf("h%02d", i), Kind: "tcp", Why: fmt.Sprintf("round trip of %d0µs", i+1), TcpSentBytes: 1 << 10})
	}
	lanes = append(lanes,
		&apiv1.LaneStatus{Host: "far", Kind: "quic", Why: "round trip of 90ms"},
		&apiv1.LaneStatus{Host: "lossy", Kind: "tcp", Congestion: "bbr", Why: "loss of 1 %\x1b[2J"})
	var got []string
	for _, g := range laneGroups(lanes) {
		got = append(got, g.kind+" "+g.String())
	}
	want := []string{
		"tcp to h00 h01 h02 h03 h04 h05 h06 h07 and 12 more: round trip of 10µs; over TCP sent 20KiB, received 0B",
		"quic to far: round trip of 90ms",
		"tcp with bbr to lossy: loss of 1 % [2J",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
