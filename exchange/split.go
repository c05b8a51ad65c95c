package exchange

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Chunk sizes that [DefaultChunk] chooses between.
const (
	minDefaultChunk = 4 << 10
	maxDefaultChunk = 128 << 10
)

// DefaultChunk returns the chunk size, in bytes, for a plan whose largest block has
// size bytes: a sixteenth of it, as a power of two from 4 KiB to 128 KiB.
//
// A hop that forwards adds the time of one chunk, so a sixteenth costs at most 6 % of
// a block's time per hop. A chunk is one wake-up of the writer and up to 20 bytes of
// header: below 4 KiB, three packets, both would be felt. Over QUIC on loopback nothing
// is gained above 32 to 128 KiB, and more is lost with a broken stream
// (BenchmarkLoopback).
func DefaultChunk(size int64) int {
	c := minDefaultChunk
	for c < maxDefaultChunk && int64(c)*16 < size {
		c *= 2
	}
	return c
}

// Split cuts p into one part per host, indexed as p.Hosts. chunk is in bytes; 0 means
// [ChunkOf] the plan. wants says whether a rank on the host wants the
// block; nil means what the collective says: every host wants an allgather block, the
// Dest an all-to-all block. It is not asked for a block's origin.
//
// The entries of After that deliver one of a transfer's blocks to its sender become
// data dependencies, which are honoured chunk by chunk; the others become
// synchronisations. Split refuses a plan that no engine could finish: a block that is
// sent but never held, delivered twice or to its origin, wanted but not delivered, and
// dependencies in a circle.
func Split(p *plan.Plan, id ID, chunk int, wants func(host int, b plan.Block) bool) ([]*Part, error) {
	if wants == nil {
		wants = func(host int, b plan.Block) bool { return b.Dest == plan.All || b.Dest == host }
	}
	s := splitter{plan: p, wants: wants}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("split %s plan %q: %w", p.Collective, p.Algorithm, err)
	}
	if chunk == 0 {
		chunk = ChunkOf(p)
	}
	parts := make([]*Part, len(p.Hosts))
	for h := range parts {
		parts[h] = &Part{ID: id, Collective: p.Collective, Hosts: p.Hosts, Self: h, Chunk: chunk, Lead: p.Ahead()}
	}
	s.fill(parts)
	for h, part := range parts {
		if err := part.validate(h == 0); err != nil {
			return nil, fmt.Errorf("split %s plan %q: host %q: %w", p.Collective, p.Algorithm, p.Hosts[h], err)
		}
	}
	return parts, nil
}

type splitter struct {
	plan  *plan.Plan
	wants func(int, plan.Block) bool
	moved int        // blocks of all transfers together
	holds plan.Table // the transfer that delivers a block to a host
	place plan.Table // where a block stands in the Blocks of a host's part
}

// check fills holds and refuses what cannot be run.
func (s *splitter) check() error {
	p := s.plan
	n := len(p.Hosts)
	if p.Collective != plan.Allgather && p.Collective != plan.Alltoall {
		return fmt.Errorf("unknown collective %q", p.Collective)
	}
	if n > maxHosts {
		return fmt.Errorf("%d hosts, want at most %d", n, maxHosts)
	}
	if p.Sizes != nil && len(p.Sizes) != n || p.Matrix != nil && len(p.Matrix) != n {
		return fmt.Errorf("sizes for %d hosts, the plan has %d", max(len(p.Sizes), len(p.Matrix)), n)
	}
	for i, row := range p.Matrix {
		if len(row) != n {
			return fmt.Errorf("sizes of host %d are for %d hosts, the plan has %d", i, len(row), n)
		}
	}
	if p.Matrix != nil && p.Collective != plan.Alltoall {
		return fmt.Errorf("%s with a matrix of sizes", p.Collective)
	}
	for i := range p.Transfers {
		s.moved += len(p.Transfers[i].Blocks)
	}
	s.holds.Reset(p, s.moved)
	for i := range p.Transfers {
		if err := s.checkTransfer(i, &p.Transfers[i]); err != nil {
			return err
		}
	}
	for i := range p.Transfers {
		t := &p.Transfers[i]
		for _, b := range t.Blocks {
			if b.Origin == t.Src {
				continue
			}
			if _, ok := s.holds.At(t.Src, b); !ok {
				return fmt.Errorf("transfer %d sends block %v, which host %d never holds", i, b, t.Src)
			}
		}
	}
	if err := s.checkComplete(); err != nil {
		return err
	}
	return s.checkOrder()
}

func (s *splitter) checkTransfer(i int, t *plan.Transfer) error {
	n := len(s.plan.Hosts)
	if t.ID != i {
		return fmt.Errorf("transfer at index %d has id %d", i, t.ID)
	}
	if t.Src < 0 || t.Src >= n || t.Dst < 0 || t.Dst >= n || t.Src == t.Dst {
		return fmt.Errorf("transfer %d from host %d to host %d of %d", i, t.Src, t.Dst, n)
	}
	for _, x := range t.After {
		if x < 0 || x >= len(s.plan.Transfers) || x == i {
			return fmt.Errorf("transfer %d is after transfer %d of %d", i, x, len(s.plan.Transfers))
		}
	}
	for _, b := range t.Blocks {
		if b.Origin < 0 || b.Origin >= n || b.Dest >= n || (b.Dest < 0) != (s.plan.Collective == plan.Allgather) || b.Dest < plan.All {
			return fmt.Errorf("transfer %d carries block %v of an %s over %d hosts", i, b, s.plan.Collective, n)
		}
		if b.Piece < 0 || b.Piece >= s.plan.Pieces(b) {
			return fmt.Errorf("transfer %d carries piece %d of block %v, which has %d", i, b.Piece, b, s.plan.Pieces(b))
		}
		if x, ok := s.holds.At(t.Dst, b); ok {
			return fmt.Errorf("transfers %d and %d both deliver block %v to host %d", x, i, b, t.Dst)
		}
		s.holds.Set(t.Dst, b, i)
	}
	return nil
}

// checkComplete checks that every wanted block is delivered. Those of no bytes may be left
// out, as in [plan.Verify].
func (s *splitter) checkComplete() error {
	n := len(s.plan.Hosts)
	missing := func(host int, b plan.Block) error {
		if host == b.Origin || s.plan.Whole(b) == 0 || !s.wants(host, b) {
			return nil
		}
		for b.Piece = range s.plan.Pieces(b) {
			if _, ok := s.holds.At(host, b); !ok {
				return fmt.Errorf("nothing delivers block %v to host %d", b, host)
			}
		}
		return nil
	}
	for o := range n {
		for d := range n {
			b := plan.Block{Origin: o, Dest: plan.All}
			if s.plan.Collective == plan.Alltoall {
				b.Dest = d
			}
			if err := missing(d, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkOrder checks that dependencies do not run in a circle: no engine could start.
func (s *splitter) checkOrder() error {
	ts := s.plan.Transfers
	edges := func(yield func(x, t int)) {
		for i := range ts {
			for _, x := range ts[i].After {
				yield(x, i)
			}
			for _, b := range ts[i].Blocks {
				if x, ok := s.holds.At(ts[i].Src, b); ok {
					yield(x, i)
				}
			}
		}
	}
	before := make([]int32, len(ts))
	from := make([]int32, len(ts)+1) // where the edges of a transfer begin in next
	edges(func(x, t int) { before[t]++; from[x+1]++ })
	for x := range ts {
		from[x+1] += from[x]
	}
	next, at := make([]int32, from[len(ts)]), slices.Clone(from)
	edges(func(x, t int) { next[at[x]] = int32(t); at[x]++ })
	free := make([]int32, 0, len(ts))
	for i, n := range before {
		if n == 0 {
			free = append(free, int32(i))
		}
	}
	for done := 0; done < len(free); done++ {
		x := free[done]
		for _, t := range next[from[x]:from[x+1]] {
			if before[t]--; before[t] == 0 {
				free = append(free, t)
			}
		}
	}
	if len(free) == len(ts) {
		return nil
	}
	i := slices.IndexFunc(before, func(n int32) bool { return n > 0 })
	return fmt.Errorf("dependencies in a circle: transfer %d is one of %d that can never start", i, len(ts)-len(free))
}

// fill distributes the transfers over parts.
func (s *splitter) fill(parts []*Part) {
	s.fillBlocks(parts)
	ts := s.plan.Transfers
	sends, recvs := make([]int, len(parts)), make([]int, len(parts))
	for i := range ts {
		sends[ts[i].Src]++
		recvs[ts[i].Dst]++
	}
	for h, part := range parts {
		if sends[h] > 0 {
			part.Sends = make([]Send, 0, sends[h])
		}
		if recvs[h] > 0 {
			part.Recvs = make([]Recv, 0, recvs[h])
		}
	}
	places := make([]int, 0, 2*s.moved) // memory of all Blocks
	at := func(host int, blocks []plan.Block) []int {
		begin := len(places)
		for _, b := range blocks {
			k, _ := s.place.At(host, b)
			places = append(places, k)
		}
		return places[begin:len(places):len(places)]
	}
	order := make([]*plan.Transfer, len(ts))
	for i := range order {
		order[i] = &ts[i]
	}
	for _, t := range order {
		parts[t.Dst].Recvs = append(parts[t.Dst].Recvs, Recv{ID: t.ID, Src: t.Src, Blocks: at(t.Dst, t.Blocks)})
	}
	notify := make(map[milestone][]int)
	slices.SortStableFunc(order, func(a, b *plan.Transfer) int { return cmp.Compare(a.Start, b.Start) })
	for _, t := range order {
		snd := Send{ID: t.ID, Dst: t.Dst, Waits: s.waits(t), Blocks: at(t.Src, t.Blocks)}
		parts[t.Src].Sends = append(parts[t.Src].Sends, snd)
		for _, w := range snd.Waits {
			// The sender of a transfer learns of its end in any case, and its receiver knows.
			if w.Host != t.Src && ts[w.Transfer].Src != t.Src {
				notify[w.milestone()] = append(notify[w.milestone()], t.Src)
			}
		}
	}
	if len(notify) == 0 {
		return
	}
	for m, hosts := range notify {
		slices.Sort(hosts)
		notify[m] = slices.Compact(hosts)
	}
	for _, part := range parts {
		for i := range part.Recvs {
			part.Recvs[i].Notify = notify[milestone{part.Recvs[i].ID, false}]
		}
		for i := range part.Sends {
			part.Sends[i].Notify = notify[milestone{part.Sends[i].ID, true}]
		}
	}
}

// waits returns the synchronisations of t: what it comes after and does not forward.
func (s *splitter) waits(t *plan.Transfer) []Wait {
	var ws []Wait
	for _, x := range t.After {
		delivers := slices.ContainsFunc(t.Blocks, func(b plan.Block) bool {
			y, ok := s.holds.At(t.Src, b)
			return ok && y == x
		})
		if !delivers {
			host, left := s.plan.Teller(t, &s.plan.Transfers[x])
			ws = append(ws, Wait{Transfer: x, Host: host, Left: left})
		}
	}
	slices.SortFunc(ws, func(a, b Wait) int { return cmp.Compare(a.Transfer, b.Transfer) })
	return slices.Compact(ws)
}

// fillBlocks sets the Blocks of each part and notes where they stand.
func (s *splitter) fillBlocks(parts []*Part) {
	s.place.Reset(s.plan, s.moved+len(parts))
	count := make([]int, len(parts))
	each := func(f func(host int, b plan.Block)) {
		for i := range s.plan.Transfers {
			t := &s.plan.Transfers[i]
			for _, b := range t.Blocks {
				f(t.Src, b)
				f(t.Dst, b)
			}
		}
	}
	each(func(host int, b plan.Block) {
		if _, ok := s.place.At(host, b); !ok {
			s.place.Set(host, b, count[host])
			count[host]++
		}
	})
	for h, part := range parts {
		part.Blocks = make([]Block, count[h])
	}
	each(func(host int, block plan.Block) {
		k, _ := s.place.At(host, block)
		from, to := s.plan.Span(block)
		b := Block{Block: block, Size: to - from, Role: Forward}
		switch {
		case block.Origin == host:
			b.Role = Origin
		case s.wants(host, block):
			b.Role = Want
		}
		if s.plan.Pieces(block) > 1 {
			b.Cut, b.Offset = true, from
		}
		parts[host].Blocks[k] = b
	})
	for h, part := range parts {
		slices.SortFunc(part.Blocks, func(a, b Block) int {
			return cmp.Compare(part.Number(a.Block), part.Number(b.Block))
		})
		for i, b := range part.Blocks {
			s.place.Set(h, b.Block, i)
		}
	}
}
