package main

import (
	"math"
	"testing"
)

func TestFormat(t *testing.T) {
	for s, want := range map[float64]string{
		0: "0s", 1: "1s", 12.3456: "12.35s", 12345.6: "12346s", 0.0501: "50.1ms", 0.9999999: "1000ms", 6e-6: "6µs", 1.5e-7: "0.15µs", math.Inf(1): "-",
	} {
		if got := formatSeconds(s); got != want {
			t.Errorf("formatSeconds(%v) = %q, want %q", s, got, want)
		}
	}
	for n, want := range map[int64]string{
		0: "0B", 1023: "1023B", 1024: "1KiB", 65536: "64KiB", 1536 << 10: "1.5MiB", math.MaxInt64: "8192PiB",
	} {
		if got := formatBytes(n); got != want {
			t.Errorf("formatBytes(%d) = %q, want %q", n, got, want)
		}
	}
}
