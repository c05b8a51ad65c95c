package pools

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// The pairs of one class go from the same site to the same site, and no two neighbours in the
// order of their latencies differ by more than the larger of these. A site is that of the
// label, or the one that a misplaced host measures like.
const (
	classGap   = 2 * time.Millisecond
	classShare = 0.30
)

// leastDoubt is how far, relative, a pair may always be off its class's median and still
// count as the same: two single readings with noise of ±20 % differ by up to a factor of 1.5.
const leastDoubt = 0.5

// settle decides what trees are built from: out of each pair.
//
// Hosts behind one switch, or flows over one link, have one rate, and what single readings
// say beyond that is noise; a tree of raw readings takes sites apart. So each pair is drawn
// to the median of its class by firm shrinkage (Gao & Bruce, "WaveShrink with firm
// shrinkage", Statistica Sinica 7, 1997) of the logarithms: within its doubt, the larger of
// leastDoubt and its own spread, it takes the median; beyond twice the doubt it is left
// alone, since a link that is that far off is another link; between the two it goes over from
// one to the other. The median of a class, and a pair that keeps a value of its own, must
// move by more than the margin to move at all.
func (t *Tracker) settle(s *netmap.Snapshot) {
	for _, class := range classes(s, t.lost) {
		held := make([]float64, 0, len(class))
		var before []float64
		for _, at := range class {
			held = append(held, t.pairs[at].held)
			if out := t.pairs[at].out; out > 0 {
				before = append(before, out)
			}
		}
		center := middle(held)
		if len(before) > 0 {
			// Mostly one and the same number: that of the class so far.
			if was := middle(before); ratio(was, center) <= 1+t.cfg.Margin {
				center = was
			}
		}
		for _, at := range class {
			p := &t.pairs[at]
			v := firm(p.held, center, max(p.spread, leastDoubt))
			if v == center || p.out == 0 || ratio(v, p.out) > 1+t.cfg.Margin {
				p.out = v
			}
		}
	}
}

// firm draws v towards center, as settle says; doubt is relative.
func firm(v, center, doubt float64) float64 {
	inner := math.Log(1 + doubt)
	d := math.Log(v / center)
	switch off := math.Abs(d); {
	case off <= inner:
		return center
	case off >= 2*inner:
		return v
	default:
		return center * math.Exp(math.Copysign(2*(off-inner), d))
	}
}

// middle returns the median of v, which it sorts: of an even number the lower of the middle
// two, so that it is always one of v.
func middle(v []float64) float64 {
	slices.Sort(v)
	return v[(len(v)-1)/2]
}

// classes returns the classes of the pairs of s, each a list of places in the matrix.
// Hosts without a label count as one site. A pair without latency is in a class with its like.
func classes(s *netmap.Snapshot, lost []Misplacement) [][]int {
	n := s.N()
	placed := make(map[string]string, len(lost))
	for _, m := range lost {
		placed[m.Host] = m.Like
	}
	site := make([]int, n)
	labels := map[string]int{}
	for i, h := range s.Hosts() {
		label, ok := placed[h.Name]
		if !ok {
			label = h.Site
		}
		if _, ok := labels[label]; !ok {
			labels[label] = len(labels)
		}
		site[i] = labels[label]
	}
	type place struct {
		at, direction int
		latency       time.Duration
	}
	places := make([]place, 0, n*n)
	for i := range n {
		for j := range n {
			if i != j {
				e := s.Estimate(i, j)
				latency := time.Duration(-1)
				if e.Has(netmap.FieldLatency) {
					latency = e.Latency
				}
				places = append(places, place{i*n + j, site[i]*n + site[j], latency})
			}
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.direction, b.direction), cmp.Compare(a.latency, b.latency), cmp.Compare(a.at, b.at))
	})
	var out [][]int
	for k, p := range places {
		if k > 0 {
			q := places[k-1]
			gap := max(classGap, time.Duration(classShare*float64(q.latency)))
			if p.direction == q.direction && p.latency-q.latency <= gap && (q.latency >= 0) == (p.latency >= 0) {
				out[len(out)-1] = append(out[len(out)-1], p.at)
				continue
			}
		}
		out = append(out, []int{p.at})
	}
	return out
}
