package gantt

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// alltoall returns a direct alltoall of n hosts with random times: starts up to spread
// seconds, and lengths around length, of which some are 0.
func alltoall(t testing.TB, rng *rand.Rand, n int, spread, length float64) *plan.Plan {
	hosts := make([]string, n)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host%d", i)
	}
	p, err := plan.NewAlltoall("direct", hosts, plan.AlltoallSizes{Uniform: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	for s := range n {
		for d := range n {
			if s == d {
				continue
			}
			start := spread * rng.Float64()
			end := start + length*rng.Float64()
			if rng.IntN(10) == 0 {
				end = start
			}
			p.Transfers = append(p.Transfers, plan.Transfer{
				ID: len(p.Transfers), Src: s, Dst: d, Phase: -1, Blocks: []plan.Block{{Origin: s, Dest: d}}, Start: start, End: end,
			})
			p.Makespan = max(p.Makespan, end)
		}
	}
	if err := plan.Verify(p, plan.Rules{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// inPools spreads the hosts of p over pools.
func inPools(p *plan.Plan, pools int) Chart {
	c := Chart{Plan: p}
	for i := range pools {
		c.PoolNames = append(c.PoolNames, fmt.Sprintf("pool%d", i))
	}
	for h := range p.Hosts {
		c.Pool = append(c.Pool, h%pools)
	}
	return c
}

func draw(t testing.TB, c Chart) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSVG(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A picture is what a reader of the file finds in it.
type picture struct {
	text   []string // of text elements, in order
	single int      // bars of one transfer
	joined int      // transfers in bars of several
	areas  int      // transfers in areas
}

// read parses a picture and fails where it is not well-formed, or anything in it is no
// number or outside the picture.
func read(t testing.TB, svg []byte) picture {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	var p picture
	var stack []string
	var width, height float64
	seenArea := []bool{false} // per open <g>: an area of this band has been counted
	title := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			stack = append(stack, e.Name.Local)
			at := make(map[string]float64)
			for _, a := range e.Attr {
				switch a.Name.Local {
				case "x", "y", "x1", "x2", "y1", "y2", "width", "height":
					v, err := strconv.ParseFloat(a.Value, 64)
					if err != nil || !(v >= 0) || v > 1e6 {
						t.Fatalf("<%s %s=%q>: %v", e.Name.Local, a.Name.Local, a.Value, err)
					}
					at[a.Name.Local] = v
				case "d":
					if inDefs(stack) {
						continue
					}
					for _, v := range pathNumbers(t, a.Value) {
						if v[0] > width || v[1] > height {
							t.Fatalf("path leaves the picture at %v", v)
						}
					}
				}
			}
			if e.Name.Local == "svg" {
				width, height = at["width"], at["height"]
			}
			if right := max(at["x"]+at["width"], at["x1"], at["x2"]); right > width+0.01 {
				t.Fatalf("<%s> %v ends at x = %v, the picture at %v", e.Name.Local, e.Attr, right, width)
			}
			if low := max(at["y"]+at["height"], at["y1"], at["y2"]); low > height+0.01 {
				t.Fatalf("<%s> %v ends at y = %v, the picture at %v", e.Name.Local, e.Attr, low, height)
			}
			if e.Name.Local == "g" {
				seenArea = append(seenArea, false)
			}
			title = ""
		case xml.CharData:
			switch top := len(stack) - 1; {
			case top < 0:
			case stack[top] == "title":
				title += string(e)
			case stack[top] == "text":
				p.text = append(p.text, string(e))
			}
		case xml.EndElement:
			stack = stack[:len(stack)-1]
			switch e.Name.Local {
			case "g":
				seenArea = seenArea[:len(seenArea)-1]
			case "rect":
				var n int
				if _, err := fmt.Sscanf(title, "%d:", &n); err == nil && strings.Contains(title, " → ") {
					p.single++
				} else if _, err := fmt.Sscanf(title, "%d transfers\n", &n); err == nil {
					p.joined += n
				}
				title = ""
			case "path":
				var n int
				if _, err := fmt.Sscanf(title, "%d transfer", &n); err == nil && !seenArea[len(seenArea)-1] {
					seenArea[len(seenArea)-1] = true
					p.areas += n
				}
				title = ""
			}
		}
	}
	return p
}

func inDefs(stack []string) bool {
	for _, s := range stack {
		if s == "defs" {
			return true
		}
	}
	return false
}

// pathNumbers returns the points of a path of M, H, V and Z.
func pathNumbers(t testing.TB, d string) (points [][2]float64) {
	t.Helper()
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= 0) {
			t.Fatalf("path: %q: %v", s, err)
		}
		return v
	}
	first, rest, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(d, "M"), "Z"), "H")
	xs, ys, _ := strings.Cut(first, ",")
	points = append(points, [2]float64{number(xs), number(ys)})
	for _, step := range strings.Split(rest, "H") {
		xs, ys, _ := strings.Cut(step, "V")
		points = append(points, [2]float64{number(xs), number(ys)})
	}
	return points
}

func TestEveryTransferIsDrawn(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		scale := []float64{1e-9, 1e-5, 1, 3600, 1e7}[rng.IntN(5)]
		p := alltoall(t, rng, 2+rng.IntN(24), scale*rng.Float64(), scale*rng.Float64())
		c := inPools(p, 1+rng.IntN(min(20, len(p.Hosts))))
		c.Bound = []float64{0, p.Makespan / 2, 2 * p.Makespan, min(100*p.Makespan, maxSeconds)}[rng.IntN(4)]
		f, err := newFigure(c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(f.links) > maxLinkRows {
			continue // TestLargePlansStaySmall
		}
		want := 2*len(p.Transfers) + len(f.wanTransfers())
		got := read(t, draw(t, c))
		if got.single+got.joined+got.areas != want {
			t.Errorf("seed %d: %d single, %d joined, %d in areas, want %d in all", seed, got.single, got.joined, got.areas, want)
		}
		text := strings.Join(got.text, "\n")
		if stated := strings.Contains(text, "share a bar: "+strconv.Itoa(got.joined)+" of them"); (got.joined > 0) != stated {
			t.Errorf("seed %d: %d joined, stated: %v", seed, got.joined, stated)
		}
		if stated := strings.Contains(text, "too many at a time"); (got.areas > 0) != stated {
			t.Errorf("seed %d: %d in areas, stated: %v", seed, got.areas, stated)
		}
		for _, h := range p.Hosts {
			if !strings.Contains("\n"+text+"\n", "\n"+h+"\n") {
				t.Errorf("seed %d: no row of %s", seed, h)
			}
		}
		c.View = ConcurrencyView
		read(t, draw(t, c))
		if !bytes.Equal(draw(t, c), draw(t, c)) {
			t.Errorf("seed %d: two drawings of one chart differ", seed)
		}
	}
}

// Each is too much for a picture of everything in another way.
func TestLargePlansStaySmall(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		hosts, pools   int
		spread, length float64
		note           string
	}{
		{100, 4, 1e4, 1, "Short transfers that follow each other share a bar"},
		{100, 4, 1, 10, "too many at a time"},
		{100, 50, 1000, 1, "links between pools the 64 with the most bytes are shown"},
		{260, 2, 1e6, 0.01, "Of 260 hosts the first 256 are shown"},
	} {
		p := alltoall(t, rng, tt.hosts, tt.spread, tt.length)
		if tt.hosts > maxHostRows { // what few transfers show, more need not
			p.Transfers = p.Transfers[:5000]
		}
		c := inPools(p, tt.pools)
		for view := range ConcurrencyView + 1 {
			c.View = view
			svg := draw(t, c)
			if len(svg) > 5e6 {
				t.Errorf("%d hosts in %d pools, view %d: %d bytes", tt.hosts, tt.pools, view, len(svg))
			}
			text := read(t, svg).text
			if view == GanttView && !strings.Contains(strings.Join(text, "\n"), tt.note) {
				t.Errorf("%d hosts in %d pools: the picture does not say %q", tt.hosts, tt.pools, tt.note)
			}
		}
	}
}
