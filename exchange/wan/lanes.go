package wan

import (
	"math"

	"github.com/gridagent/gridagent/exchange/plan"
)

const (
	// spare is by how much more flows run at a time than would fill a link if all went well: some
	// have just ended, some wait for news.
	spare = 1.25
	// leastLanes keeps a link busy while single flows begin with a small window, wait for
	// a retransmission or end. On the 3-site grid of Gupta & Vadhiyar, where one flow fills a link,
	// see docs/design/decisions.md.
	leastLanes = 12
)

// piece is how much of a block is under way at least: what the engine sends before it waits
// for an answer on a far path.
const piece = 16 << 10

// countLanes sets how many transfers each link carries at a time: as many as it takes to fill
// it by what one flow gets of it, and as many as have a round trip's worth of it under way.
func (s *scheduler) countLanes() {
	bytes, count := make([]int64, len(s.links)), make([]int, len(s.links))
	for _, g := range s.legs {
		bytes[g.link] += g.bytes
		count[g.link]++
	}
	for k := range s.links {
		l := &s.links[k]
		if count[k] == 0 {
			continue
		}
		block := float64(bytes[k]) / float64(count[k])
		rate, flows := l.rate, 1.0
		if s.opts.Lines != nil {
			rate = max(rate, float64(s.opts.Lines[k]))
		}
		if l.flow > 0 {
			flows = rate / l.flow
		}
		window := rate * 2 * l.latency / min(block, piece)
		lanes := min(max(math.Ceil(spare*max(flows, window))+1, leastLanes), float64(count[k]))
		// All lanes end together if they have as many legs each.
		rounds := math.Floor(float64(count[k]) / lanes)
		l.lanes = int(math.Ceil(float64(count[k]) / rounds))
	}
}

// A lastLeg is the end of a lane so far.
type lastLeg struct {
	leg   int
	bytes int64
}

// transfers makes a transfer of every leg, in the order of their starts. Each takes the lane
// that has carried least, and among equals one that its source was the last to use.
func (s *scheduler) transfers() []plan.Transfer {
	out := make([]plan.Transfer, len(s.done))
	blocks := make([]plan.Block, len(s.done))
	number := make([]int, len(s.legs))
	for i, id := range s.done {
		g := &s.legs[id]
		l := &s.links[g.link]
		number[id] = i
		blocks[i] = g.block
		t := plan.Transfer{ID: i, Src: g.src, Dst: g.dst, Blocks: blocks[i : i+1 : i+1], Phase: -1, After: []int{}}
		if g.after >= 0 {
			t.After = append(t.After, number[g.after])
		}
		if before, ok := s.enter(l, id); ok {
			t.After = append(t.After, number[before])
			t.Sync = plan.SyncSender
		}
		out[i] = t
	}
	return out
}

// enter puts a leg on a lane of l and returns the leg before it there.
func (s *scheduler) enter(l *link, id int) (before int, ok bool) {
	g := &s.legs[id]
	if len(l.ends) < l.lanes {
		l.ends = append(l.ends, lastLeg{id, g.bytes})
		return 0, false
	}
	best := 0
	for k := range l.ends {
		if c, b := &l.ends[k], &l.ends[best]; c.bytes < b.bytes || c.bytes == b.bytes && s.legs[c.leg].src == g.src && s.legs[b.leg].src != g.src {
			best = k
		}
	}
	before = l.ends[best].leg
	l.ends[best] = lastLeg{id, l.ends[best].bytes + g.bytes}
	return before, true
}
