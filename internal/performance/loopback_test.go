package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// metric is one of a benchmark's numbers with its name.
var metric = regexp.MustCompile(`([0-9.]+) (x-bare|cpu-s/GiB|bare-cpu-s/GiB|Gbit/s)`)

// measureLoopback: what two engines take of the CPU for a GiB over the kernel's loopback, beside a bare loop over the same
// library in the same run. It is the benchmark of package exchange, in real time: what else runs here
// makes its rates smaller, and its ratio less so.
func measureLoopback(t *testing.T, r *Reading) {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkLoopback$/^"+r.Cell.Network+"$/^chunk=128KiB$", "-benchtime", "8x", "./exchange")
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	limits := map[string]float64{"x-bare": r.Cell.Limit}
	names := map[string]string{
		"x-bare": "CPU time of the engines over that of a bare loop", "cpu-s/GiB": "CPU seconds per GiB, both ends",
		"bare-cpu-s/GiB": "CPU seconds per GiB of the bare loop", "Gbit/s": "Gbit/s on this machine",
	}
	for _, m := range metric.FindAllStringSubmatch(string(out), -1) {
		value, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		r.check(names[m[2]], value, limits[m[2]])
	}
	if len(r.Checks) != len(names) {
		t.Errorf("%d of %d numbers in %s", len(r.Checks), len(names), out)
	}
}
