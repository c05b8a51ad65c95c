package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
	"github.com/gridagent/gridagent/agent/client"
)

// httpClient speaks to h's socket as curl --unix-socket would; with h2c, as gRPC does.
func httpClient(t *testing.T, h *testHost, h2c bool) *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", h.socket)
	}}
	if h2c {
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// post calls a method with a JSON body and returns the status and the answer.
func post(t *testing.T, c *http.Client, method, body string) (int, map[string]any) {
	t.Helper()
	resp, err := c.Post("http://gridagent/gridagent.v1.AgentService/"+method, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%s: answer %q: %v", method, b, err)
	}
	return resp.StatusCode, out
}

func TestLocalAPI(t *testing.T) {
	t.Parallel()
	h := startHost(t, newCluster(t, "solo"), nil)
	curl := httpClient(t, h, false)
	t.Run("JSON", func(t *testing.T) {
		if code, out := post(t, curl, "Status", "{}"); code != 200 || out["host"] != "solo" || out["cluster"] != "test" || out["membersAlive"] != 1.0 {
			t.Errorf("status: %d %v", code, out)
		}
		// An allgather in one call, without Join: the way of a script.
		data := base64.StdEncoding.EncodeToString([]byte("hello"))
		code, out := post(t, curl, "Allgather", `{"job":"curl","rank":0,"ranks":1,"data":"`+data+`"}`)
		if code != 200 || out["data"] != data {
			t.Errorf("allgather: %d %v", code, out)
		}
		code, out = post(t, curl, "Broadcast", `{"job":"curl","rank":0,"ranks":1,"root":0,"data":"`+data+`"}`)
		if code != 200 || out["data"] != data || out["size"] != "5" {
			t.Errorf("broadcast: %d %v", code, out)
		}
		if code, out = post(t, curl, "Barrier", `{"job":"curl","rank":0,"ranks":1}`); code != 200 {
			t.Errorf("barrier: %d %v", code, out)
		}
		for _, bad := range []struct {
			method, body string
			status       int
			code, says   string
		}{
			{"Allgather", `{"job":"j","rank":0}`, 400, "failed_precondition", "has not joined"},
			{"Allgather", `{"job":"j","rank":5,"ranks":2}`, 400, "invalid_argument", "rank 5 of 2"},
			{"Allgather", `{"job":"","rank":0,"ranks":2}`, 400, "invalid_argument", "job"},
			{"Allgather", `{"job":"j","rank":0,"ranks":1,"timeoutSeconds":-3}`, 400, "invalid_argument", "-3"},
			{"Allgather", `{"job":"j","rank":0,"ranks":1,"timeoutSeconds":"NaN"}`, 400, "invalid_argument", "NaN"},
			{"Allgather", `{"job":"j","rank":0,"ranks":1,"spool":"/etc/passwd"}`, 400, "invalid_argument", "/etc/passwd"},
			{"Allgather", `{"job":`, 400, "invalid_argument", ""},
			{"Broadcast", `{"job":"j","rank":0,"ranks":1,"algorithm":"shift"}`, 400, "invalid_argument", "shift"},
			{"Barrier", `{"job":"j","rank":0}`, 400, "failed_precondition", "has not joined"},
			{"Cancel", `{"job":"j","rank":0}`, 400, "failed_precondition", "has not joined"},
			{"Spool", `{"job":"j","rank":0,"bytes":5}`, 400, "failed_precondition", "has not joined"},
			{"Progress", `{"job":"j","rank":0}`, 400, "failed_precondition", "has not joined"},
			{"Pools", `{"criterion":"x"}`, 400, "invalid_argument", `"x"`},
			{"TokenCreate", `{"ttlSeconds":-1}`, 400, "invalid_argument", "-1"},
			{"TokenCreate", `{"ttlSeconds":1e300}`, 400, "invalid_argument", "life"},
			{"TokenCreate", `{"ttlSeconds":1e-12}`, 400, "invalid_argument", "life"},
			{"TokenRevoke", `{"id":"feed"}`, 404, "not_found", "feed"},
			{"Nonsense", `{}`, 404, "", ""},
		} {
			if bad.code == "" {
				resp, err := curl.Post("http://gridagent/gridagent.v1.AgentService/"+bad.method, "application/json", strings.NewReader(bad.body))
				if err != nil || resp.StatusCode != bad.status {
					t.Errorf("%s: %v, %v", bad.method, resp, err)
				} else {
					resp.Body.Close()
				}
				continue
			}
			code, out := post(t, curl, bad.method, bad.body)
			if code != bad.status || out["code"] != bad.code || !strings.Contains(fmt.Sprint(out["message"]), bad.says) {
				t.Errorf("%s %s: %d %v, want %d %s with %q", bad.method, bad.body, code, out, bad.status, bad.code, bad.says)
			}
		}
	})
	t.Run("gRPC", func(t *testing.T) {
		api := apiv1connect.NewAgentServiceClient(httpClient(t, h, true), "http://gridagent", connect.WithGRPC())
		r, err := api.Status(t.Context(), connect.NewRequest(&apiv1.StatusRequest{}))
		if err != nil || r.Msg.Host != "solo" {
			t.Fatalf("status: %v, %v", r, err)
		}
		// A whole group on one HTTP/2 connection: the life line is one stream of it.
		stream, err := api.Join(t.Context(), connect.NewRequest(&apiv1.JoinRequest{Job: "grpc", Rank: 0, Ranks: 1}))
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for stream.Receive() && stream.Msg().GetFormed() == nil {
		}
		if got := stream.Msg().GetFormed().GetHosts(); len(got) != 1 || got[0] != "solo" {
			t.Fatalf("formed on %v, %v", got, stream.Err())
		}
		res, err := api.Allgather(t.Context(), connect.NewRequest(&apiv1.AllgatherRequest{Job: "grpc", Input: &apiv1.AllgatherRequest_Data{Data: []byte("x")}, InlineResult: true}))
		if err != nil || string(res.Msg.Data) != "x" {
			t.Errorf("allgather: %v, %v", res, err)
		}
		_, err = api.Allgather(t.Context(), connect.NewRequest(&apiv1.AllgatherRequest{Job: "none", Rank: 3}))
		wantCode(t, err, connect.CodeFailedPrecondition)
	})
	t.Run("limits", func(t *testing.T) {
		api := h.client(t).API()
		call := func(n int, joined bool) (*connect.Response[apiv1.AllgatherResponse], error) {
			return api.Allgather(t.Context(), connect.NewRequest(&apiv1.AllgatherRequest{Job: "limits", Ranks: 1, Input: &apiv1.AllgatherRequest_Data{Data: make([]byte, n)}}))
		}
		if r, err := call(maxInlineInput, false); err != nil || len(r.Msg.Data) != maxInlineInput {
			t.Errorf("largest inline payload: %v", err)
		}
		_, err := call(maxInlineInput+1, false)
		wantCode(t, err, connect.CodeInvalidArgument)
		_, err = call(maxRequest+1, false)
		wantCode(t, err, connect.CodeResourceExhausted)
	})
	t.Run("tokens", func(t *testing.T) {
		code, out := post(t, curl, "TokenCreate", `{"ttlSeconds":3600,"uses":2}`)
		info, _ := out["info"].(map[string]any)
		if code != 200 || !strings.HasPrefix(fmt.Sprint(out["token"]), "ga1_") || info["usesLeft"] != 2.0 {
			t.Fatalf("create: %d %v", code, out)
		}
		id := fmt.Sprint(info["id"])
		if code, out := post(t, curl, "TokenRevoke", `{"id":"`+id+`"}`); code != 200 {
			t.Errorf("revoke: %d %v", code, out)
		}
		_, out = post(t, curl, "TokenList", "{}")
		if list := fmt.Sprint(out["tokens"]); !strings.Contains(list, id) || !strings.Contains(list, "revoked:true") {
			t.Errorf("list: %v", out)
		}
	})
}

// Cancelling a call must end it at once, whatever it waits for.
func TestCallsAreCancelled(t *testing.T) {
	t.Parallel()
	h := startHost(t, newCluster(t, "solo"), nil)
	api := h.client(t).API()
	waitFor := func(name string, call func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		err := call(ctx)
		if err == nil || time.Since(begun) > 2*time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(begun))
		}
	}
	// Groups that never form, because rank 1 never comes.
	waitFor("Allgather that joins", func(ctx context.Context) error {
		_, err := api.Allgather(ctx, connect.NewRequest(&apiv1.AllgatherRequest{Job: "half", Ranks: 2}))
		return err
	})
	waitFor("Join", func(ctx context.Context) error {
		_, err := h.client(t).Join(ctx, "half", 0, 2)
		return err
	})
	// The server's side has let go of the rank too: it can be had again.
	eventually(t, 10*time.Second, "claim of rank 0 ends", func() error {
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for r := range 2 {
			wg.Go(func() {
				_, errs[r] = api.Allgather(t.Context(), connect.NewRequest(&apiv1.AllgatherRequest{Job: "half", Rank: uint32(r), Ranks: 2, TimeoutSeconds: 5}))
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	_, err := api.Allgather(t.Context(), connect.NewRequest(&apiv1.AllgatherRequest{Job: "half", Ranks: 2, TimeoutSeconds: 0.1}))
	wantCode(t, err, connect.CodeAborted)
	if err == nil || !strings.Contains(err.Error(), `rank 1 has not joined job "half"`) {
		t.Errorf("a group that does not form: %v", err)
	}
	waitFor("every other call, with a context that is over", func(context.Context) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := api.Status(ctx, connect.NewRequest(&apiv1.StatusRequest{}))
		return err
	})
}

// joinAll makes ranks 0 … n-1 of job, one a client, on the given hosts.
func joinAll(t *testing.T, job string, at ...*testHost) []*client.Rank {
	t.Helper()
	ranks := make([]*client.Rank, len(at))
	var wg sync.WaitGroup
	for r, h := range at {
		wg.Go(func() {
			var err error
			if ranks[r], err = h.client(t).Join(t.Context(), job, r, len(at)); err != nil {
				t.Errorf("join rank %d: %v", r, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() {
		for _, r := range ranks {
			r.Close()
		}
	})
	return ranks
}

// waitingAllgather starts an allgather of a rank that has joined, and returns once the
// agent holds it; the channel gets its end. Of two calls of one rank the agent refuses
// the later one, and so says that it holds the other.
func waitingAllgather(ctx context.Context, t *testing.T, h *testHost, job string, rank uint32) <-chan error {
	t.Helper()
	ends := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := h.client(t).API().Allgather(ctx, connect.NewRequest(&apiv1.AllgatherRequest{Job: job, Rank: rank, Input: &apiv1.AllgatherRequest_Data{}}))
			ends <- err
		}()
	}
	if err := <-ends; connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "running already") {
		t.Fatalf("rank %d of %s: %v, want its second operation refused", rank, job, err)
	}
	return ends
}

// sameFailure fails unless every error is one *client.GroupError, the same for all.
func sameFailure(t *testing.T, errs []error, kind string, rank int, host, says string) {
	t.Helper()
	for i, err := range errs {
		var ge *client.GroupError
		if !errors.As(err, &ge) {
			t.Errorf("rank %d: %v, want a group error", i, err)
			continue
		}
		if ge.Kind != kind || ge.Rank != rank || ge.Host != host || !strings.Contains(ge.Error(), says) {
			t.Errorf("rank %d: kind %s, rank %d, host %q: %v; want %s, %d, %q, %q", i, ge.Kind, ge.Rank, ge.Host, ge, kind, rank, host, says)
		}
		if err.Error() != errs[0].Error() {
			t.Errorf("rank %d reads %q, rank 0 %q", i, err, errs[0])
		}
	}
}

func TestLostClients(t *testing.T) {
	t.Parallel()
	first := newCluster(t, "a")
	a := startHost(t, first, nil)
	b := startHost(t, admit(t, first, "b"), nil, a)
	waitMembers(t, a, b)

	t.Run("before its operation", func(t *testing.T) {
		ranks := joinAll(t, "early", a, b, b)
		ranks[1].Close()
		errs := make([]error, 2)
		for i, r := range []*client.Rank{ranks[0], ranks[2]} {
			_, errs[i] = r.Allgather(t.Context(), []byte("x"), client.Options{})
		}
		sameFailure(t, errs, "rank_lost", 1, "b", "rank 1 on host b")
	})
	t.Run("in its operation", func(t *testing.T) {
		// Rank 2 dies while it waits in Allgather: both its connections end at once, in
		// any order. Several rounds, because the order is what matters.
		for round := range 5 {
			ranks := joinAll(t, "dies", a, b, b)
			ctx, die := context.WithCancel(t.Context())
			running := waitingAllgather(ctx, t, b, "dies", 2)
			errs := make(chan error, 1)
			go func() {
				_, err := ranks[1].Allgather(t.Context(), nil, client.Options{})
				errs <- err
			}()
			if round%2 == 0 {
				die()
				go ranks[2].Close()
			} else {
				go ranks[2].Close()
				die()
			}
			<-running
			// Too much to travel with the call: a small operation could be over before the loss is known.
			_, err := ranks[0].Allgather(t.Context(), make([]byte, 128<<10), client.Options{})
			sameFailure(t, []error{err, <-errs}, "rank_lost", 2, "b", "client ended or was killed")
			for _, r := range ranks {
				r.Close()
			}
		}
	})
	t.Run("that takes back its call", func(t *testing.T) {
		ranks := joinAll(t, "back", a, b)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := ranks[1].Allgather(ctx, nil, client.Options{}); err == nil {
			t.Fatal("an allgather without rank 0")
		}
		<-ranks[0].Ended() // else rank 0 could come while the agent still holds the call
		_, err := ranks[0].Allgather(t.Context(), nil, client.Options{})
		sameFailure(t, []error{err}, "cancelled", 1, "b", "gave up") // for the deadline or the hang-up, whichever the agent sees first
	})
	t.Run("time runs out", func(t *testing.T) {
		ranks := joinAll(t, "late", a, b)
		_, err := ranks[1].Allgather(t.Context(), nil, client.Options{Timeout: 200 * time.Millisecond})
		_, other := ranks[0].Allgather(t.Context(), nil, client.Options{})
		sameFailure(t, []error{err, other}, "cancelled", 1, "b", "no result within 200ms")
	})
	t.Run("one does not come", func(t *testing.T) {
		var mu sync.Mutex
		told := ""
		errs := make([]error, 3)
		var wg sync.WaitGroup
		for i, h := range []*testHost{a, nil, b} {
			if h == nil {
				continue
			}
			wg.Go(func() {
				_, errs[i] = h.client(t).Join(t.Context(), "never", i, 3, client.JoinOptions{Limit: time.Second, Waiting: func(_ int, missing string) {
					mu.Lock()
					defer mu.Unlock()
					told = missing
				}})
			})
		}
		wg.Wait()
		sameFailure(t, []error{errs[0], errs[2]}, "not_formed", 1, "", `rank 1 has not joined job "never" (1 of 3 missing) in the 1s that rank`)
		if told != "1" {
			t.Errorf("told of the missing ranks: %q", told)
		}
	})
	t.Run("one fails before its operation", func(t *testing.T) {
		ranks := joinAll(t, "fails", a, b, b)
		dir := t.TempDir()
		_, cause := ranks[2].AllgatherFile(t.Context(), filepath.Join(dir, "none"), filepath.Join(dir, "out"), client.Options{})
		if cause == nil {
			t.Fatal("an input that is not there was taken")
		}
		ranks[2].Fail(cause)
		errs := make([]error, 2)
		for i := range errs {
			_, errs[i] = ranks[i].Allgather(t.Context(), []byte("x"), client.Options{})
		}
		sameFailure(t, errs, "rank_failed", 2, "b", "rank 2 on host b failed: "+cause.Error())
	})
	t.Run("one call fails", func(t *testing.T) {
		// A rank that joins for one call, whose input is refused.
		call := func(h *testHost, rank uint32, n int) error {
			_, err := h.client(t).API().Allgather(t.Context(), connect.NewRequest(&apiv1.AllgatherRequest{
				Job: "call", Rank: rank, Ranks: 2, Input: &apiv1.AllgatherRequest_Data{Data: make([]byte, n)}}))
			return err
		}
		var wg sync.WaitGroup
		wg.Go(func() { wantCode(t, call(b, 1, maxInlineInput+1), connect.CodeInvalidArgument) })
		err := call(a, 0, 1)
		wg.Wait()
		if err == nil || !strings.Contains(err.Error(), "rank 1 on host b failed: inline payload of 1048577 bytes") {
			t.Errorf("the other rank: %v", err)
		}
	})
	t.Run("ranks disagree", func(t *testing.T) {
		ranks := joinAll(t, "odd", a, b)
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i, alg := range []string{"ring", "magpie"} {
			wg.Go(func() { _, errs[i] = ranks[i].Allgather(t.Context(), nil, client.Options{Algorithm: alg}) })
		}
		wg.Wait()
		for i, err := range errs {
			var ge *client.GroupError
			if !errors.As(err, &ge) || ge.Kind != "mismatch" || !strings.Contains(err.Error(), `"ring"`) || !strings.Contains(err.Error(), `"magpie"`) {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	})
	t.Run("auto and nothing are one wish", func(t *testing.T) {
		ranks := joinAll(t, "auto", a, b)
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i, alg := range []string{"auto", ""} {
			wg.Go(func() {
				res, err := ranks[i].Allgather(t.Context(), []byte{byte(i)}, client.Options{Algorithm: alg})
				if errs[i] = err; err == nil && !bytes.Equal(res.Data, []byte{0, 1}) {
					errs[i] = fmt.Errorf("got %x", res.Data)
				}
				res.Close()
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	t.Run("rank taken", func(t *testing.T) {
		joinAll(t, "taken", a)
		_, err := a.client(t).Join(t.Context(), "taken", 0, 1)
		sameFailure(t, []error{err}, "mismatch", 0, "a", "which another client of that host holds")
	})
	t.Run("two operations at once", func(t *testing.T) {
		ranks := joinAll(t, "twice", a, b)
		first := waitingAllgather(t.Context(), t, a, "twice", 0) // refuses the second: it has no turn
		if _, err := ranks[1].Allgather(t.Context(), nil, client.Options{}); err != nil {
			t.Errorf("the first operation, at rank 1: %v", err)
		}
		if err := <-first; err != nil {
			t.Errorf("the first operation, at rank 0: %v", err)
		}
	})
	eventually(t, 10*time.Second, "spools are empty", func() error {
		if left := append(spoolFiles(t, a), spoolFiles(t, b)...); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
}

// An agent that stops tells its own clients and, over the network, all the others.
func TestAgentStopsUnderItsClients(t *testing.T) {
	t.Parallel()
	first := newCluster(t, "a")
	a := startHost(t, first, nil)
	b := startHost(t, admit(t, first, "b"), nil, a)
	waitMembers(t, a, b)
	ranks := joinAll(t, "job", a, b, b)
	waiting := make(chan error, 1)
	in := make(chan struct{})
	go func() {
		_, err := b.client(t).Join(t.Context(), "never", 0, 2, client.JoinOptions{Waiting: func(int, string) { close(in) }})
		waiting <- err
	}()
	<-in
	zero, one := waitingAllgather(t.Context(), t, a, "job", 0), waitingAllgather(t.Context(), t, b, "job", 1)
	begun := time.Now()
	b.cancel()
	<-ranks[2].Ended() // it holds its place without an operation
	for i, err := range []error{<-zero, <-one, ranks[2].Err()} {
		var ge *client.GroupError
		if i == 2 && !errors.As(err, &ge) || !strings.Contains(fmt.Sprint(err), "host b is shutting down: the agent is stopping") {
			t.Errorf("rank %d: %v, want a group error that says that the agent of b is stopping", i, err)
		}
	}
	if err := <-waiting; connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "agent is stopping") {
		t.Errorf("a rank of a group that has not formed: %v", err)
	}
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("the clients knew after %v", d)
	}
	if err := b.wait(); err != nil {
		t.Error(err)
	}
	if left := spoolFiles(t, b); len(left) > 0 {
		t.Errorf("left in the spool: %v", left)
	}
}

// A full disk is one rank's error before anything moves, or everybody's if it is the
// result that does not fit; the agents live on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	tiny := tinyDisk(t, "3m")
	first := newCluster(t, "a")
	a := startHost(t, first, nil)
	b := startHost(t, admit(t, first, "b"), func(o *Options) { o.Spool = tiny }, a)
	waitMembers(t, a, b)

	ranks := joinAll(t, "input", a, b)
	_, err := ranks[1].Allgather(t.Context(), make([]byte, 4<<20), client.Options{})
	wantCode(t, err, connect.CodeResourceExhausted)
	if err == nil || !strings.Contains(err.Error(), tiny) {
		t.Errorf("input that does not fit: %v, want an error that names %s", err, tiny)
	}
	for _, r := range ranks {
		r.Close()
	}
	for r, g := range gather(t, "result", []*testHost{a, b}, randomBlocks(1, 4<<20, 1<<20), client.Options{}) {
		var ge *client.GroupError
		if !errors.As(g.err, &ge) || ge.Kind != "internal" || ge.Host != "b" || !strings.Contains(ge.Error(), "no space left") {
			t.Errorf("rank %d: %v", r, g.err)
		}
	}
	blocks := randomBlocks(2, 500_000, 500_000)
	for r, g := range gather(t, "fits", []*testHost{a, b}, blocks, client.Options{}) {
		if g.err != nil || !bytes.Equal(g.data, bytes.Join(blocks, nil)) {
			t.Errorf("afterwards, rank %d: %v", r, g.err)
		}
	}
}

// A path that a client is told must mean the same in the client's working directory.
func TestSpoolPathIsAbsolute(t *testing.T) {
	id := newCluster(t, "x")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Identity: id, Spool: "relative/spool"}
	if err := opts.complete(); err != nil || opts.Spool != here+"/relative/spool" {
		t.Errorf("spool %q, %v", opts.Spool, err)
	}
}

func TestDuration(t *testing.T) {
	for seconds, want := range map[float64]time.Duration{0: 0, 1.5: 1500 * time.Millisecond, 1e-15: 1, 1e12: math.MaxInt64, math.Inf(1): math.MaxInt64, 9223372036.854776: math.MaxInt64} {
		if got, err := duration("x", seconds); err != nil || got != want {
			t.Errorf("%g s: %v, %v, want %v", seconds, got, err, want)
		}
	}
	for _, seconds := range []float64{-1, -1e-300, math.Inf(-1), math.NaN()} {
		if got, err := duration("x", seconds); err == nil {
			t.Errorf("%g s: %v, want an error", seconds, got)
		}
	}
}
