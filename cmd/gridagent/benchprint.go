package main

import (
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/gridagent/gridagent/internal/bench"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// printBench prints what a benchmark has found; whole says that it came to its end.
func (a *app) printBench(f *benchFlags, r *bench.Report, whole bool) error {
	if f.output.value == "json" {
		return a.printJSON(r)
	}
	verified := "; all data verified"
	if !whole {
		verified = fmt.Sprintf("; ended after %d of %d sizes", len(r.Sizes), len(f.sizes.bytes))
	}
	shape := ""
	if r.Shape != "" {
		shape = fmt.Sprintf(", shape %s", r.Shape)
	}
	_, err := fmt.Fprintf(a.out, "%s of %d ranks on %d hosts, %d iterations after %d to warm up%s%s\n\n",
		r.Collective, r.Ranks, distinct(r.Hosts), f.iterations, r.Warmup, shape, verified)
	if err != nil {
		return err
	}
	t := a.table("size", "algorithm", "iterations", "mean", "min", "max", "bound", "x bound", "bus Mbit/s")
	for _, s := range r.Sizes {
		bound, times := "", ""
		if s.Bound > 0 {
			bound, times = formatSeconds(s.Bound), fmt.Sprintf("%.2f", s.Ratio)
			if s.Ratio >= 100 { // of a few bytes, whose time is latency
				times = fmt.Sprintf("%.0f", s.Ratio)
			}
		}
		t.row(gridfile.FormatSize(s.Bytes), s.Algorithm, len(s.Iterations), formatSeconds(s.Mean), formatSeconds(s.Min), formatSeconds(s.Max),
			bound, times, significant(s.Mbps))
	}
	if err := t.flush(); err != nil {
		return err
	}
	return a.printCrossings(r)
}

// printCrossings prints a row for each size and a column for each pair of sites.
func (a *app) printCrossings(r *bench.Report) error {
	type pair struct{ from, to string }
	var pairs []pair // as they come: sorted but for what only larger sizes use
	bytes := make(map[pair][]float64)
	for i, s := range r.Sizes {
		for _, c := range s.WAN {
			p := pair{c.From, c.To}
			if bytes[p] == nil {
				pairs = append(pairs, p)
				bytes[p] = make([]float64, len(r.Sizes))
			}
			bytes[p][i] = c.Bytes
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(a.out, "\nbytes from site to site, mean of an operation:\n"); err != nil {
		return err
	}
	t := &table{w: tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)} // a.table would change the case of the labels
	head := []any{"SIZE"}
	for _, p := range pairs {
		head = append(head, siteLabel(p.from)+"→"+siteLabel(p.to))
	}
	t.row(head...)
	for i, s := range r.Sizes {
		row := []any{gridfile.FormatSize(s.Bytes)}
		for _, p := range pairs {
			row = append(row, formatBytes(int64(bytes[p][i]+0.5)))
		}
		t.row(row...)
	}
	return t.flush()
}

func siteLabel(site string) string {
	if site == "" {
		return "?"
	}
	return site
}

func distinct(names []string) int {
	sorted := slices.Sorted(slices.Values(names))
	return len(slices.Compact(sorted))
}
