package main

import (
	"testing"

	"github.com/gridagent/gridagent/internal/lab"
)

// A declared rate is shown as its file has it, a measured one with five digits.
func TestLabQuantity(t *testing.T) {
	for _, tt := range []struct {
		mbps float64
		want string
	}{{81.86, "81.86Mbps"}, {1.16, "1.16Mbps"}, {289.33, "289.33Mbps"}, {84.26774574, "84.268Mbps"}, {0.5, "500kbps"}} {
		if got := quantity(lab.Measurement{Quantity: lab.QuantityRate}, tt.mbps*1e6/8); got != tt.want {
			t.Errorf("%v Mbit/s: %s, want %s", tt.mbps, got, tt.want)
		}
	}
}
