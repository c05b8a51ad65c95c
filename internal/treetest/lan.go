package treetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
)

// A LAN is a switch tree on which plans are measured. Zero fields but Topology are defaults.
type LAN struct {
	Topology *plan.Topology
	// Latency is the one-way delay between two hosts beside what ports take: two network
	// stacks. Zero means 50 µs.
	Latency time.Duration
	// HostQueue is how many bytes wait in a host's own port. Zero means 8000, 6 packets: about
	// what the driver of a network card holds.
	HostQueue int
	// PortQueue is how many packets every port of a switch holds. Zero means 256, which are 384 KB; those
	// of small switches hold 32 to 64.
	PortQueue int
}

// A Reading is what a plan took on a [LAN].
type Reading struct {
	Plan *plan.Plan
	// Makespan is the time from the start to the last arrival anywhere, the mean of the runs.
	Makespan time.Duration
	// Bound is the least time of any schedule. For an allgather of equal blocks that is (P−1)·m/B and a
	// latency; for an alltoall what crosses the most loaded link, at its rate.
	Bound time.Duration
	// Predicted is the makespan of [plan.Simulate].
	Predicted time.Duration
	Dropped   int // packets, by full ports, over all runs
}

// Ratio returns Makespan over Bound.
func (r *Reading) Ratio() float64 { return r.Makespan.Seconds() / r.Bound.Seconds() }

// Measure runs every plan runs times with real engines, all over the same connections, and hands each
// reading to done as it comes. Connections are new with the first plan, but for their handshakes.
func (l LAN) Measure(t *testing.T, runs int, plans []*plan.Plan, done func(Reading)) {
	t.Helper()
	if l.Latency == 0 {
		l.Latency = 50 * time.Microsecond
	}
	cfg, err := l.emulation()
	if err != nil {
		t.Fatal(err)
	}
	net, err := plan.NetworkOfTopology(l.Topology, l.Latency)
	if err != nil {
		t.Fatal(err)
	}
	Run(t, cfg, func(c *Cluster) {
		for _, p := range plans {
			r := Reading{Plan: p}
			if err := r.predict(net); err != nil {
				t.Fatal(err)
			}
			for range runs {
				got := c.Run(p)
				r.Makespan += got.Makespan / time.Duration(runs)
				r.Dropped += got.Lost
			}
			done(r)
		}
	})
}

// emulation returns the packets' network.
func (l LAN) emulation() (Config, error) {
	net, err := gridnet.FromTopology(l.Topology, l.Latency)
	if err != nil {
		return Config{}, err
	}
	if net.SendBuffer = l.HostQueue; l.HostQueue == 0 {
		net.SendBuffer = 8000
	}
	for i := range net.Sites {
		net.Sites[i].IngressQueue = l.PortQueue
	}
	for i := range net.Trunks {
		net.Trunks[i].Queue = l.PortQueue
	}
	return Config{Net: net}, nil
}

// predict fills in the bound and what the simulator says.
func (r *Reading) predict(net *plan.Network) error {
	var b plan.Bound
	var err error
	switch p := r.Plan; {
	case p.Collective == plan.Alltoall:
		b, err = net.AlltoallBound(plan.AlltoallSizes{Uniform: p.MessageBytes, Matrix: p.Matrix})
	case p.Sizes == nil:
		b, err = net.AllgatherBound(slices.Repeat([]int64{p.MessageBytes}, len(p.Hosts)))
	default:
		b, err = net.AllgatherBound(p.Sizes)
	}
	if err != nil {
		return fmt.Errorf("bound of %s: %w", r.Plan.Algorithm, err)
	}
	sim, err := plan.Simulate(r.Plan, net, plan.SimOptions{Chunk: int64(exchange.ChunkOf(r.Plan)), Overtake: true, Notice: true})
	if err != nil {
		return fmt.Errorf("%s: %w", r.Plan.Algorithm, err)
	}
	r.Bound = time.Duration(b.Seconds * float64(time.Second))
	r.Predicted = time.Duration(sim.Makespan * float64(time.Second))
	return nil
}
