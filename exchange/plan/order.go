package plan

import (
	"container/heap"
	"slices"
)

// Order returns the transfers of p in an order in which every transfer follows all of
// its After: plan order, and where that contradicts After, the least index that is
// free next. The engine and [Simulate] send in this order to each destination; with
// it a queue per destination cannot wait for what stands behind it in another queue.
// It returns a [*Violation] of [Acyclic] that lists one cycle if there is none.
// p must pass [Plan.Check].
func (p *Plan) Order() ([]int, error) {
	n := len(p.Transfers)
	order := make([]int, 0, n)
	if p.ordered() {
		for i := range n {
			order = append(order, i)
		}
		return order, nil
	}
	waits := make([]int32, n)
	next := make([][]int32, n)
	for i := range p.Transfers {
		for _, a := range p.Transfers[i].After {
			waits[i]++
			next[a] = append(next[a], int32(i))
		}
	}
	var free intHeap
	for i, w := range waits {
		if w == 0 {
			free = append(free, i) // ascending, so a heap already
		}
	}
	for len(free) > 0 {
		i := heap.Pop(&free).(int)
		order = append(order, i)
		for _, j := range next[i] {
			if waits[j]--; waits[j] == 0 {
				heap.Push(&free, int(j))
			}
		}
	}
	if len(order) < n {
		return nil, p.cycle(waits)
	}
	return order, nil
}

// ordered reports whether every transfer stands behind its After.
func (p *Plan) ordered() bool {
	for i := range p.Transfers {
		for _, a := range p.Transfers[i].After {
			if a >= i {
				return false
			}
		}
	}
	return true
}

// cycle finds one among the transfers that still wait: each of them waits for another of them.
func (p *Plan) cycle(waits []int32) error {
	at := slices.IndexFunc(waits, func(w int32) bool { return w > 0 })
	place := make(map[int]int)
	var walk []int
	for {
		if from, seen := place[at]; seen {
			walk = walk[from:]
			slices.Reverse(walk) // walked from later to earlier
			least := slices.Index(walk, slices.Min(walk))
			walk = slices.Concat(walk[least:], walk[:least])
			return violated(Acyclic, walk, "each comes after the one before it, and the first after the last")
		}
		place[at] = len(walk)
		walk = append(walk, at)
		for _, a := range p.Transfers[at].After {
			if waits[a] > 0 {
				at = a
				break
			}
		}
	}
}

type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *intHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
