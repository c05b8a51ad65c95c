package client

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/gridagent/gridagent/agent/api/line"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fakeAgent is the agent as a client sees it: a group of one rank, whose allgather
// returns the input behind a prefix. Tests replace its steps.
type fakeAgent struct {
	apiv1connect.UnimplementedAgentServiceHandler
	dir   string
	hangs bool // where it is asked for a line

	over chan error // ends the group with an error

	mu        sync.Mutex // guards the fields below
	input     string     // path of the last Spool
	allgather func(ctx context.Context, in []byte) (*apiv1.AllgatherResponse, error)
	spool     func() error
	progress  int
	asked     *apiv1.AlltoallRequest // the last one
	turns     []*apiv1.Turn          // of allgathers, in the order of their arrival
	gate      chan struct{}          // if not nil, barriers wait for it
}

func (f *fakeAgent) Join(ctx context.Context, r *connect.Request[apiv1.JoinRequest], out *connect.ServerStream[apiv1.GroupEvent]) error {
	if r.Msg.Job == "refused" {
		return failure("mismatch", 1, "h", "ranks disagree: about everything")
	}
	if err := out.Send(&apiv1.GroupEvent{Event: &apiv1.GroupEvent_Waiting{Waiting: &apiv1.Waiting{RanksPresent: 1, Missing: "2,5"}}}); err != nil {
		return err
	}
	if r.Msg.Job == "empty" {
		return nil
	}
	hosts := slices.Repeat([]string{"h"}, int(r.Msg.Ranks))
	if err := out.Send(&apiv1.GroupEvent{Event: &apiv1.GroupEvent_Formed{Formed: &apiv1.Formed{Hosts: hosts}}}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-f.over:
		return err
	}
}

func (f *fakeAgent) Spool(_ context.Context, r *connect.Request[apiv1.SpoolRequest]) (*connect.Response[apiv1.SpoolResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spool != nil {
		if err := f.spool(); err != nil {
			return nil, err
		}
	}
	f.input = filepath.Join(f.dir, "input")
	if err := os.WriteFile(f.input, make([]byte, r.Msg.Bytes), 0o600); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.SpoolResponse{Path: f.input}), nil
}

func (f *fakeAgent) Allgather(ctx context.Context, r *connect.Request[apiv1.AllgatherRequest]) (*connect.Response[apiv1.AllgatherResponse], error) {
	f.mu.Lock()
	allgather := f.allgather
	f.turns = append(f.turns, r.Msg.Turn)
	f.mu.Unlock()
	in, err := given(r.Msg)
	if err != nil {
		return nil, err
	}
	if allgather == nil {
		allgather = f.prefixed
	}
	resp, err := allgather(ctx, in)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(resp), nil
}

// Alltoall returns the input backwards, as a block from each rank, and keeps the request.
func (f *fakeAgent) Alltoall(_ context.Context, r *connect.Request[apiv1.AlltoallRequest]) (*connect.Response[apiv1.AlltoallResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = r.Msg
	in, err := given(r.Msg)
	if err != nil {
		return nil, err
	}
	slices.Reverse(in)
	path := filepath.Join(f.dir, "result")
	err = os.WriteFile(path, in, 0o600)
	half := uint64(len(in) / 2)
	return connect.NewResponse(&apiv1.AlltoallResponse{Spool: path, Sizes: []uint64{half, uint64(len(in)) - half}, Report: &apiv1.Report{PlanGiven: true}}), err
}

// given is the input of a request.
func given(m interface {
	GetSpool() string
	GetData() []byte
}) ([]byte, error) {
	if m.GetSpool() == "" {
		return bytes.Clone(m.GetData()), nil
	}
	return os.ReadFile(m.GetSpool())
}

func (f *fakeAgent) Broadcast(_ context.Context, r *connect.Request[apiv1.BroadcastRequest]) (*connect.Response[apiv1.BroadcastResponse], error) {
	in, err := given(r.Msg)
	if err != nil {
		return nil, err
	}
	if r.Msg.Root != r.Msg.Rank {
		if len(in) > 0 {
			return nil, errors.New("not the root's")
		}
		in = []byte("from the root")
	}
	return connect.NewResponse(&apiv1.BroadcastResponse{Data: in, Size: uint64(len(in)), Report: &apiv1.Report{Algorithm: "fake"}}), nil
}

func (f *fakeAgent) Barrier(ctx context.Context, r *connect.Request[apiv1.BarrierRequest]) (*connect.Response[apiv1.BarrierResponse], error) {
	f.mu.Lock()
	gate := f.gate
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return connect.NewResponse(&apiv1.BarrierResponse{Report: &apiv1.Report{Seconds: 1}}), nil
}

func (f *fakeAgent) Cancel(context.Context, *connect.Request[apiv1.CancelRequest]) (*connect.Response[apiv1.CancelResponse], error) {
	f.over <- failure("cancelled", 0, "h", "rank 0 on host h gave up")
	return connect.NewResponse(&apiv1.CancelResponse{}), nil
}

// prefixed is the result of two ranks, the first of which contributed "first".
func (f *fakeAgent) prefixed(_ context.Context, in []byte) (*apiv1.AllgatherResponse, error) {
	path := filepath.Join(f.dir, "result")
	err := os.WriteFile(path, append([]byte("first"), in...), 0o600)
	return &apiv1.AllgatherResponse{Spool: path, Sizes: []uint64{5, uint64(len(in))}, Report: &apiv1.Report{Algorithm: "fake"}}, err
}

func (f *fakeAgent) Progress(context.Context, *connect.Request[apiv1.ProgressRequest]) (*connect.Response[apiv1.ProgressResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.progress++
	return connect.NewResponse(&apiv1.ProgressResponse{BytesDone: 1, BytesTotal: 2, State: "running"}), nil
}

// failure is the end of a group as the agent reports it.
func failure(kind string, rank int32, host, text string) error {
	err := connect.NewError(connect.CodeAborted, errors.New(text))
	d, detailErr := connect.NewErrorDetail(&apiv1.Failure{Kind: kind, Rank: rank, Host: host, Cause: text})
	if detailErr != nil {
		panic(detailErr)
	}
	err.AddDetail(d)
	return err
}

// newFake serves a fake agent on a Unix socket. kill ends it as kill -9 would.
func newFake(t *testing.T) (f *fakeAgent, c *Client, kill func()) {
	t.Helper()
	f = &fakeAgent{dir: t.TempDir(), over: make(chan error, 1)}
	path := filepath.Join(f.dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(apiv1connect.NewAgentServiceHandler(f))
	mux.HandleFunc("GET "+line.Path, func(w http.ResponseWriter, r *http.Request) {
		if f.hangs {
			<-r.Context().Done()
		}
		http.NotFound(w, r) // as an agent of before there were lines
	})
	srv := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	kill = func() { srv.Close(); <-done }
	c = New(path)
	t.Cleanup(func() { c.Close(); kill() })
	return f, c, kill
}

func join(t *testing.T, c *Client) *Rank {
	t.Helper()
	r, err := c.Join(t.Context(), "job", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestJoin(t *testing.T) {
	_, c, _ := newFake(t)
	present, missing := 0, ""
	r, err := c.Join(t.Context(), "job", 0, 1, JoinOptions{Waiting: func(n int, m string) { present, missing = n, m }})
	if err != nil || present != 1 || missing != "2,5" || len(r.Hosts()) != 1 || r.Hosts()[0] != "h" || r.Err() != nil {
		t.Fatalf("joined %v, %d present, %v", r, present, err)
	}
	r.Close()
	select {
	case <-r.Ended():
	default:
		t.Error("Close returned before the end")
	}
	r.Close() // as a deferred one after an explicit one

	_, err = c.Join(t.Context(), "refused", 0, 1)
	var ge *GroupError
	if !errors.As(err, &ge) || ge.Kind != "mismatch" || ge.Rank != 1 || ge.Host != "h" || ge.Error() != "ranks disagree: about everything" {
		t.Errorf("refused: %#v", err)
	}
	if _, err := c.Join(t.Context(), "empty", 0, 1); err == nil || !strings.Contains(err.Error(), "the agent ended the call") {
		t.Errorf("a stream that ends without a group: %v", err)
	}
	if _, err := New(filepath.Join(t.TempDir(), "none")).Join(t.Context(), "job", 0, 1); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("no agent: %v", err)
	}
}

func TestAllgather(t *testing.T) {
	f, c, _ := newFake(t)
	r := join(t, c)
	for _, block := range [][]byte{[]byte("second"), nil, bytes.Repeat([]byte("x"), 1<<20)} {
		res, err := r.Allgather(t.Context(), block, Options{})
		if err != nil || string(res.Data) != "first"+string(block) || len(res.Sizes) != 2 || res.Sizes[1] != int64(len(block)) || res.Report.GetAlgorithm() != "fake" {
			t.Fatalf("block of %d bytes: %+v, %v", len(block), res, err)
		}
		if err := errors.Join(res.Close(), res.Close()); err != nil || res.Data != nil {
			t.Errorf("close: %v", err)
		}
	}
	// A result that is shorter than it claims must not be mapped: touching it would kill us.
	f.allgather = func(ctx context.Context, in []byte) (*apiv1.AllgatherResponse, error) {
		resp, err := f.prefixed(ctx, in)
		resp.Sizes[0] += 1 << 20
		return resp, err
	}
	if res, err := r.Allgather(t.Context(), []byte("x"), Options{}); err == nil || !strings.Contains(err.Error(), filepath.Join(f.dir, "result")) {
		t.Errorf("short result: %v, %v", res, err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if _, err := r.AllgatherFile(t.Context(), write(t, filepath.Join(t.TempDir(), "in"), "x"), out, Options{}); err == nil || !strings.Contains(err.Error(), out) {
		t.Errorf("short result to a file: %v", err)
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a short result was published: %v", err)
	}
	// Nothing to map is a result as well.
	f.allgather = func(context.Context, []byte) (*apiv1.AllgatherResponse, error) {
		return &apiv1.AllgatherResponse{Spool: write(t, filepath.Join(f.dir, "empty"), ""), Sizes: []uint64{0, 0}}, nil
	}
	if res, err := r.Allgather(t.Context(), nil, Options{}); err != nil || len(res.Data) != 0 || len(res.Sizes) != 2 {
		t.Errorf("empty result: %v, %v", res, err)
	}
}

func TestAllgatherFile(t *testing.T) {
	_, c, _ := newFake(t)
	r := join(t, c)
	dir := t.TempDir()
	in, out := write(t, filepath.Join(dir, "in"), "second"), filepath.Join(dir, "out")
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	report, err := r.AllgatherFile(t.Context(), in, out, Options{})
	if err != nil || report.GetAlgorithm() != "fake" {
		t.Fatalf("%v, %v", report, err)
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != "firstsecond" {
		t.Errorf("output %q, %v", b, err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("output %v, %v: want the mode that umask 027 leaves", info.Mode(), err)
	}
	if _, err := r.AllgatherFile(t.Context(), in, out, Options{}); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), out) {
		t.Errorf("output that exists: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("beside in and out there is more: %v, %v", entries, err)
	}
}

// An output that comes up while the operation runs is not replaced either.
func TestOutputThatComesUp(t *testing.T) {
	f, c, _ := newFake(t)
	r := join(t, c)
	dir := t.TempDir()
	in, out := write(t, filepath.Join(dir, "in"), "x"), filepath.Join(dir, "out")
	f.allgather = func(ctx context.Context, in []byte) (*apiv1.AllgatherResponse, error) {
		write(t, out, "mine")
		return f.prefixed(ctx, in)
	}
	if _, err := r.AllgatherFile(t.Context(), in, out, Options{}); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), out) {
		t.Errorf("error %v", err)
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != "mine" {
		t.Errorf("output %q, %v", b, err)
	}
}

func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	in := write(t, filepath.Join(dir, "in"), "x")
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), dangling); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	for _, tt := range []struct{ in, out, path string }{
		{filepath.Join(dir, "no"), out, filepath.Join(dir, "no")},
		{dir, out, dir},
		{pipe, out, pipe},
		{in, in, in},
		{in, dangling, dangling},
		{in, os.DevNull, os.DevNull},
		{in, filepath.Join(dir, "no", "out"), filepath.Join(dir, "no")},
		{in, filepath.Join(in, "out"), in},
	} {
		if err := CheckFiles(tt.in, tt.out, false); err == nil || !strings.Contains(err.Error(), tt.path) {
			t.Errorf("%s → %s: error %v, want one that names %s", tt.in, tt.out, err, tt.path)
		}
	}
	if err := CheckFiles(in, in, true); err != nil {
		t.Errorf("an output that may be overwritten: %v", err)
	}
	if err := CheckFiles(in, filepath.Dir(out), true); err == nil {
		t.Error("a folder as output was accepted")
	}
	if err := CheckFiles(in, out, false); err != nil {
		t.Errorf("good files: %v", err)
	}
}

// Whatever breaks first, the caller learns what ended the group.
func TestGroupFailureWins(t *testing.T) {
	lost := failure("rank_lost", 3, "far", "rank 3 on host far is lost: killed")
	check := func(t *testing.T, err error) {
		t.Helper()
		var ge *GroupError
		if !errors.As(err, &ge) || ge.Kind != "rank_lost" || ge.Rank != 3 || ge.Host != "far" || ge.Cause == "" {
			t.Errorf("error %v, want the group's", err)
		}
	}
	tests := map[string]func(f *fakeAgent){
		"between Join and Spool": func(f *fakeAgent) {
			f.spool = func() error { return connect.NewError(connect.CodeFailedPrecondition, errors.New("has not joined")) }
		},
		"between Spool and writing": func(f *fakeAgent) {
			f.spool = func() error { f.dir = filepath.Join(f.dir, "gone"); return nil } // WriteFile below fails: code unknown
		},
		"in Allgather, told by it": func(f *fakeAgent) {
			f.allgather = func(context.Context, []byte) (*apiv1.AllgatherResponse, error) { return nil, lost }
		},
		"in Allgather, told by the life line": func(f *fakeAgent) {
			f.allgather = func(context.Context, []byte) (*apiv1.AllgatherResponse, error) {
				return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("has not joined"))
			}
		},
		"after Allgather": func(f *fakeAgent) {
			f.allgather = func(ctx context.Context, in []byte) (*apiv1.AllgatherResponse, error) {
				resp, err := f.prefixed(ctx, in)
				os.Remove(resp.GetSpool())
				return resp, err
			}
		},
	}
	for name, breakIt := range tests {
		t.Run(name, func(t *testing.T) {
			f, c, _ := newFake(t)
			r := join(t, c)
			breakIt(f)
			f.over <- lost
			_, err := r.Allgather(t.Context(), make([]byte, maxInlineInput+1), Options{}) // by a file
			check(t, err)
			<-r.Ended()
			check(t, r.Err())
		})
	}
}

func TestAgentIsKilled(t *testing.T) {
	f, c, kill := newFake(t)
	r := join(t, c)
	begun := make(chan struct{})
	f.allgather = func(ctx context.Context, _ []byte) (*apiv1.AllgatherResponse, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ended := make(chan error, 1)
	go func() {
		_, err := r.Allgather(t.Context(), []byte("x"), Options{})
		ended <- err
	}()
	<-begun
	kill()
	select {
	case err := <-ended:
		var ge *GroupError
		if err == nil || errors.As(err, &ge) || !strings.Contains(err.Error(), "the agent on this host is gone") {
			t.Errorf("error %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the call hangs")
	}
	<-r.Ended()
}

func TestProgressEndsWithTheCall(t *testing.T) {
	f, c, _ := newFake(t)
	r := join(t, c)
	told := make(chan struct{})
	var once sync.Once
	f.allgather = func(ctx context.Context, in []byte) (*apiv1.AllgatherResponse, error) {
		<-told
		return f.prefixed(ctx, in)
	}
	var after sync.Mutex
	returned := false
	res, err := r.Allgather(t.Context(), []byte("x"), Options{Progress: func(done, total uint64) {
		after.Lock()
		defer after.Unlock()
		if returned || done != 1 || total != 2 {
			t.Errorf("told %d of %d, after the call: %v", done, total, returned)
		}
		once.Do(func() { close(told) })
	}})
	after.Lock()
	returned = true
	after.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	res.Close()
}
