package gantt

import "fmt"

// Heights of the panels of [ConcurrencyView] in pixels.
const (
	totalPanel = 190.0
	linkPanel  = 64.0
	smallPanel = 36.0 // where there are many links
	manyLinks  = 12
	panelGap   = 27.0 // above each, for its caption
)

// A panel is one curve.
type panel struct {
	caption string
	class   string
	steps   []Step
	most    int // count at its upper edge
	height  float64
}

// curves draws [ConcurrencyView].
func (f *figure) curves() []byte {
	panels := f.panels()
	var blocks [][2]float64
	y := 0.0
	for _, p := range panels {
		blocks = append(blocks, [2]float64{y + panelGap, y + panelGap + p.height})
		y += panelGap + p.height
	}
	var c canvas
	r := f.frame(labelWidth([]string{"time (min)"}, 200), blocks, nil)
	r.begin(&c, f.title)
	c.text("section", "start", margin, r.top-38, "simultaneous transfers from pool to pool (WAN)", "")
	for i, p := range panels {
		p.draw(&c, r.axis, r.top+blocks[i][0])
	}
	r.end(&c)
	return c.Bytes()
}

// panels returns the curve of all WAN transfers, then one for each link. The links have
// one scale, so that their heights can be compared.
func (f *figure) panels() []panel {
	total := Concurrency(f.spansOf(f.wanTransfers()))
	if len(f.links) == 0 {
		return []panel{{caption: "no transfer goes from one pool to another", most: 1, height: totalPanel}}
	}
	list := []panel{{caption: "all links: " + f.describe(total, len(f.wanTransfers())), class: classMany, steps: total, most: max(peak(total), 1), height: totalPanel}}
	shown := f.shownLinks()
	height, most := linkPanel, 1
	if len(shown) > manyLinks {
		height = smallPanel
	}
	for _, l := range shown {
		steps := Concurrency(f.spansOf(l.transfers))
		most = max(most, peak(steps))
		list = append(list, panel{
			caption: f.linkName(l) + ": " + f.describe(steps, len(l.transfers)) + ", " + formatBytes(l.bytes),
			class:   poolClass(l.from), steps: steps, height: height,
		})
	}
	for i := range list[1:] {
		list[i+1].most = most
	}
	return list
}

// describe sums up a curve.
func (f *figure) describe(steps []Step, transfers int) string {
	s := fmt.Sprintf("%s, at most %d at a time", count(transfers, "transfer"), peak(steps))
	if f.makespan > 0 {
		s += fmt.Sprintf(", in use %.0f%% of the time", 100*busy(steps)/f.makespan)
	}
	return s
}

// draw draws p below y.
func (p *panel) draw(c *canvas, a axis, y float64) {
	base := y + p.height
	c.text("section", "start", a.left, y-7, p.caption, "")
	level := func(n int) float64 { return base - float64(float64(n)*(p.height/float64(p.most))) }
	for _, n := range countTicks(p.most, p.height) {
		c.line("grid", a.left, level(n), a.right, level(n))
		c.text("soft", "end", a.left-6, level(n)+4, fmt.Sprint(n), "")
	}
	c.text("soft", "end", a.left-6, base+4, "0", "")
	c.area("curve "+p.class, a, p.steps, p.most, base, y, p.caption)
	c.line("axis", a.left, base, a.right, base)
}

// area fills the space under a curve of steps: a count of 0 is at base, most at crest.
func (c *canvas) area(class string, a axis, steps []Step, most int, base, crest float64, tip string) {
	if len(steps) == 0 {
		return
	}
	c.f(`<path class="%s" d="M%s,%s`, class, num(a.x(steps[0].At)), num(base))
	for _, s := range thin(steps, a) {
		c.f("H%sV%s", num(a.x(s.At)), num(base+float64(float64(s.Count)*((crest-base)/float64(most)))))
	}
	c.f("Z\"><title>%s</title></path>\n", escape(tip))
}

// thin leaves out steps that no screen could show: of those in one half pixel it keeps
// the lowest, the highest and the last.
func thin(steps []Step, a axis) []Step {
	column := func(s Step) int { return int(2 * a.x(s.At)) }
	var out []Step
	for i := 0; i < len(steps); {
		low, high, end := i, i, i
		for ; end < len(steps) && column(steps[end]) == column(steps[i]); end++ {
			if steps[end].Count < steps[low].Count {
				low = end
			}
			if steps[end].Count > steps[high].Count {
				high = end
			}
		}
		keep := []int{min(low, high), max(low, high), end - 1}
		for k, j := range keep {
			if k == 0 || j != keep[k-1] {
				out = append(out, steps[j])
			}
		}
		i = end
	}
	return out
}
