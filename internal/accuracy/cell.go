package main

import (
	"fmt"
	"time"
)

// A Row is a line of the table of numbers to reach.
type Row string

// The rows.
const (
	Flow      Row = "flow"      // one-flow bandwidth, and with it the round-trip time
	Capacity  Row = "capacity"  // where one flow gets an eighth
	RoundTrip Row = "rtt"       // over short and long paths
	Bytes     Row = "bytes"     // what idle agents send over the WAN
	FallIdle  Row = "fall-idle" // a WAN link falls to a quarter
	FallBusy  Row = "fall-busy" // the same during an exchange
	Wobble    Row = "wobble"    // links that vary by a tenth
	Cost      Row = "cost"      // of probes to an exchange
	Random    Row = "random"    // grids drawn from seeds
)

// A Cell is one measurement: what a bubble, or a few, find for one row.
type Cell struct {
	Row  Row    `json:"row"`
	Seed uint64 `json:"seed"`

	World World `json:"world,omitzero"` // of Flow, Capacity and RoundTrip
	// Truth is how long the lane runs that tells what one flow gets, after Warm; over Truths seeds.
	Truth  time.Duration `json:"truth_ns,omitempty"`
	Warm   time.Duration `json:"warm_ns,omitempty"`
	Truths int           `json:"truths,omitempty"`

	Grid string `json:"grid,omitempty"` // of the others: a file that is built in, or three sites of so many Mbit/s

	// Idle is how long agents run before what counts begins; For is how long that is.
	Idle time.Duration `json:"idle_ns"`
	For  time.Duration `json:"for_ns,omitempty"`
	Runs int           `json:"runs,omitempty"` // exchanges
}

func (c Cell) String() string {
	s := string(c.Row)
	if c.World != (World{}) {
		s += "/" + c.World.String()
	}
	if c.Grid != "" {
		s += "/" + c.Grid
	}
	return s + fmt.Sprintf("/seed%d", c.Seed)
}

// A Reading is what came of a cell. What the lists hold, and in which unit, the row says.
type Reading struct {
	Cell    Cell                 `json:"cell"`
	Got     map[string][]float64 `json:"got"`
	Failed  string               `json:"failed,omitempty"`
	Seconds float64              `json:"wall_s"`
}
