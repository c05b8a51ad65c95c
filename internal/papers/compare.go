package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A metric turns a time into what a figure shows.
type metric struct {
	axis  axis
	value func(r *Record, seconds float64) float64
}

var (
	seconds = metric{axis{label: "time (s)", log: true}, func(_ *Record, s float64) float64 { return s }}
	// throughput is that of Faraj & Yuan: |M|·(|M|−1)·msize over the time.
	throughput = metric{axis{label: "aggregate throughput (Mbit/s)", zero: true}, func(r *Record, s float64) float64 {
		n := float64(r.Hosts)
		return n * (n - 1) * float64(r.SizeBytes) * 8 / s / 1e6
	}}
	// bandwidth is that of Tam & Wang: what a host sends over the time.
	bandwidth = metric{axis{label: "bandwidth of a host (Mbit/s)"}, func(r *Record, s float64) float64 {
		return float64(r.Hosts-1) * float64(r.SizeBytes) * 8 / s / 1e6
	}}
	overBound = metric{axis{label: "time / bound"}, func(r *Record, s float64) float64 { return s / r.Bound }}
)

// shown is the name of a series in figures and tables.
func shown(name string) string {
	switch {
	case strings.HasPrefix(name, "aapc "):
		return strings.TrimPrefix(name, "aapc ")
	case strings.HasSuffix(name, " half"):
		return strings.TrimSuffix(name, " half")
	}
	return name
}

// A comparison is one diagram and one table: contenders by size, on one network, from one source.
type comparison struct {
	arena  string
	source Source
	draw   []string // names of the lines
	also   []string // those that only the table shows
	metric metric
	title  string                  // empty: that of the arena
	label  func(size int64) string // of a size; nil: inBytes
	x      string                  // label of the x axis; empty: that of block sizes
}

// compare adds a comparison to the page; nothing if there are no records for it.
func (p *page) compare(raw *Raw, c comparison) {
	title := c.title
	if title == "" {
		title = titleOf(c.arena)
	}
	title = fmt.Sprintf("%s%s, %s", c.source, portsOf(raw.of(c.source, c.arena)), title)
	if c.label == nil {
		c.label = inBytes
	}
	d := panel{title: title, x: axis{label: cmp.Or(c.x, "block size"), sizes: true}, y: c.metric.axis}
	for _, name := range c.draw {
		s := series{name: shown(name)}
		for _, r := range raw.of(c.source, c.arena) {
			if r.name() != name {
				continue
			}
			s.xy = append(s.xy, point(float64(r.SizeBytes), c.metric.value(&r, r.Mean)))
		}
		if s.xy != nil {
			d.series = append(d.series, s)
		}
	}
	if d.series == nil {
		return
	}
	d.series = append(d.series, boundSeries(boundsOf(raw.of(c.source, c.arena), c.draw), c.metric)...)
	p.panels = append(p.panels, d)
	names := slices.Concat(c.draw, c.also)
	p.tables = append(p.tables, timesTable(raw, title, c.source, c.arena, names, c.label))
	if lost := lossTable(raw, title, c.arena, names, c.label); c.source == Emulated && len(lost.rows) > 0 {
		p.tables = append(p.tables, lost)
	}
}

// portsOf says what the ports of switches held that records are of, "" where they differ or there is none.
func portsOf(records []Record) string {
	ports := 0
	for i, r := range records {
		if i > 0 && r.Ports != ports {
			return ""
		}
		ports = r.Ports
	}
	if ports == 0 {
		return ""
	}
	return fmt.Sprintf(", ports of %d packets", ports)
}

// A bounds is one line of bounds: those of some names, which have the same at every size.
type bounds struct {
	title string
	names []string
	at    map[int64]Record // by size, one of the records that it is of
}

// boundsOf returns the bounds of names, one for all of them where they differ nowhere.
func boundsOf(records []Record, names []string) []bounds {
	var all []bounds
	for _, name := range names {
		at := make(map[int64]Record)
		for _, r := range records {
			if r.name() == name && r.Bound > 0 {
				at[r.SizeBytes] = r
			}
		}
		if len(at) == 0 {
			continue
		}
		i := slices.IndexFunc(all, func(b bounds) bool { return b.fits(at) })
		if i < 0 {
			i = len(all)
			all = append(all, bounds{title: "bound", at: make(map[int64]Record)})
		}
		all[i].names = append(all[i].names, shown(name))
		maps.Copy(all[i].at, at)
	}
	for i := range all {
		if len(all) > 1 {
			all[i].title = "bound of " + list(all[i].names)
		}
	}
	return all
}

// fits reports whether b says nothing else than at.
func (b *bounds) fits(at map[int64]Record) bool {
	for size, r := range at {
		if x, ok := b.at[size]; ok && math.Abs(x.Bound/r.Bound-1) > 1e-9 {
			return false
		}
	}
	return true
}

// boundSeries are the lines of bounds.
func boundSeries(all []bounds, m metric) []series {
	var out []series
	for _, b := range all {
		s := series{name: b.title, bound: true}
		for _, size := range slices.Sorted(maps.Keys(b.at)) {
			r := b.at[size]
			s.xy = append(s.xy, point(float64(size), m.value(&r, r.Bound)))
		}
		out = append(out, s)
	}
	return out
}

// lossTable has the packets that the emulated network dropped, a mean over the iterations. Names that lost
// none are left out.
func lossTable(raw *Raw, title, arena string, names []string, label func(int64) string) table {
	t := table{title: "packets lost, " + title, head: []string{"block"}}
	sizes := make(map[int64]bool)
	for _, r := range raw.of(Emulated, arena) {
		if slices.Contains(names, r.name()) {
			sizes[r.SizeBytes] = true
		}
	}
	columns := slices.Sorted(maps.Keys(sizes))
	for _, n := range columns {
		t.head = append(t.head, label(n))
	}
	for _, name := range names {
		row, any, old := []string{shown(name)}, false, false
		for _, n := range columns {
			r, ok := raw.find(Emulated, arena, name, n)
			cell := "–"
			if ok {
				sum := 0
				for _, l := range r.Lost {
					sum += l
				}
				any, old = any || sum > 0, old || r.old
				cell = fmt.Sprint(sum / max(1, len(r.Lost)))
			}
			row = append(row, cell)
		}
		if any {
			t.add(row, old)
		}
	}
	return t
}

// add adds a row, and says where it is of older plans.
func (t *table) add(row []string, old bool) {
	if old {
		row[0] += oldMark
		t.note = "†: measured with an older plan or other ports than the code has now, or ones that nobody knows, at some size at least."
	}
	t.rows = append(t.rows, row)
}

// oldMark marks rows that are of an older plan.
const oldMark = " †"

// timesTable has a row for each name and a column for each size: the mean time, and times the bound.
func timesTable(raw *Raw, title string, s Source, arena string, names []string, label func(int64) string) table {
	records := raw.of(s, arena)
	var sizes []int64
	for _, r := range records {
		if slices.Contains(names, r.name()) && !slices.Contains(sizes, r.SizeBytes) {
			sizes = append(sizes, r.SizeBytes)
		}
	}
	slices.Sort(sizes)
	t := table{title: title, head: []string{"block"}}
	ratio := []string{"best of ours / best peer"}
	compared := false
	for _, n := range sizes {
		t.head = append(t.head, label(n))
		cell := "–"
		own, peer := bests(raw, s, arena, names, n)
		if own.Mean > 0 && peer.Mean > 0 {
			compared = true
			cell = fmt.Sprintf("%s (%s / %s)", digits(own.Mean/peer.Mean, 3), shown(own.name()), shown(peer.name()))
		}
		ratio = append(ratio, cell)
	}
	for _, b := range boundsOf(records, names) {
		row := []string{b.title}
		for _, n := range sizes {
			cell := "–"
			if r, ok := b.at[n]; ok {
				cell = duration(r.Bound)
			}
			row = append(row, cell)
		}
		t.rows = append(t.rows, row)
	}
	for _, name := range names {
		row := []string{shown(name)}
		any, old := false, false
		for _, n := range sizes {
			r, ok := raw.find(s, arena, name, n)
			cell := "–"
			if ok {
				any, old = true, old || r.old
				cell = duration(r.Mean)
				if r.Bound > 0 {
					cell += " " + times(r.ratio())
				}
			}
			row = append(row, cell)
		}
		if any {
			t.add(row, old)
		}
	}
	if compared {
		t.rows = append(t.rows, ratio)
	}
	return t
}

// bests returns the fastest of the paper's own and of the peers among names; Mean is 0 where there is none.
func bests(raw *Raw, s Source, arena string, names []string, size int64) (own, peer Record) {
	for _, name := range names {
		r, ok := raw.find(s, arena, name, size)
		if !ok {
			continue
		}
		to := &own
		if r.isPeer() {
			to = &peer
		}
		if to.Mean == 0 || r.Mean < to.Mean {
			*to = r
		}
	}
	return own, peer
}

// lab adds what real processes took on the network of an experiment, if there is any of it: for each rate of its links a
// line for the fastest algorithm of each library, and a table of all.
func (p *page) lab(raw *Raw, arena string, collective plan.Collective) {
	var rates []string
	at := make(map[string]*Raw) // by rate
	for _, r := range raw.Records {
		if r.Source != Lab || r.Collective != string(collective) || same(r.Grid) != same(arena) {
			continue
		}
		if at[r.LinkRate] == nil {
			at[r.LinkRate] = new(Raw)
			rates = append(rates, r.LinkRate)
		}
		at[r.LinkRate].Records = append(at[r.LinkRate].Records, r)
	}
	for _, rate := range rates {
		title := "lab, " + titleOf(arena)
		if rate != "" {
			title += ", links of " + rate
		}
		p.labOf(at[rate].Records, arena, title)
	}
}

// labOf adds records of real processes on one network.
func (p *page) labOf(records []Record, arena, title string) {
	var names []string
	here, best := new(Raw), make(map[string]*series)
	d := panel{title: title, x: axis{label: "block size", sizes: true}, y: seconds.axis}
	var lines []*series
	for _, r := range records {
		line, options := r.Tool+", "+r.Congestion, r.Congestion
		if r.Declared {
			line, options = line+", tree declared", options+", tree declared"
		}
		r.Algorithm, r.Variant, r.Grid = r.Tool+" "+r.name()+", "+options, "", arena
		here.Records = append(here.Records, r)
		if !slices.Contains(names, r.name()) {
			names = append(names, r.name())
		}
		if best[line] == nil {
			best[line] = &series{name: line}
			lines = append(lines, best[line])
		}
		best[line].least(point(float64(r.SizeBytes), r.Mean))
	}
	for _, s := range lines {
		d.series = append(d.series, *s)
	}
	d.series = append(d.series, boundSeries(boundsOf(here.Records, names), seconds)...)
	p.panels = append(p.panels, d)
	t := timesTable(here, title, Lab, arena, names, inBytes)
	t.note = "Real processes in network namespaces; a line of the picture is the fastest algorithm of a library at each size."
	p.tables = append(p.tables, t)
}

// least adds q, or lowers the point that has its place. Points come to stand in order.
func (s *series) least(q plotter.XY) {
	i, ok := slices.BinarySearchFunc(s.xy, q, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	if ok {
		s.xy[i].Y = min(s.xy[i].Y, q.Y)
		return
	}
	s.xy = slices.Insert(s.xy, i, q)
}

func titleOf(arena string) string {
	for i := range arenas {
		if arenas[i].name == arena {
			return arenas[i].title
		}
	}
	return arena
}

// sizesOf returns the sizes at which all names have records, ascending.
func sizesOf(raw *Raw, s Source, arena string, names ...string) []int64 {
	var sizes []int64
	for _, r := range raw.of(s, arena) {
		all := true
		for _, n := range names {
			_, ok := raw.find(s, arena, n, r.SizeBytes)
			all = all && ok
		}
		if all && !slices.Contains(sizes, r.SizeBytes) {
			sizes = append(sizes, r.SizeBytes)
		}
	}
	slices.Sort(sizes)
	return sizes
}

// mean returns the mean time of a record that must be there, 0 else.
func (r *Raw) mean(s Source, arena, name string, size int64) float64 {
	x, _ := r.find(s, arena, name, size)
	return x.Mean
}
