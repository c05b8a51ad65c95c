package gantt

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// three is a ring allgather of three hosts in two pools, timed by hand: the way from
// pool to pool takes a second, the way inside a quarter.
func three(t testing.TB) Chart {
	p := &plan.Plan{
		Collective: plan.Allgather, Algorithm: "ring", Hosts: []string{"a0", "a1", "b0"},
		MessageBytes: 64 << 10, Makespan: 2, Bound: 1,
		Transfers: []plan.Transfer{
			{ID: 0, Src: 0, Dst: 1, Phase: -1, Blocks: []plan.Block{{Origin: 0, Dest: plan.All}}, After: []int{}, Start: 0, End: 0.25},
			{ID: 1, Src: 1, Dst: 2, Phase: -1, Blocks: []plan.Block{{Origin: 1, Dest: plan.All}}, After: []int{}, Start: 0, End: 1},
			{ID: 2, Src: 2, Dst: 0, Phase: -1, Blocks: []plan.Block{{Origin: 2, Dest: plan.All}}, After: []int{}, Start: 0, End: 1},
			{ID: 3, Src: 1, Dst: 2, Phase: -1, Blocks: []plan.Block{{Origin: 0, Dest: plan.All}}, After: []int{0}, Start: 1, End: 2},
			{ID: 4, Src: 0, Dst: 1, Phase: -1, Blocks: []plan.Block{{Origin: 2, Dest: plan.All}}, After: []int{2}, Start: 1, End: 1.25},
			{ID: 5, Src: 2, Dst: 0, Phase: -1, Blocks: []plan.Block{{Origin: 1, Dest: plan.All}}, After: []int{1}, Start: 1, End: 2},
		},
	}
	// The last brings a0 a block that its pool holds: rings are not wide-area optimal,
	// and OncePerPool is not asked for.
	if err := plan.Verify(p, plan.Rules{Duplex: plan.FullDuplex}); err != nil {
		t.Fatal(err)
	}
	return Chart{Plan: p, Pool: []int{0, 0, 1}, PoolNames: []string{"A", "B"}, Bound: p.Bound}
}

func TestGolden(t *testing.T) {
	for view, file := range map[View]string{GanttView: "testdata/three.golden.svg", ConcurrencyView: "testdata/three-wan.golden.svg"} {
		c := three(t)
		c.View = view
		got := draw(t, c)
		read(t, got)
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is no longer what is drawn; look at the picture, then run with -update", file)
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		spoil      func(*Chart)
	}{
		{"no plan", "no plan", func(c *Chart) { c.Plan = nil }},
		{"a broken plan", "hosts", func(c *Chart) { c.Plan.Hosts = nil }},
		{"no times", "simulate it", func(c *Chart) {
			for i := range c.Plan.Transfers {
				c.Plan.Transfers[i].Start, c.Plan.Transfers[i].End = 0, 0
			}
		}},
		{"too few times", "1 starts and 6 ends for 6", func(c *Chart) { c.Start, c.End = make([]float64, 1), make([]float64, 6) }},
		{"an end before its start", "transfer 2", func(c *Chart) { c.Start, c.End = []float64{0, 0, 2, 0, 0, 0}, []float64{1, 1, 1, 1, 1, 1} }},
		{"a time that is no number", "transfer 1", func(c *Chart) { c.Start, c.End = make([]float64, 6), []float64{1, math.NaN(), 1, 1, 1, 1} }},
		{"an infinite time", "transfer 0", func(c *Chart) { c.Start, c.End = make([]float64, 6), []float64{math.Inf(1), 1, 1, 1, 1, 1} }},
		{"pools of other hosts", "pools of 1 hosts", func(c *Chart) { c.Pool = c.Pool[:1] }},
		{"an unknown pool", `"a1" is in pool 2`, func(c *Chart) { c.Pool[1] = 2 }},
		{"a negative pool", `"a1" is in pool -1`, func(c *Chart) { c.Pool[1] = -1 }},
		{"a negative bound", "bound of -1", func(c *Chart) { c.Bound = -1 }},
		{"a bound that is no number", "bound of NaN", func(c *Chart) { c.Bound = math.NaN() }},
		{"an unknown view", "view 7", func(c *Chart) { c.View = 7 }},
	} {
		c := three(t)
		tt.spoil(&c)
		var b bytes.Buffer
		if err := WriteSVG(&b, c); err == nil || !strings.Contains(err.Error(), tt.want) || b.Len() > 0 {
			t.Errorf("%s: %d bytes and %v, want an error with %q", tt.name, b.Len(), err, tt.want)
		} else if (tt.name == "no times") != errors.Is(err, ErrNoTimes) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriteError(t *testing.T) {
	if err := WriteSVG(brokenWriter{}, three(t)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

// Given times replace those of the plan; without pools nothing is a WAN transfer; one
// host has nothing to do; times of 0 that are given are times.
func TestFewFacts(t *testing.T) {
	c := three(t)
	c.Start, c.End, c.Pool, c.PoolNames, c.Bound = make([]float64, 6), make([]float64, 6), nil, nil, 0
	if p := read(t, draw(t, c)); p.single != 12 {
		t.Errorf("%d bars of transfers without a length, want 12", p.single)
	}
	c.End = slices.Repeat([]float64{3600}, 6)
	if text := strings.Join(read(t, draw(t, c)).text, "\n"); !strings.Contains(text, "makespan 60 min") {
		t.Errorf("no makespan of an hour in %q", text)
	}
	c.View = ConcurrencyView
	if text := strings.Join(read(t, draw(t, c)).text, "\n"); !strings.Contains(text, "no transfer goes from one pool to another") {
		t.Errorf("nothing said about no WAN transfers: %q", text)
	}
	one := Chart{Plan: &plan.Plan{Collective: plan.Allgather, Algorithm: "none", Hosts: []string{"only"}}}
	if p := read(t, draw(t, one)); p.single != 0 {
		t.Errorf("%d bars for no transfers", p.single)
	}
}

func TestColours(t *testing.T) {
	f, err := newFigure(three(t))
	if err != nil {
		t.Fatal(err)
	}
	blocks := func(origins ...int) (list []plan.Block) {
		for _, o := range origins {
			list = append(list, plan.Block{Origin: o, Dest: plan.All})
		}
		return list
	}
	for _, tt := range []struct {
		origins []int
		want    string
	}{{[]int{0, 1}, "p0"}, {[]int{2}, "p1"}, {[]int{0, 2}, classMany}} {
		f.plan.Transfers[0].Blocks = blocks(tt.origins...)
		if got := f.class(0); got != tt.want {
			t.Errorf("blocks of %v: class %q, want %q", tt.origins, got, tt.want)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("ut0", "Tennessee", "a title")
	f.Add(`<&"'>]]>`, "\x00\x1b[31m\u202e\ufffe", "\xff\xfe")
	f.Add(strings.Repeat("long", 5000), strings.Repeat("東", 300), "a\nb")
	f.Fuzz(func(t *testing.T, host, pool, title string) {
		if host == "" || host == "a1" || host == "b0" {
			return
		}
		c := three(t)
		c.Plan.Hosts[0], c.PoolNames[0], c.Title = host, pool, title
		for view := range ConcurrencyView + 1 {
			c.View = view
			svg := draw(t, c)
			read(t, svg)
			if len(svg) > 200_000 {
				t.Errorf("%d bytes", len(svg))
			}
		}
	})
}

// Names come back as they were.
func TestNamesAreEscaped(t *testing.T) {
	c := three(t)
	c.Plan.Hosts[0], c.PoolNames[0], c.Title = `<h&"'>`, "ü]]>", "a → b"
	text := read(t, draw(t, c)).text
	for _, want := range []string{`<h&"'>`, "blocks from ü]]>", "ü]]> → B", "a → b"} {
		if !slices.Contains(text, want) {
			t.Errorf("no text %q among %q", want, text)
		}
	}
}

func BenchmarkWriteSVG(b *testing.B) {
	c := inPools(alltoall(b, rand.New(rand.NewPCG(1, 1)), 100, 1e3, 1), 4)
	b.ReportAllocs()
	for b.Loop() {
		if err := WriteSVG(io.Discard, c); err != nil {
			b.Fatal(err)
		}
	}
}
