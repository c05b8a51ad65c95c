package main

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestComputingEndsAtOnce interrupts a command whose code does not look at the context: it
// reads a pipe that nobody fills, as the planners compute for minutes.
func TestComputingEndsAtOnce(t *testing.T) {
	in, never := io.Pipe()
	defer never.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, interrupt)
	var out, errs bytes.Buffer
	a := &app{in: in, out: &out, err: &errs}
	begin := time.Now()
	status := a.run(ctx, []string{"verify", "-"})
	if took := time.Since(begin); status != exitInterrupted || errs.String() != "gridagent: interrupted\n" || took > 5*time.Second {
		t.Errorf("status %d after %v, %q; want %d at once", status, took, errs.String(), exitInterrupted)
	}
}

// TestComputes checks which commands may be left in the middle: those of the agent have
// folders and groups to clean up.
func TestComputes(t *testing.T) {
	got := make(map[string]bool)
	walk(testApp().root(), func(cmd *cobra.Command) { got[cmd.CommandPath()] = computes(cmd) })
	for path, want := range map[string]bool{
		"gridagent plan allgather": true, "gridagent simulate allgather": true, "gridagent verify": true,
		"gridagent": false, "gridagent join": false, "gridagent allgather": false, "gridagent demo": false, "gridagent init": false,
	} {
		if is, ok := got[path]; !ok || is != want {
			t.Errorf("%s: computes %v (known: %v), want %v", path, is, ok, want)
		}
	}
}
