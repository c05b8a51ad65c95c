package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gridagent/gridagent/exchange/plan"
)

func parsed(t *testing.T, line string) *config {
	t.Helper()
	c, err := parse(strings.Fields(line), func(string) {})
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return c
}

func TestParse(t *testing.T) {
	c := parsed(t, "--topology aapc-conf-b --link-rate 5Mbps --collective alltoall --sizes 8KiB,1MiB --libraries mpich --congestion system,bbr -o json")
	if !slices.Equal(c.Sizes, []int64{8 << 10, 1 << 20}) || !slices.Equal(c.Collectives, []plan.Collective{plan.Alltoall}) ||
		!slices.Equal(c.Congestion, []string{"", "bbr"}) || !slices.Equal(c.Tools, []string{toolMPICH}) || !c.JSON {
		t.Errorf("%+v", c)
	}
	if !slices.Equal(c.Generated, []string{"lr3", "aapc"}) {
		t.Errorf("routines of a switch tree: %q", c.Generated)
	}
	if c := parsed(t, "--grid paper-3site"); !slices.Equal(c.Generated, []string{"min3"}) || len(c.Collectives) != 2 {
		t.Errorf("routines of a grid: %q, collectives %v", c.Generated, c.Collectives)
	}
	if c := parsed(t, "--grid paper-3site --generated none"); len(c.Generated) != 0 {
		t.Errorf("routines in spite of none: %q", c.Generated)
	}
	help := ""
	if _, err := parse([]string{"--help"}, func(text string) { help = text }); !errors.Is(err, pflag.ErrHelp) || !strings.Contains(help, "Examples:") {
		t.Errorf("--help: %v, %q", err, help)
	}
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"":                                   "one of --grid, --topology and --drawn",
		"--grid a --topology b":              "one of --grid, --topology and --drawn",
		"--grid a --declare":                 "--declare is for --topology",
		"--grid a --drawn 3":                 "one of --grid, --topology and --drawn",
		"--grid a --link-rate 1Mbps":         "--link-rate is for --topology",
		"--grid a --sizes 64":                "64",
		"--grid a --sizes 2GiB":              "at most 1GiB",
		"--grid a --libraries lam":           `"lam"`,
		"--grid a --collective gather":       `"gather"`,
		"--grid a --iterations 0":            "--iterations 0",
		"--grid a --warmup -1":               "--warmup -1",
		"--grid a --time-limit 0s":           "--time-limit 0s",
		"--grid a --algorithms lam:ring":     `"lam:ring"`,
		"--grid a --generated ring-a-ring":   `"ring-a-ring"`,
		"--grid a --generated min3,none":     `"none"`,
		"--grid a -o xml":                    `"xml"`,
		"--grid a stray":                     `"stray"`,
		"--grid a --libraries= --sizes 1KiB": "at least one word",
	} {
		if _, err := parse(strings.Fields(line), func(string) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", line, err, want)
		}
	}
}

func TestSelection(t *testing.T) {
	known := []string{"default", "bruck", "ring"}
	for words, want := range map[string]string{
		"all":                    "default bruck ring",
		"default":                "default",
		"ring":                   "ring",
		"ring,default":           "default ring",
		"openmpi:ring,default":   "default",
		"mpich:ring,openmpi:all": "ring",
		"nothing":                "",
	} {
		s, err := parseSelection(strings.Split(words, ","))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.of(toolMPICH, known), " "); got != want {
			t.Errorf("%s: %q for mpich, want %q", words, got, want)
		}
	}
	// default stands for auto with gridagent.
	s, _ := parseSelection([]string{byDefault})
	if got := s.of(toolGridagent, own(plan.Allgather)); !slices.Equal(got, []string{"auto"}) {
		t.Errorf("default of gridagent: %q", got)
	}
}

// A word that nobody has is an error, and not a run of nothing.
func TestSelectionCheck(t *testing.T) {
	known := map[string][]string{toolMPICH: {byDefault, "ring"}, toolGridagent: own(plan.Allgather)}
	for word, want := range map[string]bool{
		"all": true, "default": true, "ring": true, "gridagent:min3": true, "mpich:ring": true, "gridagent:all": true,
		"rign": false, "mpich:min3": false, "openmpi:ring": false, "openmpi:all": false, "lr3": false,
	} {
		s, err := parseSelection([]string{"default", word})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.check(known); (err == nil) != want || err != nil && !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
		if err := s.check(nil); err != nil {
			t.Errorf("%s, where nobody takes part: %v", word, err)
		}
	}
}

func TestOwnNeedsNoSwitches(t *testing.T) {
	for _, c := range []plan.Collective{plan.Allgather, plan.Alltoall} {
		names := own(c)
		if len(names) < 5 || slices.Contains(names, "lr3") || slices.Contains(names, "aapc") {
			t.Errorf("%s: %q", c, names)
		}
	}
}
