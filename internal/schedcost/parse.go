package main

import (
	"bufio"
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// An output is what a run of go test -bench printed.
type output struct {
	config  map[string]string // the lines "key: value" before the results: goos, goarch, pkg, cpu
	results []result
}

// A result is one line: one sub-benchmark, once. With -count there are several of a name.
type result struct {
	name string // without "Benchmark", the size and the number of processors
	n    int    // hosts, from the name's end
	// per unit, as printed: ns/op, B/op, allocs/op and the benchmark's own
	values map[string]float64
}

var (
	configLine = regexp.MustCompile(`^([a-z][^\s:]*):\s+(.*\S)\s*$`)
	// The processors (-8) are missing where there is one.
	resultName = regexp.MustCompile(`^Benchmark(\S+)/n=([0-9]+)(?:-[0-9]+)?$`)
)

// parse reads the benchmark format of Go: lines of a name, a number of iterations, and pairs
// of value and unit. Lines that are no results and no configuration are passed over, as the
// format asks. A result that is cut short, or whose name does not end in /n=hosts, is an error.
func parse(text []byte) (output, error) {
	out := output{config: map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if m := configLine.FindStringSubmatch(lines.Text()); m != nil {
			out.config[m[1]] = m[2]
			continue
		}
		// The name alone on a line comes before what the benchmark logs.
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		r, err := parseResult(fields)
		if err != nil {
			return output{}, fmt.Errorf("benchmark line %.200q: %w", lines.Text(), err)
		}
		out.results = append(out.results, r)
	}
	return out, lines.Err()
}

func parseResult(fields []string) (result, error) {
	m := resultName.FindStringSubmatch(fields[0])
	if m == nil {
		return result{}, fmt.Errorf("name %.80q does not end in /n=hosts", fields[0])
	}
	n, err := strconv.Atoi(m[2])
	if err != nil {
		return result{}, err
	}
	if _, err := strconv.ParseUint(fields[1], 10, 64); err != nil {
		return result{}, fmt.Errorf("iterations: %w", err)
	}
	if len(fields)%2 != 0 || len(fields) < 4 {
		return result{}, fmt.Errorf("%d fields after the iterations: want pairs of value and unit", len(fields)-2)
	}
	r := result{name: m[1], n: n, values: map[string]float64{}}
	for i := 2; i < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return result{}, err
		}
		r.values[fields[i+1]] = v
	}
	return r, nil
}

// A point is one size of a series. Of several runs it is the fastest: other work on the
// machine only ever adds time.
type point struct {
	n         int     // hosts
	seconds   float64 // a run
	bytes     float64 // allocated during a run, in total; never less than what it holds at a time
	allocs    float64
	transfers float64 // of the plan; 0 if there is none
}

// pointOf returns the point of name at n hosts, and whether there is one.
func (o output) pointOf(name string, n int) (point, bool) {
	var best point
	found := false
	for _, r := range o.results {
		if r.name != name || r.n != n {
			continue
		}
		p := point{n, r.values["ns/op"] / 1e9, r.values["B/op"], r.values["allocs/op"], r.values["transfers"]}
		if !found || p.seconds < best.seconds {
			best, found = p, true
		}
	}
	return best, found
}
