package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
)

// fakeAgent answers the local API with what a test has put into it.
type fakeAgent struct {
	apiv1connect.UnimplementedAgentServiceHandler
	members func(call int64) []*apiv1.Member
	calls   atomic.Int64
	leave   error
	status  func() // called when the status is asked for
	leaving func() // called before the answer to leave
	stop    func() // ends the server
	join    error
	settled int64 // call of Map or Pools from which on the map is complete
	seen    int64 // call of Map from which on all links have been looked at
}

func (f *fakeAgent) Join(context.Context, *connect.Request[apiv1.JoinRequest], *connect.ServerStream[apiv1.GroupEvent]) error {
	return f.join
}

func (f *fakeAgent) Members(context.Context, *connect.Request[apiv1.MembersRequest]) (*connect.Response[apiv1.MembersResponse], error) {
	return connect.NewResponse(&apiv1.MembersResponse{Members: f.members(f.calls.Add(1))}), nil
}

func (f *fakeAgent) Status(context.Context, *connect.Request[apiv1.StatusRequest]) (*connect.Response[apiv1.StatusResponse], error) {
	if f.status != nil {
		f.status()
	}
	return connect.NewResponse(&apiv1.StatusResponse{
		Version: "v1", Cluster: "grid", Host: "a", Site: "X", Address: "192.0.2.1:7946", Authority: true,
		Started: timestamppb.New(time.Unix(1e9, 0)), MembersAlive: 3, MapEpoch: 7, PairsMeasured: 5, PairsPredicted: 1, PairsTotal: 6,
		ProbeBytes: 3 << 20, Groups: []*apiv1.GroupStatus{{Job: "j", Ranks: 4, LocalRanks: []uint32{0, 2}, State: "running"}}, RefusedGossip: 9,
	}), nil
}

func (f *fakeAgent) Map(_ context.Context, r *connect.Request[apiv1.MapRequest]) (*connect.Response[apiv1.MapResponse], error) {
	matrix := `{"hosts":[{"name":"a"},{"name":"b"}],"bandwidth_mbps":[[0,1.5],[null,0]],"latency_s":[[0,0.05],[0.05,0]],"epoch":7}`
	n := f.calls.Add(1)
	if r.Msg.GetPredict() || f.settled > 0 && n >= f.settled {
		matrix = strings.Replace(matrix, "null", "2", 1)
	}
	m := &apiv1.MapResponse{MatrixJson: []byte(matrix), Epoch: 7, PairsMeasured: 1, PairsTotal: 2}
	if n < f.seen {
		m.LinksUnseen = 2
	}
	return connect.NewResponse(m), nil
}

func (f *fakeAgent) Pools(context.Context, *connect.Request[apiv1.PoolsRequest]) (*connect.Response[apiv1.PoolsResponse], error) {
	if f.settled == 0 {
		return nil, connect.NewError(connect.CodeUnimplemented, errors.New("pools"))
	}
	if f.calls.Add(1) < f.settled {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("no pool tree yet: the map lacks 1 of 2 host pairs"))
	}
	return connect.NewResponse(&apiv1.PoolsResponse{TreeJson: []byte("{}"), Rendered: "the tree", Epoch: 7}), nil
}

func (f *fakeAgent) Leave(context.Context, *connect.Request[apiv1.LeaveRequest]) (*connect.Response[apiv1.LeaveResponse], error) {
	if f.leaving != nil {
		f.leaving()
	}
	return connect.NewResponse(&apiv1.LeaveResponse{}), f.leave
}

func (f *fakeAgent) TokenList(context.Context, *connect.Request[apiv1.TokenListRequest]) (*connect.Response[apiv1.TokenListResponse], error) {
	past, future := timestamppb.New(time.Unix(1e9, 0)), timestamppb.New(time.Now().Add(time.Hour))
	return connect.NewResponse(&apiv1.TokenListResponse{Tokens: []*apiv1.Token{
		{Id: "k1", Created: past, Expires: future, Unlimited: true}, {Id: "k2", Created: past, Expires: past, UsesLeft: 1},
		{Id: "k3", Created: past, Expires: future}, {Id: "k4", Created: past, Expires: past, Revoked: true},
	}}), nil
}

// serve runs f on a Unix socket and returns its path.
func (f *fakeAgent) serve(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	_, handler := apiv1connect.NewAgentServiceHandler(f)
	srv := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	f.stop = func() { srv.Close(); <-done }
	t.Cleanup(f.stop)
	return socket
}

// gridagent runs one command and returns its status and what it printed.
func gridagent(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &o, err: &e}
	status = a.run(t.Context(), args)
	return status, o.String(), e.String()
}

func alive(names ...string) []*apiv1.Member {
	var ms []*apiv1.Member
	for i, n := range names {
		ms = append(ms, &apiv1.Member{Name: n, Site: "X", Address: "192.0.2.1:1", State: "alive", Self: i == 0, RttSeconds: 0.05 * float64(i)})
	}
	return ms
}

func TestMembersWait(t *testing.T) {
	f := &fakeAgent{members: func(call int64) []*apiv1.Member {
		ms := alive("a", "b", "c")
		if call < 3 {
			ms[2].State = "suspect" // counts only once it is alive
		}
		return ms
	}}
	status, out, errs := gridagent(t, "members", "--socket", f.serve(t), "--wait", "3", "--timeout", "20s")
	if status != exitOK || errs != "" {
		t.Fatalf("status %d, %q", status, errs)
	}
	if n := f.calls.Load(); n != 3 {
		t.Errorf("asked %d times, want 3: as long as one is suspect", n)
	}
	want := "NAME  SITE  ADDRESS      STATE  RTT    NOTE\n" +
		"a     X     192.0.2.1:1  alive  -      this host\n" +
		"b     X     192.0.2.1:1  alive  50ms   -\n" +
		"c     X     192.0.2.1:1  alive  100ms  -\n"
	if out != want {
		t.Errorf("printed\n%s\nwant\n%s", out, want)
	}
}

func TestMembersTimeout(t *testing.T) {
	f := &fakeAgent{members: func(int64) []*apiv1.Member { return alive("a", "b") }}
	status, out, errs := gridagent(t, "members", "--socket", f.serve(t), "--wait", "3", "--timeout", "150ms")
	if status != exitFailure || errs != "gridagent: 2 of 3 hosts alive after 150ms\n" {
		t.Errorf("status %d, %q", status, errs)
	}
	if !strings.Contains(out, "\nb ") {
		t.Errorf("those who are there are not shown: %q", out)
	}
}

// TestMembersWaitForAgent checks that --wait also waits for the agent itself.
func TestMembersWaitForAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none")
	begin := time.Now()
	status, _, errs := gridagent(t, "members", "--socket", socket, "--wait", "1", "--timeout", "250ms")
	if status != exitUnreachable || time.Since(begin) < 250*time.Millisecond {
		t.Errorf("status %d after %v (%s), want %d after 250ms", status, time.Since(begin), errs, exitUnreachable)
	}
}

func TestAgentCommands(t *testing.T) {
	f := &fakeAgent{members: func(int64) []*apiv1.Member { return alive("a") }}
	socket := f.serve(t)
	tests := []struct {
		args string
		want []string // lines or parts of them
	}{
		{"status", []string{"host            a (site X, holds the authority)", "epoch 7: 5 of 6 pairs measured, 1 predicted", "probed          3MiB", "0 connections, 9 gossip packets", "group j         running, ranks 0 2 of 4 here"}},
		{"status -o json", []string{`"members_alive": 3`, `"probe_bytes": 3145728`, `"local_ranks": [`}},
		{"members -o json", []string{`"name": "a"`, `"rtt_seconds": 0`}},
		{"map", []string{"epoch 7: 1 of 2 pairs measured", "1.5 / 50ms", "? / 50ms"}},
		{"map --predict", []string{"2 / 50ms"}},
		{"map -o json", []string{`"bandwidth_mbps":[[0,1.5],[null,0]]`}},
		{"token list", []string{"k1", "any", "valid", "expired", "used up", "revoked"}},
	}
	for _, tt := range tests {
		status, out, errs := gridagent(t, append(strings.Fields(tt.args), "--socket", socket)...)
		if status != exitOK || errs != "" {
			t.Errorf("%s: status %d, %q", tt.args, status, errs)
		}
		for _, w := range tt.want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: no %q in\n%s", tt.args, w, out)
			}
		}
	}
}

// TestWaitForTheMap checks that map and pools can wait for a map of all pairs, and what they
// say when it does not come.
func TestWaitForTheMap(t *testing.T) {
	never := int64(1 << 40)
	tests := []struct {
		args        string
		settled     int64 // the agent's map is complete from this call on
		status      int
		calls       int64 // at least
		out, errs   string
		exactlyOnce bool
		seen        int64 // and no link unseen
	}{
		{"pools", never, exitFailure, 1, "", "gridagent: no pool tree yet: the map lacks 1 of 2 host pairs, or give --wait 1m\n", true, 0},
		{"pools --wait 20s", 3, exitOK, 3, "map epoch 7\nthe tree\n", "", false, 0},
		{"pools --wait 150ms", never, exitFailure, 1, "", "gridagent: after 150ms: no pool tree yet: the map lacks 1 of 2 host pairs\n", false, 0},
		{"map", never, exitOK, 1, "? / 50ms", "", true, 0},
		{"map --wait 20s", 3, exitOK, 3, "2 / 50ms", "", false, 0},
		{"map --wait 20s --predict", never, exitOK, 1, "2 / 50ms", "", true, 0},
		{"map --wait 150ms", never, exitFailure, 1, "? / 50ms", "gridagent: the map is not complete after 150ms: 1 of 2 pairs\n", false, 0},
		{"map --wait 20s", 2, exitOK, 4, "2 / 50ms", "", false, 4},
		{"map --wait 150ms", 1, exitOK, 1, "2 / 50ms", "", false, never}, // all pairs are there
		{"map", 1, exitOK, 1, "2 / 50ms", "", true, never},
	}
	for _, tt := range tests {
		f := &fakeAgent{settled: tt.settled, seen: tt.seen}
		status, out, errs := gridagent(t, append(strings.Fields(tt.args), "--socket", f.serve(t))...)
		if status != tt.status || errs != tt.errs || !strings.Contains(out, tt.out) || tt.out == "" && out != "" {
			t.Errorf("%s: status %d, %q, %q; want %d, %q, %q", tt.args, status, out, errs, tt.status, tt.out, tt.errs)
		}
		if n := f.calls.Load(); n < tt.calls || tt.exactlyOnce && n > 1 {
			t.Errorf("%s: asked %d times, want %d", tt.args, n, tt.calls)
		}
	}
}

// TestAgentErrors checks what becomes of the API's errors.
func TestAgentErrors(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status int
		want   string
	}{
		{"an error of the agent", connect.NewError(connect.CodeFailedPrecondition, errors.New("not the authority")), exitFailure, "gridagent: not the authority\n"},
		{"an agent that is busy is not an absent one", connect.NewError(connect.CodeUnavailable, errors.New("shutting down")), exitFailure, "gridagent: shutting down\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, out, errs := gridagent(t, "leave", "--socket", (&fakeAgent{leave: tt.err}).serve(t))
			if status != tt.status || errs != tt.want || out != "" {
				t.Errorf("status %d, %q, %q; want %d, %q", status, out, errs, tt.status, tt.want)
			}
		})
	}
	status, _, errs := gridagent(t, "pools", "--socket", (&fakeAgent{}).serve(t))
	if status != exitFailure || !strings.Contains(errs, "another version") {
		t.Errorf("a call that the agent lacks: status %d, %q", status, errs)
	}
}

// TestLeave checks that leave returns when the agent has ended, and says so if it does not.
func TestLeave(t *testing.T) {
	t.Run("stays", func(t *testing.T) {
		socket := (&fakeAgent{}).serve(t)
		// A busy host may not answer in time, which is said in other words: it is given more.
		for timeout := 250 * time.Millisecond; ; timeout *= 2 {
			status, out, errs := gridagent(t, "leave", "--socket", socket, "--timeout", timeout.String())
			if status == exitUnreachable && strings.Contains(errs, "has not answered") && timeout < 10*time.Second {
				continue
			}
			if status != exitFailure || !strings.Contains(errs, "still runs after "+timeout.String()) || out != "" {
				t.Errorf("status %d, %q, %q", status, out, errs)
			}
			return
		}
	})
	t.Run("ends", func(t *testing.T) {
		var asked atomic.Int64
		f := &fakeAgent{}
		f.status = func() {
			if asked.Add(1) == 2 {
				go f.stop()
			}
		}
		status, out, errs := gridagent(t, "leave", "--socket", f.serve(t))
		if status != exitOK || out != "left the cluster\n" {
			t.Errorf("status %d, %q, %q", status, out, errs)
		}
		if n := asked.Load(); n < 2 {
			t.Errorf("the agent still ran and was asked %d times", n)
		}
	})
}

// TestLeaveHasItsOwnTime: --timeout counts also where it is longer than other answers may take.
func TestLeaveHasItsOwnTime(t *testing.T) {
	defer func(was time.Duration) { answerTime = was }(answerTime)
	answerTime = 50 * time.Millisecond
	var asked atomic.Int64
	f := &fakeAgent{leaving: func() { time.Sleep(4 * answerTime) }}
	f.status = func() {
		if asked.Add(1) == 2 {
			go f.stop()
		}
	}
	status, out, errs := gridagent(t, "leave", "--socket", f.serve(t), "--timeout", "20s")
	if status != exitOK || out != "left the cluster\n" {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}

// TestAllgatherFailure checks that a group's end becomes its own status, with the agent's words.
func TestAllgatherFailure(t *testing.T) {
	failed := connect.NewError(connect.CodeAborted, errors.New("rank 2 on host b is lost: gone"))
	detail, err := connect.NewErrorDetail(&apiv1.Failure{Kind: "rank_lost", Rank: 2, Host: "b", Cause: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	failed.AddDetail(detail)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, text, errs := gridagent(t, "allgather", "--socket", (&fakeAgent{join: failed}).serve(t), "--job", "j", "--rank", "0", "--ranks", "3", "--in", in, "--out", out)
	if status != exitGroup || errs != "gridagent: rank 2 on host b is lost: gone\n" || text != "" {
		t.Errorf("status %d, %q, %q", status, text, errs)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("files left: %v, %v", left, err)
	}
	status, _, errs = gridagent(t, "allgather", "--socket", filepath.Join(dir, "none"), "--job", "j", "--rank", "0", "--ranks", "3", "--in", in, "--out", out)
	if status != exitUnreachable {
		t.Errorf("without an agent: status %d, %q", status, errs)
	}
	for _, ranks := range [][2]string{{"3", "3"}, {"-1", "3"}, {"0", "0"}} {
		status, _, errs = gridagent(t, "allgather", "--job", "j", "--rank", ranks[0], "--ranks", ranks[1], "--in", in, "--out", out)
		if status != exitUsage || !strings.Contains(errs, "0 ≤ rank < ranks") {
			t.Errorf("rank %s of %s: status %d, %q", ranks[0], ranks[1], status, errs)
		}
	}
}

// TestInterrupted checks that a call that waits ends at once with the status of Ctrl-C.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakeAgent{members: func(call int64) []*apiv1.Member {
		if call == 2 {
			cancel()
		}
		return nil
	}}
	var errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &errs}
	if status := a.run(ctx, []string{"members", "--socket", f.serve(t), "--wait", "1"}); status != exitInterrupted {
		t.Errorf("status %d, want %d", status, exitInterrupted)
	}
	if errs.String() != "gridagent: interrupted\n" {
		t.Errorf("printed %q", errs.String())
	}
}
