package treetest

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/plan"
)

// TestBytes runs every algorithm with blocks of all sizes, 0 and 1 byte among them, on trees of
// 1 to 13 hosts, some of them on switches without hosts.
func TestBytes(t *testing.T) {
	trees := []*plan.Topology{
		chain(t, 1), chain(t, 1, 1), chain(t, 2, 0, 1), chain(t, 5), chain(t, 2, 3, 2),
		tree(t, [][2]int{{2, 0}, {2, 1}, {2, 3}}, 6, 4, 0, 3),
	}
	if raceDetector {
		trees = trees[:5]
	}
	for i, topo := range trees {
		seed := uint64(i)
		rng := rand.New(rand.NewPCG(seed, 15))
		n := len(topo.Hosts())
		sizes := blockSizes{make([]int64, n), plan.AlltoallSizes{Matrix: make([][]int64, n)}}
		draw := func() int64 { return []int64{0, 1, 4095, 4096, 4097, rng.Int64N(10_000)}[rng.IntN(6)] }
		for o := range n {
			sizes.gather[o] = draw()
			sizes.all.Matrix[o] = make([]int64, n)
			for d := range n {
				sizes.all.Matrix[o][d] = draw()
			}
		}
		g := onTree(t, topo)
		Run(t, emulate(t, topo, 0), func(c *Cluster) {
			for _, a := range algorithms() {
				p := a.plan(t, g, sizes)
				if p == nil {
					continue
				}
				r := c.Run(p)
				checkTrunks(t, topo, p, r)
				for id, x := range r.Transfers {
					if p := &p.Transfers[id]; x.Src != g.hosts[p.Src] || x.Dst != g.hosts[p.Dst] || x.End <= 0 || x.End > r.Makespan {
						t.Errorf("seed %d, %s: transfer %d of the plan, %s→%s, is %+v of %v", seed, a.name, id, g.hosts[p.Src], g.hosts[p.Dst], x, r.Makespan)
					}
				}
			}
		})
	}
}

// TestCheck: a byte that differs, or one block in the place of another, is found.
func TestCheck(t *testing.T) {
	for _, make := range []func() (*plan.Plan, error){
		func() (*plan.Plan, error) { return baseline.Ring([]string{"a", "b", "c"}, []int64{0, 9, 40}) },
		func() (*plan.Plan, error) {
			return baseline.AlltoallSimple([]string{"a", "b", "c"}, plan.AlltoallSizes{Uniform: 21})
		},
	} {
		p, err := make()
		if err != nil {
			t.Fatal(err)
		}
		_, wanted := blocks(p, 0)
		var result []byte
		for _, b := range wanted {
			result = append(result, content(p, b)...)
		}
		if len(result) != len(lay(p, 0).Result) {
			t.Fatalf("%s: host 0 has room for %d bytes, and wants %d", p.Collective, len(lay(p, 0).Result), len(result))
		}
		if err := check(p, 0, result); err != nil {
			t.Errorf("%s: %v", p.Collective, err)
		}
		for i := range result {
			result[i] ^= 1
			if err := check(p, 0, result); err == nil || !strings.Contains(err.Error(), "differs") {
				t.Errorf("%s: byte %d of %d is wrong: %v", p.Collective, i, len(result), err)
			}
			result[i] ^= 1
		}
	}
	one := &plan.Plan{MessageBytes: 16, Hosts: []string{"a", "b"}}
	if string(content(one, plan.Block{Origin: 0, Dest: 1})) == string(content(one, plan.Block{Origin: 1, Dest: 0})) {
		t.Error("two blocks have the same content")
	}
}
