package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/agent/api/ends"
)

// An agent that stops in good order while a command waits for it is as gone as one that was killed.
func TestAgentThatStops(t *testing.T) {
	stops := ends.Error(errors.New("the agent is stopping"))
	for args, socket := range map[string]string{
		"barrier --rank 0 --ranks 2 --job j": (&fakeAgent{join: stops}).serve(t),
		"pools --watch":                      (&poolsAgent{end: stops}).serve(t),
	} {
		status, _, errs := gridagent(t, append(strings.Fields(args), "--socket", socket)...)
		if status != exitUnreachable || !strings.Contains(errs, "the agent on this host is gone (the agent is stopping)") {
			t.Errorf("%s: status %d, %q; want %d, and that the agent is gone", args, status, errs, exitUnreachable)
		}
	}
}
