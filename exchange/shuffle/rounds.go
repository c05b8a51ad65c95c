package shuffle

import (
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A shuffle says who sends to whom in which slot, and how many slots make a round.
type shuffle struct {
	slots  int
	fanout int                    // slots of a round, at least 1; the last round may have fewer
	to     func(slot, id int) int // whom host id sends to in slot 1 … slots, or idle
}

// plan returns the plan of s over hosts: transfers by slot, then by source. In each
// slot a host sends at most one and receives at most one.
func (s *shuffle) plan(algorithm string, hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) {
	p, err := plan.NewAlltoall(algorithm, hosts, sizes)
	if err != nil {
		return nil, err
	}
	n := len(hosts)
	p.Phases = s.slots
	p.Transfers = make([]plan.Transfer, 0, n*(n-1))
	blocks := make([]plan.Block, n*(n-1)) // one array for all: each transfer has one
	before := make([][]int, n)            // per host: transfers of its round before
	for h := range before {
		before[h] = []int{}
	}
	width := min(s.fanout, s.slots)
	for first := 0; first < s.slots; first += width {
		last := min(first+width, s.slots)
		round := newLists(n, 2*(last-first)) // per host: transfers of this round
		for slot := first; slot < last; slot++ {
			for src := range n {
				dst := s.to(slot+1, src)
				if dst == idle {
					continue
				}
				id := len(p.Transfers)
				blocks[id] = plan.Block{Origin: src, Dest: dst}
				t := plan.Transfer{ID: id, Src: src, Dst: dst, Blocks: blocks[id : id+1 : id+1], Phase: slot, After: before[src]}
				if len(t.After) > 0 {
					t.Sync = plan.SyncSender
				}
				p.Transfers = append(p.Transfers, t)
				round[src] = append(round[src], id)
				round[dst] = append(round[dst], id)
			}
		}
		// All sends of a host in the next round share the slice: a copy for each would
		// be n³/2 entries for two rounds. Without spare room, nobody appends into it.
		for h, ids := range round {
			if len(ids) > 0 { // a host that idled waits for the round in which it last did not
				before[h] = slices.Clip(ids)
			}
		}
	}
	return p, nil
}

// newLists returns n empty lists with room for size entries each.
func newLists(n, size int) [][]int {
	room, out := make([]int, n*size), make([][]int, n)
	for i := range out {
		out[i] = room[i*size : i*size : (i+1)*size]
	}
	return out
}
