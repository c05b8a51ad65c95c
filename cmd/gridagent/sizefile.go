package main

import (
	"fmt"
	"strings"

	"github.com/gridagent/gridagent/probe/gridfile"
)

// parseSizes reads a size file: one size with its unit a line, in rank order; empty lines
// and what follows a # are passed over. Errors name file, line and reason.
func parseSizes(name string, data []byte, n int) ([]int64, error) {
	var sizes []int64
	line := 0
	for text := range strings.Lines(string(data)) {
		line++
		text, _, _ = strings.Cut(text, "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if len(sizes) == n {
			return nil, fmt.Errorf("%s:%d: more than %d sizes, but the grid has %d hosts", name, line, n, n)
		}
		size, err := gridfile.ParseSize(text)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		sizes = append(sizes, size)
	}
	if len(sizes) < n {
		return nil, fmt.Errorf("%s:%d: %d sizes, but the grid has %d hosts", name, max(1, line), len(sizes), n)
	}
	return sizes, nil
}
