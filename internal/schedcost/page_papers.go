package main

import (
	"fmt"
	"io"
)

// writePapers compares with what the papers say.
func (p *page) writePapers(w io.Writer) {
	io.WriteString(w, "## What the papers say\n")
	p.writeTable3(w)
	p.writeBounds(w)
}

// writeTable3 puts table 3 of Gupta & Vadhiyar beside the same work here.
func (p *page) writeTable3(w io.Writer) {
	io.WriteString(w, `Gupta & Vadhiyar (HPDC 2007, table 3) give the time of a Min3-Allgather schedule on parts of their 3-site grid. Its
thresholds and pools are our pools.Build, its schedule is min3.Schedule. The paper does not say which of its machines, of
933 to 1532 MHz (table 1), or which host model that is; and three sizes this small say little of growth.

`)
	fmt.Fprint(w, "| | hosts | paper: pools | paper: schedule | paper: total, ms |")
	for _, d := range duplexes {
		fmt.Fprintf(w, " here: total, %v duplex, ms |", d)
	}
	fmt.Fprint(w, "\n|---|---:|---:|---:|---:|---:|---:|\n")
	total := func(x point) float64 { return x.seconds }
	var theirs []point
	ours := make([][]point, len(duplexes))
	for i := range setups {
		s := setups[len(setups)-1-i] // the smallest first, for the fit
		hosts, cells := 0, ""
		for k, d := range duplexes {
			x, ok := p.paperPoint(fmt.Sprintf("Paper/%s/%v", s.name, d))
			if !ok {
				cells += " – |"
				continue
			}
			hosts = x.n
			ours[k] = append(ours[k], x)
			cells += fmt.Sprintf(" %s |", digits(x.seconds*1e3))
		}
		theirs = append(theirs, point{n: hosts, seconds: s.total / 1e6})
		fmt.Fprintf(w, "| %s | %d | %s | %s | %s |%s\n", s.name, hosts,
			digits(s.thresholdsAndPools/1e3), digits(s.schedule/1e3), digits(s.total/1e3), cells)
	}
	fmt.Fprintf(w, "| growth | | | | %s |", power(grow(theirs, total)))
	for _, points := range ours {
		fmt.Fprintf(w, " %s |", power(grow(points, total)))
	}
	io.WriteString(w, "\n\n")
}

// paperPoint returns the point of a name of BenchmarkPaper, whatever its number of hosts.
func (p *page) paperPoint(name string) (point, bool) {
	for _, r := range p.paper.results {
		if r.name == name {
			return p.paper.pointOf(name, r.n)
		}
	}
	return point{}, false
}

func (p *page) writeBounds(w io.Writer) {
	io.WriteString(w, "| | paper | source | growth of time here |\n|---|---|---|---|\n")
	for _, b := range bounds {
		for _, r := range p.rows {
			if r.path() == b.series {
				fmt.Fprintf(w, "| %s | %s | %s | %s |\n", r.name, b.says, b.where, power(grow(r.points, seconds)))
			}
		}
	}
	io.WriteString(w, "\n")
}
