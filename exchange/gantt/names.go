package gantt

import (
	"slices"
	"unicode"
)

// shorten makes labels fit a width in pixels. Where one does not, what all of them begin
// and end with goes first, such as a domain: "…node1…" tells more than "cluster…mple.org".
func shorten(labels []string, width float64) []string {
	out := slices.Clone(labels)
	if !slices.ContainsFunc(out, func(s string) bool { return textWidth(s, fontSize) > width }) {
		return out
	}
	if len(out) > 1 {
		head, tail := common(out)
		for i, s := range out {
			runes := []rune(s)
			out[i] = string(runes[head : len(runes)-tail])
			if head > 0 {
				out[i] = "…" + out[i]
			}
			if tail > 0 {
				out[i] += "…"
			}
		}
	}
	for i, s := range out {
		out[i] = fit(s, fontSize, width)
	}
	return out
}

// common returns the length in runes of what all names begin and end with, up to the
// last and from the first rune that is no letter or digit: words stay whole.
func common(names []string) (head, tail int) {
	first := []rune(names[0])
	head, tail = len(first), len(first)
	shortest := len(first)
	for _, s := range names[1:] {
		runes := []rune(s)
		shortest = min(shortest, len(runes))
		head, tail = min(head, len(runes)), min(tail, len(runes))
		for i := range head {
			if runes[i] != first[i] {
				head = i
				break
			}
		}
		for i := range tail {
			if runes[len(runes)-1-i] != first[len(first)-1-i] {
				tail = i
				break
			}
		}
	}
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for head > 0 && inWord(first[head-1]) {
		head--
	}
	for tail > 0 && inWord(first[len(first)-tail]) {
		tail--
	}
	// "a.b" and "a.b.b": the parts must not overlap in the shorter name.
	return head, max(0, min(tail, shortest-head-1))
}
