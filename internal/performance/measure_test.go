package main

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/bubble"
)

// TestMeasure is no test but the measuring of the command performance, which needs synctest bubbles.
func TestMeasure(t *testing.T) {
	bubble.Serve(t, func(c Cell) Reading { return measure(t, c) })
}

// measure returns the reading of c. What goes wrong is in it: the other cells are worth having.
func measure(t *testing.T, c Cell) Reading {
	begin := time.Now()
	r := Reading{Cell: c}
	how := map[Row]func(*testing.T, *Reading){
		Shared: measureExchange, Held: measureExchange, Loss: measureExchange, Totals: measureExchange, Engines: measureEngines,
		Switches: measureSwitches, Best: measureBest, Fall: measureFall, Pair: measurePair, Lanes: measureLanes, Small: measureSmall, Groups: measureGroups,
		Young: measureYoung, Pauses: measurePauses, Uneven: measureUneven, Drawn: measureDrawn, Loopback: measureLoopback, Idle: measureIdle,
	}[c.Row]
	if how == nil {
		r.Failed = fmt.Sprintf("no row %q", c.Row)
	} else if !t.Run(c.String(), func(t *testing.T) { how(t, &r) }) && r.Failed == "" {
		r.Failed = "see the output of the test"
	}
	r.Seconds = time.Since(begin).Seconds()
	return r
}

// check notes a value beside a limit.
func (r *Reading) check(what string, value, limit float64) {
	r.Checks = append(r.Checks, Check{What: what, Value: value, Limit: limit})
}

// median of any order; NaN of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
