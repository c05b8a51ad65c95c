package agent

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/agent/identity"
)

// A testHost is an agent with a real UDP socket on loopback and a real Unix socket.
type testHost struct {
	*Agent
	t      *testing.T
	id     *identity.Identity
	opts   Options
	socket string
	log    *testLog
	cancel func()
	ended  chan error
	once   sync.Once
	err    error
}

// testLog keeps what an agent logs, for tests of what the operator gets to read.
type testLog struct {
	mu sync.Mutex
	b  bytes.Buffer
	w  io.Writer
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(p)
	return l.w.Write(p)
}

// mute lets nothing reach a test that is over.
func (l *testLog) mute() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w = io.Discard
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newCluster makes the identity of a cluster's first host in a folder of its own.
func newCluster(t *testing.T, host string) *identity.Identity {
	t.Helper()
	id, err := identity.Init(filepath.Join(t.TempDir(), host), identity.Options{Cluster: "test", Host: host, Site: "X", Bind: "127.0.0.1:0"}, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// admit makes the identity of a further host.
func admit(t *testing.T, first *identity.Identity, host string) *identity.Identity {
	t.Helper()
	id, err := identity.Admit(first, filepath.Join(t.TempDir(), host), identity.Options{Host: host, Site: "Y", Bind: "127.0.0.1:0"}, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// startHost runs an agent until the test ends. change, if not nil, edits its options.
func startHost(t *testing.T, id *identity.Identity, change func(*Options), seeds ...*testHost) *testHost {
	t.Helper()
	h := &testHost{t: t, id: id, log: &testLog{w: t.Output()}, ended: make(chan error, 1)}
	t.Cleanup(h.log.mute)
	h.opts = Options{
		Identity: id, Version: "test", MapWait: time.Millisecond,
		Log: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})).With("at", id.Settings.Host),
	}
	for _, s := range seeds {
		h.opts.Seeds = append(h.opts.Seeds, s.Addr().String())
	}
	if change != nil {
		change(&h.opts)
	}
	a, err := New(h.opts)
	if err != nil {
		t.Fatal(err)
	}
	h.Agent, h.socket = a, a.opts.Socket
	// With a cause, as that of signal.NotifyContext has: it must not reach a client.
	ctx, cancel := context.WithCancelCause(context.Background())
	h.cancel = func() { cancel(errors.New("interrupt signal received")) }
	go func() { h.ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Errorf("agent of %s: %v", id.Settings.Host, err)
		}
	})
	return h
}

// stop ends the agent and returns what Run returned.
func (h *testHost) stop() error {
	h.cancel()
	return h.wait()
}

func (h *testHost) wait() error {
	h.once.Do(func() {
		select {
		case h.err = <-h.ended:
		case <-time.After(30 * time.Second):
			h.err = fmt.Errorf("Run has not returned after 30 s")
		}
	})
	return h.err
}

// client returns a client of the agent over its Unix socket.
func (h *testHost) client(t *testing.T) *client.Client {
	c := client.New(h.socket)
	t.Cleanup(c.Close)
	return c
}

// threeHosts starts a cluster of three and waits until all see all.
func threeHosts(t *testing.T) []*testHost {
	t.Helper()
	first := newCluster(t, "a")
	a := startHost(t, first, nil)
	hosts := []*testHost{a, startHost(t, admit(t, first, "b"), nil, a), startHost(t, admit(t, first, "c"), nil, a)}
	waitMembers(t, hosts...)
	return hosts
}

func waitMembers(t *testing.T, hosts ...*testHost) {
	t.Helper()
	eventually(t, 20*time.Second, "members", func() error {
		for _, h := range hosts {
			if n := h.Alive(); n != len(hosts) {
				return fmt.Errorf("%s sees %d of %d members", h.Name(), n, len(hosts))
			}
		}
		return nil
	})
}

// eventually asks until check returns nil.
func eventually(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s: %v after %v", what, err, limit)
		case <-tick.C:
		}
	}
}

// A gathered is what one rank got.
type gathered struct {
	data   []byte
	sizes  []int64
	report *apiv1.Report
	err    error
}

// gather runs one allgather: rank r is a client of at[r] and contributes blocks[r].
func gather(t *testing.T, job string, at []*testHost, blocks [][]byte, opts client.Options) []gathered {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	out := make([]gathered, len(at))
	var wg sync.WaitGroup
	for r, h := range at {
		wg.Go(func() {
			c := client.New(h.socket)
			defer c.Close()
			rank, err := c.Join(ctx, job, r, len(at))
			if err != nil {
				out[r].err = fmt.Errorf("join: %w", err)
				return
			}
			defer rank.Close()
			res, err := rank.Allgather(ctx, blocks[r], opts)
			if err != nil {
				out[r].err = err
				return
			}
			defer res.Close()
			out[r] = gathered{data: bytes.Clone(res.Data), sizes: res.Sizes, report: res.Report}
		})
	}
	wg.Wait()
	return out
}

// randomBlocks makes blocks of the given sizes from a seed.
func randomBlocks(seed uint64, sizes ...int) [][]byte {
	src := mathrand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	blocks := make([][]byte, len(sizes))
	for i, n := range sizes {
		blocks[i] = make([]byte, n)
		src.Read(blocks[i])
	}
	return blocks
}

// wantCode fails unless err is an error of the API with the code.
func wantCode(t *testing.T, err error, want connect.Code) {
	t.Helper()
	if err == nil || connect.CodeOf(err) != want {
		t.Errorf("error %v with code %v, want %v", err, connect.CodeOf(err), want)
	}
}

// groupRequest asks for the plan of one block of 1000 bytes a host.
func groupRequest(hosts ...string) group.Request {
	r := group.Request{Hosts: hosts}
	for range hosts {
		r.Sizes = append(r.Sizes, 1000)
	}
	return r
}
