package planner

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// Limits of an [Experience], and how it judges.
const (
	maxRecords = 1024 // of algorithms and classes
	maxSamples = 9    // of a record; the oldest goes
	// maxFactor bounds a correction either way. A forecast that is off by more is of another network, or
	// something else went over the links.
	maxFactor = 4
	// halfLife is how long it takes for a sample to count half: links and hosts change.
	halfLife = 6 * time.Hour
	// tunedWeight is how many operations one of a tuning run counts as: nothing else ran beside it.
	tunedWeight = 3
)

// A Sample is the outcome of one operation.
type Sample struct {
	At     time.Time `json:"at"`
	Ratio  float64   `json:"ratio"` // achieved / forecast
	Weight float64   `json:"weight"`
}

// A Record is what is remembered of one algorithm for one class of operations.
type Record struct {
	Class
	Algorithm string   `json:"algorithm"`
	Samples   []Sample `json:"samples"` // oldest first
}

type recordKey struct {
	Class
	algorithm string
}

// An Experience holds how operations went against their forecasts, and corrects forecasts by that.
// Its methods may be called concurrently. The zero value is empty and ready.
type Experience struct {
	mu      sync.Mutex // guards records; nothing blocks while it is held
	records map[recordKey]*Record
}

// Add notes that an operation of class c by an algorithm, forecast to take so many seconds, took
// achieved. tuned says that it was part of a tuning run. Times that are not positive say nothing.
func (x *Experience) Add(c Class, algorithm string, forecast, achieved float64, tuned bool, now time.Time) {
	ratio := achieved / forecast
	if !(forecast > 0) || !(achieved > 0) || math.IsInf(ratio, 0) || !c.check() {
		return
	}
	s := Sample{At: now, Ratio: min(max(ratio, 1.0/maxFactor), maxFactor), Weight: 1}
	if tuned {
		s.Weight = tunedWeight
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(recordKey{c, algorithm}, s)
}

// add adds a sample. The lock is held.
func (x *Experience) add(k recordKey, s Sample) {
	if x.records == nil {
		x.records = make(map[recordKey]*Record)
	}
	r := x.records[k]
	if r == nil {
		if len(x.records) >= maxRecords {
			x.forgetOldest()
		}
		r = &Record{Class: k.Class, Algorithm: k.algorithm}
		x.records[k] = r
	}
	if len(r.Samples) == maxSamples {
		r.Samples = slices.Delete(r.Samples, 0, 1)
	}
	r.Samples = append(r.Samples, s)
}

// forgetOldest removes the record that has heard nothing for the longest time. The lock is held.
func (x *Experience) forgetOldest() {
	var oldest *Record
	for _, r := range x.records {
		if oldest == nil || compareRecords(r, oldest) < 0 {
			oldest = r
		}
	}
	delete(x.records, recordKey{oldest.Class, oldest.Algorithm})
}

// compareRecords orders by the last sample, then by name: what is forgotten does not hang on map order.
func compareRecords(a, b *Record) int {
	return cmp.Or(a.Samples[len(a.Samples)-1].At.Compare(b.Samples[len(b.Samples)-1].At), compareNames(a, b))
}

func compareNames(a, b *Record) int {
	return cmp.Or(cmp.Compare(a.Collective, b.Collective), cmp.Compare(a.Sites, b.Sites), cmp.Compare(a.Hosts, b.Hosts),
		cmp.Compare(a.Size, b.Size), cmp.Compare(a.Algorithm, b.Algorithm))
}

// A Correction is what an [Experience] says of one algorithm and class.
type Correction struct {
	Class
	Algorithm string
	Factor    float64 // by which forecasts are multiplied
	Median    float64 // of achieved / forecast
	Samples   int
	Last      time.Time
}

// Factor returns by what a forecast of algorithm for operations at s is to be multiplied, between 1/4 and 4. It is
// drawn through the corrections of neighbouring classes of size, each in the middle of its class: operations of nearly
// one size are corrected by nearly the same.
func (x *Experience) Factor(s Spot, algorithm string, now time.Time) float64 {
	near, weight := s.Class, s.Within-0.5
	if weight < 0 {
		near.Size, weight = near.Size-1, -weight
	} else {
		near.Size++
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	own, other := x.ofClass(s.Class, algorithm, now), x.ofClass(near, algorithm, now)
	return math.Exp((1-weight)*math.Log(own) + weight*math.Log(other))
}

// ofClass returns the correction for a class: the median of what its operations took over their forecasts, less decided the fewer and the older
// they are. Of operations of the class that it never ran, it assumes what is true of those of other sizes
// up to a factor of 16, and else of other algorithms: an algorithm that nobody has tried is no better
// than the rest for that. The lock is held.
func (x *Experience) ofClass(c Class, algorithm string, now time.Time) float64 {
	if f, ok := factor(samples(x.records[recordKey{c, algorithm}]), now); ok {
		return f
	}
	for _, step := range nearSizes {
		near := c
		near.Size += step
		if f, ok := factor(samples(x.records[recordKey{near, algorithm}]), now); ok {
			return math.Sqrt(f) // half as sure
		}
	}
	if f, ok := factor(x.ofAll(c), now); ok {
		return f
	}
	for _, step := range nearSizes {
		near := c
		near.Size += step
		if f, ok := factor(x.ofAll(near), now); ok {
			return math.Sqrt(f)
		}
	}
	return 1
}

// nearSizes are the steps to the classes of size that tell of a class without operations, the nearest first.
var nearSizes = []int{-1, 1, -2, 2}

// ofAll returns the samples of all algorithms for class c. The lock is held.
func (x *Experience) ofAll(c Class) (all []Sample) {
	for k, r := range x.records {
		if k.Class == c {
			all = append(all, r.Samples...)
		}
	}
	return all
}

func samples(r *Record) []Sample {
	if r == nil {
		return nil
	}
	return r.Samples
}

// factor returns the correction that samples give, and whether they give any.
func factor(samples []Sample, now time.Time) (float64, bool) {
	type weighted struct{ log, weight float64 }
	var ws []weighted
	for _, s := range samples {
		w := s.Weight * math.Exp2(-max(now.Sub(s.At), 0).Hours()/halfLife.Hours())
		ws = append(ws, weighted{math.Log(s.Ratio), w})
	}
	slices.SortFunc(ws, func(a, b weighted) int { return cmp.Or(cmp.Compare(a.log, b.log), cmp.Compare(a.weight, b.weight)) })
	total := 0.0
	for _, w := range ws { // sorted: samples come in the order of maps, and sums hang on their order
		total += w.weight
	}
	if total < 0.1 { // some twenty hours after the last
		return 1, false
	}
	// The median, and between two in the middle half way: then one outlier of two has no more say than the other.
	// Halves are equal but for what adding up rounds.
	var low, high, below float64
	for i, w := range ws {
		if below += w.weight; below < total/2*(1-1e-9) {
			continue
		}
		low, high = w.log, w.log
		if below <= total/2*(1+1e-9) && i+1 < len(ws) {
			high = ws[i+1].log
		}
		break
	}
	return math.Exp((low + high) / 2 * total / (total + 1)), true
}

// Corrections lists what x knows, in order of class and algorithm.
func (x *Experience) Corrections(now time.Time) []Correction {
	var out []Correction
	for _, r := range x.Records() {
		f, ok := factor(r.Samples, now)
		if !ok {
			continue
		}
		ratios := make([]float64, len(r.Samples))
		for i, s := range r.Samples {
			ratios[i] = s.Ratio
		}
		slices.Sort(ratios)
		out = append(out, Correction{
			Class: r.Class, Algorithm: r.Algorithm, Factor: f, Median: ratios[(len(ratios)-1)/2],
			Samples: len(ratios), Last: r.Samples[len(r.Samples)-1].At,
		})
	}
	return out
}

// Records returns a copy of all records, in order of class and algorithm.
func (x *Experience) Records() []Record {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make([]Record, 0, len(x.records))
	for _, r := range x.records {
		out = append(out, Record{Class: r.Class, Algorithm: r.Algorithm, Samples: slices.Clone(r.Samples)})
	}
	slices.SortFunc(out, func(a, b Record) int { return compareNames(&a, &b) })
	return out
}
