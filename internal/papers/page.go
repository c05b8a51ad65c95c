package main

import (
	"bytes"
	"fmt"
	"strings"
)

// A page is how an experiment is shown: made from a Raw and nothing else.
type page struct {
	panels   []panel
	columns  int // of panels in the picture; 0: 2
	tables   []table
	findings []finding
	old      string // what was measured with an older plan; empty: nothing
}

// A table has a row of cells for each line; all rows are as long as its head.
type table struct {
	title string
	head  []string
	rows  [][]string
	note  string
}

// A verdict says whether what a paper found is found here.
type verdict string

const (
	agrees  verdict = "agrees"
	partly  verdict = "partly"
	differs verdict = "differs"
)

// A finding puts what a paper says beside what was measured here.
type finding struct {
	says    string // in our words
	here    string // with numbers that were computed
	verdict verdict
	source  Source
}

// judge is agrees if all, differs if none, else partly.
func judge(all, some bool) verdict {
	switch {
	case all:
		return agrees
	case some:
		return partly
	}
	return differs
}

func (p *page) add(s Source, v verdict, says, here string, args ...any) {
	p.findings = append(p.findings, finding{says, fmt.Sprintf(here, args...), v, s})
}

// markdown returns the page of e.
func (p *page) markdown(e *experiment, raw *Raw) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n<!-- Written by scripts/bench papers, which overwrites it. -->\n\n", e.title)
	fmt.Fprintf(&b, "%s, %s.\n\n%s\n\n", e.paper.cite, e.where, strings.TrimSpace(e.about))
	if len(p.panels) > 0 {
		fmt.Fprintf(&b, "![%s](%s.svg)\n\n", e.title, e.id)
	}
	if len(p.findings) > 0 {
		b.WriteString("## What the paper finds, and what is found here\n\n")
		writeFindings(&b, p.findings)
	}
	for _, t := range p.tables {
		t.markdown(&b)
	}
	b.WriteString("## How this was made\n\n")
	fmt.Fprintf(&b, "- Command: `%s`\n- Date: %s, in %s of wall clock%s\n- Machine: %s\n- Raw numbers: [%s.json](%s.json)\n",
		raw.Command, raw.Date, minutes(raw.Seconds), sharedNote(e), raw.Machine, e.id, e.id)
	if p.old != "" {
		fmt.Fprintf(&b, "- %s\n", p.old)
	}
	if raw.Quick {
		b.WriteString("- This was a quick run: one size and two contenders each.\n")
	}
	return b.Bytes()
}

// sharedNote warns that the time can be short because others measured before.
func sharedNote(e *experiment) string {
	if e.paper == aapcPaper {
		return " (what other figures of the run had measured already is not counted)"
	}
	return ""
}

func writeFindings(b *bytes.Buffer, list []finding) {
	b.WriteString("| | the paper | here | source |\n|---|---|---|---|\n")
	for _, f := range list {
		fmt.Fprintf(b, "| **%s** | %s | %s | %s |\n", f.verdict, f.says, f.here, f.source)
	}
	b.WriteString("\n")
}

func (t *table) markdown(b *bytes.Buffer) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintf(b, "## %s\n\n|", t.title)
	for _, h := range t.head {
		fmt.Fprintf(b, " %s |", h)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(t.head)-1) + "\n")
	for _, row := range t.rows {
		b.WriteString("|")
		for _, c := range row {
			fmt.Fprintf(b, " %s |", c)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	if t.note != "" {
		fmt.Fprintf(b, "%s\n\n", t.note)
	}
}
