package agent

import (
	"testing"

	"github.com/gridagent/gridagent/probe/netmap"
)

// TestUnseen: one pair that knows is enough for a link, what one flow gets is not, and a host without a label has none.
func TestUnseen(t *testing.T) {
	hosts := []netmap.Host{{Name: "a0", Site: "a"}, {Name: "a1", Site: "a"}, {Name: "b0", Site: "b"}, {Name: "c0", Site: "c"}, {Name: "x"}}
	n := len(hosts)
	est := make([]netmap.Estimate, n*n)
	if got := unseen(netmap.NewSnapshot(1, hosts, est)); got != 6 {
		t.Errorf("nothing is known: %d links, want 6", got)
	}
	est[1*n+2] = netmap.Estimate{Known: netmap.FieldCarried, Carried: 1e6}                                 // a→b
	est[3*n+0] = netmap.Estimate{Known: netmap.FieldCapacity | netmap.FieldLanes, Capacity: 1e6, Lanes: 1} // c→a
	est[2*n+3] = netmap.Estimate{Known: netmap.FieldBandwidth | netmap.FieldLine}                          // b→c: one flow only
	if got := unseen(netmap.NewSnapshot(1, hosts, est)); got != 4 {
		t.Errorf("two are known: %d links, want 4", got)
	}
}
