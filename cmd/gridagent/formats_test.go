package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/bench"
	"github.com/gridagent/gridagent/internal/lab"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestFormatsExamples reads every example of docs/formats.md with the code that it documents.
func TestFormatsExamples(t *testing.T) {
	doc, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]func([]byte) error{
		"sites:": func(b []byte) error { _, err := gridfile.Parse("formats.md", b); return err },
		`{"hosts":[{"name"`: func(b []byte) error {
			if _, err := gridfile.Parse("formats.md", b); err != nil {
				return err
			}
			_, err := netmap.ParseMatrix(b, time.Now())
			return err
		},
		`{"criterion"`: func(b []byte) error {
			_, err := pools.Read("formats.md", b, []netmap.Host{{Name: "ut0"}, {Name: "ut1"}, {Name: "uk0"}})
			return err
		},
		`{"switches"`:   func(b []byte) error { _, err := plan.ParseTopology(b); return err },
		`{"ranks"`:      func(b []byte) error { return decodeKnown(b, new(bench.Report)) },
		`{"seconds"`:    func(b []byte) error { return decodeKnown(b, new(lab.Stats)) },
		`{"collective"`: func(b []byte) error { _, err := plan.Parse(b); return err },
	}
	examples := regexp.MustCompile("(?s)```(?:yaml|json)\n(.*?)```|JSON: `(.*?)`").FindAllSubmatch(doc, -1)
	seen := make(map[string]bool)
	for _, m := range examples {
		text := string(m[1]) + string(m[2])
		for begin, check := range read {
			if strings.HasPrefix(text, begin) {
				seen[begin] = true
				if err := check([]byte(text)); err != nil {
					t.Errorf("%v in\n%s", err, text)
				}
			}
		}
	}
	for begin := range read {
		if !seen[begin] {
			t.Errorf("docs/formats.md has no example that begins with %s", begin)
		}
	}
}

// decodeKnown refuses keys that v does not have.
func decodeKnown(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}
