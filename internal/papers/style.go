package main

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// palette are the colours of Okabe & Ito that stand out from white, which people with any kind of
// colour blindness tell apart. Dashes and markers differ as well, for print in black.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, // blue
	{0xd5, 0x5e, 0x00, 0xff}, // vermillion
	{0x00, 0x9e, 0x73, 0xff}, // bluish green
	{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
	{0xe6, 0x9f, 0x00, 0xff}, // orange
	{0x00, 0x00, 0x00, 0xff}, // black
	{0x56, 0xb4, 0xe9, 0xff}, // sky blue
}

var dashes = [][]vg.Length{nil, {6, 2}, {2, 2}, {7, 2, 2, 2}, {10, 3}}

var markers = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{},
	draw.RingGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{},
}

var boundColor = color.RGBA{0x70, 0x70, 0x70, 0xff}

// A look is how a series is drawn.
type look struct {
	line   draw.LineStyle
	marker draw.GlyphStyle // without a shape: none
}

// lookOf returns the look of the i-th series of a picture.
func lookOf(i int, step bool) look {
	c := palette[i%len(palette)]
	l := look{line: draw.LineStyle{Color: c, Width: 1.4, Dashes: dashes[i%len(dashes)]}}
	if !step {
		l.marker = draw.GlyphStyle{Color: c, Radius: 2.6, Shape: markers[i%len(markers)]}
	}
	return l
}

// boundLook returns the look of the i-th bound of a picture.
func boundLook(i int) look {
	return look{line: draw.LineStyle{Color: boundColor, Width: 0.7, Dashes: dashes[i%len(dashes)]}}
}
