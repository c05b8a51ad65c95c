package smpi

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	versionLine = regexp.MustCompile(`SimGrid version (\d+(?:\.\d+)+)`)
	resultLine  = regexp.MustCompile(`(?m)^gridagent-smpi ranks=(\d+) wrong=(\d+) seconds=([0-9.]+)$`)
	critical    = regexp.MustCompile(`(?m)/CRITICAL\] (?:Uncaught exception [\w:]+: )?(.*)$`)
)

// parseVersion finds the version in what smpirun -version prints.
func parseVersion(text string) (string, error) {
	m := versionLine.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("smpirun -version says %.80q, and no version", text)
	}
	return m[1], nil
}

// parseSeconds finds the line of bench.c in what a run printed.
func parseSeconds(text string, ranks int) (float64, error) {
	lines := resultLine.FindAllStringSubmatch(text, -1)
	if len(lines) != 1 {
		return 0, fmt.Errorf("smpirun: %d results, want one: %s", len(lines), reason(text))
	}
	m := lines[0]
	if m[1] != strconv.Itoa(ranks) {
		return 0, fmt.Errorf("smpirun: %s ranks, want %d", m[1], ranks)
	}
	if m[2] != "0" {
		return 0, fmt.Errorf("smpirun: %s blocks hold other data than they should", m[2])
	}
	seconds, err := strconv.ParseFloat(m[3], 64)
	if err != nil {
		return 0, fmt.Errorf("smpirun: %w", err)
	}
	return seconds, nil
}

// reason returns what is worth showing of a program's output: SimGrid's own words if it gave up, else
// the last lines.
func reason(text string) string {
	if m := critical.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	const most = 400
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}
