package main

import "math"

// A growth is the exponent e of cost ≈ c·nᵉ, with its standard error.
type growth struct {
	exponent, deviation float64
}

// grow fits by least squares the logarithm of a cost over that of the hosts, for the larger half
// of the points and no fewer than three: at few hosts what is constant or linear hides the growth.
// Points come in order of n. ok is false where there are fewer than three or a cost is not positive.
func grow(points []point, cost func(point) float64) (g growth, ok bool) {
	k := max(3, (len(points)+1)/2)
	if len(points) < k {
		return growth{}, false
	}
	points = points[len(points)-k:]
	var x, y []float64
	meanX, meanY := 0.0, 0.0
	for _, p := range points {
		c := cost(p)
		if p.n < 1 || !(c > 0) {
			return growth{}, false
		}
		x, y = append(x, math.Log(float64(p.n))), append(y, math.Log(c))
		meanX += x[len(x)-1] / float64(k)
		meanY += y[len(y)-1] / float64(k)
	}
	var xx, xy, rest float64
	for i := range x {
		xx += (x[i] - meanX) * (x[i] - meanX)
		xy += (x[i] - meanX) * (y[i] - meanY)
	}
	if xx == 0 {
		return growth{}, false
	}
	g.exponent = xy / xx
	for i := range x {
		d := y[i] - meanY - g.exponent*(x[i]-meanX)
		rest += d * d
	}
	g.deviation = math.Sqrt(rest / float64(k-2) / xx)
	return g, true
}

// expect extends the last two points to n hosts, with the exponent between them: the
// noise of small sizes must not decide. With one point it cannot know and returns that one.
func expect(points []point, n int, cost func(point) float64) float64 {
	last := points[len(points)-1]
	if len(points) < 2 {
		return cost(last)
	}
	before := points[len(points)-2]
	if !(cost(before) > 0 && cost(last) > cost(before)) {
		return cost(last)
	}
	e := math.Log(cost(last)/cost(before)) / math.Log(float64(last.n)/float64(before.n))
	return cost(last) * math.Pow(float64(n)/float64(last.n), e)
}

func seconds(p point) float64   { return p.seconds }
func allocated(p point) float64 { return p.bytes }
