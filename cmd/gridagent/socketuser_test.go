package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestSocketOfAnotherUser: who may not use the socket is told so, not that there is no agent.
func TestSocketOfAnotherUser(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{syscall.EACCES, "run this as that user"},
		{syscall.ECONNREFUSED, "no agent answers on /x/agent.sock"},
	} {
		text := (&unreachableError{socket: "/x/agent.sock", err: tc.err}).Error()
		if !strings.Contains(text, tc.want) || !strings.Contains(text, "/x/agent.sock") {
			t.Errorf("%v: %q, want %q", tc.err, text, tc.want)
		}
	}
	if text := (&unreachableError{socket: "s", err: syscall.EACCES}).Error(); strings.Contains(text, "no agent") {
		t.Errorf("%q: there may be one", text)
	}
}
