package main

import (
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/bench"
)

// A Record is one size of one run.
type Record struct {
	Source     string          `json:"source"` // lab
	Tool       string          `json:"tool"`   // mpich, openmpi, gridagent
	Version    string          `json:"version,omitempty"`
	Collective plan.Collective `json:"collective"`
	// Algorithm is the name by which it was forced; default: the library chose; auto: the agent did.
	Algorithm string `json:"algorithm"`
	// Variant is "generated" with the flags of gridagent plan for an MPI program that ran a routine
	// of plan -o mpi-c, and "plan" with them for agents that ran a plan made outside; behind that, for auto of
	// gridagent, is what was chosen.
	Variant    string      `json:"variant,omitempty"`
	Congestion string      `json:"congestion,omitempty"` // of TCP; "auto" for gridagent, which chooses for each lane, and goes over QUIC too
	Grid       string      `json:"grid"`                 // name of the file, without folder and ending
	LinkRate   string      `json:"link_rate,omitempty"`  // in place of a switch tree's own
	Declared   bool        `json:"declared,omitempty"`   // the agents were told the switch tree
	Hosts      int         `json:"hosts"`                // one rank each
	Size       int64       `json:"size_bytes"`           // of a block, the largest
	Shape      bench.Shape `json:"shape,omitempty"`      // how blocks differ; absent where they do not
	Iterations int         `json:"iterations"`
	Warmup     int         `json:"warmup"`
	// Together says that all ranks began an operation at the same moment; without it each when it left the barrier before it.
	Together bool `json:"together,omitempty"`

	// Of the iterations, each as long as its slowest rank took; Seconds has them all.
	Mean    float64   `json:"mean_s"`
	Min     float64   `json:"min_s"`
	Max     float64   `json:"max_s"`
	Seconds []float64 `json:"seconds,omitempty"`

	Bound float64 `json:"bound_s"` // over the declared links
	Ratio float64 `json:"ratio"`   // Mean/Bound; 0 where the bound is 0
	// Direct is the bound of an alltoall that brings nothing by way of a third site; 0 where it is Bound.
	Direct float64 `json:"direct_bound_s,omitempty"`

	Verified bool `json:"verified"` // every rank got the right bytes in every operation
	// WAN are the IP bytes that crossed each link between sites or switches, for one operation, warm-up
	// operations counted too, with what belongs to the benchmark: its barriers, the collecting of
	// times, for gridagent what agents say and measure meanwhile.
	WAN map[string]int64 `json:"wan_bytes,omitempty"`
	// Least is the sum that had to cross them: each block into each site, or over each trunk, behind which it is wanted, once.
	// What is above it are headers, 4.8 %, acknowledgements, relays, and what was sent twice.
	Least int64 `json:"wan_least_bytes,omitempty"`
	// Busy is the share of the machine's processors that was in use, 0 to 1: from 0.9 on the time
	// may be the machine's and not the links'.
	Busy float64 `json:"cpu_busy"`
	// Missed are packets that this machine was too busy to carry: the times are wrong.
	Missed uint64 `json:"missed_packets,omitempty"`
	// Late is the share of the packets between sites that came over 1 ms late, for this machine was busy.
	Late float64 `json:"late_share,omitempty"`
	// Agents is what the agents took of the machine; nil for MPI programs, whose ranks spin while they wait.
	Agents *Usage `json:"agents,omitempty"`
	Error  string `json:"error,omitempty"`
}

// record returns what all records of a run have.
func (t *testbed) record(tool, version string, c plan.Collective, name, variant string, size int64) Record {
	r := Record{
		Source: "lab", Tool: tool, Version: version, Collective: c, Algorithm: name, Variant: variant,
		Congestion: t.congestion, Grid: t.net.name, LinkRate: t.LinkRate, Hosts: len(t.net.hosts),
		Size: size, Iterations: t.Iterations, Warmup: t.Warmup, Together: t.Together,
	}
	if tool == toolGridagent {
		r.Congestion, r.Declared = "auto", t.Declare
	}
	if !t.Shape.Even() {
		r.Shape = t.Shape
	}
	// A bound of 0 is that of a network whose links are not all known, or of nothing to do.
	r.Bound, r.Direct, _ = t.net.bound(c, t.Shape, size)
	r.Least = t.net.least(c, t.Shape, size)
	return r
}

// measured returns r with its times, which must not be empty, and what crossed the links meanwhile.
func (r Record) measured(seconds []float64, before, after reading) Record {
	r.Seconds, r.Min, r.Max, r.Mean = seconds, seconds[0], seconds[0], 0
	for _, s := range seconds {
		r.Min, r.Max = min(r.Min, s), max(r.Max, s)
		r.Mean += s / float64(len(seconds))
	}
	if r.Bound > 0 {
		r.Ratio = r.Mean / r.Bound
	}
	r.WAN = after.since(before, r.Iterations+r.Warmup)
	r.Missed = after.missed - before.missed
	r.Busy = after.busy(before)
	r.Late = after.lateShare(before)
	return r
}

// failed returns r without times.
func (r Record) failed(err error) Record {
	r.Error = err.Error()
	return r
}

// crossed is the sum over all links.
func (r *Record) crossed() int64 {
	var sum int64
	for _, n := range r.WAN {
		sum += n
	}
	return sum
}
