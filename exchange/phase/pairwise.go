package phase

import "github.com/gridagent/gridagent/exchange/plan"

// A use says which messages have used one directed link: those of the block of phases
// in which it was last used, and those of the block in which it was used before that.
type use struct {
	block       int32
	now, before []int32
}

// pairwise returns the synchronisations that order every two messages that contend and are
// in different blocks of size phases, without the redundant ones. Two messages contend
// if they share a directed link. With size 1 blocks are phases.
//
// The messages of one link are ordered by block, so a message needs to look only at those
// of the last block before its own on each link of its path: they are ordered behind
// everything earlier there. Every other edge would be redundant, and which of these
// are is the question of [reducer.add].
func pairwise(t *plan.Topology, messages []message, size int32, kind Sync) (edges, error) {
	r := newReducer(len(t.Hosts()), messages, size, kind)
	uses := make([]use, t.NumLinks())
	var path []plan.LinkID
	var candidates []int32
	// One message is a candidate on many links where a path is long: named[a] is 1 + the
	// last message that has it.
	named := make([]int32, len(messages))
	for i, m := range messages {
		path = t.Path(path[:0], int(m.src), int(m.dst))
		block := m.phase / size
		candidates = candidates[:0]
		for _, l := range path {
			u := &uses[l]
			if u.block != block {
				for _, old := range u.before {
					r.release(old)
				}
				u.block = block
				u.now, u.before = u.before[:0], u.now
			}
			for _, a := range u.before {
				if named[a] != int32(i)+1 {
					named[a] = int32(i) + 1
					candidates = append(candidates, a)
				}
			}
		}
		if err := r.add(int32(i), candidates); err != nil {
			return edges{}, err
		}
		for _, l := range path {
			uses[l].now = append(uses[l].now, int32(i))
			r.retain(int32(i))
		}
	}
	return r.out, nil
}
