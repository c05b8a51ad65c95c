package planner

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A Judgement is what an [Experience] says of operations at one spot, for one goroutine at a time: one pass over the records serves all candidates of a plan.
type Judgement struct {
	spot  Spot
	own   map[string][]sized // by algorithm, in order
	alone map[string]float64 // corrections by algorithm, of those that say anything
	first map[string]float64 // corrections by kin, likewise, as if nothing were known of other kinds
	kins  map[string]float64 // and with what these take for prior
	all   float64            // correction by all of them together
	due   bool               // what has never run may be tried
}

// Judge returns what x says of operations at s.
func (x *Experience) Judge(s Spot, now time.Time) *Judgement {
	j := &Judgement{
		spot: s, own: make(map[string][]sized), alone: make(map[string]float64), first: make(map[string]float64), kins: make(map[string]float64),
	}
	x.mu.Lock()
	runs, tried := 0, 0 // of the very class
	for k, r := range x.records {
		if k.Class == s.Class && r.says(now) {
			runs, tried = runs+r.Runs, tried+1
		}
		if c := s.Class; k.Collective == c.Collective && k.Sites == c.Sites && k.Hosts == c.Hosts && max(k.Size-c.Size, c.Size-k.Size) <= farSizes {
			j.own[k.algorithm] = s.appendNear(j.own[k.algorithm], r, now)
		}
	}
	x.mu.Unlock()
	j.due = trialDue(runs, tried)
	var all []sized
	byKin := make(map[string][]sized)
	for name, of := range j.own {
		all = append(all, of...)
		kin := kinOf(s.Collective, name)
		byKin[kin] = append(byKin[kin], of...)
	}
	j.all, _ = s.correction(all, 1) // 1 without experience
	for kin, of := range byKin {
		if f, ok := s.correction(of, 1); ok {
			j.first[kin] = f
		}
	}
	for kin, of := range byKin {
		if f, ok := s.correction(of, j.others(kin)); ok {
			j.kins[kin] = f
		}
	}
	for name, of := range j.own {
		if f, ok := s.correction(of, j.others(kinOf(s.Collective, name))); ok {
			j.alone[name] = f
		}
	}
	return j
}

// Factor returns by what a forecast of algorithm is to be multiplied, between 1/4 and 32: what its operations took over their forecasts, most of all those of about
// that size, less decided the fewer, the older and the further off they are. Of operations of about one size, less than a fifth apart, the median counts. Those up to a factor
// of 16 away tell where there are none nearer. As far as that is not decided, and of one operation alone no more than four times that, it is what other kinds take over theirs.
// Where the algorithm never ran, those that are like it tell ([Algorithm.Kin]), and if none of these ran all others do: one that nobody has tried is no better than
// the rest for that, unless these take more than twice as long as forecast. Where k kinds do, only 1/(k+1) of that (its logarithm) is taken to be their own fault.
//
// That is as long as a trial is due ([trialDue]). Else what never ran is taken to need as long as what did, and untimely times that.
//
// Classes alone would not do: 64 KiB is where one begins, and half of what was believed of that size came from 16 KiB, where shift took 0.93 times its forecast and aapc 1.3. It took
// shift for 64 KiB for good, at 1.5 times, beside aapc at 1.2.
//
// Nor would it do to take the forecast for the truth until an algorithm has shown how wrong it is: 32 hosts on two processors took 5 to 15 times all forecasts. What had
// run once, 40 times as long as forecast, was taken to need twice that, and tried again.
func (j *Judgement) Factor(algorithm string) float64 {
	kin := kinOf(j.spot.Collective, algorithm)
	if own := j.own[algorithm]; len(own) > 0 {
		if g, ok := j.spot.correction(own, j.mates(kin, algorithm)); ok {
			return min(max(g, 1.0/maxOnce), maxFactor)
		}
	}
	f, known := j.kins[kin]
	switch {
	case !j.due && known:
		return min(untimely*f, maxFactor)
	case !j.due:
		return min(untimely*j.all, maxFactor)
	case known:
		return f
	}
	return common(j.all, len(j.kins))
}

// untimely is by how much faster than what has run an algorithm that has not must be forecast to be, to run where no trial is due.
const untimely = 2

// trialDue says whether, of operations of one class of which so many have run, by so many algorithms, the next one may be by yet another that looks no better than they
// do: the 3rd, the 7th, the 13th, the 21st and so on. An operation by something slower costs all ranks time, and a new plan; where operations follow one another the next one goes by that, too. What is found
// serves all that come after, of which nobody knows how many there will be. With the pauses between trials growing, what they cost in all grows less than
// what can be gained. Where forecasts are far off, each of what is left looks as if it could be the better one: half of the first eleven allgathers of 32 hosts on two
// processors were by what turned out to take up to four times as long.
func trialDue(runs, tried int) bool { return tried == 0 || runs >= tried*(tried+1) }

// says reports whether the samples of r are young enough to say anything.
func (r *Record) says(now time.Time) bool {
	weights := 0.
	for _, s := range r.Samples {
		weights += s.sized(0, now).weight
	}
	return weights >= leastEvidence
}

// mates returns what those of a kin but for one algorithm take over their forecasts, or other kinds if none of them has run.
func (j *Judgement) mates(kin, but string) float64 {
	var logs []float64
	for name, f := range j.alone {
		if name != but && kinOf(j.spot.Collective, name) == kin {
			logs = append(logs, math.Log(f))
		}
	}
	if len(logs) == 0 {
		return j.others(kin)
	}
	return math.Exp(mean(logs))
}

// others returns what kinds other than kin take over their forecasts, 1 if none has run.
func (j *Judgement) others(kin string) float64 {
	var logs []float64
	for k, f := range j.first {
		if k != kin {
			logs = append(logs, math.Log(f))
		}
	}
	if len(logs) == 0 {
		return 1
	}
	return common(math.Exp(mean(logs)), len(logs))
}

// mean sorts all: sums hang on the order, and they come in that of a map.
func mean(all []float64) float64 {
	slices.Sort(all)
	sum := 0.
	for _, v := range all {
		sum += v
	}
	return sum / float64(len(all))
}

// common returns what an algorithm is charged for so many kinds of others that take f times their forecasts.
func common(f float64, kinds int) float64 {
	k := float64(kinds)
	return min(f, max(maxCommon, math.Pow(f, k/(k+1))))
}

const (
	farSizes  = 2       // classes of size
	sizeSteps = 8       // of a class: sizes in one step are the same
	sameSize  = 1. / 16 // of a class, squared: a sample a quarter of a class away counts half as much as one of the size itself
)

// A sized is a sample of an operation of about the same size, as of some time.
type sized struct {
	step   int     // of a class, from the size asked for
	log    float64 // of the ratio
	weight float64 // older ones weigh less
}

func (s Sample) sized(step int, now time.Time) sized {
	return sized{step, math.Log(s.Ratio), s.Weight * math.Exp2(-max(now.Sub(s.At), 0).Hours()/halfLife.Hours())}
}

// bySize orders samples by size, and those of one by ratio: sums hang on the order, and samples come in that of maps.
func bySize(a, b sized) int {
	return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.log, b.log), cmp.Compare(a.weight, b.weight))
}

// appendNear appends the samples of r, and how far their sizes are from that of s.
func (s Spot) appendNear(to []sized, r *Record, now time.Time) []sized {
	for _, sample := range r.Samples {
		to = append(to, sample.sized(int(math.Floor(sizeSteps*(float64(r.Size-s.Size)+sample.Within))), now))
	}
	return to
}

// correction returns what samples say of operations at s, and whether they say anything: the mean of the medians of each size, the nearer ones weighing more. Of sizes a factor of four
// away it is half as sure. As far as they are not sure it is prior. It sorts near.
func (s Spot) correction(near []sized, prior float64) (float64, bool) {
	slices.SortFunc(near, bySize)
	var sum, weights, evidence, closeness float64
	for begin, i := 0, 0; i < len(near); i++ {
		if i+1 < len(near) && near[i+1].step == near[i].step {
			continue
		}
		mid, weight := median(near[begin : i+1])
		begin = i + 1
		off := (float64(near[i].step)+0.5)/sizeSteps - s.Within
		k := weight / (sameSize + off*off)
		sum, weights, evidence, closeness = sum+k*mid, weights+k, evidence+weight, closeness+k/(1+off*off)
	}
	if evidence < leastEvidence {
		return prior, false
	}
	return believed(sum/weights, closeness/weights, evidence, math.Log(prior)), true
}

// believed returns the correction that operations of a median ratio make, of sizes that are so close and with so much evidence, where prior would be believed
// without them; ratio and prior are given as logarithms. One operation alone says no more than maxOnce times the prior.
func believed(median, closeness, evidence, prior float64) float64 {
	if evidence < 1.5 {
		median = min(median, prior+math.Log(maxOnce))
	}
	return math.Exp(prior + (median-prior)*closeness*evidence/(evidence+1))
}

// leastEvidence is the weight from which on samples say anything: some twenty hours after the last there is none.
const leastEvidence = 0.1

// factor returns the correction that samples of one size give, and whether they give any.
func factor(samples []Sample, now time.Time) (float64, bool) {
	ws := make([]sized, len(samples))
	for i, s := range samples {
		ws[i] = s.sized(0, now)
	}
	slices.SortFunc(ws, bySize)
	mid, total := median(ws)
	if total < leastEvidence {
		return 1, false
	}
	return believed(mid, 1, total, 0), true
}

// median returns the logarithm of the median ratio of samples of one size, which are in order, and their weight together. Between two in the middle the median is half way: then one outlier of
// two has no more say than the other. Halves are equal but for what adding up rounds.
func median(samples []sized) (mid, total float64) {
	for _, w := range samples {
		total += w.weight
	}
	below := 0.
	for i, w := range samples {
		if below += w.weight; below < total/2*(1-1e-9) {
			continue
		}
		mid = w.log
		if below <= total/2*(1+1e-9) && i+1 < len(samples) {
			mid = (w.log + samples[i+1].log) / 2
		}
		break
	}
	return mid, total
}
