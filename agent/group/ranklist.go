package group

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds on what goes into a message for people, however large the group.
const (
	maxRuns  = 16  // runs of ranks, such as 7-9
	maxCause = 512 // bytes of a rank's own words
)

// A rankList is a set of ranks as people read it: at most maxRuns runs, and how many
// ranks do not stand in them.
type rankList struct {
	runs  []string
	count int
	more  int
}

// listRanks lists the ranks below n for which in holds.
func listRanks(n int, in func(rank int) bool) rankList {
	var l rankList
	for r := 0; r < n; r++ {
		if !in(r) {
			continue
		}
		first := r
		for r+1 < n && in(r+1) {
			r++
		}
		l.count += r - first + 1
		switch {
		case len(l.runs) >= maxRuns:
			l.more += r - first + 1
		case r == first:
			l.runs = append(l.runs, fmt.Sprint(first))
		case r == first+1 && len(l.runs)+1 < maxRuns:
			l.runs = append(l.runs, fmt.Sprint(first), fmt.Sprint(r))
		default:
			l.runs = append(l.runs, fmt.Sprintf("%d-%d", first, r))
		}
	}
	return l
}

// short is the list for a status line: 2,5,7-9.
func (l rankList) short() string {
	s := strings.Join(l.runs, ",")
	if l.more > 0 {
		s += ",…"
	}
	return s
}

// phrase is the list as the subject of a sentence with its verb: ranks 2, 5 and 7-9 have.
func (l rankList) phrase() string {
	items := l.runs
	if l.more > 0 {
		items = append(items[:len(items):len(items)], fmt.Sprintf("%d more", l.more))
	}
	switch {
	case l.count == 0:
		return "no rank has"
	case l.count == 1:
		return "rank " + items[0] + " has"
	case len(items) == 1:
		return "ranks " + items[0] + " have"
	}
	last := len(items) - 1
	return "ranks " + strings.Join(items[:last], ", ") + " and " + items[last] + " have"
}

// bounded makes the words of a client or of another host fit for a message: one line of
// printable text of at most maxCause bytes.
func bounded(s string) string {
	cut := len(s) > maxCause
	if cut {
		s = s[:maxCause]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return -1 // not UTF-8, or a character that was cut
		case !unicode.IsPrint(r):
			return ' '
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if cut {
		s += "…"
	}
	return s
}
