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
	maxRuns    = 1e9  // of a record; what goes beyond is not counted
	// maxFactor bounds a correction. Where processors are what is slow all algorithms take many times their forecasts: as long as 4 was the most, 32 hosts on two processors
	// took rings that were 5.5 times as slow as forecast and bruck, 9 times, for equals.
	maxFactor = 32
	// maxOnce bounds what one operation alone may say, over what other kinds take: something else may have gone over the links. No correction is below 1/maxOnce.
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
	Runs      int      `json:"runs,omitempty"` // how many operations taught something, those among them whose samples are gone
	Samples   []Sample `json:"samples"`        // oldest first
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
	r := x.add(recordKey{c.Class, algorithm}, s)
	r.Runs = min(r.Runs+1, maxRuns)
}

// add adds a sample to a record, and returns that. The lock is held.
func (x *Experience) add(k recordKey, s Sample) *Record {
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
	return r
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
	Factor    float64 // what these operations alone make of forecasts, see [Judgement.Factor]
	Median    float64 // of achieved / forecast
	Samples   int
	Last      time.Time
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
		out = append(out, Record{Class: r.Class, Algorithm: r.Algorithm, Runs: r.Runs, Samples: slices.Clone(r.Samples)})
	}
	slices.SortFunc(out, func(a, b Record) int { return compareNames(&a, &b) })
	return out
}
