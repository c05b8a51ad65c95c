package gantt

import "fmt"

// A frame is what both views have around their rows: title above, axis on both sides,
// notes below. It is laid out before its rows are drawn, since the picture's height
// stands at its beginning.
type frame struct {
	f       *figure
	axis    axis
	ticks   []tick
	unit    string
	bound   bool // the bound is on the axis
	legend  []key
	keyRows int
	blocks  [][2]float64 // pixels from top to bottom that have grid lines
	top     float64      // of the rows
	bottom  float64
	height  float64
}

// A key is an entry of the legend.
type key struct {
	class, text, tip string
	x                float64
	row              int
}

// labelWidth returns the room that labels get at the left: what the longest needs, up
// to most pixels.
func labelWidth(labels []string, most float64) float64 {
	var w float64
	for _, l := range labels {
		w = max(w, textWidth(l, fontSize))
	}
	return min(w, most)
}

// frame lays out a picture whose labels take so many pixels. Blocks say, in pixels below
// the top of the rows and ascending, where rows are; between them stand headings.
func (f *figure) frame(labels float64, blocks [][2]float64, legend []key) *frame {
	r := &frame{f: f, legend: legend}
	r.axis.left, r.axis.right = margin+labels+14, pictureWidth-margin-12
	r.axis.span, r.bound = f.horizon()
	r.ticks, r.unit = r.axis.ticks(80)
	if f.bound > 0 && f.makespan > 0 && f.makespan < float64(f.bound*0.999) {
		f.note("All transfers end before the bound: these times come from a model that shares links less than the bound does.")
	}
	x := float64(margin)
	for i := range r.legend {
		k := &r.legend[i]
		w := textWidth(k.text, fontSize) + 32
		if x+w > pictureWidth-margin && x > margin {
			x = margin
			r.keyRows++
		}
		k.x, k.row = x, r.keyRows
		x += w
	}
	if len(r.legend) > 0 {
		r.keyRows++
	}
	if f.bound > 0 && !r.bound {
		f.note("The bound of %s is not on the time axis.", formatSeconds(f.bound, 4))
	}
	r.top = 14 + titleSize + lineHeight + 6 + float64(r.keyRows)*lineHeight + 62
	for _, b := range blocks {
		r.bottom = r.top + b[1]
		r.blocks = append(r.blocks, [2]float64{r.top + b[0], r.bottom})
	}
	r.height = r.bottom + 24 + 18 + float64(len(f.notes))*lineHeight + 6
	return r
}

// begin draws what lies behind the rows.
func (r *frame) begin(c *canvas, title string) {
	f := r.f
	summary := f.summary()
	c.open(r.height, title, summary, len(f.pools))
	y := 14 + float64(titleSize)*0.8
	c.text("title", "start", margin, y, fit(title, titleSize*1.08, pictureWidth-2*margin), "")
	y += lineHeight + 4
	c.text("soft", "start", margin, y, summary, "")
	y += lineHeight + 8
	for _, k := range r.legend {
		line := y + float64(k.row)*lineHeight
		c.rect(k.class, k.x, line-9, 12, 10, "")
		c.text("key", "start", k.x+17, line, k.text, k.tip)
	}
	for _, t := range r.ticks {
		x := r.axis.x(t.seconds)
		for _, b := range r.blocks {
			c.line("grid", x, b[0], x, b[1]+4)
		}
		c.text("soft", "middle", x, r.top-9, t.label, "")
		c.text("soft", "middle", x, r.bottom+17, t.label, "")
	}
	c.text("soft", "end", r.axis.left-20, r.top-9, "time ("+r.unit+")", "")
	c.text("soft", "end", r.axis.left-20, r.bottom+17, "time ("+r.unit+")", "")
}

// end draws what lies over the rows, and the notes.
func (r *frame) end(c *canvas) {
	f := r.f
	if r.bound {
		x, label := r.axis.x(f.bound), "bound "+formatSeconds(f.bound, 4)
		c.line("bound", x, r.top-33, x, r.top-20) // past the labels of the axis
		for _, b := range r.blocks {
			c.line("bound", x, b[0], x, b[1]+4)
		}
		if x+5+textWidth(label, fontSize) <= pictureWidth-4 {
			c.text("mark", "start", x+5, r.top-23, label, "")
		} else {
			c.text("mark", "end", x-5, r.top-23, label, "")
		}
	}
	for i, n := range f.notes {
		c.text("soft", "start", margin, r.bottom+24+18+float64(i)*lineHeight, n, "")
	}
	c.f("</svg>\n")
}

// poolKeys returns the legend's entries for pools, of which used says which appear.
func (f *figure) poolKeys(used map[string]bool) []key {
	var keys []key
	for p, name := range f.pools {
		if p < colours() && used[poolClass(p)] {
			keys = append(keys, key{class: poolClass(p), text: f.poolTags[p], tip: full(name)})
		}
	}
	if used[classOther] {
		keys = append(keys, key{class: classOther, text: fmt.Sprintf("the other %d pools", len(f.pools)-colours())})
	}
	return keys
}
