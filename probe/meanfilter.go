package probe

import (
	"math"
	"slices"
)

const (
	// meanWindow is how many readings a meanFilter looks back.
	meanWindow = 12
	// leastSpread is the least error that a reading is taken to have: two that are both surer
	// than this differ for reasons that neither knows.
	leastSpread = 0.02
)

// A meanFilter turns readings that know their own errors into their mean, weighted by 1/error².
// It is for what one flow gets, where a [rateFilter] wastes most: random losses make readings
// wander about the truth to both sides alike, and the mean of n of them is off by 1/√n of that,
// their median by a quarter more, and by more still where some are much longer than others.
//
// Readings that differ by more than their errors explain wander for a reason that none of them knows, and count more alike
// then ([meanFilter.between]): the surest may be the one that is wrong.
//
// Like a rateFilter it leaves out an outlier, and takes two readings in a row that agree with
// each other and not with those before for a change.
type meanFilter struct {
	rates   []float64 // newest last
	spreads []float64 // relative standard errors
}

// add takes a new reading, above 0, and its relative standard error.
func (f *meanFilter) add(rate, spread float64) {
	spread = min(max(spread, leastSpread), maxSpread)
	keep := meanWindow
	if n := len(f.rates); n >= 2 {
		before := meanFilter{f.rates[:n-1], f.spreads[:n-1]}
		was, wasSpread := before.value()
		last, lastSpread := f.rates[n-1], f.spreads[n-1]
		// The last one may be so unsure that nothing is unlike it: then it must say the very same.
		other := unequal(last, lastSpread, was, wasSpread) || apart(rate, last) <= settled
		if other && !unequal(rate, spread, last, lastSpread) && unequal(rate, spread, was, wasSpread) {
			keep = 2
		}
	}
	f.rates, f.spreads = append(f.rates, rate), append(f.spreads, spread)
	if n := len(f.rates); n > keep {
		f.rates = slices.Delete(f.rates, 0, n-keep)
		f.spreads = slices.Delete(f.spreads, 0, n-keep)
	}
}

// value returns the mean of the readings that are not outliers, and its relative standard
// error: what the readings say of themselves, or what they differ by where that is more. A lone
// reading is not trusted below loneSpread. Without readings both are 0.
func (f *meanFilter) value() (rate, spread float64) {
	n := len(f.rates)
	if n == 0 {
		return 0, 0
	}
	if n == 1 {
		return f.rates[0], max(f.spreads[0], loneSpread)
	}
	var weights, sum, stated float64
	good := f.trimmed()
	between := good.between()
	for i, x := range good.rates {
		w := 1 / (good.spreads[i]*good.spreads[i] + between)
		weights, sum, stated = weights+w, sum+w*x, stated+1/(good.spreads[i]*good.spreads[i])
	}
	rate = sum / weights
	var chi float64 // of all readings: outliers make the mean unsure
	for i, x := range f.rates {
		d := (x/rate - 1) / f.spreads[i]
		chi += d * d / float64(n-1)
	}
	return rate, min(max(math.Sqrt(max(chi, 1)/stated), 1/math.Sqrt(weights)), maxSpread)
}

// trimmed returns f without the readings that are unlike the weighted median; of two none can be
// said to be the outlier.
func (f *meanFilter) trimmed() *meanFilter {
	if len(f.rates) <= 2 {
		return f
	}
	var t meanFilter
	middle := f.middle()
	for i, x := range f.rates {
		if !unequal(x, f.spreads[i], middle, 0) {
			t.rates, t.spreads = append(t.rates, x), append(t.spreads, f.spreads[i])
		}
	}
	return &t
}

// between returns the variance, relative to the mean, that readings have beside their own errors: by the method of moments
// for random effects (DerSimonian and Laird, Controlled Clinical Trials 7, 1986). It is 0 where the errors explain how they differ.
func (f *meanFilter) between() float64 {
	var weights, squares, sum float64
	for i, x := range f.rates {
		w := 1 / (f.spreads[i] * f.spreads[i])
		weights, squares, sum = weights+w, squares+w*w, sum+w*x
	}
	rest := weights - squares/weights
	if !(rest > 0) { // one reading or none
		return 0
	}
	var chi float64
	for i, x := range f.rates {
		d := (x*weights/sum - 1) / f.spreads[i]
		chi += d * d
	}
	return max(chi-float64(len(f.rates)-1), 0) / rest
}

// middle returns the weighted median.
func (f *meanFilter) middle() float64 {
	order := make([]int, len(f.rates))
	half, between := 0.0, f.between()
	for i, s := range f.spreads {
		order[i] = i
		half += 0.5 / (s*s + between)
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case f.rates[a] < f.rates[b]:
			return -1
		case f.rates[a] > f.rates[b]:
			return 1
		}
		return a - b
	})
	sum := 0.0
	for _, i := range order {
		if sum += 1 / (f.spreads[i]*f.spreads[i] + between); sum >= half {
			return f.rates[i]
		}
	}
	return f.rates[order[len(order)-1]]
}

// readings is how many measurements the value stands on.
func (f *meanFilter) readings() int { return len(f.rates) }

// unequal reports whether two rates with these relative errors are of different things: they lie
// farther apart than otherRate and than chance explains. What is unsure by more than a quarter
// says little, but half as much is another.
func unequal(a, sa, b, sb float64) bool {
	return apart(a, b) > max(otherRate, min(2.5*math.Hypot(sa, sb), 0.5))
}
