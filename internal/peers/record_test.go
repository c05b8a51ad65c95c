package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/internal/processors"
)

func TestMeasured(t *testing.T) {
	r := Record{Iterations: 2, Warmup: 1, Bound: 0.5}
	before := reading{bytes: map[string]uint64{"A→B": 1000, "B→A": 0}, missed: 2, cpu: processors.Times{Idle: 100, All: 1000}}
	after := reading{bytes: map[string]uint64{"A→B": 4000, "B→A": 300}, missed: 5, cpu: processors.Times{Idle: 150, All: 1200}}
	r = r.measured([]float64{1, 3}, before, after)
	if r.Mean != 2 || r.Min != 1 || r.Max != 3 || r.Ratio != 4 || r.Missed != 3 || r.Busy != 0.75 {
		t.Errorf("%+v", r)
	}
	if r.WAN["A→B"] != 1000 || r.WAN["B→A"] != 100 || r.crossed() != 1100 {
		t.Errorf("bytes of an operation: %v", r.WAN)
	}
}

// TestRecordKeys: internal/papers and others read these names.
func TestRecordKeys(t *testing.T) {
	var out bytes.Buffer
	p := &printer{out: &out, json: true}
	r := Record{Source: "lab", Tool: toolMPICH, Iterations: 1}.measured([]float64{1}, reading{}, reading{})
	if err := errors.Join(p.record(r), p.link(LinkCheck{Tool: toolIperf})); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(&out)
	for _, keys := range []string{
		"source tool collective algorithm grid hosts size_bytes iterations warmup mean_s min_s max_s seconds bound_s ratio verified cpu_busy",
		"source tool grid link from to declared_mbps payload_mbps capacity_mbps goodput_mbps resent",
	} {
		var m map[string]any
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
		for key := range strings.FieldsSeq(keys) {
			if _, ok := m[key]; !ok {
				t.Errorf("no %s in %v", key, m)
			}
		}
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	p := &printer{out: &out}
	good := Record{Tool: toolMPICH, Collective: "allgather", Algorithm: "ring", Size: 65536, Iterations: 1, Bound: 1, Verified: true}
	good = good.measured([]float64{1.5}, reading{}, reading{})
	wrong := good
	wrong.Verified = false
	for _, r := range []Record{good, wrong, good.failed(errors.New("time limit of 3m0s\nand more"))} {
		if err := p.record(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.link(LinkCheck{Link: "A→B", Declared: 2, Payload: 2 * payloadShare, Goodput: payloadShare}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"64KiB     1.500     1.500     1.500     1.50", "right", "WRONG", "time limit of 3m0s\n", " 50.0 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "x bound"); n != 1 {
		t.Errorf("%d headings\n%s", n, text)
	}
}

func TestReadIperf(t *testing.T) {
	version, mbps, resent, err := readIperf(`{"start":{"version":"iperf 3.12"},"end":{"sum_sent":{"bits_per_second":9e6,"retransmits":4},"sum_received":{"bits_per_second":1.93e6}}}`, nil)
	if version != "3.12" || mbps != 1.93 || resent != 4 || err != nil {
		t.Errorf("%s, %v, %d, %v", version, mbps, resent, err)
	}
	broken := errors.New("status 1")
	for text, want := range map[string]string{
		`{"error":"unable to connect to server: Connection refused"}`: "Connection refused",
		"":   "status 1",
		"{}": "status 1",
	} {
		if _, _, _, err := readIperf(text, broken); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
