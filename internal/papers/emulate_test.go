package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/treetest"
)

var (
	jobsFile    = flag.String("papers.jobs", "", "file with the jobs that TestEmulate runs")
	recordsFile = flag.String("papers.records", "", "file that TestEmulate adds what it measured to, a line each")
)

// TestEmulate is no test but the emulation of the command papers, which needs a synctest bubble.
// It runs the jobs of a file, one bubble for each contender on each network: connections that lost
// packets begin the next exchange with small windows, which must not be another contender's.
func TestEmulate(t *testing.T) {
	if *jobsFile == "" {
		t.Skip("run by the command papers, with -papers.jobs")
	}
	jobs, err := readJobs(*jobsFile)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(*recordsFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, group := range groupJobs(jobs) {
		t.Run(group[0].group(), func(t *testing.T) {
			t.Parallel()
			emulateGroup(t, group, func(e emulation) {
				line, err := json.Marshal(e)
				if err == nil {
					_, err = out.Write(append(line, '\n')) // one write a line: groups share the file
				}
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func emulateGroup(t *testing.T, jobs []job, emit func(emulation)) {
	a, err := arenaOf(jobs[0].Arena)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := emulatedNetwork(a)
	if err != nil {
		t.Fatal(err)
	}
	treetest.Run(t, cfg, func(c *treetest.Cluster) {
		for _, j := range jobs {
			who, err := contenderOf(j.Collective, j.Contender)
			if err != nil {
				t.Error(err)
				return
			}
			p, r, err := prepare(a, who, j.Size)
			if err != nil {
				t.Error(err)
				return
			}
			e := emulation{}
			var seconds []float64
			for range j.Warmup {
				c.Run(p)
			}
			for range j.Repeats {
				result := c.Run(p)
				seconds = append(seconds, result.Makespan.Seconds())
				r.Lost = append(r.Lost, result.Lost)
				if j.Timeline {
					e.Timeline = timeline(a, p, result)
				}
			}
			r.Source, r.Ports = Emulated, a.ports
			e.Record = r.of(seconds)
			emit(e)
		}
	})
}

// timeline returns when transfers between sites ran, as their receivers saw it.
func timeline(a *arena, p *plan.Plan, r *treetest.Result) []span {
	var spans []span
	for i := range p.Transfers {
		if x := &p.Transfers[i]; a.between(x.Src, x.Dst) {
			spans = append(spans, span{r.Transfers[i].Start.Seconds(), r.Transfers[i].End.Seconds()})
		}
	}
	return spans
}

// emulatedNetwork returns the packets' network of a, and what engines believe of it: what
// agents tell them of a map that is right, see [treetest.Paths].
func emulatedNetwork(a *arena) (treetest.Config, error) {
	var cfg treetest.Config
	var err error
	if a.topology != nil {
		cfg.Net, err = gridnet.FromTopology(a.topology, treeLatency)
		cfg.Net.SendBuffer = hostQueue
		for i := range cfg.Net.Sites {
			cfg.Net.Sites[i].IngressQueue = a.ports
		}
		for i := range cfg.Net.Trunks {
			cfg.Net.Trunks[i].Queue = a.ports
		}
		return cfg, err
	}
	if cfg.Net, err = gridnet.FromGrid(a.grid); err != nil {
		return cfg, err
	}
	cfg.Net.Seed = 1
	cfg.Path = treetest.Paths(a.problem.Snapshot)
	return cfg, nil
}

// One small job through the engines: what the command gets of it.
func TestEmulateOne(t *testing.T) {
	if testing.Short() {
		t.Skip("connects 16 hosts")
	}
	var got []emulation
	emulateGroup(t, []job{{Arena: switchArena, Collective: "alltoall", Contender: "shift", Size: 3000, Repeats: 2}}, func(e emulation) { got = append(got, e) })
	if len(got) != 1 {
		t.Fatalf("%d emulations", len(got))
	}
	if r := got[0].Record; r.Source != Emulated || r.name() != "shift" || !r.Verified || r.Iterations != 2 || r.ratio() < 1 || r.ratio() > 3 {
		t.Errorf("%+v", r)
	}
}

// TestJobsAreGrouped: every job is in one group, in its order, and a group has one arena and contender.
func TestJobsAreGrouped(t *testing.T) {
	var jobs []job
	for i := range 60 {
		jobs = append(jobs, job{Arena: fmt.Sprint(i % 3), Contender: fmt.Sprint(i % 5), Size: int64(i)})
	}
	n := 0
	for _, g := range groupJobs(jobs) {
		n += len(g)
		if !slices.IsSortedFunc(g, func(a, b job) int { return int(a.Size - b.Size) }) {
			t.Errorf("out of order: %v", g)
		}
		for _, j := range g {
			if j.group() != g[0].group() {
				t.Errorf("%v in the group of %v", j, g[0])
			}
		}
	}
	if n != len(jobs) {
		t.Errorf("%d jobs of %d", n, len(jobs))
	}
}
