package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
)

// fakePlanner answers the planner's part of the local API.
type fakePlanner struct {
	apiv1connect.UnimplementedPlannerServiceHandler
	asked *apiv1.TuneRequest
	fail  error // after the first row
}

func (f *fakePlanner) PlanCache(context.Context, *connect.Request[apiv1.PlanCacheRequest]) (*connect.Response[apiv1.PlanCacheResponse], error) {
	past := timestamppb.New(time.Now().Add(-90 * time.Second))
	return connect.NewResponse(&apiv1.PlanCacheResponse{
		Plans: []*apiv1.KeptPlan{{
			Collective: "allgather", Algorithm: "packed", Hosts: 20, Sites: "NTH+UK+UT", BlockBytes: 64 << 10, BoundSeconds: 2.5, PredictedSeconds: 2.7,
			Reason: "expected 2.7 s; 1 of 15 forecast", Made: past, Used: past, Hits: 3, MemoryBytes: 20_000, PartBytes: 12_000,
			Candidates: []*apiv1.PlanCandidate{{Algorithm: "packed", PredictedSeconds: 2.7, Factor: 1}, {Algorithm: "ring", Why: "its bytes alone take 8.6 s"}},
		}, {
			Collective: "allgather", Algorithm: "min3", Hosts: 20, Sites: "NTH+UK+UT", BlockBytes: 64 << 10, BoundSeconds: 2.5, PredictedSeconds: 2.9,
			Reason: "trial", Made: past, Used: past, MemoryBytes: 10_000, PartBytes: 6_000, Aside: true,
		}},
		Bytes: 30_000, Hits: 3, Misses: 2, Dropped: []*apiv1.DropCount{{Kind: "map", Count: 1}},
		Drops: []*apiv1.PlanDrop{{Time: past, Collective: "alltoall", Algorithm: "wan", Hosts: 20, BlockBytes: 1024, Kind: "map", Why: "a→b: from 10 Mbit/s to 5 Mbit/s a flow"}},
		Corrections: []*apiv1.Correction{{Collective: "allgather", Sites: "NTH+UK+UT", HostsFrom: 16, HostsTo: 31, BytesFrom: 64 << 10, BytesTo: 256<<10 - 1,
			Algorithm: "packed", Factor: 1.2, Median: 1.25, Samples: 7, Last: past}},
	}), nil
}

func (f *fakePlanner) Tune(_ context.Context, r *connect.Request[apiv1.TuneRequest], s *connect.ServerStream[apiv1.TuneEvent]) error {
	f.asked = r.Msg
	for i, row := range []*apiv1.TuneRow{
		{Collective: "allgather", Bytes: 1024, Algorithm: "ring", PredictedSeconds: 0.5, MeasuredSeconds: 0.75, Seconds: []float64{0.75}, BoundSeconds: 0.25, Winner: true},
		{Collective: "allgather", Bytes: 1024, Algorithm: "bruck", PredictedSeconds: 0.25, MeasuredSeconds: 1, Seconds: []float64{1}, BoundSeconds: 0.25},
	} {
		if err := s.Send(&apiv1.TuneEvent{Event: &apiv1.TuneEvent_Row{Row: row}}); err != nil {
			return err
		}
		if i == 0 && f.fail != nil {
			return f.fail
		}
	}
	return s.Send(&apiv1.TuneEvent{Event: &apiv1.TuneEvent_Done{Done: &apiv1.TuneDone{Hosts: 3, Saved: "/x/experience.json"}}})
}

func (f *fakePlanner) serve(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	_, handler := apiv1connect.NewPlannerServiceHandler(f)
	srv := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return socket
}

func TestPlanCache(t *testing.T) {
	f := new(fakePlanner)
	socket := f.serve(t)
	status, out, errs := gridagent(t, "plan", "cache", "--socket", socket)
	for _, want := range []string{"2 plans, of which 1 wait aside, in 29.3KiB; 3 operations run by a kept plan, 2 planned anew", "1m30s ago", "min3 (aside)", "dropped (1 map):", "from 10 Mbit/s to 5", "learnt:", "16-31", "64KiB up"} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("status %d, %s: no %q in\n%s", status, errs, want, out)
		}
	}
	if strings.Contains(out, "its bytes alone") {
		t.Errorf("explained unasked:\n%s", out)
	}
	if _, out, _ := gridagent(t, "plan", "cache", "--socket", socket, "--explain"); !strings.Contains(out, "its bytes alone take 8.6 s") {
		t.Errorf("not explained:\n%s", out)
	}
	if status, out, _ := gridagent(t, "plan", "cache", "--socket", socket, "-o", "json"); status != 0 || !strings.Contains(out, `"misses": 2`) || !strings.Contains(out, `"factor": 1.2`) {
		t.Errorf("status %d:\n%s", status, out)
	}
}

func TestTune(t *testing.T) {
	f := new(fakePlanner)
	socket := f.serve(t)
	status, out, errs := gridagent(t, "tune", "--socket", socket, "--sizes", "1KiB..4KiB", "--collectives", "allgather", "--hosts", "a,b", "--iterations", "1")
	if status != 0 || !strings.Contains(out, "1.50") || !strings.Contains(out, "*") || !strings.Contains(out, "over 3 hosts; kept in /x/experience.json") {
		t.Errorf("status %d, %s:\n%s", status, errs, out)
	}
	if len(f.asked.Sizes) != 3 || f.asked.Sizes[2] != 4096 || len(f.asked.Hosts) != 2 || f.asked.Iterations != 1 || len(f.asked.Collectives) != 1 {
		t.Errorf("asked for %v", f.asked)
	}
	f.fail = connect.NewError(connect.CodeAborted, errors.New("host b is lost"))
	status, out, errs = gridagent(t, "tune", "--socket", socket, "-o", "json")
	if status == 0 || !strings.Contains(errs, "host b is lost") || !strings.Contains(out, `"complete": false`) || !strings.Contains(out, `"algorithm": "ring"`) {
		t.Errorf("status %d, %s:\n%s", status, errs, out)
	}
	if status, _, errs := gridagent(t, "tune", "--iterations", "0"); status != exitUsage || !strings.Contains(errs, "--iterations 0") {
		t.Errorf("status %d, %s", status, errs)
	}
}
