package pools

import (
	"slices"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Threshold is one band of bandwidths that occur in a snapshot. Links are compared with
// Low; High, the largest bandwidth of the band, is the name that people see.
type Threshold struct {
	Low, High netmap.BytesPerSec
}

// slack is the relative difference under which two bandwidths count as equal where they
// come out of arithmetic: 100 Mbit/s and 110 are a band of 10 % whatever 100·1.1 rounds to.
const slack = 1e-9

// Thresholds returns the bands of the bandwidths of s, lowest first: the bandwidths are
// sorted, and a band holds those from its lowest, Low, to Low·(1+band). A band of 0 makes
// every bandwidth its own threshold. Pairs that were not measured are passed over.
//
// The paper takes "the maximum bandwidth value" of each 10 % set as the threshold. With
// that, a link in the lower part of a band does not reach its own band: on the paper's own
// Table 2 the 81.86 Mbit/s of NTH share a band with the 85.19 of UT, and NTH would fall
// apart into single hosts. So links are to be compared with Low.
func Thresholds(s *netmap.Snapshot, band float64) []Threshold {
	n := s.N()
	values := make([]netmap.BytesPerSec, 0, n*n)
	for i := range n {
		for j := range n {
			if b, ok := s.Bandwidth(i, j); ok && i != j {
				values = append(values, b)
			}
		}
	}
	slices.Sort(values)
	var bands []Threshold
	for _, b := range values {
		if last := len(bands) - 1; last >= 0 && float64(b) <= float64(bands[last].Low)*(1+band)*(1+slack) {
			bands[last].High = b
			continue
		}
		bands = append(bands, Threshold{Low: b, High: b})
	}
	return bands
}
