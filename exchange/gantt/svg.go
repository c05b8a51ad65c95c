package gantt

import (
	"bytes"
	"fmt"
	"strconv"
)

// Pixels. The picture has one width; its height follows from its rows.
const (
	pictureWidth = 1280
	margin       = 16
	fontSize     = 11
	titleSize    = 17
	lineHeight   = 16
)

// palette holds the colours of Okabe and Ito (2008), which people with any of the
// common kinds of colour blindness can tell apart, without their black.
var palette = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"}

// Classes of bars beside those of pools.
const (
	classMany   = "many"   // blocks from several pools
	classJoined = "joined" // several transfers of different looks in one bar
	classOther  = "other"  // a pool behind the last with a colour of its own
)

// colours is the number of pools that look different: the palette plain, then striped.
func colours() int { return 2 * len(palette) }

// poolClass returns the class of what belongs to pool p.
func poolClass(p int) string {
	if p >= colours() {
		return classOther
	}
	return "p" + strconv.Itoa(p)
}

// A canvas collects the elements of a picture.
type canvas struct{ bytes.Buffer }

// num writes a coordinate with at most two decimals.
func num(v float64) string {
	b := strconv.AppendFloat(nil, v, 'f', 2, 64)
	b = bytes.TrimRight(b, "0")
	b = bytes.TrimSuffix(b, []byte("."))
	if string(b) == "-0" || len(b) == 0 {
		return "0"
	}
	return string(b)
}

func (c *canvas) f(format string, args ...any) { fmt.Fprintf(c, format, args...) }

// rect draws a rectangle; tip, where not empty, is shown under the pointer.
func (c *canvas) rect(class string, x, y, w, h float64, tip string) {
	c.f(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"`, class, num(x), num(y), num(w), num(h))
	if tip == "" {
		c.f("/>\n")
		return
	}
	c.f("><title>%s</title></rect>\n", escape(tip))
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	c.f(`<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`+"\n", class, num(x1), num(y1), num(x2), num(y2))
}

// text writes s with its baseline at y. anchor is start, middle or end.
func (c *canvas) text(class, anchor string, x, y float64, s, tip string) {
	c.f(`<text class="%s" x="%s" y="%s" text-anchor="%s">`, class, num(x), num(y), anchor)
	if tip != "" {
		c.f("<title>%s</title>", escape(tip))
	}
	c.f("%s</text>\n", escape(s))
}

// open writes the head of a picture: size, looks and what it is.
func (c *canvas) open(height float64, title, summary string, pools int) {
	c.f(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	c.f(`<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="%d" height="%s" viewBox="0 0 %d %s" role="img">`+"\n",
		pictureWidth, num(height), pictureWidth, num(height))
	c.f("<title>%s</title>\n<desc>%s</desc>\n", escape(title), escape(summary))
	c.f(`<style type="text/css">
text{font-family:Helvetica,Arial,"DejaVu Sans",sans-serif;font-size:%[1]dpx;fill:#222}
.title{font-size:%[2]dpx;font-weight:bold}
.soft{fill:#666}
.section{font-weight:bold;fill:#444}
.back{fill:#fff}
.row{fill:#f3f4f6}
.grid{stroke:#d4d7dc;stroke-width:1}
.axis{stroke:#666;stroke-width:1}
.mid{stroke:#9aa0a8;stroke-width:.5}
.bound{stroke:#000;stroke-width:1.5;stroke-dasharray:5 3}
.in{opacity:.62}
.%[3]s{fill:#3d3d3d}
.%[4]s{fill:url(#joined)}
.%[5]s{fill:#bdbdbd}
.curve{fill-opacity:.75;stroke:none}
`, fontSize, titleSize, classMany, classJoined, classOther)
	for p := range min(pools, colours()) {
		if p < len(palette) {
			c.f(".p%d{fill:%s}\n", p, palette[p])
		} else {
			c.f(".p%d{fill:url(#s%d)}\n", p, p)
		}
	}
	c.f("</style>\n")
	c.f("<defs>\n")
	c.stripes("joined", "#c8c8c8", "#555")
	for p := len(palette); p < min(pools, colours()); p++ {
		c.stripes("s"+strconv.Itoa(p), palette[p-len(palette)], "#fff")
	}
	c.f("</defs>\n")
	c.f(`<rect class="back" x="0" y="0" width="%d" height="%s"/>`+"\n", pictureWidth, num(height))
}

// stripes defines a pattern of diagonal lines.
func (c *canvas) stripes(id, back, line string) {
	c.f(`<pattern id="%s" width="4" height="4" patternUnits="userSpaceOnUse"><rect width="4" height="4" fill="%s"/>`+
		`<path d="M-1,1l2,-2M0,4l4,-4M3,5l2,-2" stroke="%s" stroke-width="1.2"/></pattern>`+"\n", id, back, line)
}
