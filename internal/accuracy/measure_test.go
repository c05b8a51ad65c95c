package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

var (
	cellsFile    = flag.String("accuracy.cells", "", "file with the cells that TestMeasure measures")
	readingsFile = flag.String("accuracy.readings", "", "file that TestMeasure adds readings to, a line each")
)

// TestMeasure is no test but the measuring of the command accuracy, which needs synctest bubbles.
func TestMeasure(t *testing.T) {
	if *cellsFile == "" {
		t.Skip("run by the command accuracy, with -accuracy.cells")
	}
	data, err := os.ReadFile(*cellsFile)
	if err != nil {
		t.Fatal(err)
	}
	var cells []Cell
	if err := json.Unmarshal(data, &cells); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(*readingsFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, c := range cells {
		line, err := json.Marshal(measure(t, c))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
	}
}

// measure returns the reading of c. What goes wrong is in it: the other cells are worth having.
func measure(t *testing.T, c Cell) Reading {
	begin := time.Now()
	r := Reading{Cell: c, Got: make(map[string][]float64)}
	how := map[Row]func(*testing.T, Cell, *Reading){
		Flow: measureFlow, RoundTrip: measureFlow, Capacity: measureCapacity, Bytes: measureBytes,
		FallIdle: measureFall, FallBusy: measureFall, Wobble: measureWobble, Cost: measureCost, Random: measureRandom,
	}[c.Row]
	if how == nil {
		r.Failed = fmt.Sprintf("no row %q", c.Row)
	} else if !t.Run(c.String(), func(t *testing.T) { how(t, c, &r) }) && r.Failed == "" {
		r.Failed = "see the output of the test"
	}
	r.Seconds = time.Since(begin).Seconds()
	return r
}

// add notes values under a name.
func (r *Reading) add(name string, values ...float64) { r.Got[name] = append(r.Got[name], values...) }
