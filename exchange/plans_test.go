package exchange

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

func hostNames(n int) []string {
	hosts := make([]string, n)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host%d", i)
	}
	return hosts
}

// randomSizes draws sizes around the edges of a chunk.
func randomSizes(rng *rand.Rand, n, chunk int) []int64 {
	sizes := make([]int64, n)
	for i := range sizes {
		sizes[i] = []int64{0, 1, int64(chunk - 1), int64(chunk), int64(chunk + 1), rng.Int64N(int64(20*chunk + 1))}[rng.IntN(6)]
	}
	return sizes
}

// A planner builds plans transfer by transfer, with data dependencies.
type planner struct {
	p    *plan.Plan
	from map[[3]int]int // {host, origin, dest} → the transfer that delivers it
}

func newPlanner(c plan.Collective, n int) *planner {
	return &planner{&plan.Plan{Collective: c, Algorithm: "test", Hosts: hostNames(n)}, make(map[[3]int]int)}
}

func (b *planner) add(src, dst int, blocks ...plan.Block) {
	t := plan.Transfer{ID: len(b.p.Transfers), Src: src, Dst: dst, Blocks: blocks, Phase: -1, Start: float64(len(b.p.Transfers))}
	for _, bl := range blocks {
		if x, ok := b.from[[3]int{src, bl.Origin, bl.Dest}]; ok {
			t.After = append(t.After, x)
		}
		b.from[[3]int{dst, bl.Origin, bl.Dest}] = t.ID
	}
	b.p.Transfers = append(b.p.Transfers, t)
}

func ringPlan(n int) *plan.Plan {
	b := newPlanner(plan.Allgather, n)
	for step := range n - 1 {
		for h := range n {
			b.add(h, (h+1)%n, plan.Block{Origin: (h - step + n) % n, Dest: plan.All})
		}
	}
	return b.p
}

// treePlan carries each host's block along a random tree.
func treePlan(rng *rand.Rand, n int) *plan.Plan {
	b := newPlanner(plan.Allgather, n)
	for o := range n {
		has := []int{o}
		for _, h := range rng.Perm(n) {
			if h != o {
				b.add(has[rng.IntN(len(has))], h, plan.Block{Origin: o, Dest: plan.All})
				has = append(has, h)
			}
		}
	}
	return b.p
}

// sitesPlan sends each site's blocks in one transfer per pair of leaders.
func sitesPlan(rng *rand.Rand, n int) *plan.Plan {
	members := make(map[int][]int)
	for h := range n {
		s := rng.IntN(3)
		members[s] = append(members[s], h)
	}
	return leadersPlan(n, members)
}

// leadersPlan is sitesPlan for given members of three sites; the first of each leads.
func leadersPlan(n int, members map[int][]int) *plan.Plan {
	b := newPlanner(plan.Allgather, n)
	all := func(hosts []int) (bs []plan.Block) {
		for _, h := range hosts {
			bs = append(bs, plan.Block{Origin: h, Dest: plan.All})
		}
		return bs
	}
	for s := range 3 {
		for _, h := range members[s] {
			for _, k := range members[s] {
				if h != k {
					b.add(h, k, plan.Block{Origin: h, Dest: plan.All})
				}
			}
		}
	}
	for s := range 3 {
		for d := range 3 {
			if s == d || len(members[s]) == 0 || len(members[d]) == 0 {
				continue
			}
			b.add(members[s][0], members[d][0], all(members[s])...)
			for _, h := range members[d][1:] {
				b.add(members[d][0], h, all(members[s])...)
			}
		}
	}
	return b.p
}

// alltoallPlan sends directly, or over a third host with probability relay.
func alltoallPlan(rng *rand.Rand, n int, relay float64) *plan.Plan {
	b := newPlanner(plan.Alltoall, n)
	for k := 1; k < n; k++ {
		for s := range n {
			d := (s + k) % n
			bl := plan.Block{Origin: s, Dest: d}
			if via := rng.IntN(n); via != s && via != d && rng.Float64() < relay {
				b.add(s, via, bl)
				b.add(via, d, bl)
				continue
			}
			b.add(s, d, bl)
		}
	}
	return b.p
}

// synchronise adds random edges from earlier to later transfers: with the order of
// the IDs there is no circle.
func synchronise(rng *rand.Rand, p *plan.Plan, edges int) {
	if len(p.Transfers) < 2 {
		return
	}
	for range edges {
		t := 1 + rng.IntN(len(p.Transfers)-1)
		p.Transfers[t].After = append(p.Transfers[t].After, rng.IntN(t))
		p.Transfers[t].Sync = [2]string{plan.SyncSender, plan.SyncReceiver}[t%2]
	}
}

// randomPlan draws a kind of plan, hosts, sizes and synchronisations.
func randomPlan(rng *rand.Rand, chunk int) *plan.Plan {
	n := []int{1, 2, 3, 4, 5, 7, 13}[rng.IntN(7)]
	var p *plan.Plan
	switch rng.IntN(5) {
	case 0:
		p = ringPlan(n)
	case 1:
		p = treePlan(rng, n)
	case 2:
		p = sitesPlan(rng, n)
	case 3:
		p = alltoallPlan(rng, n, 0)
	default:
		p = alltoallPlan(rng, n, 0.5)
	}
	switch {
	case rng.IntN(5) == 0:
		p.MessageBytes = randomSizes(rng, 1, chunk)[0]
	case p.Collective == plan.Allgather:
		p.Sizes = randomSizes(rng, n, chunk)
	default:
		p.Matrix = make([][]int64, n)
		for i := range p.Matrix {
			p.Matrix[i] = randomSizes(rng, n, chunk)
		}
	}
	if rng.IntN(3) == 0 {
		p = inPieces(rng, p)
	}
	if rng.IntN(2) == 0 {
		synchronise(rng, p, rng.IntN(2*len(p.Transfers)+1))
	}
	if rng.IntN(4) == 0 {
		p.Sync = &plan.Claim{Kind: plan.SyncReceiver, Lead: 1 + rng.Int64N(3*int64(chunk))}
	}
	return p
}

// inPieces cuts some blocks of p into two or three pieces. The pieces of a block take the way
// that it took, together or in a transfer each.
func inPieces(rng *rand.Rand, p *plan.Plan) *plan.Plan {
	q := *p
	q.Transfers = nil
	at := make(map[plan.Block][]int64)
	for i := range p.Transfers {
		for _, b := range p.Transfers[i].Blocks {
			if size := p.Whole(b); size >= 2 && at[b] == nil && rng.IntN(2) == 0 {
				at[b] = []int64{1 + rng.Int64N(size-1)}
				if rest := size - at[b][0]; rest > 1 && rng.IntN(2) == 0 {
					at[b] = append(at[b], at[b][0]+1+rng.Int64N(rest-1))
				}
			}
		}
	}
	for b, cuts := range at {
		q.Cuts = append(q.Cuts, plan.Cut{Origin: b.Origin, Dest: b.Dest, At: cuts})
	}
	slices.SortFunc(q.Cuts, func(a, b plan.Cut) int {
		return cmp.Or(cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Dest, b.Dest))
	})
	became := make([][]int, len(p.Transfers))
	for i, t := range p.Transfers {
		var after []int
		for _, a := range t.After {
			after = append(after, became[a]...)
		}
		var pieces []plan.Block
		for _, b := range t.Blocks {
			for b.Piece = range len(at[plan.Block{Origin: b.Origin, Dest: b.Dest}]) + 1 {
				pieces = append(pieces, b)
			}
		}
		sets := [][]plan.Block{pieces}
		if rng.IntN(2) == 0 {
			sets = slices.Collect(slices.Chunk(pieces, 1))
		}
		for _, set := range sets {
			u := t
			u.ID, u.Blocks, u.After = len(q.Transfers), set, slices.Clone(after)
			became[i] = append(became[i], u.ID)
			q.Transfers = append(q.Transfers, u)
		}
	}
	return &q
}
