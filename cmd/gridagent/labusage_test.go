package main

import (
	"strings"
	"testing"
)

// TestLabUsage: what a flag of a lab command cannot be is said before any lab is looked for.
func TestLabUsage(t *testing.T) {
	for args, want := range map[string]string{
		"lab up paper-3site --name BAD!":      "--name",
		"lab status --name BAD!":              "--name",
		"lab check --name BAD!":               "--name",
		"lab stats --name BAD!":               "--name",
		"lab set UT UK --loss 1% --name X":    "--name",
		"lab cut UT UK --name BAD!":           "--name",
		"lab heal UT UK --name BAD!":          "--name",
		"lab down --name BAD!":                "--name",
		"lab exec --name BAD! ut0 -- true":    "--name",
		"lab set UT UK --queue -1":            "--queue -1",
		"lab set UT UK --queue 100000000":     "--queue 100000000",
		"lab set UT UK --latency -1ms":        "--latency -1ms",
		"lab set UT UK --latency 2h":          "--latency 2h0m0s",
		"lab set UT UK --jitter -1ms":         "--jitter -1ms",
		"tune --collectives foo":              `no collective "foo"`,
		"tune --algorithms foo":               `no algorithm "foo"`,
		"tune --algorithms auto":              `no algorithm "auto"`,
		"tune --iterations 0":                 "--iterations 0",
		"tune --algorithms min3 --sizes 1KiB": `no algorithm "min3" for alltoall`,
	} {
		if status, _, errs := gridagent(t, strings.Fields(args)...); status != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %q; want %d and %q", args, status, errs, exitUsage, want)
		}
	}
}
