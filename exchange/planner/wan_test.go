package planner

import (
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestLikened: a link whose capacity nobody has measured is taken to be like the one back, never
// faster than that one, never slower than what one flow gets, and one that is known stays.
func TestLikened(t *testing.T) {
	const mbps = netmap.Mbps
	for _, c := range []struct {
		name             string
		there, back      netmap.BytesPerSec // what one flow gets
		pipe             netmap.BytesPerSec // of the link back
		blind, blindBack bool
		want             netmap.BytesPerSec // of the link there
		raised           bool
	}{
		{"as many times", 1 * mbps, 2 * mbps, 20 * mbps, true, false, 10 * mbps, true},
		{"no faster than back", 4 * mbps, 2 * mbps, 20 * mbps, true, false, 20 * mbps, true},
		{"no slower than a flow", 30 * mbps, 2 * mbps, 20 * mbps, true, false, 30 * mbps, false},
		{"one flow fills the link back", 1 * mbps, 2 * mbps, 2 * mbps, true, false, 1 * mbps, false},
		{"known", 1 * mbps, 2 * mbps, 20 * mbps, false, false, 1 * mbps, false},
		{"both unknown", 1 * mbps, 2 * mbps, 20 * mbps, true, true, 1 * mbps, false},
		{"no link back", 1 * mbps, 0, 0, true, false, 1 * mbps, false},
	} {
		net := &plan.Network{
			Hosts: []string{"a", "b"}, Pool: []int{0, 1},
			Pipe:    []netmap.BytesPerSec{0, c.there, c.pipe, 0},
			Ceiling: []netmap.BytesPerSec{0, c.there, c.back, 0},
		}
		if got := likened(net, []bool{false, c.blind, c.blindBack, false}); got != c.raised || net.Pipe[1] != c.want || net.Pipe[2] != c.pipe {
			t.Errorf("%s: raised %t, %v there and %v back, want %t, %v and %v", c.name, got, net.Pipe[1], net.Pipe[2], c.raised, c.want, c.pipe)
		}
	}
}
