package bench

import (
	"fmt"

	"github.com/gridagent/gridagent/probe/gridfile"
)

// A MismatchError means that the ranks do not measure the same. All ranks get the same one.
type MismatchError struct {
	Rank  int // the lowest that differs from rank 0
	Host  string
	Cause string
}

func (e *MismatchError) Error() string { return "the ranks disagree: " + e.Cause }

// A wrongBlock is what one rank has found in an operation.
type wrongBlock struct {
	From int    `json:"from"` // -1 where no block is to blame
	Says string `json:"says"`
}

// A WrongDataError means that a rank got wrong bytes. All ranks get the same one.
type WrongDataError struct {
	Rank, From         int // of the first wrong block; From is -1 where no block is to blame
	Host, FromHost     string
	Size               int64
	Operation, Warmups int // from 0, of this size
	Others             int // ranks that got wrong bytes as well
	Cause              string
}

func (e *WrongDataError) Error() string {
	which := fmt.Sprintf("iteration %d", e.Operation-e.Warmups+1)
	if e.Operation < e.Warmups {
		which = fmt.Sprintf("warm-up %d", e.Operation+1)
	}
	text := fmt.Sprintf("wrong data: rank %d on %s, %s, %s: ", e.Rank, e.Host, gridfile.FormatSize(e.Size), which)
	if e.From >= 0 {
		text += fmt.Sprintf("block from rank %d on %s: ", e.From, e.FromHost)
	}
	text += e.Cause
	if e.Others > 0 {
		text += fmt.Sprintf(" (and %d other ranks got wrong data)", e.Others)
	}
	return text
}

// wrong returns the error for what the ranks have found in an operation, nil for none.
func (b *run) wrong(seen []observation, size int64, k int) error {
	var e *WrongDataError
	for r, o := range seen {
		switch w := o.Wrong; {
		case w == nil:
		case e != nil:
			e.Others++
		default:
			e = &WrongDataError{
				Rank: r, Host: b.hosts[r], From: w.From, Size: size, Warmups: b.Warmup,
				Operation: k, Cause: w.Says,
			}
			if w.From >= 0 && w.From < len(b.hosts) {
				e.FromHost = b.hosts[w.From]
			}
		}
	}
	if e == nil {
		return nil
	}
	return e
}
