package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// verdict is how a line ends.
func (l *Line) verdict() string {
	if l.OK {
		return "ok"
	}
	return "NOT"
}

func (l *Line) seeds() string { return strings.Trim(fmt.Sprint(l.Seeds), "[]") }

// writeText writes the table, with details if asked for, for a terminal.
func writeText(out io.Writer, lines []Line, details bool) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "what\tmeasured\tbound\t\tseeds")
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.What, l.Measured, l.Bound, l.verdict(), l.seeds())
	}
	if err := w.Flush(); err != nil || !details {
		return err
	}
	for _, l := range lines {
		fmt.Fprintf(out, "\n%s\n", l.What)
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, strings.Join(l.Detail.Head, "\t"))
		for _, row := range l.Detail.Rows {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// A Raw is the file probes.json, from which the page is made.
type Raw struct {
	Command  string    `json:"command"`
	Date     string    `json:"date"`
	Quick    bool      `json:"quick,omitempty"`
	Seconds  float64   `json:"wall_clock_s"`
	Readings []Reading `json:"readings"`
}

// markdown returns the page of raw.
func markdown(raw *Raw) string {
	var b strings.Builder
	b.WriteString("# What live measurement reaches\n\n<!-- Written by scripts/bench probes, which overwrites it. -->\n\n")
	b.WriteString("The numbers to reach of live measurement, over emulated links in virtual time: real agents, real QUIC, real gossip; only the packets'\n" +
		"network is `internal/gridnet`. The truth that errors are against is what the emulator was told, or what a real lane gets in the same world.\n\n")
	if raw.Quick {
		b.WriteString("This was a quick run: a few small cells of each row.\n\n")
	}
	lines := judge(raw.Readings)
	b.WriteString("| what | measured | bound | | seeds |\n|---|---|---|---|---|\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s |\n", l.What, l.Row, l.Measured, l.Bound, l.verdict(), l.seeds())
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n", l.Row, capital(l.What))
		fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(l.Detail.Head, " | "), strings.Repeat("---|", len(l.Detail.Head)))
		for _, row := range l.Detail.Rows {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
		fmt.Fprintf(&b, "\n%s\n", l.Detail.Note)
	}
	fmt.Fprintf(&b, "\n## How this was made\n\n- Command: `%s`\n- Date: %s, in %.0f min of wall clock\n- Raw numbers: [probes.json](probes.json)\n", raw.Command, raw.Date, raw.Seconds/60)
	return b.String()
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
