package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
)

// silentAgent takes calls and does not answer, as a process does that was stopped.
type silentAgent struct {
	apiv1connect.UnimplementedAgentServiceHandler
}

func (silentAgent) Status(ctx context.Context, _ *connect.Request[apiv1.StatusRequest]) (*connect.Response[apiv1.StatusResponse], error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSilentAgent: a command does not wait for ever for an agent that does not answer.
func TestSilentAgent(t *testing.T) {
	at := &place{socket: serveAgent(t, silentAgent{})}
	agent, err := at.dial()
	if err != nil {
		t.Fatal(err)
	}
	if got := agent.(impatient).limit; got != answerTime {
		t.Errorf("commands wait for %v, want %v", got, answerTime)
	}
	hasty := impatient{agent.(impatient).AgentServiceClient, 50 * time.Millisecond}
	_, err = hasty.Status(t.Context(), connect.NewRequest(&apiv1.StatusRequest{}))
	var silent *silentError
	if err = rpcError(err); !errors.As(err, &silent) {
		t.Fatalf("got %v, want that it does not answer", err)
	}
	var errs strings.Builder
	if status := (&app{err: &errs}).report(err, true); status != exitUnreachable || !strings.Contains(errs.String(), "has not answered for 50ms") {
		t.Errorf("status %d, %q", status, errs.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hasty.Status(ctx, connect.NewRequest(&apiv1.StatusRequest{})); !errors.Is(rpcError(err), context.Canceled) {
		t.Errorf("Ctrl-C becomes %v", err)
	}
}

// TestStoppedAgent: no command that only asks, and none that makes the agent do what is quickly done, waits for ever for a process that was stopped.
func TestStoppedAgent(t *testing.T) {
	defer func(was time.Duration) { answerTime = was }(answerTime)
	answerTime = 50 * time.Millisecond
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket) // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, args := range []string{
		"status", "members", "map", "pools", "plan cache", "token create", "token list", "token revoke 3f9c1a20", "leave --timeout 40ms",
		"bench allgather --job b --rank 0 --ranks 2",
	} {
		var errs strings.Builder
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		status := (&app{in: strings.NewReader(""), out: io.Discard, err: &errs}).run(ctx, append(strings.Fields(args), "--socket", socket))
		cancel()
		if status != exitUnreachable || !strings.Contains(errs.String(), "has not answered for") {
			t.Errorf("%s: status %d, %q; want %d", args, status, errs.String(), exitUnreachable)
		}
	}
}

// TestAgentIsKilledInAWord: an agent that is killed while it answers leaves half of a message, and that is
// the end of the agent and no error of the protocol.
func TestAgentIsKilledInAWord(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/connect+proto")
		w.Write([]byte{0, 0, 0, 0, 200, 1, 2, 3}) // 200 bytes are announced
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	for _, args := range []string{"pools --watch", "probe b"} {
		status, out, errs := gridagent(t, append(strings.Fields(args), "--socket", socket)...)
		if status != exitUnreachable || !strings.Contains(errs, "is gone") || out != "" {
			t.Errorf("%s: status %d, %q, %q; want %d", args, status, out, errs, exitUnreachable)
		}
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestOutputIsFull: whatever prints says that it could not, with the status of a failure.
func TestOutputIsFull(t *testing.T) {
	for _, args := range []string{"map --help", "help probe", "completion bash", "version", "version -o json", "map", "map -o csv", "map -o json", "map --all"} {
		args := strings.Fields(args)
		if args[0] == "map" && args[len(args)-1] != "--help" {
			args = append(args, "--socket", serveAgent(t, &mapAgent{now: []byte(threeHosts)}))
		}
		var errs strings.Builder
		a := &app{in: strings.NewReader(""), out: full{}, err: &errs}
		if status := a.run(t.Context(), args); status != exitFailure || !strings.Contains(errs.String(), "no space left") || strings.Contains(errs.String(), "--help") {
			t.Errorf("%v: status %d, %q; want %d", args, status, errs.String(), exitFailure)
		}
	}
}
