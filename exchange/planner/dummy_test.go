package planner

import (
	"math"
	"testing"

	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestDummiesDoNotStopAndWait: a machine that sends block after block, or waits for a dummy, goes on when the one before has left its source. As long as it
// waited for the arrival, small blocks took two latencies each.
func TestDummiesDoNotStopAndWait(t *testing.T) {
	topology, err := plan.NewTopology([]string{"s", "t"}, [][2]int{{0, 1}}, []string{"a", "b", "c", "d", "e", "f"}, []int{0, 0, 0, 0, 1, 1}, 100*netmap.Mbps)
	if err != nil {
		t.Fatal(err)
	}
	p := OnTopology(topology)
	p.Collective, p.Alltoall.Uniform = plan.Alltoall, 64
	net, err := p.network()
	if err != nil {
		t.Fatal(err)
	}
	took := make(map[phase.Sync]float64)
	for _, sync := range []phase.Sync{phase.Order, phase.Dummy, phase.Sender} {
		made, err := phase.Schedule(topology, p.Alltoall, phase.Options{Sync: sync})
		if err != nil {
			t.Fatal(err)
		}
		sim, err := plan.Simulate(made, net, plan.SimOptions{Chunk: 4096, Overtake: true, Notice: true})
		if err != nil {
			t.Fatal(err)
		}
		times, err := newModel(net, nil).spans(made, 4096, math.Inf(1))
		if err != nil {
			t.Fatal(err)
		}
		if got := makespan(times); math.Abs(got/sim.Makespan-1) > 0.1 {
			t.Errorf("%v: forecast %.0f µs, simulated %.0f", sync, 1e6*got, 1e6*sim.Makespan)
		}
		took[sync] = sim.Makespan
	}
	if took[phase.Dummy] > took[phase.Sender] {
		t.Errorf("dummies, which say less, take %.0f µs, and sender %.0f", 1e6*took[phase.Dummy], 1e6*took[phase.Sender])
	}
}
