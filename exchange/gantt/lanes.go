package gantt

import (
	"cmp"
	"slices"
)

// A bar is one transfer in one row, or several short ones that are drawn together.
type bar struct {
	Span
	transfer int    // index in Plan.Transfers; -1 where there are several
	count    int    // transfers
	class    string // its looks; set by limit
}

// A band holds the transfers of a row that go one way: bars in a stack of lanes, of
// which those of one lane do not overlap. Where too many transfers overlap, it is drawn
// as a curve of how many there are.
type band struct {
	transfers []int
	lanes     [][]bar
	crowded   bool
}

// maxLanes is the largest number of transfers that are drawn on top of each other.
const maxLanes = 48

// pack puts each transfer in the first lane that is free when it starts.
func pack(spans []Span, transfers []int) *band {
	order := slices.Clone(transfers)
	slices.SortFunc(order, func(i, j int) int {
		a, b := spans[i], spans[j]
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(i, j))
	})
	b := &band{transfers: transfers}
	for _, i := range order {
		lane := 0
		for lane < len(b.lanes) && !free(b.lanes[lane], spans[i].Start) {
			lane++
		}
		if lane == maxLanes {
			return &band{transfers: transfers, crowded: true}
		}
		if lane == len(b.lanes) {
			b.lanes = append(b.lanes, nil)
		}
		b.lanes[lane] = append(b.lanes[lane], bar{Span: spans[i], transfer: i, count: 1})
	}
	return b
}

// free reports whether a bar can start in lane, whose last bar it follows. A bar of no
// length keeps its instant to itself, or the next would hide it.
func free(lane []bar, start float64) bool {
	last := lane[len(lane)-1]
	if last.End == last.Start {
		return start > last.End
	}
	return last.End <= start+tolerance
}

// height returns the number of lanes that b takes, of which there may be most.
func (b *band) height(most int) int {
	if b.crowded {
		return most
	}
	return min(max(len(b.lanes), 1), most)
}

// limit returns b as it is drawn with at most so many lanes, with bars of one lane
// joined that are shorter than grain seconds and less than that apart. class says how
// a transfer looks.
func (b *band) limit(lanes int, grain float64, class func(transfer int) string) *band {
	if b.crowded || len(b.lanes) > lanes {
		return &band{transfers: b.transfers, crowded: true}
	}
	out := &band{transfers: b.transfers}
	for _, lane := range b.lanes {
		out.lanes = append(out.lanes, join(lane, grain, class))
	}
	return out
}

// join joins short neighbours of one lane. They keep their looks if they share them.
func join(lane []bar, grain float64, class func(transfer int) string) []bar {
	// What is joined grows past the grain and still takes the next.
	short := func(b bar) bool { return b.count > 1 || b.End-b.Start < grain }
	var out []bar
	for _, b := range lane {
		b.class = class(b.transfer)
		last := len(out) - 1
		if last < 0 || !short(out[last]) || !short(b) || b.Start-out[last].End >= grain {
			out = append(out, b)
			continue
		}
		l := &out[last]
		l.End, l.transfer, l.count = b.End, -1, l.count+b.count
		if l.class != b.class {
			l.class = classJoined
		}
	}
	return out
}
