package planner

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestChooseTakesTheShortest compares Choose with Schedule of every algorithm: nothing
// beats what it took, nothing before it in the list is as good, and the plan is that of
// the algorithm alone.
func TestChooseTakesTheShortest(t *testing.T) {
	chosen := make(map[string]int)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 11))
		p := randomProblem(t, rng)
		p.Collective = []plan.Collective{plan.Allgather, plan.Alltoall}[rng.IntN(2)]
		chunk := []int64{0, 4096}[rng.IntN(2)]
		var asked []string
		c, err := Choose(p, chunk, func(a Algorithm) { asked = append(asked, a.Name) })
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		chosen[c.Algorithm.Name]++
		before := true
		least, earlier := c.Sim.Makespan, math.Inf(1)
		var all []string
		applied := 0
		for _, alg := range Algorithms(p.collective()) {
			if alg.Crowds && len(p.Clusters()) > 1 {
				continue
			}
			all = append(all, alg.Name)
			s, err := Schedule(alg, p, chunk)
			if err != nil && refuses(alg.Name, p, err) {
				continue
			}
			applied++
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, alg.Name, err)
			}
			if alg.Name == c.Algorithm.Name {
				before = false
				if !reflect.DeepEqual(s, c.Scheduled) {
					t.Errorf("seed %d: the plan that was chosen is not that of %s", seed, alg.Name)
				}
				continue
			}
			if c.Sim.Makespan > s.Sim.Makespan*(1+tie) {
				t.Errorf("seed %d: chose %s with %v s, but %s has %v s", seed, c.Algorithm.Name, c.Sim.Makespan, alg.Name, s.Sim.Makespan)
			}
			least = min(least, s.Sim.Makespan)
			if before {
				earlier = min(earlier, s.Sim.Makespan)
			}
		}
		if earlier <= least*(1+tie) {
			t.Errorf("seed %d: chose %s, but one before it takes %v s, and the best %v s", seed, c.Algorithm.Name, earlier, least)
		}
		if !slices.Equal(asked, all) || c.Of != applied {
			t.Errorf("seed %d: reported %v, %d compared; want %d of %v", seed, asked, c.Of, applied, all)
		}
		check(t, seed, p, c.Algorithm, c.Scheduled, chunk)
	}
	if len(chosen) < 2 {
		t.Errorf("one algorithm was best everywhere (%v): the seeds compare nothing", chosen)
	}
}

// TestChooseRefuses checks that the error of a problem that nothing solves is the first
// algorithm's own.
func TestChooseRefuses(t *testing.T) {
	p := randomProblem(t, rand.New(rand.NewPCG(1, 11)))
	p.Sizes[0] = -1
	_, want := Schedule(Algorithms(plan.Allgather)[0], p, 0)
	if c, err := Choose(p, 0, nil); want == nil || err == nil || err.Error() != want.Error() {
		t.Errorf("chose %v, error %v, want %v", c, err, want)
	}
}
