package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/exchange/gantt"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/ring"
)

// An experiment is a figure or table of a paper.
type experiment struct {
	id    string
	paper *paper
	where string // in the paper: "§6.3, figure 8"
	title string
	about string // what is measured, and how; what the text of the paper leaves open

	sweeps []sweep
	more   func(ctx context.Context, r *runner, raw *Raw) error // what is no sweep; may be nil
	report func(raw *Raw, p *page)
}

// A sweep is contenders over sizes on one network, from several sources.
type sweep struct {
	arena      string
	collective plan.Collective
	contenders []string
	predict    Source  // Simulated if empty
	predicted  []int64 // sizes of blocks in bytes
	emulated   []int64
	timeline   bool // when transfers between sites ran is wanted too
}

// A paper is where an experiment comes from.
type paper struct {
	key, cite string
}

var (
	min3Paper     = &paper{"min3", "R. Gupta, S. Vadhiyar: An Efficient MPI_Allgather for Grids, HPDC 2007"}
	aapc05Paper   = &paper{"aapc05", "A. Faraj, X. Yuan: Message Scheduling for All-to-All Personalized Communication on Ethernet Switched Clusters, IPDPS 2005"}
	aapcPaper     = &paper{"aapc", "A. Faraj, X. Yuan, P. Patarasuk: A Message Scheduling Scheme for All-to-All Personalized Communication on Ethernet Switched Clusters, TPDS 2007"}
	exchangePaper = &paper{"exchange", "A. Tam, C. Wang: Efficient Scheduling of Complete Exchange on Clusters, PDCS 2000"}
	ringsPaper    = &paper{"rings", "A. Faraj, P. Patarasuk, X. Yuan: Bandwidth Efficient All-to-All Broadcast on Switched Clusters"}
)

// experiments are all of them, in the order in which they run: what is quick comes first.
var experiments = slices.Concat(min3Experiments, exchangeExperiments, ringsExperiments, aapc05Experiments, aapcExperiments)

// Raw is what an experiment measured: the file ID.json, from which everything else is made.
type Raw struct {
	Experiment string  `json:"experiment"`
	Command    string  `json:"command"`
	Date       string  `json:"date"` // UTC, when it ended
	Machine    machine `json:"machine"`
	Seconds    float64 `json:"wall_clock_s"` // what it took beside what earlier experiments of the run had measured
	Quick      bool    `json:"quick,omitempty"`

	Records   []Record        `json:"records"`
	Timelines []Timeline      `json:"timelines,omitempty"`
	Study     []ring.StudyRow `json:"study,omitempty"`
}

// A Timeline is how many transfers between sites are under way over time.
type Timeline struct {
	Source    Source       `json:"source"`
	Name      string       `json:"name"` // of the contender
	Grid      string       `json:"grid"`
	SizeBytes int64        `json:"size_bytes"`
	Steps     []gantt.Step `json:"steps"`
	Transfers int          `json:"transfers"` // between sites, all of them
}

// find returns the record of a source, network, name and size, and whether there is one.
func (r *Raw) find(s Source, grid, name string, size int64) (Record, bool) {
	for i := range r.Records {
		if x := &r.Records[i]; x.Source == s && x.Grid == grid && x.name() == name && x.SizeBytes == size {
			return *x, true
		}
	}
	return Record{}, false
}

// of returns the records of a source and network.
func (r *Raw) of(s Source, grid string) []Record {
	var out []Record
	for _, x := range r.Records {
		if x.Source == s && x.Grid == grid {
			out = append(out, x)
		}
	}
	return out
}

// chosen returns the experiments whose id is one of names, or begins with one and a dash; all if
// there is no name.
func chosen(names []string) ([]*experiment, error) {
	var out []*experiment
	used := make(map[string]bool)
	for i := range experiments {
		e := &experiments[i]
		take := len(names) == 0
		for _, n := range names {
			if e.id == n || strings.HasPrefix(e.id, n+"-") {
				take, used[n] = true, true
			}
		}
		if take {
			out = append(out, e)
		}
	}
	for _, n := range names {
		if !used[n] {
			var ids []string
			for i := range experiments {
				ids = append(ids, experiments[i].id)
			}
			return nil, fmt.Errorf("no experiment %q; there are %s", n, strings.Join(ids, ", "))
		}
	}
	return out, nil
}
