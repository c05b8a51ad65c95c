package group

import "slices"

// logged is of how many small operations a host keeps what it has sent to another. As long as that lacks one message it has no result of
// an operation of which another comes behind it: such operations are under way at all of its ranks, or up to [ahead] beyond what they have begun. As
// many again are to spare.
const logged = 4 * MaxUnderWay

// A sentLog is what a stream to another member has taken and may lose, of the latest operations. Those that are planned between them do not count: any
// number may be.
type sentLog struct {
	sent []message
	of   map[uint64]bool // the operations
}

func (l *sentLog) add(msg message) {
	l.sent = append(l.sent, msg)
	l.of[msg.Seq] = true
	if len(l.of) <= logged {
		return
	}
	oldest := msg.Seq
	for seq := range l.of {
		oldest = min(oldest, seq)
	}
	delete(l.of, oldest)
	l.sent = slices.DeleteFunc(l.sent, func(old message) bool { return old.Seq == oldest })
}
