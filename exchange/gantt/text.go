package gantt

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"unicode"
)

// formatSeconds shows a time with so many significant digits in the unit that suits it: "50.1 ms".
func formatSeconds(s float64, digits int) string {
	if s == 0 {
		return "0 s"
	}
	u := units[unitOf(s)]
	return significant(s/u.seconds, digits) + " " + u.name
}

// formatBytes shows a size with four significant digits: "64 KiB".
func formatBytes(n int64) string {
	v, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, next
	}
	return significant(v, 4) + " " + unit
}

// significant writes v, which is not negative, without exponent.
func significant(v float64, digits int) string {
	decimals := digits - 1
	for x := v; x >= 10 && decimals > 0; x /= 10 {
		decimals--
	}
	scale := math.Pow10(decimals)
	return strconv.FormatFloat(math.Round(v*scale)/scale, 'f', -1, 64)
}

// count writes "1 host", "2 hosts".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// escape makes any string fit for XML text. Runes that do not print (controls, and
// marks that would turn the order of the text around) become U+FFFD.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return unicode.ReplacementChar
	}, s)
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a bytes.Buffer takes everything
	return strings.ReplaceAll(b.String(), "&#xA;", "\n")
}

// full is a name as a tooltip shows it: whole, if it is not absurdly long.
func full(name string) string { return fit(name, fontSize, 1600) }

// textWidth estimates the width of s in pixels, rather too wide than too narrow: the
// font is the viewer's choice.
func textWidth(s string, size float64) float64 {
	var em float64
	for _, r := range s {
		switch {
		case r >= 0x1100: // Hangul, CJK, symbols, emoji: up to a full square
			em++
		case unicode.IsUpper(r) || r == 'm' || r == 'w' || r == '@' || r == '%':
			em += 0.8
		case strings.ContainsRune("iljtfr.,:;'|!()[] ", r):
			em += 0.4
		default:
			em += 0.62
		}
	}
	return em * size
}

// fit shortens s to a width in pixels. The middle goes: host names differ at their ends.
func fit(s string, size, width float64) string {
	if textWidth(s, size) <= width {
		return s
	}
	runes := []rune(s)
	keep := func(n int) string { return string(runes[:(n+1)/2]) + "…" + string(runes[len(runes)-n/2:]) }
	// No rune is narrower than 0.4 em, so no more than this many fit.
	n := min(len(runes)-1, int(width/(0.4*size)))
	// What a smaller n keeps, a larger one keeps too: widths ascend.
	return keep(max(0, sort.Search(n+1, func(k int) bool { return textWidth(keep(k), size) > width })-1))
}
