package phase_test

import (
	"fmt"
	"log"

	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
)

func ExampleSchedule() {
	topo, err := plan.ReadTopology("tree.json", []byte(`{
		"switches": ["s0", "s1"],
		"links": [["s0", "s1"]],
		"hosts": {"n0": "s0", "n1": "s0", "n2": "s1"}}`))
	if err != nil {
		log.Fatal(err)
	}
	a := phase.Analyze(topo)
	fmt.Println("root", topo.Switches()[a.Root], "subtrees", a.Subtrees, "phases", a.Phases)

	p, err := phase.Schedule(topo, plan.AlltoallSizes{Uniform: 64 << 10}, phase.Options{Sync: phase.Receiver})
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range p.Transfers {
		fmt.Printf("phase %d: %s to %s after %v\n", t.Phase, p.Hosts[t.Src], p.Hosts[t.Dst], t.After)
	}
	// Output:
	// root s0 subtrees [[0] [1] [2]] phases 2
	// phase 0: n0 to n1 after []
	// phase 0: n1 to n2 after []
	// phase 0: n2 to n0 after []
	// phase 1: n0 to n2 after [0 1]
	// phase 1: n1 to n0 after [1 2]
	// phase 1: n2 to n1 after [0 2]
}
