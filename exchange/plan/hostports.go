package plan

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/probe/netmap"
)

// SimulatePorts predicts p in the host model of Gupta & Vadhiyar, HPDC 2007, §4
// (equations 1-3), in which a transfer of m bytes has its pair's link to itself for g(m), the
// sender's port for os(m) and the receiver's for L + m/B; with half duplex the two
// ports are one. Blocks move whole, and hosts know at once when others are done. Of a
// plan with times the ports serve transfers in the order of their starts, so that the
// times of a plan made for this model come out as they are; of one without, whatever
// can start first goes first, and plan order decides between equals.
//
// Hosts are matched by name. The result has no PoolBytes. The same plan gives the same
// times. Errors are those of [Simulate].
func SimulatePorts(p *Plan, s *netmap.Snapshot, duplex Duplex) (*SimResult, error) {
	m, err := newPortSimulation(p, s, duplex)
	if err != nil {
		return nil, fmt.Errorf("simulate ports: %w", err)
	}
	if err := m.run(); err != nil {
		return nil, fmt.Errorf("simulate ports: %w", err)
	}
	return m.result, nil
}

type portSimulation struct {
	plan   *Plan
	costs  []portCost
	waits  []int32   // per transfer: what it comes after and has not ended
	next   [][]int32 // per transfer: those that come after it
	ready  []float64 // per transfer: when all that it comes after has ended
	free   []float64 // per port: N to send, and N to receive with full duplex
	link   map[int]float64
	duplex Duplex
	result *SimResult
	queue  portQueue
}

// A portCost is a [pairCost] in seconds.
type portCost struct{ lasts, gap, overhead float64 }

func newPortSimulation(p *Plan, s *netmap.Snapshot, duplex Duplex) (*portSimulation, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	order, err := p.Order()
	if err != nil {
		return nil, err
	}
	if duplex != HalfDuplex && duplex != FullDuplex {
		return nil, fmt.Errorf("host model %v, want half or full duplex", duplex)
	}
	pairs, err := newPairModel(p, s)
	if err != nil {
		return nil, err
	}
	held, err := deliver(p)
	if err != nil {
		return nil, err
	}
	n := len(p.Transfers)
	m := &portSimulation{
		plan: p, duplex: duplex,
		costs: make([]portCost, n), waits: make([]int32, n), next: make([][]int32, n), ready: make([]float64, n),
		free: make([]float64, 2*len(p.Hosts)), link: make(map[int]float64),
		result: &SimResult{Start: make([]float64, n), End: make([]float64, n)},
	}
	for i := range p.Transfers {
		t := &p.Transfers[i]
		c, err := pairs.cost(t, p.Bytes(t))
		if err != nil {
			return nil, fmt.Errorf("transfer %d: %w", i, err)
		}
		m.costs[i] = portCost{c.lasts.Seconds(), c.gap.Seconds(), c.overhead.Seconds()}
		for _, a := range t.After {
			m.after(i, a)
		}
		for _, b := range t.Blocks {
			if starts(b, t.Src) {
				continue
			}
			d, ok := held.deliverer(b, t.Src)
			if !ok {
				return nil, fmt.Errorf("transfer %d: %s never holds block %s: %w", i, p.Hosts[t.Src], p.name(b), ErrStalled)
			}
			m.after(i, d)
		}
	}
	m.rank(order)
	return m, nil
}

// after makes transfer i wait for a; twice the same costs nothing but the count.
func (m *portSimulation) after(i, a int) {
	m.waits[i]++
	m.next[a] = append(m.next[a], int32(i))
}

// rank sets the places that decide between transfers: plan order, or that of the plan's own starts.
func (m *portSimulation) rank(order []int) {
	if m.plan.timed() {
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Compare(m.plan.Transfers[a].Start, m.plan.Transfers[b].Start)
		})
		m.queue.inOrder = true
	}
	m.queue.place = make([]int32, len(order))
	for k, i := range order {
		m.queue.place[i] = int32(k)
	}
}

func (m *portSimulation) run() error {
	m.queue.start = m.ready
	for i, w := range m.waits {
		if w == 0 {
			m.queue.heap = append(m.queue.heap, int32(i))
		}
	}
	heap.Init(&m.queue)
	done := 0
	for ; m.queue.Len() > 0; done++ {
		i := int(m.queue.heap[0])
		// Ports and links only get later: a start that has moved is looked at again in its turn.
		if start := m.earliest(i); start > m.ready[i] {
			m.ready[i] = start
			if !m.queue.inOrder {
				heap.Fix(&m.queue, 0)
				done--
				continue
			}
		}
		heap.Pop(&m.queue)
		m.commit(i)
	}
	if done < len(m.waits) {
		i := slices.IndexFunc(m.waits, func(w int32) bool { return w > 0 })
		t := &m.plan.Transfers[i]
		return fmt.Errorf("transfer %d, %s→%s, waits for ever: %w", i, m.plan.Hosts[t.Src], m.plan.Hosts[t.Dst], ErrStalled)
	}
	return nil
}

// ports returns the places of t's ports in free.
func (m *portSimulation) ports(t *Transfer) (send, receive int) {
	if m.duplex == HalfDuplex {
		return t.Src, t.Dst
	}
	return t.Src, len(m.plan.Hosts) + t.Dst
}

// earliest returns when transfer i could start as things stand.
func (m *portSimulation) earliest(i int) float64 {
	t := &m.plan.Transfers[i]
	send, receive := m.ports(t)
	return max(m.ready[i], m.free[send], m.free[receive], m.link[t.Src*len(m.plan.Hosts)+t.Dst])
}

// commit starts transfer i at ready[i].
func (m *portSimulation) commit(i int) {
	t := &m.plan.Transfers[i]
	send, receive := m.ports(t)
	start := m.ready[i]
	end := start + m.costs[i].lasts
	m.free[send] = max(m.free[send], start+m.costs[i].overhead)
	m.free[receive] = max(m.free[receive], end)
	m.link[t.Src*len(m.plan.Hosts)+t.Dst] = start + m.costs[i].gap
	m.result.Start[i], m.result.End[i] = start, end
	m.result.Makespan = max(m.result.Makespan, end)
	for _, k := range m.next[i] {
		m.ready[k] = max(m.ready[k], end)
		if m.waits[k]--; m.waits[k] == 0 {
			heap.Push(&m.queue, k)
		}
	}
}

// A portQueue is a heap of transfers that wait for nothing but ports.
type portQueue struct {
	heap    []int32
	start   []float64 // per transfer: no later than it can start
	place   []int32   // per transfer
	inOrder bool      // place alone decides
}

func (q *portQueue) Len() int { return len(q.heap) }
func (q *portQueue) Less(i, j int) bool {
	a, b := q.heap[i], q.heap[j]
	if !q.inOrder && q.start[a] != q.start[b] {
		return q.start[a] < q.start[b]
	}
	return q.place[a] < q.place[b]
}
func (q *portQueue) Swap(i, j int) { q.heap[i], q.heap[j] = q.heap[j], q.heap[i] }
func (q *portQueue) Push(x any)    { q.heap = append(q.heap, x.(int32)) }
func (q *portQueue) Pop() any {
	last := len(q.heap) - 1
	x := q.heap[last]
	q.heap = q.heap[:last]
	return x
}
