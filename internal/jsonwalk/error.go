package jsonwalk

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// An Error says where a file is wrong, and why.
type Error struct {
	File   string // as given to [New]; may be empty
	Line   int    // from 1
	Reason string
}

// Error returns "file:line: reason", or "line N: reason" where the file has no name.
func (e *Error) Error() string {
	if e.File == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// maxReason bounds a reason in bytes, more or less: the path to a value is as deep, and the
// loop of a switch graph as long, as whoever wrote the file likes. [Within] adds nothing to
// a longer one; the line says where it is all the same.
const maxReason = 500

// Within puts the name of the element that holds the wrong value before the reason:
// "src", then "[3]", then "transfers" give "transfers[3]: src: …". Other errors, and nil,
// pass unchanged.
func Within(err error, name string) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Reason) > maxReason {
		return err
	}
	if !strings.HasPrefix(e.Reason, "[") {
		name += ": "
	}
	e.Reason = name + e.Reason
	return err
}

// Element names element i of a list for [Within].
func Element(i int) string { return "[" + strconv.Itoa(i) + "]" }

// maxQuote bounds in bytes what an error quotes of one value.
const maxQuote = 40

// Quote returns s in quotes for an error: shortened, and with control characters, which
// could write to the terminal of the reader, escaped.
func Quote(s string) string { return strconv.Quote(Clip(s, maxQuote)) }

// Clip shortens s to size bytes and an ellipsis.
func Clip(s string, size int) string {
	if len(s) > size {
		return strings.ToValidUTF8(s[:size], "") + "…"
	}
	return s
}
