package main

import (
	"math"
	"testing"

	"gonum.org/v1/plot/plotter"
)

func TestText(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{digits(1234.5, 3), "1234"}, {digits(12.345, 3), "12.3"}, {digits(0.0012345, 2), "0.0012"}, {digits(0, 3), "0"}, {digits(-2.5, 1), "-2"},
		{duration(0), "0 s"}, {duration(12e-6), "12.0 µs"}, {duration(0.0123), "12.3 ms"}, {duration(0.9999), "1.00 s"}, {duration(83.21), "83.2 s"},
		{minutes(83.21), "83.2 s"}, {minutes(1499), "25 minutes"},
		{inBytes(1), "1 B"}, {inBytes(1024), "1 KiB"}, {inBytes(1492), "1492 B"}, {inBytes(3 << 20), "3 MiB"},
		{times(1.314), "×1.31"}, {percent(0.42), "42 %"}, {percent(0.042), "4.2 %"},
		{faster(1, 2), "2.0 times as fast as"}, {faster(2595, 3338), "29 % faster than"}, {faster(3, 2), "50 % slower than"}, {faster(5, 2), "2.5 times as slow as"}, {faster(1, 1.001), "as fast as"}, {faster(0, 1), "not comparable with"},
		{list(nil), ""}, {list([]string{"a"}), "a"}, {list([]string{"a", "b", "c"}), "a, b and c"},
		{inPackets(4 * packetPayload), "k=4"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

// A diagram of no point, of one, and of values that an axis cannot show.
func TestDrawLittle(t *testing.T) {
	for _, xy := range []plotter.XYs{nil, {{X: 1024, Y: 1}}, {{X: 0, Y: 0}, {X: -1, Y: math.NaN()}, {X: math.Inf(1), Y: 1}}, {{X: 3, Y: 5}, {X: 3, Y: 5}}} {
		for _, x := range []axis{{}, {log: true}, {sizes: true}, {counts: true}, {zero: true}} {
			p := panel{title: "t", x: x, y: x, series: []series{{name: "a", xy: xy}, {name: "b", xy: xy, bound: true}, {name: "c", xy: xy, step: true}}}
			if _, err := drawSVG([]panel{p, p, p}, 0); err != nil {
				t.Errorf("%v on %+v: %v", xy, x, err)
			}
		}
	}
	if _, err := drawSVG(nil, 0); err != nil {
		t.Errorf("no panel: %v", err)
	}
}

func TestLinearTicks(t *testing.T) {
	for _, hi := range []float64{0.003, 0.7, 1, 9.9, 25, 100, 516.7, 12345} {
		ticks := linearTicks(0, hi)
		if len(ticks) < 4 || len(ticks) > 11 || ticks[0].Value != 0 {
			t.Errorf("0 to %v: %v", hi, ticks)
		}
	}
}
