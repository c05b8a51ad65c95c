package mpic

import (
	"bufio"
	"embed"
	"fmt"
	"io"
	"slices"
	"text/template"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Options of [Write]. The zero value gives the routine alone, named after the plan.
type Options struct {
	// WithMain adds a main that checks the routine: it calls it several times with patterns,
	// compares what arrives with the patterns and with the library's own collective,
	// and exits with 0 if all is right.
	WithMain bool
	// Name is the name of the function. Empty means gridagent_COLLECTIVE_ALGORITHM.
	Name string
}

//go:embed *.c.tmpl
var templateFiles embed.FS

var templates = template.Must(template.ParseFS(templateFiles, "*.c.tmpl"))

// Write writes the C file of p to w. What the file does is in the package documentation.
// A plan with one size becomes the uniform form of its collective, one with sizes
// the v-form; both are right for all counts.
//
// It returns the [*plan.Violation] of a plan that [plan.Verify] refuses, times aside, an error
// for a name that C cannot have, and those of w.
func Write(w io.Writer, p *plan.Plan, opt Options) error {
	f, err := newFile(p, opt)
	if err != nil {
		return fmt.Errorf("mpi routine of plan %q: %w", p.Algorithm, err)
	}
	out := bufio.NewWriter(w)
	for _, part := range []string{"head", "tables", "interpreter", "entry", "check"} {
		switch {
		case part == "tables":
			f.writeTables(out)
		case part != "check" || opt.WithMain:
			if err := templates.ExecuteTemplate(out, part, f); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

// A file is what the templates read.
type file struct {
	*schedule
	Name, Algorithm string
	Plan            *plan.Plan
	Hosts           []string // fit for a comment

	Allgather, V bool
	Relays       bool
	Joins        bool // a message has several blocks

	Ranks, Messages, Rounds int
	Busiest, Largest        int
	Notices, Added          int
}

func newFile(p *plan.Plan, opt Options) (*file, error) {
	name := opt.Name
	if name == "" {
		name = defaultName(p)
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	s, err := newSchedule(p)
	if err != nil {
		return nil, err
	}
	f := &file{
		schedule: s, Plan: p, Name: name, Algorithm: comment(p.Algorithm),
		Allgather: p.Collective == plan.Allgather, V: isV(p), Relays: s.relays(),
		Ranks: len(p.Hosts), Messages: len(s.messages), Rounds: len(s.rounds) - 1,
		Notices: s.notices, Added: s.added,
	}
	f.Busiest, f.Largest = s.busiest(f.Ranks)
	f.Joins = f.Largest > 1
	for _, h := range p.Hosts {
		f.Hosts = append(f.Hosts, comment(h))
	}
	return f, nil
}

// MPI is the routine of the library that the file stands in for.
func (f *file) MPI() string {
	name := "MPI_Alltoall"
	if f.Allgather {
		name = "MPI_Allgather"
	}
	if f.V {
		name += "v"
	}
	return name
}

// Scheduled says for which sizes the plan was made.
func (f *file) Scheduled() string {
	p := f.Plan
	switch {
	case p.Matrix != nil:
		least, most := p.Matrix[0][0], p.Matrix[0][0]
		for _, row := range p.Matrix {
			least, most = min(least, slices.Min(row)), max(most, slices.Max(row))
		}
		return fmt.Sprintf("blocks of %d to %d bytes", least, most)
	case p.Sizes != nil:
		return fmt.Sprintf("blocks of %d to %d bytes", slices.Min(p.Sizes), slices.Max(p.Sizes))
	}
	return fmt.Sprintf("blocks of %d bytes", p.MessageBytes)
}

// Order says how the order of the plan is kept, in lines.
func (f *file) Order() []string {
	var lines []string
	if f.Rounds > 1 {
		lines = append(lines, fmt.Sprintf("%d rounds with a barrier between them", f.Rounds))
	}
	if f.Notices > 0 {
		lines = append(lines, fmt.Sprintf("%d notices, messages without bytes: another message is complete", f.Notices))
	}
	return append(lines, "a rank sends when what it needs itself has been received and sent")
}
