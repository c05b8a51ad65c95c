package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/gantt"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/ring"
)

// Every experiment has a name of its own, says what it is, and knows how to measure and to show.
func TestEveryExperimentHasARunner(t *testing.T) {
	seen := make(map[string]bool)
	for _, e := range experiments {
		if !regexp.MustCompile(`^[a-z0-9]+-[a-z0-9]+$`).MatchString(e.id) || seen[e.id] {
			t.Errorf("id %q", e.id)
		}
		seen[e.id] = true
		if e.paper == nil || !strings.HasPrefix(e.id, e.paper.key+"-") || e.where == "" || e.title == "" || e.about == "" {
			t.Errorf("%s does not say what it is", e.id)
		}
		if e.report == nil || len(e.sweeps) == 0 && e.more == nil {
			t.Errorf("%s has no runner", e.id)
		}
	}
	for id := range why {
		if !seen[id] {
			t.Errorf("an explanation of %q, which is no experiment", id)
		}
	}
}

// Every line of every figure has a plan that passes its rules.
func TestEveryContenderPlans(t *testing.T) {
	seen := make(map[string]bool)
	for _, e := range experiments {
		for _, s := range e.sweeps {
			a, err := arenaOf(s.arena)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range s.contenders {
				key := same(s.arena) + name
				if seen[key] {
					continue
				}
				seen[key] = true
				c, err := contenderOf(s.collective, name)
				if err != nil {
					t.Errorf("%s: %v", e.id, err)
					continue
				}
				p, r, err := prepare(a, c, 1000)
				if err != nil {
					t.Errorf("%s: %v", e.id, err)
					continue
				}
				if len(p.Transfers) == 0 || !r.Verified || r.Bound <= 0 || r.name() != name {
					t.Errorf("%s: %d transfers, %+v", e.id, len(p.Transfers), r)
				}
			}
		}
	}
}

// MPICH changes its algorithm where the papers say.
func TestMPICHChanges(t *testing.T) {
	for _, tt := range []struct {
		c     plan.Collective
		arena string
		size  int64
		want  string
	}{
		{plan.Alltoall, "aapc-conf-b", 256, "bruck"},
		{plan.Alltoall, "aapc-conf-b", 257, "spreading-simple"},
		{plan.Alltoall, "aapc-conf-b", 32 << 10, "spreading-simple"},
		{plan.Alltoall, "aapc-conf-b", 32<<10 + 1, "pairwise-mpich"},
		{plan.Allgather, "allgather-a", 32<<10 - 1, "recursive-doubling"}, // §5 of the paper on rings: at 32 KB with 16 hosts
		{plan.Allgather, "allgather-a", 32 << 10, "ring"},
		{plan.Allgather, "allgather-e", 16<<10 - 1, "recursive-doubling"}, // and at 16 KB with 32
		{plan.Allgather, "allgather-e", 16 << 10, "ring"},
		{plan.Allgather, "paper-3site", 1000, "bruck"},
		{plan.Allgather, "paper-3site", 5000, "ring"},
	} {
		a, err := arenaOf(tt.arena)
		if err != nil {
			t.Fatal(err)
		}
		c, err := contenderOf(tt.c, "mpich")
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.make(a, tt.size)
		if err != nil {
			t.Fatal(err)
		}
		if p.Algorithm != tt.want {
			t.Errorf("%s of %d bytes on %s: %s, want %s", tt.c, tt.size, tt.arena, p.Algorithm, tt.want)
		}
	}
}

// invented is what an experiment could have measured: every contender of every sweep, so many sizes of it.
func invented(e *experiment, sizes int) *Raw {
	raw := &Raw{Experiment: e.id, Date: "2026-01-02", Command: command(e.id, false), Machine: thisMachine(), Seconds: 1}
	for _, s := range e.sweeps {
		tasks, err := s.tasks(false)
		if err != nil {
			panic(err)
		}
		for _, x := range tasks {
			c, err := contenderOf(x.collective, x.contender)
			if err != nil {
				panic(err)
			}
			r := Record{Source: x.source, Collective: string(x.collective), Algorithm: c.algorithm, Variant: c.variant, Grid: s.arena, Hosts: 4, SizeBytes: x.size, Bound: 1e-6}
			if sizes > 0 && slices.Index(slices.Concat(s.predicted, s.emulated), x.size) >= sizes {
				continue
			}
			raw.Records = append(raw.Records, r.one(float64(x.size)*1e-6*(1+float64(len(c.name()))/10)))
			if s.timeline {
				raw.Timelines = append(raw.Timelines, Timeline{Source: x.source, Name: x.contender, Grid: s.arena, SizeBytes: x.size, Transfers: 2,
					Steps: []gantt.Step{{At: 0, Count: 1}, {At: 1, Count: 2}, {At: 2, Count: 0}}})
			}
		}
	}
	if e.id == "rings-fig11" {
		for _, s := range []plan.Spanning{plan.SpanBFS, plan.SpanDFS, plan.SpanRandom} {
			raw.Study = append(raw.Study, ring.StudyRow{Hosts: 64, Switches: 13, Spanning: s, LR1: 5, LR3: 3})
		}
	}
	return raw
}

// Pages and pictures come of full results, of one size, and of none, without numbers that are none.
func TestPages(t *testing.T) {
	for i := range experiments {
		e := &experiments[i]
		for _, tt := range []struct {
			name string
			raw  *Raw
		}{{"nothing", &Raw{}}, {"one size", invented(e, 1)}, {"all", invented(e, 0)}} {
			p := e.page(tt.raw)
			text := string(p.markdown(e, tt.raw))
			for _, bad := range []string{"NaN", "Inf", "%!", "<nil>"} {
				if strings.Contains(text, bad) {
					t.Errorf("%s of %s: the page has %s:\n%s", e.id, tt.name, bad, text)
				}
			}
			rectangular(t, e.id+" of "+tt.name, text)
			picture, err := drawSVG(p.panels, p.columns)
			if err != nil || !bytes.Contains(picture, []byte("</svg>")) || bytes.Contains(picture, []byte("NaN")) {
				t.Errorf("%s of %s: %v, %d bytes of picture", e.id, tt.name, err, len(picture))
			}
			if tt.name == "all" && len(e.sweeps) > 0 && (len(p.findings) == 0 || len(p.tables) == 0 || len(p.panels) == 0) {
				t.Errorf("%s: %d findings, %d tables, %d panels", e.id, len(p.findings), len(p.tables), len(p.panels))
			}
		}
	}
}

// rectangular checks that every row of a table has as many cells as its head.
func rectangular(t *testing.T, what, text string) {
	t.Helper()
	cells := 0
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(line, "|")
		if cells == 0 {
			cells = n
		}
		if n != cells {
			t.Errorf("%s: line %d has %d cells, its head %d: %s", what, i+1, n, cells, line)
		}
	}
}

func TestChosen(t *testing.T) {
	if all, err := chosen(nil); err != nil || len(all) != len(experiments) {
		t.Errorf("%d of %d, %v", len(all), len(experiments), err)
	}
	if some, err := chosen([]string{"min3", "rings-fig9"}); err != nil || len(some) != len(min3Experiments)+1 {
		t.Errorf("%d, %v", len(some), err)
	}
	for _, bad := range []string{"min", "min3-fig", "min3-fig8x"} {
		if _, err := chosen([]string{bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A name that stands for another switch tree stands for an equal one.
func TestSame(t *testing.T) {
	for _, r := range arenas {
		first := same(r.name)
		if same(first) != first {
			t.Errorf("%s is %s, which is %s", r.name, first, same(first))
		}
		a, err := arenaOf(r.name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := arenaOf(first)
		if err != nil {
			t.Fatal(err)
		}
		if a.hosts() != b.hosts() || (a.topology == nil) != (b.topology == nil) {
			t.Errorf("%s is no %s", r.name, first)
		}
	}
}

// In the host model no contender is faster than the bound of the ports, and where all blocks cost the
// same a good schedule meets it but for the latencies.
func TestPortBound(t *testing.T) {
	for _, name := range []string{"paper-3site", "paper-2site-europe", "paper-1site-nth"} {
		a, err := arenaOf(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{1 << 10, 64 << 10} {
			for _, who := range []string{"min3", "min3 half", "spreading-simple", "magpie", "mateescu"} {
				c, err := contenderOf(plan.Allgather, who)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range []plan.Duplex{plan.FullDuplex, plan.HalfDuplex} {
					if d == plan.FullDuplex && who == "min3 half" {
						continue
					}
					r, _, _, err := modelled(a, c, size, d)
					if err != nil {
						t.Fatal(err)
					}
					if r.ratio() < 1 {
						t.Errorf("%s, %s, %v duplex, %d bytes: %v s is under the bound of %v s", name, who, d, size, r.Mean, r.Bound)
					}
					if name == "paper-1site-nth" && who == "spreading-simple" && d == plan.FullDuplex && r.ratio() > 1.07 { // 6 µs of latency beside 100 µs for 1 KiB
						t.Errorf("spreading simple on one site takes %v of the bound", r.ratio())
					}
				}
			}
		}
	}
}
