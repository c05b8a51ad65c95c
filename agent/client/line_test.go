package client

import (
	"context"
	"errors"
	"testing"
	"time"
)

// An operation whose time is over ends, also where the agent does not answer to its request for a line.
func TestLineThatIsNotMade(t *testing.T) {
	f, c, _ := newFake(t)
	f.hangs = true
	r := join(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := r.Allgather(ctx, []byte("x"), Options{})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}
