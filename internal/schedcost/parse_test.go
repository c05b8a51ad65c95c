package main

import (
	"math"
	"strings"
	"testing"
)

const printed = `goos: linux
goarch: amd64
pkg: github.com/gridagent/gridagent/internal/schedcost
cpu: Some(R) Processor: 3 GHz
BenchmarkCost/allgather/mpich-g2/n=64-2   	      12	   4825628 ns/op	      4032 transfers	 1631335 B/op	   18351 allocs/op
BenchmarkCost/allgather/mpich-g2/n=64-2   	      12	   3825628.5 ns/op	      4032 transfers	 1631336 B/op	   18352 allocs/op
BenchmarkCost/allgather/mpich-g2/n=128
    bench_test.go:1: a log line
BenchmarkCost/allgather/mpich-g2/n=8 	 1000	 1e+03 ns/op
PASS
ok  	github.com/gridagent/gridagent/internal/schedcost	1.2s
`

func TestParse(t *testing.T) {
	out, err := parse([]byte(printed))
	if err != nil {
		t.Fatal(err)
	}
	if got := out.config["cpu"]; got != "Some(R) Processor: 3 GHz" {
		t.Errorf("cpu is %q", got)
	}
	if len(out.results) != 3 {
		t.Fatalf("%d results, want 3: %v", len(out.results), out.results)
	}
	p, ok := out.pointOf("Cost/allgather/mpich-g2", 64)
	if want := (point{64, 3825628.5 / 1e9, 1631336, 18352, 4032}); !ok || p != want {
		t.Errorf("of two runs the fastest is %v, got %v, %v", want, p, ok)
	}
	if p, ok := out.pointOf("Cost/allgather/mpich-g2", 8); !ok || math.Abs(p.seconds-1e-6) > 1e-12 {
		t.Errorf("one processor, no memory: %v, %v", p, ok)
	}
	if p, ok := out.pointOf("Cost/allgather/mpich-g2", 128); ok {
		t.Errorf("a name without numbers became %v", p)
	}
}

func TestParseErrors(t *testing.T) {
	for line, want := range map[string]string{
		"BenchmarkX-2 10 5 ns/op":                        "does not end in /n=hosts",
		"BenchmarkX/n=99999999999999999999-2 10 5 ns/op": "out of range",
		"BenchmarkX/n=8-2 10 5 ns/op 7":                  "pairs of value and unit",
		"BenchmarkX/n=8-2 10":                            "pairs of value and unit",
		"BenchmarkX/n=8-2 10 five ns/op":                 "five",
		"BenchmarkX/n=8-2 ten 5 ns/op":                   "iterations",
	} {
		if _, err := parse([]byte(line + "\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q in it", line, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(printed))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := parse(in)
		if err != nil {
			return
		}
		for _, r := range out.results {
			if r.name == "" || r.n < 0 || len(r.values) == 0 {
				t.Fatalf("result %+v", r)
			}
		}
	})
}
