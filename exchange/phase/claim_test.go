package phase

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestClaims: what the plans of each scheme claim passes the verifier, and without any
// one of their edges it does not: they are all needed.
func TestClaims(t *testing.T) {
	cut := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 41))
		w := randomTree(rng, 1+rng.IntN(5), 2+rng.IntN(8))
		topo := w.topology(t)
		for _, opt := range []Options{
			{Sync: Sender}, {Sync: Receiver}, {Sync: Receiver, Lead: 4096}, {Sync: Receiver, Block: 2, Strict: true}, {Sync: Dummy},
			{Sync: Sender, Block: 2}, {Sync: Barrier}, {Sync: Barrier, Lead: 4096}, {Sync: Barrier, Block: 2}, {Sync: Barrier, Block: 3, Within: Sender},
			{Sync: Order}, {Sync: Sender, Block: 2, Within: Order}, {Sync: Barrier, Block: 3, Within: Order},
		} {
			p := mustSchedule(t, w, opt)
			rules := plan.Rules{Topology: topo}
			if err := plan.Verify(p, rules); err != nil {
				t.Fatalf("seed %d, %+v: %v", seed, opt, err)
			}
			if opt.Sync == Dummy || opt.Block > 0 && !opt.Strict || len(p.Transfers) == 0 {
				continue
			}
			i := rng.IntN(len(p.Transfers))
			after := p.Transfers[i].After
			if len(after) == 0 {
				continue
			}
			k := rng.IntN(len(after))
			p.Transfers[i].After = slices.Delete(slices.Clone(after), k, k+1)
			var v *plan.Violation
			if err := plan.Verify(p, rules); !errors.As(err, &v) || v.Property != plan.Synchronised {
				t.Fatalf("seed %d, %+v: without the edge from %d to %d: %v", seed, opt, after[k], i, err)
			}
			cut++
		}
	}
	if cut < 50 {
		t.Errorf("only %d edges were cut", cut)
	}
}

// TestClaimedKind: a plan that claims receiver or barrier, and whose transfers start when the earlier ones have left, does not keep what it claims.
func TestClaimedKind(t *testing.T) {
	for _, opt := range []Options{
		{Sync: Receiver}, {Sync: Receiver, Lead: 4096}, {Sync: Receiver, Block: 2}, {Sync: Barrier}, {Sync: Barrier, Block: 2}, {Sync: Barrier, Block: 3, Within: Receiver}, {Sync: Barrier, Block: 3, Within: Sender}, {Sync: Barrier, Block: 3, Within: Order},
	} {
		w := tree{switches: 3, links: [][2]int{{0, 1}, {0, 2}}, home: []int{0, 0, 1, 1, 1, 2, 2}}
		rules := plan.Rules{Topology: w.topology(t)}
		p := mustSchedule(t, w, opt)
		if err := plan.Verify(p, rules); err != nil {
			t.Fatalf("%+v: %v", opt, err)
		}
		for i := range p.Transfers {
			if len(p.Transfers[i].After) > 0 {
				p.Transfers[i].Sync = plan.SyncSender
			}
		}
		var v *plan.Violation
		if err := plan.Verify(p, rules); !errors.As(err, &v) || v.Property != plan.Synchronised {
			t.Errorf("%+v, and all transfers say sender: %v", opt, err)
		}
	}
}
