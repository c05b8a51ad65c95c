package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Raw is the file performance.json, from which the page is made.
type Raw struct {
	Command  string    `json:"command"`
	Date     string    `json:"date"`
	Seconds  float64   `json:"wall_clock_s"`
	Missing  int       `json:"missing,omitempty"` // cells, of a run that was interrupted
	Readings []Reading `json:"readings"`
	Earlier  []Earlier `json:"earlier,omitempty"` // of which readings are left
}

// An Earlier is a run from which the file holds readings of cells that were not measured since.
type Earlier struct {
	Command string `json:"command"`
	Date    string `json:"date"`
	Cells   int    `json:"cells"`
}

// join adds to raw the readings of old, an earlier run, of cells that raw has none of.
func (raw *Raw) join(old *Raw) {
	have := make(map[string]bool)
	for _, r := range raw.Readings {
		have[r.Cell.String()] = true
	}
	left := make(map[string]int) // by date
	for _, r := range old.Readings {
		if have[r.Cell.String()] {
			continue
		}
		if r.Earlier == "" {
			r.Earlier = old.Date
		}
		left[r.Earlier]++
		raw.Readings = append(raw.Readings, r)
	}
	place := make(map[string]int)
	for i, c := range allCells(1) {
		place[c.String()] = i
	}
	slices.SortStableFunc(raw.Readings, func(a, b Reading) int { return place[a.Cell.String()] - place[b.Cell.String()] })
	for _, e := range append(old.Earlier, Earlier{Command: old.Command, Date: old.Date}) {
		if e.Cells = left[e.Date]; e.Cells > 0 {
			raw.Earlier = append(raw.Earlier, e)
		}
	}
}

// numbersOf is the file beside the page out that holds its numbers.
func numbersOf(out string) string {
	return filepath.Join(filepath.Dir(out), "results", "performance.json")
}

// readRaw reads the numbers of the page out, nil if there are none.
func readRaw(out string) (*Raw, error) {
	data, err := os.ReadFile(numbersOf(out))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	raw := &Raw{}
	if err == nil {
		err = json.Unmarshal(data, raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; move it away to begin anew", numbersOf(out), err)
	}
	return raw, nil
}

// report prints raw and writes its page to a file, unless that is empty. It returns errMissed, wrapped with the cells.
func report(raw *Raw, out string) error {
	if err := writeText(os.Stdout, raw); err != nil {
		return err
	}
	if out != "" {
		data, err := json.MarshalIndent(raw, "", " ")
		if err != nil {
			return err
		}
		for name, text := range map[string][]byte{out: []byte(markdown(raw)), numbersOf(out): append(data, '\n')} {
			if err := os.WriteFile(name, text, 0o644); err != nil {
				return err
			}
		}
	}
	var missed []string
	for _, l := range lines(raw.Readings) {
		if !l.ok {
			missed = append(missed, l.cell.String())
		}
	}
	if missed != nil {
		return fmt.Errorf("%w: %s", errMissed, strings.Join(missed, ", "))
	}
	return nil
}

// A line is a check of a reading as it is shown.
type line struct {
	cell    Cell
	columns []string
	ok      bool
}

var head = []string{"operation", "network", "block", "what", "measured", "bound", "", "no less than", "makespan", "least", "predicted / achieved", "algorithm", "packets lost"}

// lines returns the lines of readings, in their order.
func lines(readings []Reading) []line {
	var all []line
	for _, r := range readings {
		c := r.Cell
		first := []string{string(c.Collective), c.Network, size(c.Size)}
		least, floored := floorOf(c)
		lowest := cmp.Or(r.Relayed, r.Bound)
		rest := []string{times(r.Makespans), seconds(lowest), accuracy(r.Predicted, r.Elapsed), r.Algorithm, strings.Trim(fmt.Sprint(r.Lost), "[]")}
		if r.Failed != "" {
			all = append(all, line{c, append(append(first, r.Failed, "-", "-", "NOT", "-"), rest...), false})
			continue
		}
		for _, k := range r.Checks {
			verdict, bound := "ok", fmt.Sprintf("≤ %.3g", k.Limit)
			if k.Least {
				bound = fmt.Sprintf("≥ %.3g", k.Limit)
			}
			switch {
			case k.Limit == 0:
				verdict, bound = "", "-"
			case !k.OK():
				verdict = "NOT"
			}
			atLeast := "-"
			if of := r.over(k); floored && of > 0 {
				atLeast = fmt.Sprintf("%.3f", max(least, lowest)/of)
			}
			rest := slices.Clone(rest)
			rest[1] = seconds(cmp.Or(r.over(k), lowest))
			all = append(all, line{c, append(append(append([]string{}, first...), k.What, fmt.Sprintf("%.3f", k.Value), bound, verdict, atLeast), rest...), k.OK()})
		}
	}
	return all
}

// over returns the time, in seconds, that k is a multiple of, 0 if that is no bound of r.
func (r *Reading) over(k Check) float64 {
	switch k.What {
	case "makespan / bound", "makespan / direct bound":
		return r.Bound
	case "makespan / relayed bound":
		return r.Relayed
	}
	return 0
}

func seconds(s float64) string {
	if s == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g s", s)
}

// accuracy returns predicted over elapsed of each run.
func accuracy(predicted, elapsed []float64) string {
	var s []string
	for i := range min(len(predicted), len(elapsed)) {
		if predicted[i] > 0 && elapsed[i] > 0 {
			s = append(s, fmt.Sprintf("%.2f", predicted[i]/elapsed[i]))
		}
	}
	if s == nil {
		return "-"
	}
	return strings.Join(s, " ")
}

func times(all []float64) string {
	var s []string
	for _, v := range all {
		s = append(s, fmt.Sprintf("%.3g", v))
	}
	return strings.Join(s, " ") + " s"
}

func writeText(out io.Writer, raw *Raw) error {
	for _, row := range order {
		of := rows(raw.Readings, row)
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s\n", titles[row])
		if about[row] != "" {
			fmt.Fprintln(out, about[row])
		}
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, strings.Join(head, "\t"))
		for _, l := range lines(of) {
			fmt.Fprintln(w, strings.Join(l.columns, "\t"))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, r := range of {
			if r.Note != "" {
				fmt.Fprintf(out, "%v: %s\n", r.Cell, r.Note)
			}
		}
	}
	return nil
}

// rows returns the readings of one row.
func rows(readings []Reading, row Row) []Reading {
	var of []Reading
	for _, r := range readings {
		if r.Cell.Row == row {
			of = append(of, r)
		}
	}
	return of
}

// markdown returns the page of raw.
func markdown(raw *Raw) string {
	var b strings.Builder
	b.WriteString("# How near to the bound exchanges come\n\n<!-- Written by scripts/bench exchange, which overwrites it. -->\n\n")
	b.WriteString("Emulated networks in virtual time: real agents, plans, engines and QUIC; only the packets' network is `internal/gridnet`. A ratio is the\n" +
		"median makespan over the least time that any schedule could take with the links as they were emulated. It holds all that an\n" +
		"operation does, from the last rank's call to the last rank's return, and headers: 4.8 % of a full packet.\n" +
		"All makespans are shown; where engines run alone on grids the median leaves out the first, which opens the lanes.\n" +
		"*Least* is the bound that a line's ratio is over. Of an alltoall the direct bound is that of data that go straight, which relays may stay below, and the\n" +
		"relayed one that of any schedule. Bounds are of bandwidth alone. *No less than* is the ratio below which no schedule of packets can get: latency, lost packets and the\n" +
		"headers of IP and UDP counted (`internal/performance/floor.go`), acknowledgements and repairs not.\n\n")
	if raw.Missing > 0 {
		fmt.Fprintf(&b, "The last run was interrupted: it did not get to %d of its cells.\n\n", raw.Missing)
	}
	for _, row := range order {
		of := rows(raw.Readings, row)
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(&b, "## %s\n\n", strings.ToUpper(titles[row][:1])+titles[row][1:])
		if about[row] != "" {
			fmt.Fprintf(&b, "%s\n\n", about[row])
		}
		fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
		for _, l := range lines(of) {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(l.columns, " | "))
		}
		for _, r := range of {
			if r.Note != "" {
				fmt.Fprintf(&b, "\n`%v`: %s\n", r.Cell, r.Note)
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "## How this was made\n\n- Command: `%s`\n- Date: %s, in %.0f min of wall clock\n", raw.Command, raw.Date, raw.Seconds/60)
	for _, e := range raw.Earlier {
		fmt.Fprintf(&b, "- %d cells are of an earlier run: `%s`, %s\n", e.Cells, e.Command, e.Date)
	}
	if names := missing(raw.Readings); names != "" {
		fmt.Fprintf(&b, "- Not measured: %s\n", names)
	}
	b.WriteString("- Raw numbers: [performance.json](results/performance.json)\n")
	return b.String()
}

// missing names the cells of the first seed of which there is no reading.
func missing(readings []Reading) string {
	have := make(map[string]bool)
	for _, r := range readings {
		have[r.Cell.String()] = true
	}
	var names []string
	for _, c := range allCells(1) {
		if !have[c.String()] {
			names = append(names, "`"+c.String()+"`")
		}
	}
	return strings.Join(names, ", ")
}
