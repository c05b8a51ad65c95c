package main

import (
	"fmt"
	"strings"

	"github.com/gridagent/gridagent/probe/gridfile"
)

// parseSizes reads the size file of an allgather: one size with its unit a line, in rank
// order; empty lines and what follows a # are passed over. Errors name file, line and reason.
func parseSizes(name string, data []byte, n int) ([]int64, error) {
	rows, err := parseRows(name, data, n, 1, "sizes")
	if err != nil {
		return nil, err
	}
	sizes := make([]int64, n)
	for i, row := range rows {
		sizes[i] = row[0]
	}
	return sizes, nil
}

// parseMatrix reads the size file of an alltoall: on line s, what rank s sends to each of
// n ranks, with blanks or commas between; what it sends to itself is not looked at.
func parseMatrix(name string, data []byte, n int) ([][]int64, error) {
	return parseRows(name, data, n, n, "lines of sizes")
}

// parseRows reads n lines of width sizes. A size has a unit, but 0 needs none.
func parseRows(name string, data []byte, n, width int, what string) ([][]int64, error) {
	rows := make([][]int64, 0, n)
	line := 0
	for text := range strings.Lines(string(data)) {
		line++
		text, _, _ = strings.Cut(text, "#")
		cells := []string{strings.TrimSpace(text)}
		if width > 1 {
			cells = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' || r == '\n' })
		}
		if len(cells) == 0 || cells[0] == "" {
			continue
		}
		if len(rows) == n {
			return nil, fmt.Errorf("%s:%d: more than %d %s, but there are %d hosts", name, line, n, what, n)
		}
		if len(cells) != width {
			return nil, fmt.Errorf("%s:%d: %d sizes, but there are %d hosts", name, line, len(cells), width)
		}
		row := make([]int64, width)
		for i, cell := range cells {
			if cell == "0" {
				continue
			}
			size, err := gridfile.ParseSize(cell)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, line, err)
			}
			row[i] = size
		}
		rows = append(rows, row)
	}
	if len(rows) < n {
		return nil, fmt.Errorf("%s:%d: %d %s, but there are %d hosts", name, max(1, line), len(rows), what, n)
	}
	return rows, nil
}
