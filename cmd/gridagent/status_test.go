package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// TestStatusOfMeasuring checks what status says of probing, of the pool tree and of warnings, with
// everything and with nothing to say.
func TestStatusOfMeasuring(t *testing.T) {
	show := func(s *apiv1.StatusResponse) string {
		var out bytes.Buffer
		s.Started = timestamppb.New(time.Unix(1e9, 0))
		if err := (&app{out: &out}).printStatus(s); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	full := show(&apiv1.StatusResponse{
		Prediction: &apiv1.PredictionCheck{PairsTested: 12, ErrorMedian: 0.031, ErrorP90: 0.2},
		PoolsEpoch: 3, MapBytesSent: 2048, MapBytesReceived: 4096,
		ProbeCost: &apiv1.ProbeCost{Share: 0.01, BytesPerHourCap: 256 << 20, BytesLastHour: 3 << 20, Links: []*apiv1.LinkCost{
			{FromSite: "UT", ToSite: "UK", CapacityMbps: 1.44, BytesLastHour: 6480000},
			{FromSite: "UT", ToSite: "", BytesLastHour: 1024},
			{FromSite: "UT", ToSite: "NTH", CapacityMbps: 1e4, BytesLastHour: 1024},
		}},
		Warnings: []string{"host c3 is labelled UK and measures like UT", "two\nlines\x1b[2J"},
	})
	for _, want := range []string{
		"\npool tree       epoch 3\n",
		"\nprobe budget    1% of each link, at most 256MiB an hour; 3MiB in the last hour\n",
		"\nlink UT → UK    6.18MiB in the last hour, 1% of 1.44 Mbit/s (budget 1%)\n",
		"\nlink UT → (none)  1KiB in the last hour, capacity not known\n",
		"\nlink UT → NTH    1KiB in the last hour, <0.001% of 10000 Mbit/s (budget 1%)\n",
		"\npredictions     off by 3.1% in the median, 20% for nine of ten, of 12 measured pairs that were predicted as a test\n",
		"\nmap traffic     sent 2KiB, received 4KiB\n",
		"\nwarning: host c3 is labelled UK and measures like UT\nwarning: two lines [2J\n",
	} {
		// The longest name of a line decides where the second column begins.
		if !strings.Contains(strings.Join(strings.Fields(full), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, full)
		}
	}
	if strings.Count(full, "warning: ") != 2 || !strings.HasSuffix(full, "\n") {
		t.Errorf("want a line a warning:\n%s", full)
	}
	empty := show(&apiv1.StatusResponse{})
	if !strings.Contains(empty, "pool tree       none yet\n") || strings.Contains(empty, "warning") || strings.Contains(empty, "budget") || strings.Contains(empty, "link ") || strings.Contains(empty, "predictions") {
		t.Errorf("an agent that knows nothing yet:\n%s", empty)
	}
	if none := show(&apiv1.StatusResponse{ProbeCost: &apiv1.ProbeCost{Share: 0.02}}); !strings.Contains(none, "2% of each link, no cap; 0B in the last hour") {
		t.Errorf("no cap:\n%s", none)
	}
}
