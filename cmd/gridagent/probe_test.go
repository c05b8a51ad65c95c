package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
)

// probeAgent measures nothing and knows everything.
type probeAgent struct {
	apiv1connect.UnimplementedAgentServiceHandler
	asked   []*apiv1.ProbeRequest
	fail    map[string]error // by kind
	waiting chan struct{}    // not nil: measure until the caller goes; closed when that has happened
	begun   chan struct{}    // closed when the first event is out
}

func (p *probeAgent) Probe(ctx context.Context, r *connect.Request[apiv1.ProbeRequest], stream *connect.ServerStream[apiv1.ProbeEvent]) error {
	p.asked = append(p.asked, r.Msg)
	if err := stream.Send(&apiv1.ProbeEvent{Event: &apiv1.ProbeEvent_Progress{Progress: &apiv1.ProbeProgress{Step: "trains", Bytes: 9}}}); err != nil {
		return err
	}
	if p.waiting != nil {
		close(p.begun)
		<-ctx.Done()
		close(p.waiting)
		return ctx.Err()
	}
	if err := p.fail[r.Msg.GetKind()]; err != nil {
		return err
	}
	from := r.Msg.GetFrom()
	if from == "" {
		from = "here"
	}
	result := &apiv1.ProbeResult{From: from, To: r.Msg.GetTo(), Kind: r.Msg.GetKind(), Bytes: 1 << 20, Seconds: 1.5}
	switch r.Msg.GetKind() {
	case "rtt":
		result.RttSeconds, result.RttVariationSeconds, result.Bytes = 0.1, 0.0005, 0
	case "bandwidth":
		result.BandwidthMbps, result.Spread, result.RttSeconds = 1.25, 0.031, 0.1 // each kind begins with pings
	case "capacity":
		result.CapacityMbps, result.Lanes, result.Loss = 9.6, 8, proto.Float64(0)
		result.Notes = []string{"a host was\nthe limit"}
		result.Curve = []*apiv1.LaneRate{{Lanes: 1, Mbps: 1.25}, {Lanes: 8, Mbps: 9.6}}
	case "logp":
		result.Logp = []*apiv1.LogPPoint{{SizeBytes: 1, GapSeconds: 1e-5}, {SizeBytes: 1 << 20, SendOverheadSeconds: 0.001, ReceiveOverheadSeconds: 0.002, GapSeconds: 6.7}}
	}
	return stream.Send(&apiv1.ProbeEvent{Event: &apiv1.ProbeEvent_Result{Result: result}})
}

func TestProbe(t *testing.T) {
	f := &probeAgent{}
	socket := serveAgent(t, f)
	for _, tt := range []struct {
		args  string
		from  string
		kinds string
		out   string
	}{
		{"probe b", "", "rtt bandwidth", "here → b\nround trip  100ms ± 500µs\none flow    1.25 Mbit/s (spread 3.1%)\ncost        1MiB in 3s\n"},
		{"probe a b --rtt", "a", "rtt", "a → b\nround trip  100ms ± 500µs\ncost        0B in 1.5s\n"},
		{"probe a b --logp --capacity", "a", "capacity logp", "a → b\ncapacity  9.6 Mbit/s with 8 lanes\nloss      0% of the probe's own packets\ncost      2MiB in 3s\nnote      a host was the limit\n\n" +
			"LANES  MBIT/S  EACH\n1      1.25    1.25\n8      9.6     1.2\n\nSIZE  OS   OR   G\n1B    0s   0s   10µs\n1MiB  1ms  2ms  6.7s\n"},
	} {
		f.asked = nil
		status, out, errs := gridagent(t, append(strings.Fields(tt.args), "--socket", socket, "--timeout", "30s")...)
		if status != exitOK || errs != "" || out != tt.out {
			t.Errorf("%s: status %d\n%s%s\nwant\n%s", tt.args, status, out, errs, tt.out)
		}
		var kinds []string
		for _, r := range f.asked {
			kinds = append(kinds, r.GetKind())
			if r.GetFrom() != tt.from || r.GetTo() != "b" || !(r.GetTimeoutSeconds() > 0 && r.GetTimeoutSeconds() <= 30) {
				t.Errorf("%s: asked %v", tt.args, r)
			}
		}
		if got := strings.Join(kinds, " "); got != tt.kinds {
			t.Errorf("%s: asked for %s, want %s", tt.args, got, tt.kinds)
		}
	}
}

func TestProbeJSON(t *testing.T) {
	status, out, errs := gridagent(t, "probe", "b", "--rtt", "--capacity", "-o", "json", "--socket", serveAgent(t, &probeAgent{}))
	if status != exitOK || errs != "" {
		t.Fatalf("status %d, %q", status, errs)
	}
	var j probeJSON
	if err := decodeKnown([]byte(out), &j); err != nil {
		t.Fatal(err)
	}
	if j.From != "here" || j.To != "b" || strings.Join(j.Kinds, " ") != "rtt capacity" || j.RTT == nil || *j.RTT != 0.1 || j.Lanes == nil || *j.Lanes != 8 || j.Loss == nil || *j.Loss != 0 || len(j.Notes) != 1 || len(j.Curve) != 2 || j.Seconds != 3 {
		t.Errorf("%s", out)
	}
	if j.Bandwidth != nil || j.Spread != nil || j.LogP == nil || !strings.Contains(out, `"bandwidth_mbps": null`) {
		t.Errorf("what was not measured is not null, or a list is:\n%s", out)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 15 {
		t.Errorf("%d keys, want all 15: %v", len(all), err)
	}
}

// TestProbeFails: what was measured before is shown, and the error is the agent's.
func TestProbeFails(t *testing.T) {
	f := &probeAgent{fail: map[string]error{
		"bandwidth": connect.NewError(connect.CodeUnavailable, errors.New("here → b cannot be measured now (an exchange runs): try again in 3s or later")),
		"rtt":       connect.NewError(connect.CodeNotFound, errors.New(`no host "bb" in this cluster: did you mean b?`)),
	}}
	socket := serveAgent(t, f)
	status, out, errs := gridagent(t, "probe", "bb", "--socket", socket)
	if status != exitFailure || out != "" || errs != "gridagent: no host \"bb\" in this cluster: did you mean b?\n" || len(f.asked) != 1 {
		t.Errorf("status %d, %q, %q, asked %d times", status, out, errs, len(f.asked))
	}
	delete(f.fail, "rtt")
	status, out, errs = gridagent(t, "probe", "b", "--socket", socket)
	if status != exitFailure || !strings.Contains(out, "round trip  100ms") || errs != "gridagent: here → b cannot be measured now (an exchange runs): try again in 3s or later\n" {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	status, _, _ = gridagent(t, "probe", "b", "--socket", t.TempDir()+"/none")
	if status != exitUnreachable {
		t.Errorf("no agent: status %d, want %d", status, exitUnreachable)
	}
	for _, args := range [][]string{{"probe", ""}, {"probe", "", "b"}, {"probe", "a", ""}} {
		if status, _, errs := gridagent(t, args...); status != exitUsage || !strings.Contains(errs, "empty name") {
			t.Errorf("%q: status %d, %q; want %d", args, status, errs, exitUsage)
		}
	}
	for _, args := range []string{"probe", "probe a b c", "probe b --timeout 0s", "probe b --timeout 1h", "probe b b", "probe b --rtt=maybe"} {
		if status, out, errs := gridagent(t, strings.Fields(args)...); status != exitUsage || out != "" {
			t.Errorf("%s: status %d, %q, %q; want %d", args, status, out, errs, exitUsage)
		}
	}
}

// TestProbeIsInterrupted: Ctrl-C ends the call at the agent too, at once.
func TestProbeIsInterrupted(t *testing.T) {
	f := &probeAgent{waiting: make(chan struct{}), begun: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	socket := serveAgent(t, f)
	go func() { <-f.begun; cancel() }()
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs}
	begin := time.Now()
	status := a.run(ctx, []string{"probe", "b", "--socket", socket})
	if took := time.Since(begin); status != exitInterrupted || errs.String() != "gridagent: interrupted\n" || out.Len() > 0 || took > 5*time.Second {
		t.Errorf("status %d after %v, %q, %q", status, took, out.String(), errs.String())
	}
	select {
	case <-f.waiting:
	case <-time.After(10 * time.Second):
		t.Error("the agent still measures")
	}
}
