package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
)

// A poolsAgent answers Pools and WatchPools. After its events a watch stays open, or ends.
type poolsAgent struct {
	apiv1connect.UnimplementedAgentServiceHandler
	criteria []string // that were asked for
	events   []*apiv1.PoolsEvent
	open     bool
	end      error
}

func poolsReply(criterion string) *apiv1.PoolsResponse {
	r := &apiv1.PoolsResponse{TreeJson: []byte(`{"root":{}}`), Rendered: "the tree\n", Epoch: 7}
	if criterion == "" {
		r.PoolsEpoch, r.Reason, r.Since = 3, "host c3 joined: A | B", timestamppb.New(time.Now().Add(-65*time.Second))
		r.Warnings = []string{"host c3 is labelled A but measures like a host of C"}
	}
	return r
}

func (f *poolsAgent) Pools(_ context.Context, r *connect.Request[apiv1.PoolsRequest]) (*connect.Response[apiv1.PoolsResponse], error) {
	f.criteria = append(f.criteria, r.Msg.GetCriterion())
	return connect.NewResponse(poolsReply(r.Msg.GetCriterion())), nil
}

func (f *poolsAgent) WatchPools(ctx context.Context, _ *connect.Request[apiv1.WatchPoolsRequest], stream *connect.ServerStream[apiv1.PoolsEvent]) error {
	for _, e := range f.events {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	if f.open {
		<-ctx.Done()
	}
	return f.end
}

func (f *poolsAgent) serve(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(apiv1connect.NewAgentServiceHandler(f))
	srv := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return socket
}

// A tripwire acts when it has passed a text on.
type tripwire struct {
	w    io.Writer
	text string
	act  func()
}

func (t *tripwire) Write(b []byte) (int, error) {
	n, err := t.w.Write(b)
	if bytes.Contains(b, []byte(t.text)) {
		t.act()
	}
	return n, err
}

func TestPoolsShowsTheAgentsTree(t *testing.T) {
	f := &poolsAgent{}
	socket := f.serve(t)
	status, out, errs := gridagent(t, "pools", "--socket", socket)
	lines := strings.Split(out, "\n")
	if status != exitOK || errs != "" || !strings.HasPrefix(out, "pool tree 3 since ") || !strings.Contains(lines[0], " (1m5s ago), map epoch 7") ||
		lines[1] != "because host c3 joined: A | B" || !strings.HasSuffix(out, "\nthe tree\n\nwarning: host c3 is labelled A but measures like a host of C\n") {
		t.Errorf("status %d, %q, printed\n%s", status, errs, out)
	}
	if _, out, _ = gridagent(t, "pools", "--socket", socket, "-o", "json"); out != "{\"root\":{}}\n" {
		t.Errorf("as JSON: %q", out)
	}
	if _, out, _ = gridagent(t, "pools", "--socket", socket, "--criterion", "average"); !strings.HasPrefix(out, "map epoch 7\nthe tree\n") {
		t.Errorf("by criterion: %q", out)
	}
	gridagent(t, "pools", "--socket", socket, "--criterion", "component")
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	for _, c := range []string{"component", "average"} { // the first is the default: no wish for another tree
		if err := os.WriteFile(settings, []byte("criterion: "+c+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		gridagent(t, "pools", "--socket", socket, "--config", settings)
	}
	if want := []string{"", "", "average", "component", "", "average"}; strings.Join(f.criteria, " ") != strings.Join(want, " ") {
		t.Errorf("asked for %q, want %q", f.criteria, want)
	}
	for _, flag := range []string{"--criterion=average", "--wait=1s"} {
		if status, _, errs := gridagent(t, "pools", "--watch", flag, "--socket", socket); status != exitUsage || !strings.Contains(errs, "--watch") {
			t.Errorf("--watch %s: status %d, %q", flag, status, errs)
		}
	}
}

// A watch prints each tree as it comes and ends with status 0 at Ctrl-C; with an error where the agent ends.
func TestPoolsWatch(t *testing.T) {
	at := timestamppb.New(time.Unix(1e9, 0))
	events := []*apiv1.PoolsEvent{
		{Epoch: 4, Time: at, Reason: "first", Rendered: "tree four\n", TreeJson: []byte(`{"root":{"hosts":["a"]}}`)},
		{Epoch: 4, Time: at, Reason: "first", Rendered: "tree four\n", TreeJson: []byte("{}"), Warnings: []string{"w"}},
		{Epoch: 6, Time: at, Reason: "A→C fell <…>", Rendered: "tree six\n", TreeJson: []byte("{}")},
	}
	watch := func(f *poolsAgent, args ...string) (int, string, string) {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		var out, errs bytes.Buffer
		f.open = true
		a := &app{in: strings.NewReader(""), out: &tripwire{&out, "A→C", interrupt}, err: &errs}
		status := a.run(ctx, append([]string{"pools", "--watch", "--socket", f.serve(t)}, args...))
		return status, out.String(), errs.String()
	}
	status, out, errs := watch(&poolsAgent{events: events})
	if status != exitOK || errs != "" || strings.Count(out, "tree four") != 1 || !strings.Contains(out, "  pool tree 4: first\ntree four\n\nwarning: w\n\n") ||
		!strings.Contains(out, "  pool tree 6: A→C fell <…>\ntree six\n") {
		t.Errorf("status %d, %q, printed\n%s", status, errs, out)
	}
	status, out, errs = watch(&poolsAgent{events: events}, "-o", "json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != exitOK || errs != "" || len(lines) != 3 || !strings.Contains(lines[0], `"warnings":[]`) {
		t.Fatalf("status %d, %q, printed\n%s", status, errs, out)
	}
	var last poolsLine
	if err := json.Unmarshal([]byte(lines[2]), &last); err != nil || last.Epoch != 6 || last.Reason != "A→C fell <…>" || !last.Time.Equal(at.AsTime()) {
		t.Errorf("last line %s: %v", lines[2], err)
	}
	for _, end := range []error{nil, connect.NewError(connect.CodeUnavailable, context.Canceled)} {
		status, _, errs := gridagent(t, "pools", "--watch", "--socket", (&poolsAgent{events: events, end: end}).serve(t))
		if status == exitOK || errs == "" {
			t.Errorf("an agent that ends with %v: status %d, %q", end, status, errs)
		}
	}
}
