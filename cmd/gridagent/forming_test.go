package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestGroupThatDoesNotFormIsAGroupFailure(t *testing.T) {
	var out bytes.Buffer
	a := &app{err: &out}
	err := fmt.Errorf("wrapped: %w", &formingError{present: 1, ranks: 3, limit: 2 * time.Second})
	if got := a.report(err, true); got != exitGroup {
		t.Errorf("status %d, want %d", got, exitGroup)
	}
	if !strings.Contains(out.String(), "within 2s: 1 of 3 ranks") {
		t.Errorf("message %q", out.String())
	}
}
