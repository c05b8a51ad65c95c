package treetest

import (
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/shuffle"
)

// TestHostQueue shows what the simulator does not know of a host: acknowledgements leave
// through the same port as data. In pairwise exchange data go both ways between two hosts. With
// a socket buffer of 128 KiB a host that is ahead puts up to 10 ms of data before the
// acknowledgements that its partner waits for; the partner falls behind, and so does in the next
// round whoever waits for it. With a short queue the exchange takes what the simulator says.
func TestHostQueue(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("two exchanges of 15 MB; TestBytes runs the same code with small blocks")
	}
	const size = 256 << 10
	topo := chain(t, 8)
	p, err := shuffle.Pairwise(topo.Hosts(), plan.AlltoallSizes{Uniform: size})
	if err != nil {
		t.Fatal(err)
	}
	want := predict(t, p, network(t, topo))
	ratio := func(sendBuffer int) (r float64) {
		Run(t, emulate(t, topo, sendBuffer), func(c *Cluster) { r = c.Run(p).Makespan.Seconds() / want.Seconds() })
		return r
	}
	short, deep := ratio(hostQueue), ratio(0)
	t.Logf("%.3f of the time predicted with %d bytes in a host's port, %.3f with 128 KiB", short, hostQueue, deep)
	if short < bandOrderly[0] || short > bandOrderly[1] {
		t.Errorf("%.3f of the time predicted with a short queue, want %v to %v", short, bandOrderly[0], bandOrderly[1])
	}
	if deep < 1.2*short || deep > 2.2 {
		t.Errorf("%.3f of the time predicted with a full socket buffer, %.3f without: want a fifth more at least, and 2.2 at most", deep, short)
	}
}
