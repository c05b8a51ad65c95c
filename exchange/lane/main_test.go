package lane

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Waiting returns the number of incoming handshakes in progress.
func (e *Endpoint) Waiting() int {
	e.door.mu.Lock()
	defer e.door.mu.Unlock()
	return e.door.waiting
}

// WindowLeft returns what is left of the budget, in bytes.
func (e *Endpoint) WindowLeft() uint64 {
	e.windows.mu.Lock()
	defer e.windows.mu.Unlock()
	return e.windows.left
}

// Links returns the number of connections.
func (e *Endpoint) Links() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.links.order)
}
