package gridfile

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]netmap.BytesPerSec{
		"1.44Mbps": 180000, "10Gbps": 1.25e9, "100kbps": 12500, "8bps": 1, "1 Tbps": 1.25e11, "1e3Mbps": 1.25e8, ".5Mbps": 62500, "0Mbps": 0,
	} {
		if got, err := ParseRate(text); err != nil || math.Abs(float64(got-want)) > 1e-9*float64(want) {
			t.Errorf("%q is %v, %v; want %v", text, float64(got), err, float64(want))
		}
	}
	for text, want := range map[string]string{
		"85.19":                            "85.19 has no unit; write 85.19Mbps",
		"85.19mbps":                        `unknown unit "mbps"; write 85.19Mbps`,
		"85MB":                             `unknown unit "MB"; a rate is in bps, kbps, Mbps, Gbps, Tbps`,
		"-1Mbps":                           "-1Mbps is negative",
		"fast":                             `"fast" is not a rate such as 8Mbps`,
		"":                                 `"" is not a rate`,
		"NaNMbps":                          "is not a rate",
		"InfMbps":                          "is not a rate",
		"0x10Mbps":                         `unknown unit "x10Mbps"`,
		"1,44Mbps":                         `unknown unit ",44Mbps"`,
		"1e400Mbps":                        "too large",
		"1e308Gbps":                        "too large",
		"1\x1b[2J":                         `"1\x1b[2J": unknown unit "\x1b[2J"`,
		strings.Repeat("9", 5000) + "Mbps": `…" is longer than 100 bytes`,
		"1.44Mbps " + "\n" + "1.44 Mbps ":  "is not a rate",
	} {
		if got, err := ParseRate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"64KiB": 65536, "1MB": 1e6, "512B": 512, "0B": 0, "1.5MiB": 1572864, "2kB": 2000, "2KB": 2000, "8192PiB": -1,
		"9223372036854775807B": math.MaxInt64, "9007199254740993B": 1<<53 + 1, "3 TiB": 3 << 40,
	} {
		if got, err := ParseSize(text); want >= 0 && (err != nil || got != want) || want < 0 && err == nil {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"65536":                "65536 has no unit; write 65536B",
		"0.5B":                 "not a whole number",
		"1.0001kB":             "not a whole number",
		"64K":                  `unknown unit "K"`,
		"64kib":                "write 64KiB",
		"-1B":                  "negative",
		"9223372036854775808B": "too large",
		"9000000TiB":           "too large",
	} {
		if got, err := ParseSize(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestParsePercentAndDuration(t *testing.T) {
	if got, err := ParsePercent("0.1%"); err != nil || got != 0.001 {
		t.Errorf("0.1%% is %v, %v", got, err)
	}
	if got, err := ParseDuration("60us"); err != nil || got != 60*time.Microsecond {
		t.Errorf("60us is %v, %v", got, err)
	}
	for _, text := range []string{"0.1", "101%", "-1%", "%", "0.1 percent"} {
		if got, err := ParsePercent(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
	for text, want := range map[string]string{
		"50": "50 has no unit; write 50ms", "0": "0 has no unit", "-1ms": "negative", "50 lightyears": "is not a duration", "": "is not a duration",
	} {
		if got, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{FormatRate(1.44 * netmap.Mbps), "1.44Mbps"},
		{FormatRate(1e4 * netmap.Mbps), "10Gbps"},
		{FormatRate(0.5), "4bps"},
		{FormatRate(0), "0bps"},
		{FormatRate(1e300 * netmap.Mbps), "1e+294Tbps"},
		{FormatRate(1e-300), "8e-300bps"},
		{FormatSize(65536), "64KiB"},
		{FormatSize(1e6), "1MB"},
		{FormatSize(1000), "1kB"},
		{FormatSize(14188), "14188B"},
		{FormatSize(0), "0B"},
		{FormatSize(math.MaxInt64), "9223372036854775807B"},
		{FormatPercent(0.001), "0.1%"},
		{FormatPercent(0.0193), "1.93%"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}

func TestFormatIsReadBack(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		size := rng.Int64() >> rng.IntN(63)
		if rng.IntN(2) == 0 {
			size = size >> 45 << 10 * (1 + rng.Int64N(3))
		}
		if got, err := ParseSize(FormatSize(size)); err != nil || got != size {
			t.Fatalf("seed %d: %d bytes, written %s, are read as %d, %v", seed, size, FormatSize(size), got, err)
		}
		rate := netmap.BytesPerSec(math.Exp(rng.Float64() * 27))
		if got, err := ParseRate(FormatRate(rate)); err != nil || math.Abs(float64(got-rate)) > 1e-11*float64(rate) {
			t.Fatalf("seed %d: %v B/s, written %s, are read as %v, %v", seed, float64(rate), FormatRate(rate), float64(got), err)
		}
		share := rng.Float64()
		if got, err := ParsePercent(FormatPercent(share)); err != nil || math.Abs(got-share) > 1e-11 {
			t.Fatalf("seed %d: %v, written %s, is read as %v, %v", seed, share, FormatPercent(share), got, err)
		}
		d := time.Duration(rng.Int64() >> rng.IntN(63))
		if got, err := ParseDuration(d.String()); err != nil || got != d {
			t.Fatalf("seed %d: %v is read as %v, %v", seed, d, got, err)
		}
	}
}
