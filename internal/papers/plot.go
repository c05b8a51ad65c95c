package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A panel is one diagram of a picture.
type panel struct {
	title  string
	x, y   axis
	series []series
}

// An axis says what it measures.
type axis struct {
	label  string
	log    bool
	sizes  bool // of blocks, on a logarithmic scale: ticks at powers of two, as in 64 KiB
	counts bool // on a logarithmic scale, with ticks at the values themselves
	zero   bool // begins at 0
}

// A series is one line. Series of the same name look the same in all panels of a picture.
type series struct {
	name  string
	xy    plotter.XYs
	bound bool // the bound: a thin line
	step  bool // constant from one point to the next
}

const (
	panelWidth  vg.Length = 330
	panelHeight vg.Length = 235
	margin      vg.Length = 8
	thumbWidth  vg.Length = 30
	legendLine  vg.Length = 14
)

// drawSVG draws panels in so many columns, with one legend above them all.
func drawSVG(panels []panel, columns int) ([]byte, error) {
	if columns == 0 {
		columns = 2
	}
	columns = max(1, min(columns, len(panels)))
	rows := (len(panels) + columns - 1) / columns
	looks, names := looksOf(panels)
	width := panelWidth*vg.Length(columns) + 2*margin
	lines := wrap(names, width-2*margin)
	legend := legendLine*vg.Length(len(lines)) + margin
	height := panelHeight*vg.Length(rows) + legend + margin

	c := vgsvg.NewWith(vgsvg.UseWH(width, height))
	all := draw.New(c)
	all.SetColor(white)
	all.Fill(all.Rectangle.Path())
	y := height - margin
	for _, line := range lines {
		x := margin
		for _, name := range line {
			drawKey(all, looks[name], x, y-legendLine/2, name)
			x += keyWidth(name)
		}
		y -= legendLine
	}
	for i, p := range panels {
		at := vg.Rectangle{
			Min: vg.Point{X: margin + panelWidth*vg.Length(i%columns), Y: height - legend - panelHeight*vg.Length(i/columns+1)},
			Max: vg.Point{X: margin + panelWidth*vg.Length(i%columns+1) - margin, Y: height - legend - panelHeight*vg.Length(i/columns) - margin/2},
		}
		d, err := p.plot(looks)
		if err != nil {
			return nil, fmt.Errorf("panel %q: %w", p.title, err)
		}
		d.Draw(draw.Canvas{Canvas: c, Rectangle: at})
	}
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, err
	}
	return fallBack(out.Bytes()), nil
}

// fallBack names fonts that look alike for readers without Liberation Sans, in which widths were computed.
func fallBack(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
}

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// looksOf gives every name of a series a look, in the order in which they appear.
func looksOf(panels []panel) (looks map[string]look, names []string) {
	looks = make(map[string]look)
	i, k := 0, 0
	for _, bounds := range []bool{false, true} { // the bound is last in the legend
		for _, p := range panels {
			for _, s := range p.series {
				if _, ok := looks[s.name]; ok || s.bound != bounds {
					continue
				}
				names = append(names, s.name)
				if s.bound {
					looks[s.name] = boundLook(k)
					k++
					continue
				}
				looks[s.name] = lookOf(i, s.step)
				i++
			}
		}
	}
	return looks, names
}

// plot returns the diagram of p.
func (p *panel) plot(looks map[string]look) (*plot.Plot, error) {
	d := plot.New()
	d.Title.Text = p.title
	d.Title.TextStyle.Font = sans(11)
	d.Title.Padding = 4
	for _, a := range []struct {
		to   *plot.Axis
		from axis
	}{{&d.X, p.x}, {&d.Y, p.y}} {
		a.to.Label.Text = a.from.label
		a.to.Label.TextStyle.Font = sans(10)
		a.to.Tick.Label.Font = sans(9)
		a.to.Padding = 3
	}
	d.Add(grid())
	for _, s := range p.series {
		xy := s.visible(p)
		if len(xy) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(xy)
		if err != nil {
			return nil, err
		}
		l := looks[s.name]
		line.LineStyle = l.line
		if s.step {
			line.StepStyle = plotter.PostStep
		}
		d.Add(line)
		if l.marker.Shape != nil {
			points.GlyphStyle = l.marker
			d.Add(points)
		}
	}
	xs, ys := p.values()
	scale(&d.X, p.x, xs)
	scale(&d.Y, p.y, ys)
	return d, nil
}

// visible returns the points that the axes of p can show.
func (s *series) visible(p *panel) plotter.XYs {
	return slices.DeleteFunc(slices.Clone(s.xy), func(q plotter.XY) bool {
		return !shows(p.x, q.X) || !shows(p.y, q.Y)
	})
}

func shows(a axis, v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.log && !a.sizes && !a.counts || v > 0)
}

func (p *panel) values() (xs, ys []float64) {
	for _, s := range p.series {
		for _, q := range s.visible(p) {
			xs, ys = append(xs, q.X), append(ys, q.Y)
		}
	}
	return xs, ys
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = gridColor, gridColor
	g.Vertical.Width, g.Horizontal.Width = 0.4, 0.4
	return g
}

// wrap breaks names of series into lines of a legend.
func wrap(names []string, width vg.Length) [][]string {
	var lines [][]string
	used := width
	for _, n := range names {
		w := keyWidth(n)
		if used+w > width {
			lines, used = append(lines, nil), 0
		}
		last := len(lines) - 1
		lines[last] = append(lines[last], n)
		used += w
	}
	return lines
}

func legendStyle() text.Style {
	style := plot.NewLegend().TextStyle
	style.Font = sans(10)
	style.YAlign = draw.YCenter
	return style
}

func keyWidth(name string) vg.Length { return thumbWidth + legendStyle().Width(name)*1.1 + 20 }

// drawKey draws the entry of a legend whose left end is at x and whose middle is at y.
func drawKey(c draw.Canvas, l look, x, y vg.Length, name string) {
	c.StrokeLine2(l.line, x, y, x+thumbWidth, y)
	if l.marker.Shape != nil {
		c.DrawGlyph(l.marker, vg.Point{X: x + thumbWidth/2, Y: y})
	}
	c.FillText(legendStyle(), vg.Point{X: x + thumbWidth + 4, Y: y}, name)
}

func point(x, y float64) plotter.XY { return plotter.XY{X: x, Y: y} }
