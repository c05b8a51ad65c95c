package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/internal/peers/smpi"
)

const gridFile = "../testdata/grid.yaml"

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                                     "give --grid FILE or --topology FILE",
		"--grid a --topology b":                "give --grid FILE or --topology FILE",
		"--grid none.yaml":                     "none.yaml",
		"--topology none.json":                 "none.json",
		"--grid " + gridFile + " --size 1x":    "1x",
		"--grid " + gridFile + " --model LV08": `"LV08"`,
		"--grid " + gridFile + " --collective gather": `"gather"`,
		"--grid " + gridFile + " -o xml":              `"xml"`,
	} {
		if _, err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

func TestRun(t *testing.T) {
	var out bytes.Buffer
	err := run(context.Background(), []string{"--grid", gridFile, "--collective", "alltoall", "--size", "100kB", "--algorithms", "shift", "-o", "json"}, &out)
	if errors.Is(err, smpi.ErrMissing) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v; CI must have it: scripts/mpi simgrid", err)
		}
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Compared []smpi.Row }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Compared) != 1 || got.Compared[0].Algorithm != "shift" || got.Compared[0].Own == nil || got.Compared[0].Bytes != 100_000 {
		t.Errorf("%s", out.String())
	}
}
