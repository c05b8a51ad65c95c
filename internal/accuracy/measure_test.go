package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/bubble"
)

// TestMeasure is no test but the measuring of the command accuracy, which needs synctest bubbles.
func TestMeasure(t *testing.T) {
	bubble.Serve(t, func(c Cell) Reading { return measure(t, c) })
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
