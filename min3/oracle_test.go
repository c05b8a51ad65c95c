package min3

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// An oracle is the paper's algorithm, written down as it is printed (Figures 3-7 with
// the mends of doc.go) and sharing nothing with the package but the inputs.
type oracle struct {
	s     *netmap.Snapshot
	sizes []int64
	half  bool
	// figure6 recomputes the entries that Figure 6, line 10, calls invalid, and trusts the
	// others; without it all entries are recomputed after each step.
	figure6 bool
	// backwards visits sub-pools in the opposite order.
	backwards bool

	clock       // the unit of time is the package's; what is counted in it is not
	finer ticks // a finer unit, where not 0

	hostAvail, sendAvail, recvAvail map[int]ticks
	linkAvail                       map[[2]int]ticks
	arrival                         map[[2]int]ticks // host, data
	by                              map[[2]int]int   // host, data -> index in sched
	sched                           []oracleStep
}

type oracleStep struct {
	start, end     ticks
	data, src, dst int
	depth, after   int
}

type oracleEntry struct {
	time     ticks
	src, dst int
}

func (o *oracle) startTime(d, s, r int) ticks {
	start := o.linkAvail[[2]int{s, r}]
	if o.half {
		return max(start, o.hostAvail[s], o.hostAvail[r])
	}
	return max(start, o.recvAvail[r], o.sendAvail[s], o.arrival[[2]int{s, d}])
}

func (o *oracle) totalTime(d, s, r int) ticks {
	e := o.s.Estimate(s, r)
	return o.startTime(d, s, r) + o.of(e.Latency) + o.moves(e, o.sizes[d])
}

// moves returns size/B.
func (o *oracle) moves(e netmap.Estimate, size int64) ticks {
	return ticks(math.Round(float64(size) / float64(e.Bandwidth) * float64(o.perNano*1e9)))
}

func (o *oracle) gap(s, r int, size int64) ticks {
	e := o.s.Estimate(s, r)
	if e.Has(netmap.FieldGap) {
		return o.of(e.Gap)
	}
	return o.moves(e, size)
}

func (o *oracle) findMin(d int, sources, sub []int) oracleEntry {
	best := oracleEntry{time: 1<<63 - 1}
	slices.Sort(sources)
	for _, s := range sources {
		for _, r := range sub {
			if t := o.totalTime(d, s, r); t < best.time {
				best = oracleEntry{t, s, r}
			}
		}
	}
	return best
}

func (o *oracle) scheduleTransfer(d, s, r, depth int) {
	start, end := o.startTime(d, s, r), o.totalTime(d, s, r)
	o.linkAvail[[2]int{s, r}] = start + o.gap(s, r, o.sizes[d])
	free := start + o.of(o.s.SendOverhead(s, r, o.sizes[d]))
	if o.half {
		o.hostAvail[s], o.hostAvail[r] = free, end
	} else {
		o.sendAvail[s], o.recvAvail[r] = free, end
	}
	after := -1
	if k, ok := o.by[[2]int{s, d}]; ok {
		after = k
	}
	o.arrival[[2]int{r, d}] = end
	o.by[[2]int{r, d}] = len(o.sched)
	o.sched = append(o.sched, oracleStep{start, end, d, s, r, depth, after})
}

func (o *oracle) scheduleInputPool(subs [][]int, initSource []int, depth int) (sources [][]int) {
	n := o.s.N()
	sources = make([][]int, n)
	dest := make([]map[int]bool, n)
	entry := map[[2]int]oracleEntry{}
	for d := range n {
		sources[d] = []int{initSource[d]}
		dest[d] = map[int]bool{}
		for p, sub := range subs {
			if !slices.Contains(sub, initSource[d]) {
				dest[d][p] = true
				entry[[2]int{d, p}] = o.findMin(d, sources[d], sub)
			}
		}
	}
	for {
		best, sd, sp := oracleEntry{time: 1<<63 - 1}, -1, -1
		for d := range n {
			for p := range subs {
				if e := entry[[2]int{d, p}]; dest[d][p] && e.time < best.time {
					best, sd, sp = e, d, p
				}
			}
		}
		if sd < 0 {
			return sources
		}
		o.scheduleTransfer(sd, best.src, best.dst, depth)
		sources[sd] = append(sources[sd], best.dst)
		delete(dest[sd], sp)
		for d := range n {
			for p := range dest[d] {
				e := entry[[2]int{d, p}]
				invalid := d == sd || e.src == best.src || e.dst == best.dst ||
					o.half && (e.src == best.dst || e.dst == best.src)
				if invalid || !o.figure6 {
					entry[[2]int{d, p}] = o.findMin(d, sources[d], subs[p])
				}
			}
		}
	}
}

func (o *oracle) min3(p *pools.Pool, initSource []int, depth int) {
	var subs [][]int
	children := slices.Clone(p.Children)
	slices.SortFunc(children, func(a, b *pools.Pool) int { return slices.Min(a.Hosts) - slices.Min(b.Hosts) })
	for _, c := range children {
		subs = append(subs, slices.Sorted(slices.Values(c.Hosts)))
	}
	if len(children) == 0 {
		for _, h := range slices.Sorted(slices.Values(p.Hosts)) {
			subs = append(subs, []int{h})
		}
	}
	sources := o.scheduleInputPool(subs, initSource, depth)
	if len(children) == 0 {
		return
	}
	if o.backwards {
		slices.Reverse(children)
	}
	for _, c := range children {
		next := make([]int, len(initSource))
		for d := range next {
			for _, s := range sources[d] {
				if slices.Contains(c.Hosts, s) {
					next[d] = s
					break
				}
			}
		}
		o.min3(c, next, depth+1)
	}
}

// run returns the schedule in the order of Schedule's documentation, as strings.
func (o *oracle) run(sc scenario) []string {
	n := sc.s.N()
	o.s, o.half = sc.s, sc.opt.Duplex == Half
	o.sizes = sc.sizes
	if len(o.sizes) == 1 {
		o.sizes = slices.Repeat(o.sizes, n)
	}
	if o.clock = clockOf(sc); o.finer > 0 {
		o.perNano = o.finer
	}
	o.hostAvail, o.sendAvail, o.recvAvail = map[int]ticks{}, map[int]ticks{}, map[int]ticks{}
	o.linkAvail, o.arrival = map[[2]int]ticks{}, map[[2]int]ticks{}
	o.by = map[[2]int]int{}
	initSource := make([]int, n)
	for i := range initSource {
		initSource[i] = i
	}
	o.min3(sc.tree.Root, initSource, 0)

	order := make([]int, len(o.sched))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := o.sched[i], o.sched[j]
		return slices.Compare(
			[]int{int(a.start), a.depth, int(a.end), a.data},
			[]int{int(b.start), b.depth, int(b.end), b.data})
	})
	id := make([]int, len(order))
	for i, k := range order {
		id[k] = i
	}
	out := make([]string, len(order))
	for i, k := range order {
		st := o.sched[k]
		after := -1
		if st.after >= 0 {
			after = id[st.after]
		}
		out[i] = line(i, st.data, st.src, st.dst, after, o.seconds(st.start), o.seconds(st.end))
	}
	return out
}

func line(id, data, src, dst, after int, start, end float64) string {
	return fmt.Sprintf("%d: block %d, %d→%d after %d, %.12f … %.12f", id, data, src, dst, after, start, end)
}

// lines writes a plan of this package in the form of oracle.run.
func lines(p *plan.Plan) []string {
	out := make([]string, len(p.Transfers))
	for i, t := range p.Transfers {
		after := -1
		if len(t.After) > 0 {
			after = t.After[0]
		}
		out[i] = line(t.ID, t.Blocks[0].Origin, t.Src, t.Dst, after, t.Start, t.End)
	}
	return out
}

// TestScheduleEqualsPaper compares with the literal algorithm, transfer for transfer.
func TestScheduleEqualsPaper(t *testing.T) {
	seeds := uint64(2500)
	if testing.Short() {
		seeds = 300
	}
	for seed := range seeds {
		sc := randomScenario(rand.New(rand.NewPCG(seed, 1)), 12)
		compare(t, fmt.Sprintf("seed %d", seed), sc)
	}
}

// TestScheduleEqualsPaperAcrossWords has more hosts than a word of a set has bits.
// The literal algorithm runs with Figure 6's rule, see TestOracleVariants: without it
// one grid of this size takes seconds.
func TestScheduleEqualsPaperAcrossWords(t *testing.T) {
	s, tree := threeLevels(66)
	sizes := make([]int64, s.N())
	for i := range sizes {
		sizes[i] = int64(i*29%66) * 1000
	}
	for _, duplex := range models {
		for _, sizes := range [][]int64{sizes, {65536}} {
			sc := scenario{s, tree, sizes, Options{Duplex: duplex}}
			compareWith(t, &oracle{figure6: true}, fmt.Sprintf("%v duplex", duplex), sc)
		}
	}
}

func compare(t *testing.T, name string, sc scenario) {
	t.Helper()
	compareWith(t, new(oracle), name, sc)
}

func compareWith(t *testing.T, o *oracle, name string, sc scenario) {
	t.Helper()
	p, err := Schedule(sc.s, sc.tree, sc.sizes, sc.opt)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	got, want := lines(p), o.run(sc)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("%s: n=%d, %v duplex, sizes %v: transfer %d differs\n got %q\nwant %q",
				name, sc.s.N(), sc.opt.Duplex, sc.sizes, i, got[min(i, len(got)):min(i+1, len(got))], want[min(i, len(want)):min(i+1, len(want))])
		}
	}
}

// TestOracleVariants: Figure 6's rule for what a step invalidates loses nothing, and
// the order of the recursion over sub-pools changes no time.
func TestOracleVariants(t *testing.T) {
	for seed := range uint64(400) {
		sc := randomScenario(rand.New(rand.NewPCG(seed, 3)), 10)
		want := new(oracle).run(sc)
		if got := (&oracle{figure6: true}).run(sc); !slices.Equal(got, want) {
			t.Fatalf("seed %d: Figure 6 and full recomputation differ", seed)
		}
		got := (&oracle{backwards: true}).run(sc)
		for _, plan := range [][]string{got, want} {
			for i := range plan {
				plan[i] = dropIDs(plan[i])
			}
			slices.Sort(plan)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: the order of recursion matters", seed)
		}
	}
}

// dropIDs removes what depends on the numbering of transfers from a line.
func dropIDs(s string) string {
	var id, data, src, dst, after int
	var start, end float64
	if _, err := fmt.Sscanf(s, "%d: block %d, %d→%d after %d, %f … %f", &id, &data, &src, &dst, &after, &start, &end); err != nil {
		panic(err)
	}
	return line(0, data, src, dst, 0, start, end)
}
