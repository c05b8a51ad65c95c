package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// digits formats v with so many significant digits, and what is larger in full.
func digits(v float64, n int) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	rounded := strconv.FormatFloat(v, 'e', n-1, 64) // d.dde±xx
	exponent, err := strconv.Atoi(rounded[strings.LastIndexByte(rounded, 'e')+1:])
	if err != nil {
		return rounded // cannot be
	}
	return strconv.FormatFloat(v, 'f', max(0, n-1-exponent), 64)
}

// duration formats seconds with three digits and a unit.
func duration(s float64) string {
	switch {
	case s <= 0:
		return "0 s"
	case s < 0.9995e-3:
		return digits(s*1e6, 3) + " µs"
	case s < 0.9995:
		return digits(s*1e3, 3) + " ms"
	}
	return digits(s, 3) + " s"
}

// minutes formats seconds in whole minutes, or as duration does where they are few.
func minutes(s float64) string {
	if s < 120 {
		return duration(s)
	}
	return digits(s/60, 2) + " minutes"
}

// inBytes formats bytes in the largest unit that makes a whole number, as in 64 KiB.
func inBytes(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// times formats a ratio, as in ×1.31.
func times(ratio float64) string { return "×" + digits(ratio, 3) }

// faster says how a compares with b, both in seconds: "12 % faster than", "2.5 times as fast as", "1.5 %
// slower than". Faster is meant of speed: 12 % faster takes 1/1.12 of the time.
func faster(a, b float64) string {
	if !(a > 0 && b > 0) {
		return "not comparable with"
	}
	switch r := a / b; {
	case math.Abs(r-1) < 0.01:
		return "as fast as"
	case r <= 0.5:
		return digits(1/r, 2) + " times as fast as"
	case r < 1:
		return percent(1/r-1) + " faster than"
	case r < 2:
		return percent(r-1) + " slower than"
	default:
		return digits(r, 2) + " times as slow as"
	}
}

// percent formats a share.
func percent(share float64) string {
	p := share * 100
	if math.Abs(p) < 10 {
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}

// list joins words with commas and "and".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
