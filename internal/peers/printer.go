package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gridagent/gridagent/probe/gridfile"
)

// A printer prints records as they come.
type printer struct {
	out    io.Writer
	json   bool
	headed string // what the last heading was for
}

func (p *printer) object(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = p.out.Write(append(data, '\n'))
	return err
}

// head prints the heading of a table unless its rows are the last that were printed.
func (p *printer) head(of, heading string) {
	if p.headed != of {
		p.headed = of
		fmt.Fprint(p.out, heading)
	}
}

func (p *printer) record(r Record) error {
	if p.json {
		return p.object(r)
	}
	p.head("runs", fmt.Sprintf("\n%-9s %-18s %-34s %-6s %8s %9s %9s %9s %8s %11s %7s %5s %7s %8s  %s\n",
		"library", "collective", "algorithm", "tcp", "size", "mean s", "min s", "max s", "x bound", "WAN", "x least", "cpu", "agents", "memory", "data"))
	_, err := fmt.Fprintf(p.out, "%-9s %-18s %-34s %-6s %8s %s\n",
		r.Tool, strings.TrimSpace(string(r.Collective)+" "+string(r.Shape)), strings.TrimSpace(r.Algorithm+" "+r.Variant), r.Congestion, gridfile.FormatSize(r.Size), r.outcome())
	return err
}

// outcome is the right half of a row.
func (r *Record) outcome() string {
	if r.Error != "" {
		text, _, _ := strings.Cut(r.Error, "\n")
		return "  " + text
	}
	ratio, data := "-", "right"
	if r.Ratio > 0 {
		ratio = fmt.Sprintf("%.2f", r.Ratio)
	}
	if !r.Verified {
		data = "WRONG"
	}
	if r.Missed > 0 {
		data += fmt.Sprintf("; the machine was too busy for %d packets", r.Missed)
	}
	crossed, agents, memory := "-", "-", "-"
	if r.Least > 0 {
		crossed = fmt.Sprintf("%.2f", float64(r.crossed())/float64(r.Least))
	}
	if u := r.Agents; u != nil {
		agents, memory = fmt.Sprintf("%.2f s", u.CPU), fmt.Sprintf("%d MiB", u.Peak>>20)
	}
	return fmt.Sprintf("%9s %9s %9s %8s %11s %7s %3.0f %% %7s %8s  %s",
		digits(r.Mean), digits(r.Min), digits(r.Max), ratio, bytesText(r.crossed()), crossed, 100*r.Busy, agents, memory, data)
}

func (p *printer) link(c LinkCheck) error {
	if p.json {
		return p.object(c)
	}
	p.head("links", fmt.Sprintf("\n%-20s %-18s %-6s %9s %9s %9s %9s %8s %7s   Mbit/s\n",
		"link", "hosts", "tcp", "all flows", "one flow", "payload", "iperf3", "of it", "resent"))
	name := fmt.Sprintf("%-20s %-18s %-6s", c.Link, c.From+"→"+c.To, c.Congestion)
	if c.Error != "" {
		text, _, _ := strings.Cut(c.Error, "\n")
		_, err := fmt.Fprintf(p.out, "%s   %s\n", name, text)
		return err
	}
	_, err := fmt.Fprintf(p.out, "%s %9.3f %9.3f %9.3f %9.3f %6.1f %% %7d\n",
		name, c.Capacity, c.Declared, c.Payload, c.Goodput, 100*c.Goodput/c.Payload, c.Resent)
	return err
}

// digits gives a number of seconds four digits.
func digits(s float64) string { return fmt.Sprintf("%#.4g", s) }

func bytesText(n int64) string {
	const unit = 1024
	switch {
	case n >= 10*unit*unit:
		return fmt.Sprintf("%.1f MiB", float64(n)/(unit*unit))
	case n >= 10*unit:
		return fmt.Sprintf("%.1f KiB", float64(n)/unit)
	}
	return fmt.Sprintf("%d B", n)
}
