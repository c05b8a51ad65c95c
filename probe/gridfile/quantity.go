package gridfile

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A unit is a name and what one of it is in the base unit of its quantity.
type unit struct {
	name string
	size float64
}

var rateUnits = []unit{{"bps", 1.0 / 8}, {"kbps", 1e3 / 8}, {"Mbps", 1e6 / 8}, {"Gbps", 1e9 / 8}, {"Tbps", 1e12 / 8}}

// kB before KB: the first of equals is the one that is written.
var sizeUnits = []unit{
	{"B", 1}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
}

// quantity splits "1.44 Mbps" into its number and its unit.
var quantity = regexp.MustCompile(`^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?) ?(\S*)$`)

// parseQuantity returns text in the base unit of units. example is the unit to suggest.
func parseQuantity(text, what, example string, units []unit) (float64, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxText {
		return 0, fmt.Errorf("%q is longer than %d bytes", clip(text), maxText)
	}
	m := quantity.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is not %s such as 8%s", text, what, example)
	}
	if m[2] == "" {
		return 0, fmt.Errorf("%s has no unit; write %s%s", text, m[1], example)
	}
	for _, u := range units {
		if u.name != m[2] {
			continue
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil || math.IsInf(v*u.size, 0) {
			return 0, fmt.Errorf("%s is too large", text)
		}
		if math.Signbit(v) && v != 0 {
			return 0, fmt.Errorf("%s is negative", text)
		}
		return v * u.size, nil
	}
	var names []string
	for _, u := range units {
		if strings.EqualFold(u.name, m[2]) {
			return 0, fmt.Errorf("%q: unknown unit %q; write %s%s", text, m[2], m[1], u.name)
		}
		names = append(names, u.name)
	}
	return 0, fmt.Errorf("%q: unknown unit %q; %s is in %s", text, m[2], what, strings.Join(names, ", "))
}

// ParseRate reads a rate in bits a second with its unit: bps, kbps, Mbps, Gbps or Tbps,
// powers of 1000. The error quotes the text and says how to write it. Zero is accepted
// here; where a rate must be positive, the reader of the rate says so.
func ParseRate(text string) (netmap.BytesPerSec, error) {
	v, err := parseQuantity(text, "a rate", "Mbps", rateUnits)
	if err != nil {
		return 0, err
	}
	return netmap.BytesPerSec(v), nil
}

// FormatRate writes r as [ParseRate] reads it, in the largest unit of which it is at least
// one, with at most twelve significant digits.
func FormatRate(r netmap.BytesPerSec) string {
	best := rateUnits[0]
	for _, u := range rateUnits {
		if math.Abs(float64(r)) >= u.size*(1-1e-12) {
			best = u
		}
	}
	return formatNumber(float64(r)/best.size) + best.name
}

// ParseSize reads a number of bytes with its unit: B, kB (or KB), MB, GB, TB are powers of
// 1000, KiB, MiB, GiB, TiB of 1024. A fraction is accepted if it comes to whole bytes.
func ParseSize(text string) (int64, error) {
	v, err := parseQuantity(text, "a size", "B", sizeUnits)
	if err != nil {
		return 0, err
	}
	// Above 2^53 a float has lost the last bytes: whole numbers are done exactly.
	m := quantity.FindStringSubmatch(strings.TrimSpace(text))
	if whole, err := strconv.ParseInt(m[1], 10, 64); err == nil {
		for _, u := range sizeUnits {
			if u.name == m[2] && whole <= math.MaxInt64/int64(u.size) {
				return whole * int64(u.size), nil
			}
		}
	}
	if v >= math.MaxInt64 {
		return 0, fmt.Errorf("%s is too large", text)
	}
	n := math.Round(v)
	if math.Abs(n-v) > 1e-9*math.Max(1, v) {
		return 0, fmt.Errorf("%s is %v bytes, not a whole number", text, v)
	}
	return int64(n), nil
}

// FormatSize writes n exactly, as [ParseSize] reads it, in the unit that makes it shortest.
func FormatSize(n int64) string {
	best := strconv.FormatInt(n, 10) + "B"
	if n == 0 {
		return best
	}
	for i := len(sizeUnits) - 1; i > 0; i-- { // binary units first: they win a tie
		u := sizeUnits[i]
		if u.name == "KB" || n%int64(u.size) != 0 {
			continue
		}
		if s := strconv.FormatInt(n/int64(u.size), 10) + u.name; len(s) < len(best) {
			best = s
		}
	}
	return best
}

// ParsePercent reads a share, 0% … 100%, and returns it as 0 … 1.
func ParsePercent(text string) (float64, error) {
	v, err := parseQuantity(text, "a share", "%", []unit{{"%", 1}})
	if err != nil {
		return 0, err
	}
	if v > 100 {
		return 0, fmt.Errorf("%s is more than 100%%", text)
	}
	return v / 100, nil
}

// FormatPercent writes a share of 0 … 1 as [ParsePercent] reads it.
func FormatPercent(share float64) string { return formatNumber(share*100) + "%" }

// ParseDuration is [time.ParseDuration] for delays: not negative, a unit even for zero, and
// an error that says how to write it. [time.Duration.String] is its counterpart.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxText {
		return 0, fmt.Errorf("%q is longer than %d bytes", clip(text), maxText)
	}
	m := quantity.FindStringSubmatch(text)
	if m != nil && m[2] == "" {
		return 0, fmt.Errorf("%s has no unit; write %sms", text, m[1])
	}
	d, err := time.ParseDuration(strings.Replace(text, " ", "", 1))
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 50ms or 60us", text)
	}
	if d < 0 {
		return 0, fmt.Errorf("%s is negative", text)
	}
	return d, nil
}

// formatNumber writes v with at most twelve significant digits: they hide the noise of the
// conversion between units. A number that only a slip of the pen makes gets an exponent
// instead of hundreds of zeros.
func formatNumber(v float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 11, 64), 64)
	if err == nil {
		v = rounded
	}
	if a := math.Abs(v); a != 0 && (a < 1e-9 || a >= 1e15) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
