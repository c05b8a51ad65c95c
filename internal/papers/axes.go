package main

import (
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
)

var (
	white     = color.RGBA{0xff, 0xff, 0xff, 0xff}
	gridColor = color.RGBA{0xd8, 0xd8, 0xd8, 0xff}
)

// scale sets range, scale and ticks of an axis for the values that it shows.
func scale(to *plot.Axis, a axis, values []float64) {
	if len(values) == 0 {
		to.Min, to.Max = 0, 1
		if a.log {
			to.Min = 0.1
		}
		to.Tick.Marker = plot.ConstantTicks{}
		return
	}
	to.Min, to.Max = slices.Min(values), slices.Max(values)
	switch {
	case a.sizes:
		to.Scale, to.Tick.Marker = plot.LogScale{}, sizeTicks(values)
		to.Min, to.Max = to.Min/1.1, to.Max*1.1
	case a.counts:
		to.Scale, to.Tick.Marker = plot.LogScale{}, countTicks(values)
		to.Min, to.Max = to.Min/1.1, to.Max*1.1
	case a.log:
		to.Min, to.Max = to.Min/1.15, to.Max*1.15
		to.Scale, to.Tick.Marker = plot.LogScale{}, logTicks(to.Min, to.Max)
	default:
		if a.zero {
			to.Min = 0
		}
		if to.Max <= to.Min {
			to.Max = to.Min + 1
		}
		to.Max += (to.Max - to.Min) * 0.05
		to.Tick.Marker = linearTicks(to.Min, to.Max)
	}
}

// linearTicks marks four to eight round values.
func linearTicks(lo, hi float64) plot.ConstantTicks {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/4)))
	for _, m := range []float64{5, 2} {
		if (hi-lo)/(m*step) >= 4 {
			step *= m
			break
		}
	}
	decimals := max(0, -int(math.Floor(math.Log10(step))))
	var ticks plot.ConstantTicks
	for i := math.Ceil(lo / step); i*step <= hi; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step, 'f', decimals, 64)})
	}
	return ticks
}

// countTicks marks the values themselves.
func countTicks(values []float64) plot.ConstantTicks {
	slices.Sort(values)
	var ticks plot.ConstantTicks
	for _, v := range slices.Compact(values) {
		ticks = append(ticks, plot.Tick{Value: v, Label: digits(v, 2)})
	}
	return ticks
}

// sizeTicks marks powers of two, and writes every one, or every second or third where they would be too many.
func sizeTicks(values []float64) plot.ConstantTicks {
	lo, hi := math.Ceil(math.Log2(slices.Min(values))-0.1), math.Floor(math.Log2(slices.Max(values))+0.1)
	every := math.Ceil((hi - lo + 1) / 7)
	var ticks plot.ConstantTicks
	for e := lo; e <= hi; e++ {
		t := plot.Tick{Value: math.Exp2(e)}
		if math.Mod(e-lo, every) == 0 {
			t.Label = inBytes(int64(t.Value))
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// logTicks marks 1, 2 and 5 times powers of ten where the range is short, else powers of ten.
func logTicks(lo, hi float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	few := hi/lo < 300
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for m := 1.0; m < 10; m++ {
			t := plot.Tick{Value: m * math.Pow(10, e)}
			if t.Value < lo || t.Value > hi { // it would take room
				continue
			}
			if m == 1 || few && (m == 2 || m == 5) {
				t.Label = digits(t.Value, 1)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}
