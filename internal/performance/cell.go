package main

import (
	"fmt"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A Row is a line of the table of numbers to reach.
type Row string

// The rows, in the order of the table.
const (
	Shared   Row = "shared"   // allgather on the 3-site grid, links one pipe each
	Held     Row = "held"     // capacity 8 x of one flow
	Loss     Row = "loss"     // one flow held by losses
	Totals   Row = "alltoall" // alltoall on the same three
	Engines  Row = "engines"  // both, by engines alone that know the true map
	Switches Row = "switches" // inside a LAN
	Best     Row = "best"     // never slower than the best baseline
	Fall     Row = "fall"     // a WAN link falls in mid-exchange
	Pair     Row = "pair"     // one host pair, lanes chosen by the agent
	Lanes    Row = "lanes"    // one host pair, their number held fixed
	Small    Row = "small"    // 8 bytes, alltoalls of up to 1 KiB
	Groups   Row = "groups"   // many groups at once
	Young    Row = "young"    // agents that have just met
	Pauses   Row = "pauses"   // operations far apart
	Uneven   Row = "uneven"   // blocks that differ much
	Drawn    Row = "drawn"    // grids that nobody has chosen
	Loopback Row = "loopback" // CPU time of one pair, in real time
	Idle     Row = "idle"     // what agents take that do nothing
)

var order = []Row{Shared, Held, Loss, Totals, Engines, Switches, Best, Fall, Pair, Lanes, Small, Groups, Young, Pauses, Uneven, Drawn, Loopback, Idle}

// titles say what the rows are.
var titles = map[Row]string{
	Shared:   "allgather, 3-site grid, links as one shared pipe",
	Held:     "allgather, 3-site grid, capacity 8 times what one flow gets",
	Loss:     "allgather, 3-site grid, links of 20 Mbit/s with losses",
	Totals:   "alltoall on the same three grids",
	Engines:  "both on the same three, there with blocks of very different sizes as well, and on drawn ones, by engines alone that know the true map",
	Switches: "inside a LAN: switch trees",
	Best:     "beside the best baseline, two European sites and one site alone",
	Fall:     "a WAN link falls to a quarter in mid-exchange",
	Pair:     "one host pair, round trip 100 ms, lanes chosen by the agent",
	Lanes:    "one host pair, round trip 100 ms, engines alone, so many lanes",
	Small:    "operations of 8 bytes, and small alltoalls (first: the first rank sends so much to each, the others 100 bytes)",
	Groups:   "many groups at once, each an allgather over all hosts",
	Young:    "agents that met so long ago, and are then kept busy: one operation behind the other, without a pause",
	Pauses:   "operations ten minutes apart, as of the steps of a workflow",
	Uneven:   "blocks of very different sizes (the largest is given): of an allgather, first: the first rank has it and the others 1 KiB, third: every third has it and the others nothing, harmonic: rank i has 1/(i+1) of it; of an alltoall, first: the first rank sends it to all and the others 100 bytes, pair: the first sends it to the last, all else is 1 KiB, square: each sends one such, one of 1/2, 1/5, 1/10, …",
	Drawn:    "grids drawn from seeds: 2 to 5 sites, 3 to 24 hosts, links of 1 to 1000 Mbit/s, 1 to 150 ms, some with losses or held flows",
	Loopback: "one pair over loopback, in real time: CPU time beside a bare loop over the same library",
	Idle:     "so many agents at ten sites that all start at once and are then left alone: CPU time, heap and goroutines of each, the emulated network's with them",
}

// about says under the title of a row what its numbers are, where that is not what the top of the page says of all.
var about = map[Row]string{
	Switches: "A host's own port holds 8,000 bytes, about what the driver of a network card holds; rows of networks whose names end in `" + deepHosts +
		"` are of the 128 KiB that a socket of Linux has room for, behind which acknowledgements wait for data (`TestHostQueue` of `internal/treetest`). They are only shown, and judged by nothing.",
	Pair:  shares + " Seconds 3 to 10 of the exchange count, and no more than the packets of that time could bring: what waits at second 3 for one that is lost is not theirs.",
	Lanes: shares + " Handshakes of all lanes but the first count, and so does the last byte's way.",
}

// shares is what the rows have in common that are of one link.
const shares = "A share is what came in of the blocks, each byte once, over the rate of the link. What headers leave of that is 0.954 in packets of 1,280 bytes, with which connections begin, and 0.96 in larger ones."

// A Cell is one measurement.
type Cell struct {
	Row        Row             `json:"row"`
	Collective plan.Collective `json:"collective"`
	// Network is a grid or topology file under configs/grids, without its suffix, or a network of its row's own.
	Network string `json:"network"`
	Size    int64  `json:"size"` // bytes of a block
	Seed    uint64 `json:"seed"`
	// Settle is how long agents measure before the first run.
	Settle time.Duration `json:"settle_ns,omitempty"`
	Runs   int           `json:"runs"`
	// Limits of the ratio to the bound; to the relayed bound of an alltoall where there is one. 0: none, it is only shown.
	Limit   float64 `json:"limit,omitempty"`
	Relayed float64 `json:"relayed_limit,omitempty"`
}

func (c Cell) String() string {
	return fmt.Sprintf("%s/%s/%s/%s/seed%d", c.Row, c.Collective, c.Network, size(c.Size), c.Seed)
}

// size is n bytes as the command line writes them.
func size(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}

// A Check is one number beside its bound.
type Check struct {
	What  string  `json:"what"` // of the cell, if it has several
	Value float64 `json:"value"`
	Limit float64 `json:"limit,omitempty"` // at most, or with Least at least; 0: none
	Least bool    `json:"least,omitempty"`
}

// OK reports whether c is within its bound.
func (c Check) OK() bool {
	switch {
	case c.Limit == 0:
		return true
	case c.Least:
		return c.Value >= c.Limit
	}
	return c.Value <= c.Limit // false for NaN
}

// A Reading is what came of a cell.
type Reading struct {
	Cell      Cell      `json:"cell"`
	Checks    []Check   `json:"checks"`
	Makespans []float64 `json:"makespans_s,omitempty"`
	Bound     float64   `json:"bound_s,omitempty"`
	Relayed   float64   `json:"relayed_bound_s,omitempty"`
	// Predicted is what the planner expected of each run, of the first without experience, and Elapsed what that speaks of: the time
	// from the instant at which all hosts begin to the last one's end.
	Predicted []float64 `json:"predicted_s,omitempty"`
	Elapsed   []float64 `json:"elapsed_s,omitempty"`
	Algorithm string    `json:"algorithm,omitempty"` // of the last run
	Lost      []int     `json:"lost_packets,omitempty"`
	Note      string    `json:"note,omitempty"`
	Failed    string    `json:"failed,omitempty"`
	Seconds   float64   `json:"wall_s"`
	Earlier   string    `json:"earlier,omitempty"` // date of the run that it is of, if that is not the file's
}
