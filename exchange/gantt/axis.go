package gantt

import (
	"math"
	"strconv"
)

// units in which times are shown, from the largest; each from its least value on.
var units = []struct {
	name          string
	seconds, from float64
}{
	{"d", 86400, 2 * 86400},
	{"h", 3600, 2 * 3600},
	{"min", 60, 10 * 60},
	{"s", 1, 1},
	{"ms", 1e-3, 1e-3},
	{"µs", 1e-6, 1e-6},
	{"ns", 1e-9, 0},
}

// unitOf returns the index in units of the one that suits a time.
func unitOf(seconds float64) int {
	for i, u := range units {
		if seconds >= u.from {
			return i
		}
	}
	return len(units) - 1
}

// An axis maps seconds to pixels.
type axis struct {
	left, right float64 // pixels
	span        float64 // seconds, at right
}

// x returns the pixel of a time; times outside go to the edge.
func (a axis) x(seconds float64) float64 {
	return a.left + min(max(float64(seconds/a.span)*(a.right-a.left), 0), a.right-a.left)
}

// A tick is a labelled time.
type tick struct {
	seconds float64
	label   string
}

// ticks returns times at round distances from 0 to the end, at least room pixels apart,
// and the name of their unit.
func (a axis) ticks(room float64) ([]tick, string) {
	u := units[unitOf(a.span)]
	step, decimals := roundStep(a.span / u.seconds * room / (a.right - a.left))
	var list []tick
	for k := 0; ; k++ {
		v := float64(k) * step
		if v*u.seconds > a.span {
			return list, u.name
		}
		list = append(list, tick{v * u.seconds, strconv.FormatFloat(v, 'f', decimals, 64)})
	}
}

// roundStep returns the least of 1, 2, 5, 10, … (times any power of ten) that is not
// under least, which is above 0, and the decimals that its multiples need.
func roundStep(least float64) (step float64, decimals int) {
	power := 0
	for math.Pow10(power) > least {
		power--
	}
	for math.Pow10(power+1) <= least {
		power++
	}
	for _, m := range []float64{1, 2, 5, 10} {
		if step = m * math.Pow10(power); step >= least {
			if m == 10 {
				power++
			}
			break
		}
	}
	return step, max(0, -power)
}

// countTicks returns round counts up to most for the y axis of a curve, as many as have
// room in its height.
func countTicks(most int, height float64) []int {
	step, _ := roundStep(max(float64(most)*15/height, 1))
	var list []int
	for v := int(step); v <= most; v += int(step) {
		list = append(list, v)
	}
	if list == nil { // the first round count is above most
		list = append(list, most)
	}
	return list
}
