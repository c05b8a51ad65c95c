package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
)

// printJSON prints v indented, with a final newline.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// A table collects rows and prints them in aligned columns.
type table struct {
	w   *tabwriter.Writer
	err error
}

func (a *app) table(head ...string) *table {
	t := &table{w: tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)}
	cells := make([]any, len(head))
	for i, h := range head {
		cells[i] = strings.ToUpper(h)
	}
	t.row(cells...)
	return t
}

// row adds a row; an empty cell is shown as a dash, so that columns can be cut by blanks.
func (t *table) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		if text[i] = fmt.Sprint(c); text[i] == "" {
			text[i] = "-"
		}
	}
	// Trailing tabs would pad the last column with blanks.
	if _, err := fmt.Fprintln(t.w, strings.Join(text, "\t")); t.err == nil {
		t.err = err
	}
}

// flush prints the table.
func (t *table) flush() error {
	if t.err != nil {
		return t.err
	}
	return t.w.Flush()
}
