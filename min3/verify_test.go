package min3

import (
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestVerify hands random schedules to the verifier that judges every plan.
func TestVerify(t *testing.T) {
	for seed := range uint64(300) {
		sc := randomScenario(rand.New(rand.NewPCG(seed, 8)), 20)
		p, err := Schedule(sc.s, sc.tree, sc.sizes, sc.opt)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		rules := plan.Rules{Duplex: sc.opt.Duplex, Snapshot: sc.s, Pools: sc.tree.Sets()}
		if err := plan.Verify(p, rules); err != nil {
			t.Fatalf("seed %d: n=%d %v duplex: %v", seed, sc.s.N(), sc.opt.Duplex, err)
		}
	}
}
