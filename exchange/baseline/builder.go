package baseline

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A builder appends transfers to a plan and finds their data dependencies.
type builder struct {
	plan *plan.Plan
	n    int
	// brought[host*n+origin] is the transfer that brings the block of origin to host,
	// or one of the two values below.
	brought []int32
	// last holds, by host, the transfers of its latest finished iteration.
	last [][]int
	// now holds, by host, the transfers of the iteration that is being built.
	now [][]int

	// Blocks and After of transfers are cut from these.
	blocks slab[plan.Block]
	after  slab[int]
	// What add sorts.
	origins, waits []int
}

// A slab is memory for many small slices: a plan of 64 hosts has eight thousand, and to ask for each
// by itself is most of what making one costs.
type slab[T any] struct{ free []T }

// slabSize is how many elements are asked for at a time.
const slabSize = 1024

// take returns n zeros of which the caller has no more than n.
func (s *slab[T]) take(n int) []T {
	if n > len(s.free) || s.free == nil {
		s.free = make([]T, max(n, slabSize))
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

const (
	absent = -1 // the host does not get the block
	own    = -2 // the host contributes the block
)

// newPlan checks names and sizes and returns an allgather without transfers.
func newPlan(algorithm string, hosts []string, sizes []int64) (*plan.Plan, error) {
	n := len(hosts)
	if n == 0 {
		return nil, fmt.Errorf("%s: no hosts", algorithm)
	}
	if len(sizes) != n && len(sizes) != 1 {
		return nil, fmt.Errorf("%s: %d block sizes for %d hosts: want one, or one for each",
			algorithm, len(sizes), n)
	}
	for i, s := range sizes {
		if s < 0 {
			return nil, fmt.Errorf("%s: size %d of block %d is negative", algorithm, s, i)
		}
	}
	p := &plan.Plan{
		Collective: plan.Allgather,
		Algorithm:  algorithm,
		Hosts:      slices.Clone(hosts),
		Transfers:  []plan.Transfer{},
	}
	if slices.Min(sizes) == slices.Max(sizes) {
		p.MessageBytes = sizes[0]
	} else {
		p.Sizes = slices.Clone(sizes)
	}
	return p, nil
}

// newBuilder checks names and sizes and returns the builder of an empty allgather.
func newBuilder(algorithm string, hosts []string, sizes []int64) (*builder, error) {
	p, err := newPlan(algorithm, hosts, sizes)
	if err != nil {
		return nil, err
	}
	n := len(hosts)
	b := &builder{plan: p, n: n, brought: make([]int32, n*n), last: make([][]int, n), now: make([][]int, n)}
	for i := range b.brought {
		b.brought[i] = absent
		if i/n == i%n {
			b.brought[i] = own
		}
	}
	return b, nil
}

// add appends one transfer of the blocks of origins, which is not empty, and returns
// its index. It waits for the data and for sync.
func (b *builder) add(src, dst int, origins []int, sync ...int) int {
	b.origins = append(b.origins[:0], origins...)
	slices.Sort(b.origins)
	id := len(b.plan.Transfers)
	t := plan.Transfer{ID: id, Src: src, Dst: dst, Phase: -1, Blocks: b.blocks.take(len(origins))}
	waits := b.waits[:0]
	for i, o := range b.origins {
		t.Blocks[i] = plan.Block{Origin: o, Dest: plan.All}
		if k := b.brought[src*b.n+o]; k >= 0 {
			waits = append(waits, int(k))
		}
		b.brought[dst*b.n+o] = int32(id)
	}
	slices.Sort(waits)
	waits = slices.Compact(waits)
	for _, k := range sync {
		if !slices.Contains(waits, k) {
			waits = append(waits, k)
			t.Sync = plan.SyncSender
		}
	}
	slices.Sort(waits)
	t.After = b.after.take(len(waits))
	copy(t.After, waits)
	b.waits = waits
	if have := len(b.plan.Transfers); have == cap(b.plan.Transfers) {
		b.plan.Transfers = slices.Grow(b.plan.Transfers, max(have, 64)) // append would copy them five times
	}
	b.plan.Transfers = append(b.plan.Transfers, t)
	return id
}

// send is add inside an iteration. An algorithm must not forward what this brings before
// the iteration ends: it would be a data dependency inside an iteration.
func (b *builder) send(src, dst int, origins []int, sync ...int) {
	id := b.add(src, dst, origins, sync...)
	b.now[src] = append(b.now[src], id)
	b.now[dst] = append(b.now[dst], id)
}

// step is send inside a loop of blocking send-receives: it waits for all that src
// did in the iteration before.
func (b *builder) step(src, dst int, origins ...int) {
	b.send(src, dst, origins, b.last[src]...)
}

// endIteration makes the transfers since the last call the ones that step waits for.
// A host that was idle, or only received, keeps its older ones too: nothing that it did since
// waited for them.
func (b *builder) endIteration() {
	for h := range b.now {
		sent := slices.ContainsFunc(b.now[h], func(id int) bool { return b.plan.Transfers[id].Src == h })
		if !sent {
			b.last[h], b.now[h] = append(b.last[h], b.now[h]...), b.now[h][:0]
			continue
		}
		b.last[h], b.now[h] = b.now[h], b.last[h][:0]
	}
}

// holds returns the origins of the blocks of host, ascending.
func (b *builder) holds(host int) []int {
	var held []int
	for o := range b.n {
		if b.brought[host*b.n+o] != absent {
			held = append(held, o)
		}
	}
	return held
}

// missing returns those of origins that host does not hold.
func (b *builder) missing(host int, origins []int) []int {
	var out []int
	for _, o := range origins {
		if b.brought[host*b.n+o] == absent {
			out = append(out, o)
		}
	}
	return out
}
