package gantt

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/gridagent/gridagent/exchange/plan"
)

// ErrNoTimes is returned, wrapped, for a plan whose transfers have no times.
var ErrNoTimes = errors.New("the plan has no times; simulate it and draw it with the predicted times")

// A View is what of a plan is drawn.
type View uint8

// The views.
const (
	GanttView       View = iota // rows of hosts and links, bars of transfers
	ConcurrencyView             // simultaneous WAN transfers over time
)

// A Chart is a plan with its times, and what the picture should say about it. Plan is
// needed; the zero value of everything else is useful.
type Chart struct {
	Plan *plan.Plan

	// Start and End are seconds per transfer, as [plan.SimResult] has them. Both nil
	// means the times in the plan.
	Start, End []float64

	// Pool is the pool of each host, an index in PoolNames. Transfers between pools are
	// WAN transfers. Both nil means one pool, and then there are none.
	Pool      []int
	PoolNames []string

	Bound float64 // seconds, drawn as a line; 0 means none is known
	Title string  // empty means algorithm and collective
	View  View
}

// maxSeconds is the largest time that can be drawn: that of package plan, 31 years.
const maxSeconds = 1e9

// WriteSVG draws c and writes the picture to w. It returns [ErrNoTimes], wrapped, for a
// plan without times, and an error for a chart that does not fit together; nothing is
// written then.
func WriteSVG(w io.Writer, c Chart) error {
	f, err := newFigure(c)
	if err != nil {
		return err
	}
	var picture []byte
	switch c.View {
	case GanttView:
		picture = f.gantt()
	case ConcurrencyView:
		picture = f.curves()
	default:
		return fmt.Errorf("gantt: view %d is neither GanttView nor ConcurrencyView", c.View)
	}
	if _, err := w.Write(picture); err != nil {
		return fmt.Errorf("gantt: %w", err)
	}
	return nil
}

// A figure is a chart that has been checked, and the facts that both views need.
type figure struct {
	plan     *plan.Plan
	spans    []Span // per transfer
	pool     []int  // per host
	pools    []string
	hostTags []string // names, short enough for labels
	poolTags []string
	bound    float64
	title    string
	makespan float64
	links    []wanLink // ascending by from, to; only those with transfers
	notes    []string  // what the picture does not show
}

// A wanLink is an ordered pair of pools and its transfers, ascending.
type wanLink struct {
	from, to  int
	transfers []int
	bytes     int64
}

func newFigure(c Chart) (*figure, error) {
	if c.Plan == nil {
		return nil, errors.New("gantt: the chart has no plan")
	}
	if err := c.Plan.Check(); err != nil {
		return nil, fmt.Errorf("gantt: %w", err)
	}
	f := &figure{plan: c.Plan, pool: c.Pool, pools: c.PoolNames, bound: c.Bound, title: c.Title}
	if err := f.setSpans(c.Start, c.End); err != nil {
		return nil, fmt.Errorf("gantt: %w", err)
	}
	if err := f.setPools(); err != nil {
		return nil, fmt.Errorf("gantt: %w", err)
	}
	if !(c.Bound >= 0 && c.Bound <= maxSeconds) {
		return nil, fmt.Errorf("gantt: bound of %v s, want 0…%g", c.Bound, maxSeconds)
	}
	if f.title == "" {
		f.title = strings.TrimSpace(c.Plan.Algorithm + " " + string(c.Plan.Collective))
	}
	f.title = full(f.title)
	f.hostTags = shorten(c.Plan.Hosts, 200)
	f.poolTags = shorten(f.pools, 92)
	f.setLinks()
	return f, nil
}

// setSpans takes the times of the chart, or else of the plan.
func (f *figure) setSpans(start, end []float64) error {
	n := len(f.plan.Transfers)
	f.spans = make([]Span, n)
	if start == nil && end == nil {
		for i := range f.plan.Transfers {
			t := &f.plan.Transfers[i]
			f.spans[i] = Span{t.Start, t.End}
			f.makespan = max(f.makespan, t.End)
		}
		if n > 0 && f.makespan == 0 {
			return ErrNoTimes
		}
	} else if len(start) != n || len(end) != n {
		return fmt.Errorf("%d starts and %d ends for %d transfers", len(start), len(end), n)
	} else {
		for i := range f.spans {
			f.spans[i] = Span{start[i], end[i]}
			f.makespan = max(f.makespan, end[i])
		}
	}
	for i, s := range f.spans {
		if !(s.Start >= 0 && s.Start <= s.End && s.End <= maxSeconds) { // false for NaN
			return fmt.Errorf("transfer %d takes from %v s to %v s, want 0 ≤ start ≤ end ≤ %g", i, s.Start, s.End, maxSeconds)
		}
	}
	return nil
}

func (f *figure) setPools() error {
	n := len(f.plan.Hosts)
	if f.pool == nil && f.pools == nil {
		f.pool, f.pools = make([]int, n), []string{"all hosts"}
	}
	if len(f.pool) != n {
		return fmt.Errorf("pools of %d hosts for a plan of %d", len(f.pool), n)
	}
	for h, p := range f.pool {
		if p < 0 || p >= len(f.pools) {
			return fmt.Errorf("host %q is in pool %d, which is none of the %d pools", f.plan.Hosts[h], p, len(f.pools))
		}
	}
	return nil
}

func (f *figure) setLinks() {
	index := make(map[[2]int]int)
	for i := range f.plan.Transfers {
		t := &f.plan.Transfers[i]
		pair := [2]int{f.pool[t.Src], f.pool[t.Dst]}
		if pair[0] == pair[1] {
			continue
		}
		k, ok := index[pair]
		if !ok {
			k = len(f.links)
			index[pair] = k
			f.links = append(f.links, wanLink{from: pair[0], to: pair[1]})
		}
		f.links[k].transfers = append(f.links[k].transfers, i)
		f.links[k].bytes += f.plan.Bytes(t)
	}
	sortLinks(f.links)
}

// note adds a sentence under the picture.
func (f *figure) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// summary is the line under the title.
func (f *figure) summary() string {
	var bytes int64
	wan := 0
	for i := range f.plan.Transfers {
		bytes += f.plan.Bytes(&f.plan.Transfers[i])
	}
	for _, l := range f.links {
		wan += len(l.transfers)
	}
	parts := []string{count(len(f.plan.Hosts), "host")}
	transfers := count(len(f.plan.Transfers), "transfer")
	if len(f.pools) > 1 {
		parts[0] += " in " + count(len(f.pools), "pool")
		transfers += fmt.Sprintf(" (%d between pools)", wan)
	}
	parts = append(parts, transfers, formatBytes(bytes), "makespan "+formatSeconds(f.makespan, 4))
	if f.bound > 0 {
		parts = append(parts, fmt.Sprintf("bound %s (makespan is %.2f × bound)", formatSeconds(f.bound, 4), f.makespan/f.bound))
	}
	return strings.Join(parts, " · ")
}

// horizon is where the time axis ends, in seconds, and whether the bound is on it: one
// far behind the last transfer would press the bars together at the left edge.
func (f *figure) horizon() (seconds float64, bound bool) {
	last := f.makespan
	if bound = f.bound > 0 && (f.bound <= 4*f.makespan || f.makespan == 0); bound {
		last = max(last, f.bound)
	}
	// Two per cent more, so that the last bar and the line of the bound end inside.
	return math.Max(float64(last*1.02), 1e-9), bound
}
