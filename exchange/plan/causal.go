package plan

import (
	"cmp"
	"slices"
)

// A need is a transfer that sends a block which another has brought.
type need struct {
	sender, deliverer int32
	block             Block
}

// checkCausal: a transfer sends blocks that its source holds from the start or that
// were brought by a transfer in the closure of After. Mostly the deliverer is in After
// itself; the rest is looked up together. order is a topological order of p.
func checkCausal(p *Plan, held holdings, order []int) error {
	pos := make([]int32, len(order))
	for k, t := range order {
		pos[t] = int32(k)
	}
	after := make([]int32, len(p.Transfers)) // after[a] == i+1: transfer i names a
	var open []need
	var first error // by the index of the sender
	for i := range p.Transfers {
		t := &p.Transfers[i]
		for _, a := range t.After {
			after[a] = int32(i) + 1
		}
		for _, b := range t.Blocks {
			if starts(b, t.Src) {
				continue
			}
			d, ok := held.deliverer(b, t.Src)
			switch {
			case !ok:
				first = violated(Causal, []int{i}, "%s sends block %s, which it never holds", p.Hosts[t.Src], p.name(b))
			case after[d] == int32(i)+1:
			case pos[d] >= pos[i]:
				first = unordered(p, need{int32(i), int32(d), b})
			default:
				open = append(open, need{int32(i), int32(d), b})
			}
		}
		if first != nil {
			break
		}
	}
	if missing, ok := unreached(p, open, order, pos); ok {
		return unordered(p, missing) // its sender comes before that of first
	}
	return first
}

func unordered(p *Plan, n need) error {
	return violated(Causal, []int{int(n.deliverer), int(n.sender)},
		"%s sends block %s, but nothing makes it wait for its arrival", p.Hosts[p.Transfers[n.sender].Src], p.name(n.block))
}

// unreached returns the need of the least sender whose deliverer is not in the closure
// of the sender's After. It takes 64 deliverers at a time, in topological order so that
// those of a batch lie close together, and carries a bit for each through the part of
// the plan between the first of them and the last of their senders.
func unreached(p *Plan, open []need, order []int, pos []int32) (worst need, found bool) {
	slices.SortFunc(open, func(a, b need) int {
		return cmp.Or(cmp.Compare(pos[a.deliverer], pos[b.deliverer]), cmp.Compare(a.sender, b.sender))
	})
	reach := make([]uint64, len(order))
	for len(open) > 0 {
		var batch []need
		lo, hi, bit := pos[open[0].deliverer], int32(0), 0
		bitOf := make(map[int32]int, 64)
		for len(open) > 0 {
			n := open[0]
			if _, ok := bitOf[n.deliverer]; !ok {
				if bit == 64 {
					break
				}
				bitOf[n.deliverer] = bit
				bit++
			}
			hi = max(hi, pos[n.sender])
			batch, open = append(batch, n), open[1:]
		}
		sweep(p, order[lo:hi+1], pos, lo, bitOf, reach)
		for _, n := range batch {
			if reach[n.sender]&(1<<bitOf[n.deliverer]) == 0 && (!found || n.sender < worst.sender) {
				worst, found = n, true
			}
		}
	}
	return worst, found
}

// sweep sets reach[t] to the bits of t and all of its ancestors that lie in part, which begins at position lo.
func sweep(p *Plan, part []int, pos []int32, lo int32, bitOf map[int32]int, reach []uint64) {
	for _, t := range part {
		var mask uint64
		for _, a := range p.Transfers[t].After {
			if pos[a] >= lo {
				mask |= reach[a]
			}
		}
		if b, ok := bitOf[int32(t)]; ok {
			mask |= 1 << b
		}
		reach[t] = mask
	}
}

// outruns reports whether t forwards a block ahead of its arrival by from, where both
// are of chunks that stream through. Times are of whole transfers: when t carries other
// blocks too it may begin with those, and when from does, the block may be there before
// from ends.
func outruns(t, from *Transfer, tol float64) bool {
	return len(t.Blocks) == 1 && t.Start < from.Start-tol ||
		len(from.Blocks) == 1 && t.End < from.End-tol ||
		t.End < from.Start-tol
}

// checkTimes: predicted times respect After. Where a block is forwarded, the arrival at
// the sender counts: equation 3 of Gupta & Vadhiyar lacks that term, see docs/papers.md.
func checkTimes(p *Plan, held holdings, rules *Rules) error {
	tol := rules.tolerance()
	brings := make([]int32, len(p.Transfers)) // brings[a] == i+1: a brings transfer i a block
	for i := range p.Transfers {
		t := &p.Transfers[i]
		for _, b := range t.Blocks {
			if starts(b, t.Src) {
				continue
			}
			d, _ := held.deliverer(b, t.Src)
			brings[d] = int32(i) + 1
			from := &p.Transfers[d]
			switch {
			case !rules.Chunked && t.Start < from.End-tol:
				return violated(Causal, []int{d, i}, "%s sends block %s at %s, before it arrives at %s", p.Hosts[t.Src], p.name(b), us(t.Start), us(from.End))
			case rules.Chunked && outruns(t, from, tol):
				return violated(Causal, []int{d, i}, "%s sends block %s from %s to %s, but it arrives from %s to %s",
					p.Hosts[t.Src], p.name(b), us(t.Start), us(t.End), us(from.Start), us(from.End))
			}
		}
		for _, a := range t.After {
			from := &p.Transfers[a]
			if _, left := t.Teller(from); brings[a] == int32(i)+1 || left && rules.Chunked && t.Start >= from.Start-tol {
				continue // judged above, or the news is of the departure
			}
			if t.Start < from.End-tol {
				return violated(Causal, []int{a, i}, "starts at %s, before what it comes after ends at %s", us(t.Start), us(from.End))
			}
		}
	}
	return nil
}
