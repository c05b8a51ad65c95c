package gantt

import "fmt"

// A drawing is the state of a picture of rows.
type drawing struct {
	f     *figure
	c     *canvas
	axis  axis
	most  int     // lanes of a band
	lane  float64 // pixels of one
	label float64 // pixels for labels
}

// height returns the pixels that rows take.
func (d *drawing) height(rows []row) float64 {
	var sum float64
	for i := range rows {
		sum += rows[i].height(d.most, d.lane) + rowGap
	}
	return sum
}

// rows draws rows from y on.
func (d *drawing) rows(rows []row, y float64) {
	for i := range rows {
		r := &rows[i]
		height := r.height(d.most, d.lane)
		d.row(r, i%2 == 0, y+rowGap/2.0, height)
		y += height + rowGap
	}
}

// row draws r at y.
func (d *drawing) row(r *row, shaded bool, y, height float64) {
	c := d.c
	c.f("<g>\n")
	if shaded {
		c.rect("row", d.axis.left, y-rowGap/2.0, d.axis.right-d.axis.left, height+rowGap, "")
	}
	c.rect(poolClass(r.group), d.axis.left-7, y-rowGap/2.0, 4, height+rowGap, full(d.f.pools[r.group]))
	c.text("label", "end", d.axis.left-12, y+height/2+4, fit(r.label, fontSize, d.label), r.tip)
	// Bands of few lanes stand in the middle of a row that is higher for its label.
	top := y + (height-r.bandsHeight(d.most, d.lane))/2
	for k, b := range r.bands {
		if k == 1 {
			c.line("mid", d.axis.left, top+0.5, d.axis.right, top+0.5)
			top++
			c.f("<g class=\"in\">\n")
		}
		bottom := top + float64(float64(b.height(d.most))*d.lane)
		upwards := k == 0 && len(r.bands) > 1
		switch {
		case b.crowded && upwards:
			d.crowd(b, bottom, top)
		case b.crowded:
			d.crowd(b, top, bottom)
		default:
			d.band(b, top, upwards)
		}
		if k == 1 {
			c.f("</g>\n")
		}
		top = bottom
	}
	c.f("</g>\n")
}

// band draws the lanes of b from top on; upwards, the first lane is the lowest, beside
// the line between sends and receives.
func (d *drawing) band(b *band, top float64, upwards bool) {
	for k, lane := range b.lanes {
		if upwards {
			k = len(b.lanes) - 1 - k
		}
		for _, one := range lane {
			x, w := d.extent(one.Span)
			d.c.rect(one.class, x, top+float64(float64(k)*d.lane), w, d.lane-min(1, d.lane/6), d.f.tip(one))
		}
	}
}

// crowd draws how many transfers of b there are at a time, from its base to its crest:
// one area for each class of transfers, on top of each other.
func (d *drawing) crowd(b *band, base, crest float64) {
	most := max(peak(Concurrency(d.f.spansOf(b.transfers))), 1)
	tip := fmt.Sprintf("%s, at most %d at a time", d.f.traffic(b.transfers), most)
	classes, members := d.f.byClass(b.transfers)
	// The area of the last class holds those of all before it, which cover it.
	for k := len(classes) - 1; k >= 0; k-- {
		var upTo []int
		for _, m := range members[:k+1] {
			upTo = append(upTo, m...)
		}
		d.c.area(classes[k], d.axis, Concurrency(d.f.spansOf(upTo)), most, base, crest, tip)
	}
}

// extent returns left edge and width of a span. A short one is widened to a pixel, a
// long one loses a little at its right, so that bars side by side do not look like one.
func (d *drawing) extent(s Span) (x, width float64) {
	x = d.axis.x(s.Start)
	width = d.axis.x(s.End) - x
	switch {
	case width > 3:
		width -= 0.6
	case width < 1:
		width = 1
		x = min(x, d.axis.right-1)
	}
	return x, width
}
