// Package ends is how the agent tells a client that waits that it stops, rather than that something else cannot be had for now.
package ends

import (
	"errors"

	"connectrpc.com/connect"
)

// mark is the metadata of such an error.
const mark = "Gridagent-Stopping"

// Error is err as a client hears it of an agent that stops.
func Error(err error) *connect.Error { return Mark(connect.NewError(connect.CodeUnavailable, err)) }

// Mark marks e, and returns it.
func Mark(e *connect.Error) *connect.Error {
	e.Meta().Set(mark, "1")
	return e
}

// Says reports whether err is an agent's word that it stops.
func Says(err error) bool {
	var e *connect.Error
	return errors.As(err, &e) && e.Code() == connect.CodeUnavailable && e.Meta().Get(mark) != ""
}
