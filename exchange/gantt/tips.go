package gantt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/exchange/plan"
)

// class returns the looks of a transfer: the pool that its blocks come from.
func (f *figure) class(transfer int) string {
	t := &f.plan.Transfers[transfer]
	blocks := t.Blocks
	for i, block := range blocks {
		if i > 0 && f.pool[block.Origin] != f.pool[blocks[0].Origin] {
			return classMany
		}
	}
	if len(blocks) == 0 {
		return poolClass(f.pool[t.Src])
	}
	return poolClass(f.pool[blocks[0].Origin])
}

// byClass sorts transfers by class: those of the pools in order, then the others.
func (f *figure) byClass(transfers []int) (classes []string, members [][]int) {
	of := make(map[string][]int)
	for _, i := range transfers {
		class := f.class(i)
		of[class] = append(of[class], i)
	}
	for p := range min(len(f.pools), colours()) {
		classes = append(classes, poolClass(p))
	}
	classes = append(classes, classOther, classMany)
	classes = slices.DeleteFunc(classes, func(c string) bool { return of[c] == nil })
	for _, c := range classes {
		members = append(members, of[c])
	}
	return classes, members
}

// maxNamed is the number of blocks that a tooltip names.
const maxNamed = 4

// tip says what a bar is.
func (f *figure) tip(b bar) string {
	when := fmt.Sprintf("%s – %s (%s)", formatSeconds(b.Start, 6), formatSeconds(b.End, 6), formatSeconds(b.End-b.Start, 4))
	if b.count > 1 {
		return fmt.Sprintf("%d transfers\n%s", b.count, when)
	}
	t := &f.plan.Transfers[b.transfer]
	phase := ""
	if t.Phase >= 0 && f.plan.Phases > 0 {
		phase = fmt.Sprintf(", phase %d", t.Phase)
	}
	return fmt.Sprintf("%d: %s → %s%s\n%s of %s\n%s", t.ID, f.host(t.Src), f.host(t.Dst), phase,
		formatBytes(f.plan.Bytes(t)), f.blocks(t.Blocks), when)
}

// host returns the name of a host, short enough for a tooltip.
func (f *figure) host(h int) string {
	if name := f.plan.Hosts[h]; len(name) <= 64 {
		return name
	}
	return f.hostTags[h]
}

// blocks names the first few blocks.
func (f *figure) blocks(blocks []plan.Block) string {
	var names []string
	for _, b := range blocks[:min(len(blocks), maxNamed)] {
		name := f.host(b.Origin)
		if b.Dest >= 0 {
			name += " for " + f.host(b.Dest)
		}
		if n := f.plan.Pieces(b); n > 1 {
			name += fmt.Sprintf(" (piece %d of %d)", b.Piece+1, n)
		}
		names = append(names, name)
	}
	if more := len(blocks) - maxNamed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
