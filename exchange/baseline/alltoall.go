package baseline

import (
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// An alltoall appends transfers to the plan of an alltoall. Unlike [builder] it leaves
// the data dependencies to the algorithms, all of which know them as formulas: a table
// of who holds what would be n³.
type alltoall struct {
	plan *plan.Plan
	n    int
	// messages holds the block from o to d at o·n + (d−o−1 mod n): by origin, then by
	// distance. Transfers carry pieces of it where they can, without a copy.
	messages []plan.Block
	last     [][]int // by host, its steps of the latest iteration in which it took part
	now      [][]int // by host, its steps of the iteration that is being built
}

func newAlltoall(algorithm string, hosts []string, sizes plan.AlltoallSizes) (*alltoall, error) {
	p, err := plan.NewAlltoall(algorithm, hosts, sizes)
	if err != nil {
		return nil, err
	}
	n := len(hosts)
	a := &alltoall{plan: p, n: n, messages: make([]plan.Block, n*n), last: make([][]int, n), now: make([][]int, n)}
	for o := range n {
		for dist := 1; dist < n; dist++ {
			a.messages[o*n+dist-1] = plan.Block{Origin: o, Dest: (o + dist) % n}
		}
	}
	return a, nil
}

// reserve makes room for the given number of transfers. Without it the list of n² of
// them is copied as it grows: at n = 1024 that is four times its memory.
func (a *alltoall) reserve(transfers int) {
	a.plan.Transfers = make([]plan.Transfer, 0, transfers)
}

// far returns the blocks of origin for the hosts at distance dist and more: dist+1,
// dist+2 … ranks after it. Callers must not change them.
func (a *alltoall) far(origin, dist int) []plan.Block {
	return a.messages[origin*a.n+dist-1 : (origin+1)*a.n-1 : (origin+1)*a.n-1]
}

// message returns the block from origin to dest alone.
func (a *alltoall) message(origin, dest int) []plan.Block {
	return a.far(origin, (dest-origin+a.n)%a.n)[:1:1]
}

// send appends a transfer of blocks, which is not empty, and returns its index. data
// are the transfers that bring blocks to src; sync are others that it waits for.
func (a *alltoall) send(src, dst int, blocks []plan.Block, data, sync []int) int {
	id := len(a.plan.Transfers)
	t := plan.Transfer{ID: id, Src: src, Dst: dst, Blocks: blocks, Phase: -1, After: []int{}}
	t.After = append(append(t.After, data...), sync...)
	slices.Sort(t.After)
	t.After = slices.Compact(t.After)
	if slices.ContainsFunc(sync, func(k int) bool { return !slices.Contains(data, k) }) {
		t.Sync = plan.SyncSender
	}
	a.plan.Transfers = append(a.plan.Transfers, t)
	return id
}

// step is send inside a loop of blocking send-receives: it waits for all steps of src
// in the iteration before, sent and received.
func (a *alltoall) step(src, dst int, blocks []plan.Block, data ...int) int {
	id := a.send(src, dst, blocks, data, a.last[src])
	a.now[src] = append(a.now[src], id)
	a.now[dst] = append(a.now[dst], id)
	return id
}

// endIteration makes the steps since the last call the ones that step waits for. A host
// that took no part keeps its older ones.
func (a *alltoall) endIteration() {
	for h := range a.now {
		if len(a.now[h]) > 0 {
			a.last[h], a.now[h] = a.now[h], a.last[h][:0]
		}
	}
}
