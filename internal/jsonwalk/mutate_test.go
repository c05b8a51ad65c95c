package jsonwalk_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A sample is a valid file and what reads it.
type sample struct {
	name string
	text []byte
	read func(name string, data []byte) error
}

// samples returns every kind of file that users hand us, from what is shipped.
func samples(t *testing.T) []sample {
	t.Helper()
	readGrid := func(name string, data []byte) error { _, err := gridfile.Parse(name, data); return err }
	readTopology := func(name string, data []byte) error { _, err := plan.ReadTopology(name, data); return err }
	readPlan := func(name string, data []byte) error { _, err := plan.Read(name, data); return err }
	var all []sample
	for _, from := range []struct {
		pattern string
		read    func(string, []byte) error
	}{{"../../configs/grids/*.yaml", readGrid}, {"../../configs/grids/allgather-*.json", readTopology}, {"../../exchange/plan/testdata/*.golden", readPlan}} {
		paths, err := filepath.Glob(from.pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", from.pattern, len(paths), err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, sample{filepath.Base(path), text, from.read})
		}
	}
	grid, err := gridfile.Load("../../configs/grids/paper-1site-nth.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := grid.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	matrix, err := netmap.AppendMatrix(nil, s, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := pools.Build(s, pools.Config{})
	if err != nil {
		t.Fatal(err)
	}
	poolFile, err := json.MarshalIndent(tree, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const byHand = "{\"root\":{\n\"children\":[\n{\"hosts\":[\"nth0\",\"nth1\",\"nth2\"]},\n{\"children\":[{\"hosts\":[\"nth3\"]},\n" +
		"{\"threshold_mbps\":1.5,\"hosts\":[\"nth4\",\"nth5\",\"nth6\",\"nth7\"]}]}]}}"
	const switches = "{\"switches\":[\"s0\",\"s1\",\"s2\"],\n\"links\":[[\"s0\",\"s1\"],\n[\"s2\",\"s1\"]],\n" +
		"\"hosts\":{\"n0\":\"s0\",\"n1\":\"s0\",\n\"n2\":\"s1\"},\"bandwidth_mbps\":100}"
	readTree := func(name string, data []byte) error { _, err := pools.Read(name, data, s.Hosts()); return err }
	return append(all,
		sample{"matrix.json", matrix, readGrid},
		sample{"pools.json", poolFile, readTree},
		sample{"byhand.json", []byte(byHand), readTree},
		sample{"switches.json", []byte(switches), func(name string, data []byte) error { _, err := plan.ReadTopology(name, data); return err }},
	)
}

// nasty is what breaks readers when it stands in the place of something else.
var nasty = []string{
	"null", "NaN", "-Infinity", "-1", "0", "1e300", "1e-300", "1e999", "99999999999999999999", "1.5", "0x10", "true", `""`, `"a"`,
	"[]", "{}", "{", "}", "[", "]", ",", ":", "\n", "\r\n", "\t", " ", "\x00", "\x1b[2J", `\u001b`, `\n`, `\ud800`, "\u009b", "\u2028", "\xff",
	"\xef\xbb\xbf", "&a", "*a", "!!int", "<<: ", "---\n", "- ", "# ", "1e300Gbps", "1e300s", strings.Repeat("9", 3000), strings.Repeat("x", 3000),
	strings.Repeat("[", 300), strings.Repeat(`{"children":[`, 300),
}

var token = regexp.MustCompile(`"[^"\n]*"|[-+.\w]+`)

// mutate breaks text in up to four places.
func mutate(rng *rand.Rand, text []byte) []byte {
	text = slices.Clone(text)
	for range 1 + rng.IntN(4) {
		at := rng.IntN(len(text) + 1)
		end := min(len(text), at+1+rng.IntN(8))
		lines := strings.SplitAfter(string(text), "\n")
		line := rng.IntN(len(lines))
		word := nasty[rng.IntN(len(nasty))]
		switch rng.IntN(8) {
		case 0:
			text = text[:at]
		case 1:
			text = slices.Delete(text, at, end)
		case 2:
			text = slices.Insert(text, at, []byte(word)...)
		case 3:
			text = slices.Replace(text, at, end, []byte(word)...)
		case 4:
			if at < len(text) {
				text[at] ^= 1 << rng.IntN(8)
			}
		case 5:
			text = []byte(strings.Join(slices.Delete(lines, line, line+1), ""))
		case 6:
			text = []byte(strings.Join(slices.Insert(lines, line, lines[rng.IntN(len(lines))]), ""))
		default:
			if all := token.FindAllIndex(text, -1); len(all) > 0 {
				one := all[rng.IntN(len(all))]
				text = slices.Replace(text, one[0], one[1], []byte(word)...)
			}
		}
	}
	return text
}

var (
	placed = regexp.MustCompile(`^([^:\n]+):([1-9][0-9]*): (.+)$`)
	// In YAML more than \n ends a line.
	lineBreak = regexp.MustCompile(`\r\n|[\r\n\x{2028}\x{2029}]`)
	internal  = regexp.MustCompile(`\bGo (struct|value|type)|\b(json|yaml):|\b(strconv|bufio|reflect|runtime)\.|unmarshal|goroutine|%!`)
)

// complaint says what is wrong with an error about text, or returns "".
func complaint(name string, text []byte, err error) string {
	m := placed.FindStringSubmatch(err.Error())
	switch {
	case m == nil || m[1] != name:
		return "does not begin with file and line"
	case len(err.Error()) > 1000:
		return "is too long"
	case internal.MatchString(m[3]):
		return "speaks of the inside of Go"
	case strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f }):
		return "holds control characters"
	}
	if line, err := strconv.Atoi(m[2]); err != nil || line > 1+len(lineBreak.FindAll(text, -1)) {
		return "names a line behind the end"
	}
	return ""
}

// TestBrokenFiles: however a file is broken, its reader takes it or says file, line and
// reason; it never panics.
func TestBrokenFiles(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			if err := s.read(s.name, s.text); err != nil {
				t.Fatal(err)
			}
			refused := 0
			const seeds = 300
			for seed := range uint64(seeds) {
				text := mutate(rand.New(rand.NewPCG(seed, uint64(len(s.text)))), s.text)
				err := func() (err error) {
					defer func() {
						if p := recover(); p != nil {
							err = fmt.Errorf("panic: %v", p)
						}
					}()
					return s.read(s.name, text)
				}()
				if err == nil {
					continue
				}
				refused++
				if wrong := complaint(s.name, text, err); wrong != "" {
					t.Fatalf("seed %d: the error %s:\n%q\n%s", seed, wrong, err.Error(), text)
				}
			}
			if refused < seeds/10 || refused == seeds {
				t.Errorf("%d of %d broken files are refused", refused, seeds)
			}
		})
	}
}
