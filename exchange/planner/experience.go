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
	// maxFactor bounds a correction. Where processors are what is slow all algorithms take many times their forecasts: as long as 4 was the most, 32 hosts on two processors
	// took rings that were 5.5 times as slow as forecast and bruck, 9 times, for equals.
	maxFactor = 32
	// maxOnce bounds what one operation alone may say: something else may have gone over the links. No correction is below 1/maxOnce.
	maxOnce = 4
	// maxCommon bounds what an algorithm that never ran is charged for one other, and all that are like that: what is further off is their plans' own fault. 16 hosts on four switches that nobody
	// knew of stayed with a ring that crossed each cable four times, 4 times its forecast, beside recursive doubling, which takes half as long. The more algorithms take long, though, the
	// less is it any plan's fault.
	maxCommon = 2
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
	Within float64   `json:"within,omitempty"` // where in the class its size was, see [Spot]
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

// Add notes that an operation at c by an algorithm, forecast to take so many seconds, took
// achieved. tuned says that it was part of a tuning run. Times that are not positive say nothing.
func (x *Experience) Add(c Spot, algorithm string, forecast, achieved float64, tuned bool, now time.Time) {
	ratio := achieved / forecast
	if !(forecast > 0) || !(achieved > 0) || math.IsInf(ratio, 0) || !c.check() || !(c.Within >= 0 && c.Within <= 1) {
		return
	}
	s := Sample{At: now, Ratio: min(max(ratio, 1.0/maxOnce), maxFactor), Weight: 1, Within: c.Within}
	if tuned {
		s.Weight = tunedWeight
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(recordKey{c.Class, algorithm}, s)
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
	Factor    float64 // what these operations alone make of forecasts, see [Experience.Factor]
	Median    float64 // of achieved / forecast
	Samples   int
	Last      time.Time
}

// Factor returns by what a forecast of algorithm for operations at s is to be multiplied, between 1/4 and 32: what its operations took over their forecasts, most of all those of about
// that size, less decided the fewer, the older and the further off they are. Of operations of about one size, less than a fifth apart, the median counts. Those up to a factor
// of 16 away tell where there are none nearer. Where the algorithm never ran, those that are like it tell ([Algorithm.Kin]), and if none of these ran all others do: one that nobody has tried is no better than
// the rest for that, unless these take more than twice as long as forecast. Where k kinds do, only 1/(k+1) of that (its logarithm) is taken to be their own fault.
//
// Classes alone would not do: 64 KiB is where one begins, and half of what was believed of that size came from 16 KiB, where shift took 0.93 times its forecast and aapc 1.3. It took
// shift for 64 KiB for good, at 1.5 times, beside aapc at 1.2.
func (x *Experience) Factor(s Spot, algorithm string, now time.Time) float64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	var near []sized
	for step := -farSizes; step <= farSizes; step++ {
		c := s.Class
		c.Size += step
		if r := x.records[recordKey{c, algorithm}]; r != nil {
			near = s.appendNear(near, r)
		}
	}
	if f, ok := s.correction(near, now); ok {
		return f
	}
	kin := kinOf(s.Collective, algorithm)
	byKin := make(map[string][]sized)
	near = near[:0]
	for k, r := range x.records {
		if c := s.Class; k.Collective == c.Collective && k.Sites == c.Sites && k.Hosts == c.Hosts && max(k.Size-c.Size, c.Size-k.Size) <= farSizes {
			near = s.appendNear(near, r)
			of := kinOf(c.Collective, k.algorithm)
			byKin[of] = s.appendNear(byKin[of], r)
		}
	}
	if f, ok := s.correction(byKin[kin], now); ok {
		return f
	}
	kinds := 0.
	for _, of := range byKin {
		if _, ok := s.correction(of, now); ok {
			kinds++
		}
	}
	f, _ := s.correction(near, now)
	return min(f, max(maxCommon, math.Pow(f, kinds/(kinds+1))))
}

const (
	farSizes  = 2       // classes of size
	sizeSteps = 8       // of a class: sizes in one step are the same
	sameSize  = 1. / 16 // of a class, squared: a sample a quarter of a class away counts half as much as one of the size itself
)

// A sized is a sample of an operation of about the same size.
type sized struct {
	step int // of a class, from the size asked for
	Sample
}

// appendNear appends the samples of r, and how far their sizes are from that of s.
func (s Spot) appendNear(to []sized, r *Record) []sized {
	for _, sample := range r.Samples {
		to = append(to, sized{int(math.Floor(sizeSteps * (float64(r.Size-s.Size) + sample.Within))), sample})
	}
	return to
}

// correction returns what samples say of operations at s, and whether they say anything: the mean of the medians of each size, the nearer ones weighing more. Of sizes a factor of four
// away it is half as sure.
func (s Spot) correction(near []sized, now time.Time) (float64, bool) {
	slices.SortFunc(near, func(a, b sized) int { return cmp.Compare(a.step, b.step) })
	var sum, weights, evidence, closeness float64
	var same []Sample
	for i, n := range near {
		if same = append(same, n.Sample); i+1 < len(near) && near[i+1].step == n.step {
			continue
		}
		mid, weight := median(same, now)
		same = same[:0]
		off := (float64(n.step)+0.5)/sizeSteps - s.Within
		k := weight / (sameSize + off*off)
		sum, weights, evidence, closeness = sum+k*mid, weights+k, evidence+weight, closeness+k/(1+off*off)
	}
	if evidence < leastEvidence {
		return 1, false
	}
	return believed(sum/weights, closeness/weights, evidence), true
}

// believed returns the correction that operations of a median ratio, given as its logarithm, make, of sizes that are so close and with so much evidence. One operation
// alone says no more than maxOnce.
func believed(median, closeness, evidence float64) float64 {
	if evidence < 1.5 {
		median = min(median, math.Log(maxOnce))
	}
	return math.Exp(median * closeness * evidence / (evidence + 1))
}

// leastEvidence is the weight from which on samples say anything: some twenty hours after the last there is none.
const leastEvidence = 0.1

// factor returns the correction that samples of one size give, and whether they give any.
func factor(samples []Sample, now time.Time) (float64, bool) {
	mid, total := median(samples, now)
	if total < leastEvidence {
		return 1, false
	}
	return believed(mid, 1, total), true
}

// median returns the logarithm of the median ratio of samples, and their weight together. Older ones weigh less. Between two in the middle the median is half way: then one outlier of
// two has no more say than the other. Halves are equal but for what adding up rounds.
func median(samples []Sample, now time.Time) (mid, total float64) {
	type weighted struct{ log, weight float64 }
	var ws []weighted
	for _, s := range samples {
		w := s.Weight * math.Exp2(-max(now.Sub(s.At), 0).Hours()/halfLife.Hours())
		ws = append(ws, weighted{math.Log(s.Ratio), w})
	}
	slices.SortFunc(ws, func(a, b weighted) int { return cmp.Or(cmp.Compare(a.log, b.log), cmp.Compare(a.weight, b.weight)) })
	for _, w := range ws { // sorted: samples come in the order of maps, and sums hang on their order
		total += w.weight
	}
	below := 0.
	for i, w := range ws {
		if below += w.weight; below < total/2*(1-1e-9) {
			continue
		}
		mid = w.log
		if below <= total/2*(1+1e-9) && i+1 < len(ws) {
			mid = (w.log + ws[i+1].log) / 2
		}
		break
	}
	return mid, total
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
