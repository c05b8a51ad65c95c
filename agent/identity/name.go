package identity

import (
	"fmt"
	"strings"
)

// maxName is the longest host, site or cluster name: a DNS label.
const maxName = 63

// A NameError says why a name cannot be used.
type NameError struct {
	What   string // "host name", "site", "cluster name"
	Name   string
	Reason string
}

func (e *NameError) Error() string {
	name := e.Name
	if len(name) > 2*maxName {
		name = name[:2*maxName] + "…"
	}
	return fmt.Sprintf("%s %q: %s", e.What, name, e.Reason)
}

// HostName returns s in lower case, without surrounding space, or a [*NameError] if
// it is not 1 to 63 of the characters a-z, 0-9, '.' and '-', beginning and ending
// with a letter or digit. Names go into certificates, gossip and file names.
func HostName(s string) (string, error) { return checkName("host name", s) }

// siteName is [HostName] for sites, which may be empty and may have capitals: they
// are labels for people.
func siteName(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return "", nil
	}
	if _, err := checkName("site", s); err != nil {
		return "", err
	}
	return s, nil
}

func checkName(what, s string) (string, error) {
	name := strings.ToLower(strings.TrimSpace(s))
	fail := func(reason string) (string, error) {
		return "", &NameError{What: what, Name: s, Reason: reason}
	}
	if name == "" {
		return fail("is empty")
	}
	if len(name) > maxName {
		return fail(fmt.Sprintf("has %d characters, at most %d are allowed", len(name), maxName))
	}
	for _, r := range name {
		if !alphanumeric(r) && r != '.' && r != '-' {
			return fail(fmt.Sprintf("character %q is not one of a-z, 0-9, '.', '-'", r))
		}
	}
	if !alphanumeric(rune(name[0])) || !alphanumeric(rune(name[len(name)-1])) {
		return fail("must begin and end with a letter or digit")
	}
	return name, nil
}

func alphanumeric(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' }
