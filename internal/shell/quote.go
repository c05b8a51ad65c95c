// Package shell writes words into commands that people copy.
package shell

import (
	"strings"
	"unicode"
)

// Quote returns s as one word of a POSIX shell: as it is, or in single quotes.
func Quote(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("@%+=:,./_-", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
