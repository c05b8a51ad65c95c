package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A trust is how far a bandwidth can be relied upon; tables show it by colour.
type trust int

const (
	trustGood      trust = iota
	trustUncertain       // a schedule may be wrong by it
	trustDoubtful
	trustPredicted // no measurement: taken from like pairs
	trustUnknown
)

// From which uncertainty on, relative, a bandwidth is shown as uncertain, and as doubtful. A
// measurement without spread reaches them after half an hour and after three hours.
const (
	uncertainFrom = 0.15
	doubtfulFrom  = 0.35
)

// trustOf judges the bandwidth of e at now, by its spread and age.
func trustOf(e netmap.Estimate, now time.Time) trust {
	switch {
	case !e.Has(netmap.FieldBandwidth):
		return trustUnknown
	case e.Source == netmap.SourcePredicted:
		return trustPredicted
	}
	switch u := e.Uncertainty(now); {
	case u > doubtfulFrom:
		return trustDoubtful
	case u > uncertainFrom:
		return trustUncertain
	}
	return trustGood
}

// trustColors are the SGR parameters (ECMA-48, 8.3.117) of each trust. Only the 8 colours that
// every terminal has, and its own foreground for what is right: that is readable on any background.
var trustColors = [...]string{trustGood: "", trustUncertain: "33", trustDoubtful: "31", trustPredicted: "36", trustUnknown: "2"}

// A painter colours text, or leaves it.
type painter bool

func (p painter) paint(t trust, text string) string {
	if !p || trustColors[t] == "" {
		return text
	}
	return "\x1b[" + trustColors[t] + "m" + text + "\x1b[0m"
}

// legend says what the colours mean, or nothing without colours.
func (p painter) legend() string {
	if !p {
		return ""
	}
	return strings.Join([]string{
		p.paint(trustUncertain, fmt.Sprintf("uncertain by more than %.0f %%", 100*uncertainFrom)),
		p.paint(trustDoubtful, fmt.Sprintf("by more than %.0f %%, by spread and age", 100*doubtfulFrom)),
		p.paint(trustPredicted, "~ predicted from like pairs"),
		p.paint(trustUnknown, "? not measured"),
	}, "   ")
}

// shortDuration leaves out the parts of d that are 0: 5m, not 5m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// colorFlag adds --color.
func colorFlag(cmd *cobra.Command) *choice {
	return choiceFlag(cmd, "color", "", "colour what is old or uncertain: auto does so on a terminal, unless NO_COLOR is set", "auto", "always", "never")
}

// painter follows --color. NO_COLOR is that of no-color.org: any value that is not empty counts.
func (a *app) painter(color string) painter {
	switch color {
	case "always":
		return true
	case "never":
		return false
	}
	return painter(os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(a.out))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// A paintedTable is a table whose cells have colours: text/tabwriter would count the colours as
// letters.
type paintedTable struct {
	p    painter
	rows [][]paintedCell
}

type paintedCell struct {
	text  string
	trust trust
}

func (a *app) paintedTable(p painter, head ...string) *paintedTable {
	t := &paintedTable{p: p}
	cells := make([]paintedCell, len(head))
	for i, h := range head {
		cells[i].text = strings.ToUpper(h)
	}
	t.rows = append(t.rows, cells)
	return t
}

// names adds columns that are headed by names, which keep their case.
func (t *paintedTable) names(heads ...string) {
	for _, h := range heads {
		t.rows[0] = append(t.rows[0], paintedCell{text: h})
	}
}

// row adds a row; an empty cell is shown as a dash.
func (t *paintedTable) row(cells ...paintedCell) {
	for i := range cells {
		if cells[i].text == "" {
			cells[i].text = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// plain returns a cell without colour.
func plain(v any) paintedCell { return paintedCell{text: fmt.Sprint(v)} }

// print writes the table, two blanks between columns.
func (t *paintedTable) print(w io.Writer) error {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, c := range row {
			b.WriteString(t.p.paint(c.trust, c.text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
