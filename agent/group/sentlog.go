package group

import (
	"maps"
	"slices"
)

// logged is of how many small operations a host keeps what it has sent to another. As long as that lacks one message it has no result of
// an operation of which another comes behind it: such operations are under way at all of its ranks, or up to [ahead] beyond what they have begun. As
// many again are to spare.
const logged = 4 * MaxUnderWay

// A sentLog is what a stream to another member has taken and may lose, of the latest operations. Those that are planned between them do not count: any
// number may be.
type sentLog struct {
	of   map[uint64][]message // by operation
	over uint64               // operations before it are over everywhere
}

// forget drops what is of operations before over.
func (l *sentLog) forget(over uint64) {
	if over <= l.over {
		return
	}
	l.over = over
	maps.DeleteFunc(l.of, func(seq uint64, _ []message) bool { return seq < over })
}

func (l *sentLog) add(msg message) {
	if l.of == nil {
		l.of = make(map[uint64][]message)
	}
	l.of[msg.Seq] = append(l.of[msg.Seq], msg)
	if len(l.of) <= logged {
		return
	}
	oldest := msg.Seq
	for seq := range l.of {
		oldest = min(oldest, seq)
	}
	delete(l.of, oldest)
}

// all lists what is kept, operation by operation.
func (l *sentLog) all() (all []message) {
	for _, seq := range slices.Sorted(maps.Keys(l.of)) {
		all = append(all, l.of[seq]...)
	}
	return all
}
