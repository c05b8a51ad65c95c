package main

import (
	"math"
	"strconv"
	"time"
)

// formatSeconds shows s to four significant digits: "1.234s", "50.1ms", "6µs".
// No blanks: the columns of a table can then be cut by them.
func formatSeconds(s float64) string {
	switch {
	case math.IsNaN(s) || math.IsInf(s, 0):
		return "-"
	case s >= 1 || s == 0:
		return significant(s) + "s"
	case s >= 1e-3:
		return significant(s*1e3) + "ms"
	}
	return significant(s*1e6) + "µs"
}

func formatDuration(d time.Duration) string { return formatSeconds(d.Seconds()) }

// formatBytes shows n to four significant digits: "512B", "64KiB", "1.5MiB".
func formatBytes[N int64 | uint64 | uint32](n N) string {
	v, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, next
	}
	return significant(v) + unit
}

// significant writes v with four significant digits and no exponent.
func significant(v float64) string {
	digits := 3
	for x := math.Abs(v); x >= 10 && digits > 0; x /= 10 {
		digits--
	}
	scale := math.Pow(10, float64(digits))
	return strconv.FormatFloat(math.Round(v*scale)/scale, 'f', -1, 64)
}
