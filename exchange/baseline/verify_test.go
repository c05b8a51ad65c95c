package baseline

import (
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestVerify hands every baseline to the verifier that judges every plan.
func TestVerify(t *testing.T) {
	for n := 1; n <= 33; n++ {
		pools := randomPools(rand.New(rand.NewPCG(uint64(n), 1)), n)
		for _, make := range []func() (*plan.Plan, error){
			func() (*plan.Plan, error) { return Ring(names(n), []int64{1000}) },
			func() (*plan.Plan, error) { return SpreadingSimple(names(n), []int64{1000}) },
			func() (*plan.Plan, error) { return Bruck(names(n), []int64{1000}) },
			func() (*plan.Plan, error) { return RecursiveDoubling(names(n), []int64{1000}) },
			func() (*plan.Plan, error) { return MagPIe(names(n), []int64{1000}, pools) },
		} {
			p, err := make()
			if err != nil {
				t.Fatalf("n=%d: %v", n, err)
			}
			rules := plan.Rules{}
			if p.Algorithm == "magpie" {
				rules.Pools = pools // the only one that knows them
			}
			if err := plan.Verify(p, rules); err != nil {
				t.Errorf("n=%d: %s over pools %v: %v", n, p.Algorithm, pools, err)
			}
		}
	}
}
