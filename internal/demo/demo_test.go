package demo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/probe/gridfile"
)

// TestInterruptedRunIsNoFailure checks that Ctrl-C during a run ends the demo without a
// word of failure about the algorithm, and that the runs before it are still reported.
func TestInterruptedRunIsNoFailure(t *testing.T) {
	g, err := gridfile.Parse("test", []byte("sites:\n  - {name: A, hosts: 2, lan: {bandwidth: 10Mbps, latency: 1ms}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		var told []string
		report, err := execute(ctx, Options{
			Grid: g, Size: 1 << 20, Algorithms: []string{"ring", "magpie", "bruck"}, Dir: dir,
			Run: func(r Run) { told = append(told, r.Algorithm) },
			Progress: func(stage string, _, _ int) {
				if strings.HasSuffix(stage, "magpie") {
					time.AfterFunc(300*time.Millisecond, interrupt) // 1 MiB takes 0.8 s
				}
			},
		}, false)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that of the context", err)
		}
		if !slices.Equal(told, []string{"ring"}) || len(report.Runs) != 1 || !report.Runs[0].Verified {
			t.Errorf("told of %v, reported %+v; want the run of ring alone", told, report.Runs)
		}
	})
}
