package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/probe"
	"github.com/gridagent/gridagent/probe/logp"
	"github.com/gridagent/gridagent/probe/netmap"
)

// askerFunc is an asker for tests.
type askerFunc func(ctx context.Context, q probe.Question, progress func(probe.Progress) error) (probe.Answer, error)

func (f askerFunc) Ask(ctx context.Context, q probe.Question, progress func(probe.Progress) error) (probe.Answer, error) {
	return f(ctx, q, progress)
}

var probeHosts = map[string]string{"ut0": "alive", "ut1": "alive", "nth7": "failed", "uk3": "alive"}

func theHosts() map[string]string { return probeHosts }

func TestProbeOnRequest(t *testing.T) {
	var asked probe.Question
	by := askerFunc(func(_ context.Context, q probe.Question, progress func(probe.Progress) error) (probe.Answer, error) {
		asked = q
		if err := progress(probe.Progress{Step: "trains", Bytes: 5}); err != nil {
			return probe.Answer{}, err
		}
		return probe.Answer{
			RTT: 100 * time.Millisecond, Variation: time.Millisecond, Bandwidth: 2 * netmap.Mbps, Spread: 0.1, Capacity: 16 * netmap.Mbps, Lanes: 8,
			Curve: []probe.LaneRate{{Lanes: 1, Rate: 2 * netmap.Mbps}}, Loss: new(float64), Notes: []string{"a host was the limit"},
			LogP: []logp.Point{{Size: 1024, Send: time.Microsecond, Receive: 2 * time.Microsecond, Gap: time.Millisecond}}, Bytes: 7, Took: 3 * time.Second,
		}, nil
	})
	var events []*apiv1.ProbeEvent
	send := func(e *apiv1.ProbeEvent) error { events = append(events, e); return nil }
	if err := probeOnRequest(t.Context(), by, "ut0", theHosts, &apiv1.ProbeRequest{To: "uk3", Kind: "capacity", TimeoutSeconds: 1.5}, send); err != nil {
		t.Fatal(err)
	}
	if want := (probe.Question{From: "ut0", To: "uk3", Kind: "capacity", Timeout: 1500 * time.Millisecond}); asked != want {
		t.Errorf("asked %+v, want %+v", asked, want)
	}
	want := `from:"ut0" to:"uk3" kind:"capacity" rtt_seconds:0.1 rtt_variation_seconds:0.001 bandwidth_mbps:2 spread:0.1 capacity_mbps:16 lanes:8 ` +
		`curve:{lanes:1 mbps:2} loss:0 logp:{size_bytes:1024 send_overhead_seconds:1e-06 receive_overhead_seconds:2e-06 gap_seconds:0.001} bytes:7 seconds:3 notes:"a host was the limit"`
	if len(events) != 2 || events[0].GetProgress().GetStep() != "trains" || events[0].GetProgress().GetBytes() != 5 ||
		strings.Join(strings.Fields(events[1].GetResult().String()), " ") != want { // String puts in blanks as it likes
		t.Errorf("events %v", events)
	}
}

// TestProbeErrors checks the codes and what a person reads.
func TestProbeErrors(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx  context.Context
		req  *apiv1.ProbeRequest
		err  error // what the prober returns
		code connect.Code
		want string
	}{
		{t.Context(), &apiv1.ProbeRequest{To: "uk30"}, nil, connect.CodeNotFound, `no host "uk30" in this cluster: did you mean uk3?`},
		{t.Context(), &apiv1.ProbeRequest{From: "UT1", To: "uk3"}, nil, connect.CodeNotFound, `no host "UT1" in this cluster: did you mean ut1, ut0?`},
		{t.Context(), &apiv1.ProbeRequest{To: "zebra"}, nil, connect.CodeNotFound, `no host "zebra" in this cluster: gridagent members lists the 4 that there are`},
		{t.Context(), &apiv1.ProbeRequest{}, nil, connect.CodeNotFound, `no host "" in this cluster: gridagent members lists the 4 that there are`},
		{t.Context(), &apiv1.ProbeRequest{To: "nth7"}, nil, connect.CodeUnavailable, "host nth7 is failed: it must be alive to be measured; see gridagent members"},
		{t.Context(), &apiv1.ProbeRequest{To: "ut0"}, nil, connect.CodeInvalidArgument, `probe of "ut0" and itself: name two hosts`},
		{t.Context(), &apiv1.ProbeRequest{To: "uk3", Kind: "x"}, nil, connect.CodeInvalidArgument, `probe of kind "x": want rtt, bandwidth, capacity, logp`},
		{t.Context(), &apiv1.ProbeRequest{To: "uk3", TimeoutSeconds: 1e9}, nil, connect.CodeInvalidArgument, "want at most 10m0s"},
		{t.Context(), &apiv1.ProbeRequest{To: "uk3", TimeoutSeconds: -1}, nil, connect.CodeInvalidArgument, "-1 seconds"},
		{t.Context(), &apiv1.ProbeRequest{To: "uk3"}, fmt.Errorf("probe: %w", &probe.BusyError{Retry: 2500 * time.Millisecond, Why: "exchange"}), connect.CodeUnavailable,
			"ut0 → uk3 cannot be measured now (an exchange runs on one of them): try again in 3s or later"},
		{t.Context(), &apiv1.ProbeRequest{To: "uk3"}, &probe.LateError{Limit: 2 * time.Minute}, connect.CodeDeadlineExceeded, "probe of ut0 → uk3: no result within 2m0s: its turn has not come or the link is slow; give more with --timeout"},
		{t.Context(), &apiv1.ProbeRequest{From: "ut1", To: "uk3"}, &probe.RefusedError{Host: "ut1", Reason: "no host uk3 here"}, connect.CodeAborted, "host ut1: no host uk3 here"},
		{t.Context(), &apiv1.ProbeRequest{To: "uk3"}, errors.New("probe of ut0→uk3: trains: timeout"), connect.CodeUnavailable, "unavailable: probe of ut0→uk3: trains: timeout"},
		{ended, &apiv1.ProbeRequest{To: "uk3"}, context.Canceled, connect.CodeCanceled, "context canceled"},
	} {
		by := askerFunc(func(context.Context, probe.Question, func(probe.Progress) error) (probe.Answer, error) {
			if tt.err == nil {
				t.Errorf("%v: it was measured", tt.req)
			}
			return probe.Answer{}, tt.err
		})
		err := probeOnRequest(tt.ctx, by, "ut0", theHosts, tt.req, func(*apiv1.ProbeEvent) error { t.Errorf("%v: an event", tt.req); return nil })
		if connect.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %v with %q", tt.req, err, tt.code, tt.want)
		}
	}
}

// TestProbeOfALostHost: a question to a host that is killed ends when membership says so, long before its
// time is up; one to a host that lives is not cut short.
func TestProbeOfALostHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		states := func() map[string]string {
			hosts := map[string]string{"a": "alive", "b": "alive", "c": "alive"}
			if time.Since(begin) > 8*time.Second {
				hosts["b"] = "failed"
			}
			return hosts
		}
		by := askerFunc(func(ctx context.Context, q probe.Question, _ func(probe.Progress) error) (probe.Answer, error) {
			select {
			case <-ctx.Done():
				return probe.Answer{}, fmt.Errorf("ask host %s to measure: %w", q.From, context.Cause(ctx))
			case <-time.After(time.Minute):
				return probe.Answer{}, nil
			}
		})
		var results int
		ask := func(from string) error {
			return probeOnRequest(t.Context(), by, "a", states, &apiv1.ProbeRequest{From: from, To: "c"}, func(e *apiv1.ProbeEvent) error {
				if e.GetResult() != nil {
					results++
				}
				return nil
			})
		}
		err := ask("b")
		if took := time.Since(begin); connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "host b is failed") || took > 10*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		begin = time.Now()
		if err := ask("a"); err != nil || results != 1 || time.Since(begin) != time.Minute {
			t.Errorf("a host that lives: %v, %d results after %v", err, results, time.Since(begin))
		}
	})
}

func TestNearNames(t *testing.T) {
	hosts := make(map[string]string)
	for i := range 12 {
		hosts[fmt.Sprintf("node%02d", i)] = "alive"
	}
	for name, want := range map[string][]string{
		"node3": {"node03"}, "node0": {"node00", "node01", "node02", "node03"}, "node11.example.org": {"node11"}, "11": {"node11"}, "master": nil, "": nil, strings.Repeat("n", 1000): nil,
	} {
		if got := nearNames(name, hosts); !slices.Equal(got, want) {
			t.Errorf("near %.20q: %q, want %q", name, got, want)
		}
	}
}

// TestProbeBetweenAgents asks one agent for the way from the other one to itself, over its local API.
func TestProbeBetweenAgents(t *testing.T) {
	first := newCluster(t, "a")
	a := startHost(t, first, nil)
	b := startHost(t, admit(t, first, "b"), nil, a)
	waitMembers(t, a, b)
	api := a.client(t).API()
	ask := func(r *apiv1.ProbeRequest) (*apiv1.ProbeResult, error) {
		stream, err := api.Probe(t.Context(), connect.NewRequest(r))
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		var result *apiv1.ProbeResult
		for stream.Receive() {
			result = stream.Msg().GetResult() // the last event's
		}
		return result, stream.Err()
	}
	for from, to := range map[string]string{"": "b", "a": "b", "b": "a"} {
		r, err := ask(&apiv1.ProbeRequest{From: from, To: to, TimeoutSeconds: 30})
		if err != nil || r.GetFrom() != cmp.Or(from, "a") || r.GetTo() != to || r.GetKind() != "rtt" || !(r.GetRttSeconds() > 0) || r.GetBandwidthMbps() != 0 {
			t.Errorf("from %q: %v, %v", from, r, err)
		}
	}
	if _, err := ask(&apiv1.ProbeRequest{From: "b", To: "d"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a host that does not exist: %v", err)
	}
}
