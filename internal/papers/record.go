package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// A Source says where a time comes from.
type Source string

// The sources, see the package documentation. Timed is the wall clock of this machine.
const (
	Simulated Source = "simulated"
	Model     Source = "model"              // the formulas of Tam & Wang
	ModelHalf Source = "model, half duplex" // the host models of Gupta & Vadhiyar
	ModelFull Source = "model, full duplex"
	Emulated  Source = "emulated"
	Lab       Source = "lab"
	Timed     Source = "timed"
	Paper     Source = "paper"
)

// A Record is one time of one collective, whatever its source.
type Record struct {
	Source     Source `json:"source"`
	Tool       string `json:"tool"` // gridagent, mpich, openmpi …
	Version    string `json:"version,omitempty"`
	Collective string `json:"collective"`
	Algorithm  string `json:"algorithm"`
	Variant    string `json:"variant,omitempty"` // its options, and the plan where the algorithm is a rule that chooses
	Congestion string `json:"congestion,omitempty"`
	Grid       string `json:"grid"`                // name of a file in configs/grids, without ending
	LinkRate   string `json:"link_rate,omitempty"` // in place of a switch tree's own
	Declared   bool   `json:"declared,omitempty"`  // of agents: they were told the switch tree
	Hosts      int    `json:"hosts"`
	SizeBytes  int64  `json:"size_bytes"`      // of every block, or of the largest where there is a shape
	Shape      string `json:"shape,omitempty"` // of lab: how blocks differ; those of the papers do not
	Iterations int    `json:"iterations,omitempty"`

	// Seconds of the slowest rank, over the iterations.
	Mean float64 `json:"mean_s"`
	Min  float64 `json:"min_s"`
	Max  float64 `json:"max_s"`

	Lost     []int   `json:"lost_packets,omitempty"` // in each iteration, where the network tells
	Bound    float64 `json:"bound_s,omitempty"`      // the least time that any schedule could take; 0: not known
	Ports    int     `json:"port_packets,omitempty"` // of emulated switch trees: what each port of a switch holds
	Plan     string  `json:"plan_digest,omitempty"`  // see digestOf; of older records it is not known
	Error    string  `json:"error,omitempty"`        // of lab: there is no time
	Verified bool    `json:"verified"`               // every byte at every host was compared, or the plan was proved where nothing ran

	old bool // outdated; set when a page is made
}

// name is what tells series of one collective apart.
func (r *Record) name() string {
	name := r.Algorithm
	if r.Variant != "" {
		name += " " + r.Variant
	}
	return name
}

// ratio is the time over the bound, 0 where the bound is not known.
func (r *Record) ratio() float64 {
	if r.Bound <= 0 {
		return 0
	}
	return r.Mean / r.Bound
}

// one returns r with a single time.
func (r Record) one(seconds float64) Record {
	r.Mean, r.Min, r.Max, r.Iterations = seconds, seconds, seconds, 1
	return r
}

// of returns r with the mean, least and largest of seconds, which must not be empty.
func (r Record) of(seconds []float64) Record {
	r.Min, r.Max, r.Iterations = seconds[0], seconds[0], len(seconds)
	sum := 0.0
	for _, s := range seconds {
		sum += s
		r.Min, r.Max = min(r.Min, s), max(r.Max, s)
	}
	r.Mean = sum / float64(len(seconds))
	return r
}

// readPeers reads what scripts/peers -o json has written: JSON objects one behind the other, or lists of
// them. It keeps the right times of collectives of equal blocks: runs that failed or brought wrong bytes are left out, those
// whose blocks differ, and what is said of single links. A file that is not there holds none.
func readPeers(path string) ([]Record, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Record
	for dec := json.NewDecoder(f); ; {
		var value json.RawMessage
		switch err := dec.Decode(&value); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		some := make([]Record, 1)
		into := any(&some[0])
		if value[0] == '[' {
			into = &some
		}
		if err := json.Unmarshal(value, into); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, r := range some {
			if r.Collective != "" && r.Shape == "" && r.Error == "" && r.Verified && r.Mean > 0 {
				r.Source = Lab
				all = append(all, r)
			}
		}
	}
}
