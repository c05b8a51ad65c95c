package main

import (
	"fmt"
	"os"
	"testing"
)

func TestReadConsumption(t *testing.T) {
	const (
		stat   = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 31 12 0 0 20 0 9 0 5000 1 2\n"
		status = "Name:\ta ) b\nVmPeak:\t  9000 kB\nVmHWM:\t  3000 kB\nVmRSS:\t  2000 kB\nThreads:\t9\n"
	)
	c, err := readConsumption(stat, status)
	if want := (consumption{ticks: 43, peak: 3000 << 10, resident: 2000 << 10}); err != nil || c != want {
		t.Errorf("%+v, %v; want %+v", c, err, want)
	}
	for _, bad := range [][2]string{{"", status}, {"7 (a) S 1 2 3", status}, {"7 (a) S 1 7 7 0 -1 4194560 100 0 0 0 x 12 0", status}, {stat, "VmRSS: many\n"}} {
		if c, err := readConsumption(bad[0], bad[1]); err == nil {
			t.Errorf("%q is taken as %+v", bad, c)
		}
	}
	if c, err := consumptionOf(fmt.Sprintf("/proc/%d", os.Getpid())); err != nil || c.resident == 0 || c.peak < c.resident {
		t.Errorf("this process: %+v, %v", c, err)
	}
}

func TestUsage(t *testing.T) {
	before := []consumption{{ticks: 100, peak: 9000}, {ticks: 0}}
	after := []consumption{{ticks: 160, peak: 5000, resident: 4000}, {ticks: 90, peak: 6000, resident: 3000}}
	if u := usage(before, after, 3); *u != (Usage{CPU: 0.5, Peak: 6000, After: 4000}) {
		t.Errorf("%+v", *u)
	}
}
