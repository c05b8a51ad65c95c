package planner

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

var someClass = Class{Collective: plan.Allgather, Sites: "NTH+UT", Hosts: 4, Size: 8}

// middle is the middle of a class.
func middle(c Class) Spot { return Spot{c, 0.5} }

// Factor is [Experience.Judge] for one algorithm.
func (x *Experience) Factor(s Spot, algorithm string, now time.Time) float64 {
	return x.Judge(s, now).Factor(algorithm)
}

// TestFactorHasNoSteps: from size to size corrections move little, and in the middle of a class they are its own.
func TestFactorHasNoSteps(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 42))
		var x Experience
		for size := range 12 {
			for range rng.IntN(4) {
				c := someClass
				c.Size = size
				x.Add(Spot{c, rng.Float64()}, "ring", 1, math.Exp(rng.NormFloat64()), true, noon)
			}
		}
		p := &Problem{Snapshot: randomProblem(t, rng).Snapshot}
		p.Sizes = make([]int64, p.Snapshot.N())
		last := 0.0
		for size := 64.0; size < 1<<22; size *= 1.02 {
			for i := range p.Sizes {
				p.Sizes[i] = int64(size)
			}
			s := SpotOf(p)
			if !(s.Within >= 0 && s.Within < 1) {
				t.Fatalf("seed %d: %g bytes are at %g of class %d", seed, size, s.Within, s.Size)
			}
			s.Sites, s.Hosts = someClass.Sites, someClass.Hosts
			f := x.Factor(s, "ring", noon)
			// A step of 2 % is 1/70 of a class, and from 1/4 to 4 it is no more than 2.8 in logarithms, most of it within a quarter of a class.
			if last > 0 && math.Abs(math.Log(f/last)) > 0.12 {
				t.Fatalf("seed %d: at %g bytes from %g to %g", seed, size, last, f)
			}
			last = f
		}
	}
}

// TestExperienceCorrects: an algorithm that always takes 1.5 times its forecast comes to that, by few
// operations already to most of it; outliers do not move it, and after a day it is forgotten.
func TestExperienceCorrects(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 41))
		var x Experience
		now := noon
		last := 1.0
		for i := range 8 {
			now = now.Add(time.Minute)
			noise := math.Exp(0.05 * rng.NormFloat64())
			x.Add(middle(someClass), "ring", 2, 3*noise, false, now)
			f := x.Factor(middle(someClass), "ring", now)
			if f < 1.1 || f > 1.7 || i > 2 && f < last*0.93 {
				t.Fatalf("seed %d: %g after %d operations, before it %g", seed, f, i+1, last)
			}
			last = f
		}
		if last < 1.35 {
			t.Errorf("seed %d: %g after eight operations, want near 1.5", seed, last)
		}
		for range 3 { // something else went over the link
			x.Add(middle(someClass), "ring", 2, 1000, false, now)
		}
		if f := x.Factor(middle(someClass), "ring", now); f < 1.3 || f > 1.65 {
			t.Errorf("seed %d: %g after three outliers", seed, f)
		}
		if f := x.Factor(middle(someClass), "ring", now.Add(48*time.Hour)); f != 1 {
			t.Errorf("seed %d: %g after two days", seed, f)
		}
	}
}

// TestExperienceOfOthers: what was never run is no better than the rest.
func TestExperienceOfOthers(t *testing.T) {
	var x Experience
	if f := x.Factor(middle(someClass), "ring", noon); f != 1 {
		t.Errorf("without any experience: %g", f)
	}
	for range maxSamples {
		x.Add(middle(someClass), "ring", 1, 2, true, noon)
		x.Add(middle(someClass), "bruck", 1, 1.1, true, noon)
	}
	near, far := someClass, someClass
	near.Size++
	far.Sites = "UK"
	for _, test := range []struct {
		of        Class
		algorithm string
		low, high float64
	}{
		{someClass, "ring", 1.8, 2}, {someClass, "bruck", 1.08, 1.13}, // a little of what ring took
		{someClass, "simple", 1.1, 2}, // of a class that is slow altogether
		{near, "ring", 1.3, 1.48}, {near, "simple", 1.05, 1.45}, {far, "ring", 1, 1},
	} {
		if f := x.Factor(middle(test.of), test.algorithm, noon); f < test.low || f > test.high {
			t.Errorf("%s, %+v: %g, want %g to %g", test.algorithm, test.of, f, test.low, test.high)
		}
	}
}

// TestOwnSizeCounts: what operations of a size took says more of it than what those of four times less did, also where a class begins with it. So an algorithm that is slow for large
// blocks alone is found out.
func TestOwnSizeCounts(t *testing.T) {
	small, large := someClass, someClass
	large.Size++
	for _, within := range []float64{0, 0.5, 0.99} {
		var x Experience
		for range 9 {
			x.Add(Spot{small, within}, "shift", 1, 0.93, false, noon)
			x.Add(Spot{small, within}, "aapc", 1, 1.34, false, noon)
			x.Add(Spot{large, within}, "shift", 1, 1.52, false, noon)
			x.Add(Spot{large, within}, "aapc", 1, 1.24, false, noon)
		}
		for _, tc := range []struct {
			of        Class
			algorithm string
			want      float64
		}{{small, "shift", 0.93}, {small, "aapc", 1.34}, {large, "shift", 1.52}, {large, "aapc", 1.24}} {
			if got := x.Factor(Spot{tc.of, within}, tc.algorithm, noon); math.Abs(math.Log(got/tc.want)) > 0.08 {
				t.Errorf("at %g of class %d: %s takes %.3f times its forecast, want about %g", within, tc.of.Size, tc.algorithm, got, tc.want)
			}
		}
	}
}

// TestUntriedIsNoBetter: where all that was ever run is slower than forecast, nothing gains by never having run, wherever in its
// class the size lies.
func TestUntriedIsNoBetter(t *testing.T) {
	var x Experience
	for range 3 {
		x.Add(middle(someClass), "ring", 1, 2, false, noon)
		for _, within := range []float64{0, 0.1, 0.5, 0.9} {
			s := Spot{someClass, within}
			if ring, bruck := x.Factor(s, "ring", noon), x.Factor(s, "bruck", noon); bruck < ring*0.999 || ring < 1.2 {
				t.Errorf("at %g of the class: ring %g, bruck, which never ran, %g", within, ring, bruck)
			}
		}
	}
}

// TestFarOffIsOwnFault: where an algorithm takes four times its forecast, others whose forecasts are up to a half longer are tried, unless they are like it; the more
// of them take as long, the less others are expected to be better.
func TestFarOffIsOwnFault(t *testing.T) {
	var x Experience
	at := middle(someClass)
	run := func(algorithm string, ratio float64) {
		for range 3 {
			x.Add(at, algorithm, 1, ratio, false, noon)
		}
	}
	run("lr3", 5)
	lr3, kin, other := x.Factor(at, "lr3", noon), x.Factor(at, "neighbour-exchange", noon), x.Factor(at, "recursive-doubling", noon)
	if lr3 < other*1.4 || kin != lr3 {
		t.Errorf("lr3 takes %.2f times its forecast; expected are %.2f for what is like it and %.2f for what is not", lr3, kin, other)
	}
	run("recursive-doubling", 8)
	if d, next := x.Factor(at, "recursive-doubling", noon), x.Factor(at, "simple", noon); d < lr3*1.2 || next < other*1.2 || next > d {
		t.Errorf("recursive-doubling takes %.2f times its forecast, lr3 %.2f: expected of a third is %.2f, %.2f before", d, lr3, next, other)
	}
}

// TestOnceIsLittle: one operation that took very long is no reason to look for others that are forecast to take twice as long; several are one.
func TestOnceIsLittle(t *testing.T) {
	var x Experience
	at := middle(someClass)
	x.Add(at, "lr3", 1, 1000, false, noon)
	if f := x.Factor(at, "lr3", noon); f > 2.01 {
		t.Errorf("after one operation lr3 is expected to take %.2f times its forecast", f)
	}
	x.Add(at, "lr3", 1, 1000, false, noon)
	if f := x.Factor(at, "lr3", noon); f < 8 || f > maxFactor {
		t.Errorf("after two operations lr3 is expected to take %.2f times its forecast", f)
	}
}

// TestOnceAmongOthers: where all take many times their forecasts, one that has run once is judged by that: in line with them it is believed to be like them, and far above them it is
// not tried again for having been tried once only.
func TestOnceAmongOthers(t *testing.T) {
	var x Experience
	at := middle(someClass)
	for range 4 {
		for _, algorithm := range []string{"lr3", "bruck", "simple"} {
			x.Add(at, algorithm, 1, 8, false, noon)
		}
	}
	untried := x.Factor(at, "recursive-doubling", noon)
	x.Add(at, "recursive-doubling", 1, 8, false, noon)
	same := x.Factor(at, "recursive-doubling", noon)
	if same < untried || same < 5 || same > 8 {
		t.Errorf("after one operation that took 8 times its forecast, as all others do: %.2f, untried %.2f", same, untried)
	}
	x = Experience{records: x.records}
	delete(x.records, recordKey{at.Class, "recursive-doubling"})
	x.Add(at, "recursive-doubling", 1, 40, false, noon)
	if f := x.Factor(at, "recursive-doubling", noon); f < 1.5*same {
		t.Errorf("after one operation that took 40 times its forecast, and others 8 times: %.2f", f)
	}
	var y Experience // what is like it is no better for that
	for range 4 {
		y.Add(at, "lr3", 1, 8, false, noon)
	}
	y.Add(at, "recursive-doubling", 1, 40, false, noon)
	if own, kin := y.Factor(at, "recursive-doubling", noon), y.Factor(at, "bruck", noon); kin < own*0.99 || kin < 4 {
		t.Errorf("recursive-doubling, once at 40: %.2f, bruck, which is like it: %.2f", own, kin)
	}
}

// TestTrialsArePaced: where all take many times their forecasts, what has not run comes one at a time, with more and more operations between, and nearly as much is found as if
// it came at once.
func TestTrialsArePaced(t *testing.T) {
	forecasts := map[string]float64{"lr3": 1, "packed": 1.05, "simple": 1.1, "min3": 1.2, "bruck": 1.3}
	paced, best := 0., 0.
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 44))
		takes, least := make(map[string]float64), math.Inf(1)
		for _, name := range slices.Sorted(maps.Keys(forecasts)) {
			takes[name] = forecasts[name] * math.Exp(math.Log(8)+0.4*rng.NormFloat64())
			least = min(least, takes[name])
		}
		var x Experience
		at := middle(someClass)
		ran := make(map[string]int)
		var trials []int
		for op := 1; op <= 40; op++ {
			j := x.Judge(at, noon)
			next := slices.MinFunc(slices.Sorted(maps.Keys(forecasts)), func(a, b string) int {
				return cmp.Compare(forecasts[a]*j.Factor(a), forecasts[b]*j.Factor(b))
			})
			if ran[next] == 0 && op > 1 {
				trials = append(trials, op)
			}
			ran[next]++
			took := takes[next] * math.Exp(0.1*rng.NormFloat64())
			paced, best = paced+took, best+least
			x.Add(at, next, forecasts[next], took, false, noon)
		}
		for i, op := range trials {
			if earliest := []int{3, 7, 13, 21}[i]; op < earliest {
				t.Errorf("seed %d: trials at operations %d, the one at %d is to be at %d or later", seed, trials, op, earliest)
			}
		}
		if len(trials) == 0 || trials[0] > 8 {
			t.Errorf("seed %d: nothing but the first was tried", seed)
		}
		if n := x.Records()[0].Runs; n > 40 || len(x.Records()) != len(ran) {
			t.Errorf("seed %d: %d runs of %s, %d records for %d algorithms", seed, n, x.Records()[0].Algorithm, len(x.Records()), len(ran))
		}
	}
	t.Logf("40 operations took %.3f times as long as by the fastest algorithm alone", paced/best)
	if paced > 1.3*best {
		t.Errorf("40 operations took %.3f times as long as by the fastest algorithm alone, want at most 1.3", paced/best)
	}
}

// TestUntriedMayBeFarBetter: what is forecast to take less than half of what has run need not wait for its turn, and what ran long ago is as if it had not.
func TestUntriedMayBeFarBetter(t *testing.T) {
	var x Experience
	at := middle(someClass)
	for _, name := range []string{"lr3", "simple", "bruck"} {
		x.Add(at, name, 1, 3, false, noon)
	}
	if f, own := x.Factor(at, "packed", noon), x.Factor(at, "lr3", noon); f < own*1.5 || f > own*2.5 {
		t.Errorf("no trial is due: untried %.2f, others %.2f", f, own)
	}
	if f := x.Factor(at, "packed", noon.Add(48*time.Hour)); f != 1 {
		t.Errorf("two days later: untried %.2f", f)
	}
}

// TestFactorOfTwo: between two samples in the middle that weigh alike the correction is half way, whatever their age does to the last digits.
func TestFactorOfTwo(t *testing.T) {
	for hours := range 20 {
		for _, ratios := range [][]float64{{1, 4}, {0.5, 1, 4, 4}} {
			var of []Sample
			for _, r := range ratios {
				of = append(of, Sample{At: noon, Ratio: r, Weight: 1})
			}
			now := noon.Add(time.Duration(hours) * 700 * time.Second)
			weight := float64(len(of)) * math.Exp2(-now.Sub(noon).Hours()/halfLife.Hours())
			got, ok := factor(of, now)
			if want := math.Exp(math.Log(2) * weight / (weight + 1)); !ok || math.Abs(got-want) > 1e-9 {
				t.Errorf("%v, %v old: %g, want %g", ratios, now.Sub(noon), got, want)
			}
		}
	}
}

// TestFactorIsOfTheSet: samples in another order, as maps give them, make the same correction to the last digit.
func TestFactorIsOfTheSet(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 43))
		of := make([]Sample, 2+rng.IntN(12))
		for i := range of {
			of[i] = Sample{At: noon.Add(-time.Duration(rng.IntN(20)) * time.Hour), Ratio: math.Exp(rng.NormFloat64()), Weight: float64(1 + 2*rng.IntN(2))}
		}
		want, _ := factor(of, noon)
		for range 5 {
			rng.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
			if got, _ := factor(of, noon); got != want {
				t.Fatalf("seed %d: %v and %v", seed, got, want)
			}
		}
	}
}

// TestExperienceIsBounded: in its records, samples and factors, whatever comes.
func TestExperienceIsBounded(t *testing.T) {
	var x Experience
	for i := range maxRecords + 300 {
		c := someClass
		c.Hosts, c.Size = i%16, i/16%30
		for _, took := range []float64{1e9, 0, -1, math.NaN(), math.Inf(1)} {
			x.Add(middle(c), []string{"a", "b", "c", "d", "e", "f", "g"}[i/480%7], 1, took, false, noon.Add(time.Duration(i)*time.Second))
		}
	}
	x.Add(middle(Class{Collective: "no such"}), "ring", 1, 1, false, noon)
	records := x.Records()
	if len(records) != maxRecords {
		t.Errorf("%d records, want %d", len(records), maxRecords)
	}
	for _, r := range records {
		if len(r.Samples) > maxSamples {
			t.Fatalf("%d samples of %s", len(r.Samples), r.Algorithm)
		}
		if f := x.Factor(middle(r.Class), r.Algorithm, noon); !(f >= 1.0/maxOnce && f <= maxFactor) {
			t.Fatalf("a factor of %g", f)
		}
	}
}

// TestRunsAreBounded: in a record, and in one that a file has.
func TestRunsAreBounded(t *testing.T) {
	file := func(runs string) []byte {
		return []byte(`{"version":1,"records":[{"collective":"allgather","sites":"a","hosts":3,"size":2,"algorithm":"ring","runs":` + runs + `,"samples":[{"at":"2030-01-01T00:00:00Z","ratio":1,"weight":1}]}]}`)
	}
	for _, runs := range []string{"-1", "1000000001", "9223372036854775807"} {
		if _, err := ParseExperience(file(runs), noon); err == nil || !strings.Contains(err.Error(), runs+" runs") {
			t.Errorf("%s runs: %v", runs, err)
		}
	}
	x, err := ParseExperience(file("1000000000"), noon)
	if err != nil {
		t.Fatal(err)
	}
	r := x.Records()[0]
	x.Add(middle(r.Class), r.Algorithm, 1, 1, false, noon)
	if got := x.Records()[0]; got.Runs != maxRuns || len(got.Samples) != 2 {
		t.Errorf("%d runs and %d samples after one more", got.Runs, len(got.Samples))
	}
}

// TestClassOf: sizes a factor of four apart are of different classes, and names are bounded.
func TestClassOf(t *testing.T) {
	p := randomProblem(t, rand.New(rand.NewPCG(3, 31)))
	p.Topology = nil
	seen := make(map[int]int64)
	for _, size := range []int64{0, 1, 4, 64, 1 << 10, 64 << 10, 1 << 20, 1 << 40} {
		for i := range p.Sizes {
			p.Sizes[i] = size
		}
		c := SpotOf(p)
		if other, ok := seen[c.Size]; ok || !c.check() {
			t.Errorf("%d bytes and %d are both of class %+v", size, other, c)
		}
		seen[c.Size] = size
	}
}

func FuzzParseExperience(f *testing.F) {
	var x Experience
	x.Add(middle(someClass), "ring", 1, 2, true, noon)
	x.Add(middle(Class{Collective: plan.Alltoall}), "bruck", 1, 0.5, false, noon)
	good, err := x.AppendJSON(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1,"records":[{"collective":"allgather","sites":"a","hosts":3,"size":2,"algorithm":"ring","samples":[{"at":"2030-01-01T00:00:00Z","ratio":1,"weight":1}]}]}`))
	f.Add([]byte(`{"version":1,"records":[{"collective":"allgather","algorithm":"ring","samples":[{"ratio":1e9,"weight":1}]}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		x, err := ParseExperience(in, noon)
		if err != nil {
			return
		}
		for _, r := range x.Records() {
			if g := x.Factor(middle(r.Class), r.Algorithm, noon); !(g >= 1.0/maxOnce && g <= maxFactor) {
				t.Fatalf("a factor of %g", g)
			}
		}
		once, err := x.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseExperience(once, noon)
		if err != nil {
			t.Fatalf("%v\n%s", err, once)
		}
		if twice, _ := again.AppendJSON(nil); !bytes.Equal(once, twice) {
			t.Fatalf("%s\n%s", once, twice)
		}
	})
}
