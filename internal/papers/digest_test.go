package main

import (
	"os"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A plan has one digest however often it is made, and whatever its algorithm thinks that it takes; another plan has
// another one.
func TestDigestOf(t *testing.T) {
	seen := make(map[string]string)
	for _, e := range experiments {
		for _, s := range e.sweeps {
			a, err := arenaOf(s.arena)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range s.contenders {
				key := same(s.arena) + " " + name
				if seen[key] != "" {
					continue
				}
				c, err := contenderOf(s.collective, name)
				if err != nil {
					t.Fatal(err)
				}
				var of [2]string
				for i := range of {
					p, err := c.make(a, 1000)
					if err != nil {
						t.Fatal(err)
					}
					p.Makespan += float64(i)
					p.Transfers[0].End += float64(i)
					if of[i], err = digestOf(p); err != nil {
						t.Fatal(err)
					}
				}
				if seen[key] = of[0]; of[0] != of[1] || len(of[0]) != 12 {
					t.Errorf("%s: digests %q", key, of)
				}
			}
		}
	}
	// One edge is another plan.
	a, err := arenaOf(topology(2))
	if err != nil {
		t.Fatal(err)
	}
	c, err := contenderOf(plan.Alltoall, "aapc no-sync")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.make(a, 1000)
	if err != nil {
		t.Fatal(err)
	}
	was, err := digestOf(p)
	if err != nil {
		t.Fatal(err)
	}
	last := &p.Transfers[len(p.Transfers)-1]
	last.After = last.After[:len(last.After)-1]
	if now, err := digestOf(p); err != nil || now == was {
		t.Errorf("an edge less: digest %s, before %s, %v", now, was, err)
	}
}

// Rows of records whose plan is no longer the one that the code makes, or is not known, are marked, and the page and
// the folder's AGREEMENT.md say so; others are not.
func TestOlderPlans(t *testing.T) {
	e := &aapcFig9
	raw := invented(e, 1)
	for i := range raw.Records {
		r := &raw.Records[i]
		now, err := digestNow(digestKey{plan.Alltoall, r.Grid, r.name(), r.SizeBytes})
		if err != nil {
			t.Fatal(err)
		}
		if r.Source == Emulated {
			r.Ports = portPackets
		}
		if r.Plan = now; r.name() == "aapc dummy" && r.Source == Emulated {
			r.Plan = "0123456789ab"
		}
		if r.name() == "mpich" && r.Source == Simulated {
			r.Plan = ""
		}
	}
	marked := func(raw *Raw) (rows []string, text string) {
		p := e.page(raw)
		for _, table := range p.tables {
			for _, row := range table.rows {
				if name, ok := strings.CutSuffix(row[0], oldMark); ok {
					rows = append(rows, strings.SplitN(table.title, ",", 2)[0]+" "+name)
				}
			}
		}
		return rows, p.old
	}
	rows, text := marked(raw)
	if got := strings.Join(rows, ", "); got != "simulated mpich, emulated dummy, simulated mpich, emulated dummy" {
		t.Errorf("marked %s", got)
	}
	if !strings.HasSuffix(text, ": mpich and dummy.") && !strings.HasSuffix(text, ": dummy and mpich.") {
		t.Errorf("%q", text)
	}

	f := &folder{path: t.TempDir()}
	if err := f.save(raw); err != nil {
		t.Fatal(err)
	}
	if err := f.show(e); err != nil {
		t.Fatal(err)
	}
	if err := f.index(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{e.id + ".md", "AGREEMENT.md"} {
		if got := read(t, f.file(name)); !strings.Contains(got, text) {
			t.Errorf("%s does not say what is old:\n%s", name, got)
		}
	}

	for i := range raw.Records { // other switches
		if r := &raw.Records[i]; r.Source == Emulated && r.name() == "lam" {
			r.Ports = 256
		}
	}
	rows, _ = marked(raw)
	if got := strings.Join(rows, ", "); got != "simulated mpich, emulated dummy, emulated lam, simulated mpich, emulated dummy, emulated lam" {
		t.Errorf("marked %s", got)
	}
	for i := range raw.Records {
		raw.Records[i].Plan = ""
	}
	if _, text := marked(raw); !strings.HasSuffix(text, "everything.") {
		t.Errorf("no digest at all: %q", text)
	}
	// What is measured now has the digest of its plan.
	a, err := arenaOf(topology(2))
	if err != nil {
		t.Fatal(err)
	}
	c, err := contenderOf(plan.Alltoall, "aapc dummy")
	if err != nil {
		t.Fatal(err)
	}
	if r, _, _, err := simulated(a, c, 1000); err != nil || r.outdated() {
		t.Errorf("measured now: %+v, %v", r, err)
	}
	model := new(Raw) // formulas have no plans
	if err := exchangeFig3.more(t.Context(), nil, model); err != nil {
		t.Fatal(err)
	}
	if p := exchangeFig3.page(model); p.old != "" {
		t.Errorf("a cost model: %q", p.old)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
