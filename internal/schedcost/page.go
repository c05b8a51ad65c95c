package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A page is docs/scheduling-cost.md.
type page struct {
	machine machine
	limits  limits
	sizes   []int
	rows    []row
	paper   output // of BenchmarkPaper
}

// A row is a series with what was measured of it.
type row struct {
	series
	points []point // in order of n; never empty
	left   string  // why there is no more
}

type machine struct {
	date      time.Time
	goVersion string
	cores     int
	load      string
	config    map[string]string // what go test says of it
}

const head = `# What scheduling costs

<!-- Written by scripts/cost, which overwrites it. -->

One run is one plan: from a map or a switch tree to a checked list of transfers. An allgather or alltoall
over n hosts in which everyone talks to everyone has n(n−1) transfers, so no scheduler that writes them
down grows slower than n² in time and memory. Relays combine blocks and send fewer, larger transfers.

`

// Lines are the rows of numbers of one series.
var lines = []struct {
	label  string
	scale  float64
	cost   func(point) float64
	fitted bool
}{
	{"ms", 1e3, seconds, true},
	{"MB", 1e-6, allocated, true},
	{"allocations", 1, func(p point) float64 { return p.allocs }, false},
	{"transfers", 1, func(p point) float64 { return p.transfers }, true},
}

type group struct{ name, heading, about string }

// groups are the headings, in order.
var groups = []group{
	{"allgather", "Allgather", ""},
	{"alltoall", "Alltoall", "aapc alone is its phases without synchronisation; strict16 is receiver synchronisation between blocks of 16 phases.\n"},
	{planSteps, "Before and after",
		"Pools are built from a map. Plans are verified with all rules that they are made for and simulated block by block;\n" +
			"aapc has receiver synchronisation. To choose is to make and simulate the plan of every algorithm that applies.\n"},
}

func (p *page) write(w io.Writer) {
	io.WriteString(w, head)
	p.writeHow(w)
	for _, g := range groups {
		fmt.Fprintf(w, "## %s\n%s\n", g.heading, g.about)
		p.writeGroup(w, g.name)
	}
	p.writePapers(w)
}

func (p *page) writeHow(w io.Writer) {
	m := p.machine
	fmt.Fprintf(w, "Measured on %s with %s on %s/%s, %d cores, %s", m.date.Format(time.DateOnly),
		m.goVersion, m.config["goos"], m.config["goarch"], m.cores, m.config["cpu"])
	if m.load != "" {
		fmt.Fprintf(w, "; load average before the run: %s", m.load)
	}
	fmt.Fprintf(w, ".\n\n- **ms**: wall-clock time of one run, the fastest of up to %d measurements.\n", repeats)
	io.WriteString(w, "- **MB**: all that one run allocates, in 10⁶ bytes; it never holds more at a time. **allocations**: how many.\n")
	io.WriteString(w, "- **growth**: e of c·nᵉ with its standard error, by least squares of log cost over log n for the larger half of the\n  sizes, and no fewer than three.\n")
	fmt.Fprintf(w, "- Sizes of which one run was expected to take more than %v or %s GiB are left out. Blocks have %d bytes.\n",
		p.limits.time, digits(p.limits.bytes/(1<<30)), blockBytes)
	io.WriteString(w, "- What a series runs on stands beside its name:\n")
	for _, k := range worlds {
		fmt.Fprintf(w, "  - *%s*: %s.\n", k.name, k.about)
	}
	io.WriteString(w, "\n")
}

func (p *page) writeGroup(w io.Writer, group string) {
	header, rule := "| | n =", "|---|---|"
	for _, n := range p.sizes {
		header += fmt.Sprintf(" | %d", n)
		rule += "---:|"
	}
	fmt.Fprintf(w, "%s | growth |\n%s---|\n", header, rule)
	var left []string
	for _, r := range p.rows {
		if r.group != group {
			continue
		}
		name := fmt.Sprintf("**%s** (%s)", r.name, r.world)
		for _, l := range lines {
			if l.label == "transfers" && r.points[len(r.points)-1].transfers == 0 {
				continue
			}
			fmt.Fprintf(w, "| %s | %s", name, l.label)
			name = ""
			for _, n := range p.sizes {
				cell := "–"
				if i := slices.IndexFunc(r.points, func(x point) bool { return x.n == n }); i >= 0 {
					cell = digits(l.cost(r.points[i]) * l.scale)
				}
				fmt.Fprintf(w, " | %s", cell)
			}
			exponent := ""
			if l.fitted {
				exponent = power(grow(r.points, l.cost))
			}
			fmt.Fprintf(w, " | %s |\n", exponent)
		}
		if r.left != "" {
			left = append(left, fmt.Sprintf("- %s, %s.\n", r.name, r.left))
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(w, "\nLeft out:\n%s", strings.Join(left, ""))
	}
	io.WriteString(w, "\n")
}

// power formats what grow returns.
func power(g growth, ok bool) string {
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.2f ± %.2f", g.exponent, g.deviation)
}

// digits formats v with three significant digits, and integers of more in full.
func digits(v float64) string {
	decimals := 0
	for x := v; x > 0 && x < 100 && decimals < 6; x *= 10 {
		decimals++
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if decimals > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
