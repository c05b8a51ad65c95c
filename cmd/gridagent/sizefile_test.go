package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestParseSizes(t *testing.T) {
	got, err := parseSizes("f", []byte("# sizes\n 64KiB \n\n0B # none\n1MB"), 3)
	if want := []int64{65536, 0, 1e6}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for text, want := range map[string]string{
		"1B":             "f:1: 1 sizes, but there are 2 hosts",
		"":               "f:1: 0 sizes, but there are 2 hosts",
		"\n\n":           "f:2: 0 sizes, but there are 2 hosts",
		"1B\n1B\n#\n1B":  "f:4: more than 2 sizes",
		"1B\n-1B":        "f:2: -1B is negative",
		"1B\nmuch":       `f:2: "much" is not a size such as 8B`,
		"1B\n1 \x1b[2J":  `f:2: "1 \x1b[2J": unknown unit`,
		"1B\n99999999TB": "f:2: 99999999TB is too large",
		"1B\n1e300B":     "f:2: 1e300B is too large",

		"1B\n" + strings.Repeat("9", 1<<20) + "B": `f:2: "999`, // longer than a line of bufio.Scanner
	} {
		if got, err := parseSizes("f", []byte(text), 2); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, got, err, want)
		}
	}
}

func TestParseMatrix(t *testing.T) {
	got, err := parseMatrix("f", []byte("# to:  a  b\n 0 64KiB\n\n1MB, 0 # from b"), 2)
	if err != nil || len(got) != 2 || !slices.Equal(got[0], []int64{0, 65536}) || !slices.Equal(got[1], []int64{1e6, 0}) {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"0 1B":               "f:1: 1 lines of sizes, but there are 2 hosts",
		"0 1B 2B\n0 0":       "f:1: 3 sizes, but there are 2 hosts",
		"0 1B\n1B":           "f:2: 1 sizes, but there are 2 hosts",
		"0 1B\n1B 0\n#\n0 0": "f:4: more than 2 lines of sizes",
		"0 1\n0 0":           `f:1: `,
	} {
		if got, err := parseMatrix("f", []byte(text), 2); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, got, err, want)
		}
	}
}

var placed = regexp.MustCompile(`^f:[1-9][0-9]*: [^\n\x1b]+$`)

func FuzzParseSizes(f *testing.F) {
	f.Add([]byte("64KiB\n# c\n1.5MiB"), uint8(2))
	f.Add([]byte("9223372036854775807B"), uint8(1))
	f.Add([]byte("1e300B\r\n\x1b"), uint8(1))
	f.Add([]byte(""), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, hosts uint8) {
		n := int(hosts)
		sizes, err := parseSizes("f", data, n)
		if err != nil {
			if !placed.MatchString(err.Error()) || len(err.Error()) > 1000 {
				t.Errorf("error %q does not begin with file and line", err)
			}
			return
		}
		if len(sizes) != n || len(sizes) > 0 && slices.Min(sizes) < 0 {
			t.Errorf("%d hosts: sizes %v", n, sizes)
		}
	})
}
