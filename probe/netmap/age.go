package netmap

import (
	"math"
	"time"
)

// wander is by how much a rate may have moved in an hour in which nobody looked, as the standard
// deviation of a random walk, relative. Links between sites change by steps far more often than
// they drift; this only says how much a look is worth, and how pale a table shows a number.
const wander = 0.20

// Uncertainty returns how far the bandwidth may be off at now, relative: the spread of what was
// measured, and what may have happened since, which grows with the root of the age. It is at
// most 1, which is also that of a bandwidth that is unknown or was only predicted; a rate
// declared in a file, without a time, does not age.
func (e Estimate) Uncertainty(now time.Time) float64 {
	if !e.Has(FieldBandwidth) || e.Source == SourcePredicted {
		return 1
	}
	u := e.Spread
	if !e.Measured.IsZero() {
		age := max(now.Sub(e.Measured), 0)
		u = math.Hypot(u, wander*math.Sqrt(age.Hours()))
	}
	return min(u, 1)
}
