package agent

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/agent/membership"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

func TestThreeAgents(t *testing.T) {
	t.Parallel()
	hosts := threeHosts(t)
	a, b, c := hosts[0], hosts[1], hosts[2]
	at := []*testHost{c, a, b, a, c, b} // six ranks, two a host, rank 0 not at the authority

	for i, algorithm := range []string{"", "auto", "ring"} {
		// Sizes that are empty, odd, equal to and beyond a chunk.
		const seed = 7
		blocks := randomBlocks(seed, 0, 1, 65_536, 1_500_001, 13, 262_144)
		want := bytes.Join(blocks, nil)
		for r, g := range gather(t, "job", at, blocks, client.Options{Algorithm: algorithm}) { // the job's name is used again and again
			if g.err != nil {
				t.Fatalf("seed %d, algorithm %q, rank %d: %v", seed, algorithm, r, g.err)
			}
			if !bytes.Equal(g.data, want) {
				t.Errorf("seed %d, algorithm %q, rank %d: wrong bytes", seed, algorithm, r)
			}
			if got := g.report; got.Ranks != 6 || got.Hosts != 3 || got.Seconds <= 0 {
				t.Errorf("run %d, rank %d: report %v", i, r, got)
			}
			// Ranks of one host share what crosses the network: all that is not theirs, once.
			local := 0
			for q := range blocks {
				if at[q] == at[r] {
					local += len(blocks[q])
				}
			}
			if least := uint64(len(want) - local); g.report.BytesReceived < least || g.report.BytesReceived > least+least/5+4096 {
				t.Errorf("algorithm %q, rank %d: its host received %d bytes, want %d and little more", algorithm, r, g.report.BytesReceived, least)
			}
		}
	}

	// The map spreads, and the pool tree is built of it.
	ctx := t.Context()
	eventually(t, 40*time.Second, "map", func() error {
		for _, h := range hosts {
			if m, p, total := h.Coverage(); m+p < total {
				return fmt.Errorf("%s knows %d+%d of %d pairs", h.Name(), m, p, total)
			}
		}
		return nil
	})
	api := b.client(t).API()
	m, err := api.Map(ctx, connect.NewRequest(&apiv1.MapRequest{Predict: true}))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := netmap.ParseMatrix(m.Msg.MatrixJson, time.Now())
	if err != nil {
		t.Fatalf("map of b: %v\n%s", err, m.Msg.MatrixJson)
	}
	if snap.N() != 3 || snap.Host(0).Name != "a" || snap.Host(0).Site != "X" || snap.Host(2).Site != "Y" {
		t.Errorf("map of b: %d hosts, first %v", snap.N(), snap.Host(0))
	}
	eventually(t, 10*time.Second, "tree of b", func() error { // it follows the map within a moment
		p, err := api.Pools(ctx, connect.NewRequest(&apiv1.PoolsRequest{}))
		if err == nil && !strings.Contains(p.Msg.Rendered, "3 hosts") {
			err = errors.New(p.Msg.Rendered)
		}
		return err
	})
	for _, criterion := range []string{"", "component", "average"} {
		var p *connect.Response[apiv1.PoolsResponse]
		eventually(t, 10*time.Second, "tree by "+criterion, func() (err error) { // a pair that has just been found wrong is measured again
			p, err = api.Pools(ctx, connect.NewRequest(&apiv1.PoolsRequest{Criterion: criterion}))
			return err
		})
		if !strings.Contains(p.Msg.Rendered, "3 hosts") {
			t.Errorf("criterion %q: rendered tree\n%s", criterion, p.Msg.Rendered)
		}
		for _, name := range []string{"a", "b", "c"} {
			if !strings.Contains(string(p.Msg.TreeJson), `"`+name+`"`) {
				t.Errorf("criterion %q: tree without host %s: %s", criterion, name, p.Msg.TreeJson)
			}
		}
	}
	_, err = api.Pools(ctx, connect.NewRequest(&apiv1.PoolsRequest{Criterion: "weather"}))
	wantCode(t, err, connect.CodeInvalidArgument)

	// With the map there, min3 can be asked for by name.
	blocks := randomBlocks(8, 1000, 1000, 1000, 1000, 1000, 1000)
	for r, g := range gather(t, "job", at, blocks, client.Options{Algorithm: "min3"}) {
		if g.err != nil || !bytes.Equal(g.data, bytes.Join(blocks, nil)) {
			t.Fatalf("min3, rank %d: %v", r, g.err)
		}
		if g.report.Algorithm != "min3" || g.report.BoundSeconds <= 0 || g.report.BoundRatio <= 0 || g.report.PredictedSeconds <= 0 {
			t.Errorf("min3, rank %d: report %v", r, g.report)
		}
	}

	reply, err := api.Members(ctx, connect.NewRequest(&apiv1.MembersRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range reply.Msg.Members {
		names = append(names, m.Name)
		if m.State != "alive" || m.Authority != (m.Name == "a") || m.Self != (m.Name == "b") {
			t.Errorf("member %v", m)
		}
		if m.Name != "b" && m.RttSeconds <= 0 {
			t.Errorf("member %s has no round trip time, and the map is complete", m.Name)
		}
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("members %v", names)
	}
	var s *apiv1.StatusResponse
	for range 50 { // a rank's end is noticed a moment after its client's
		status, err := api.Status(ctx, connect.NewRequest(&apiv1.StatusRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		if s = status.Msg; len(s.Groups) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if s.Host != "b" || s.Site != "Y" || s.Cluster != "test" || s.Authority || s.MembersAlive != 3 || s.PairsTotal != 6 ||
		s.Version != "test" || s.Address != b.Addr().String() || s.SocketReceiveBuffer == 0 || len(s.Groups) != 0 || s.Started.AsTime().IsZero() {
		t.Errorf("status %v", s)
	}

	// One leaves in good order: its Run ends without an error, its files go, the others know.
	if _, err := c.client(t).API().Leave(ctx, connect.NewRequest(&apiv1.LeaveRequest{})); err != nil {
		t.Fatal(err)
	}
	if err := c.wait(); err != nil {
		t.Errorf("Run after Leave: %v", err)
	}
	if _, err := os.Lstat(c.socket); !os.IsNotExist(err) {
		t.Errorf("socket of the agent that left: %v", err)
	}
	eventually(t, 10*time.Second, "c has left", func() error {
		for _, m := range a.members.Members() {
			if m.Name == "c" && m.State == membership.Left {
				return nil
			}
		}
		return fmt.Errorf("a sees %v", a.members.Members())
	})

	// Its folder and address are free; it remembers the others and needs no seed.
	again := startHost(t, c.id, func(o *Options) { o.Seeds = nil })
	waitMembers(t, a, b, again)
	for _, h := range []*testHost{a, b, again} {
		if left := spoolFiles(t, h); len(left) > 0 {
			t.Errorf("spool of %s holds %v though no rank is here", h.Name(), left)
		}
	}

	// The end of its context stops it: the others will have it back.
	if err := again.stop(); err != nil {
		t.Error(err)
	}
	eventually(t, 10*time.Second, "c has stopped", func() error {
		for _, m := range a.members.Members() {
			if m.Name == "c" && m.State == membership.Stopped {
				return nil
			}
		}
		return fmt.Errorf("a sees %v", a.members.Members())
	})
}

func spoolFiles(t *testing.T, h *testHost) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(h.Agent.opts.Spool, "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// A host alone is a cluster too: everything works, with nobody to talk to.
func TestOneAgent(t *testing.T) {
	t.Parallel()
	h := startHost(t, newCluster(t, "solo"), nil)
	ctx := t.Context()
	api := h.client(t).API()
	m, err := api.Map(ctx, connect.NewRequest(&apiv1.MapRequest{}))
	if err != nil || m.Msg.PairsTotal != 0 {
		t.Fatalf("map of one host: %v, %v", m, err)
	}
	p, err := api.Pools(ctx, connect.NewRequest(&apiv1.PoolsRequest{}))
	if err != nil || !strings.Contains(string(p.Msg.TreeJson), `"solo"`) {
		t.Fatalf("pools of one host: %v, %v", p, err)
	}
	for _, algorithm := range []string{"", "min3", "ring", "magpie"} {
		for _, sizes := range [][]int{{0}, {5}, {0, 0}, {100_000, 0, 3}} {
			blocks := randomBlocks(3, sizes...)
			for r, g := range gather(t, "solo", slices.Repeat([]*testHost{h}, len(sizes)), blocks, client.Options{Algorithm: algorithm}) {
				if g.err != nil || !bytes.Equal(g.data, bytes.Join(blocks, nil)) {
					t.Errorf("algorithm %q, sizes %v, rank %d: %d bytes, %v", algorithm, sizes, r, len(g.data), g.err)
				}
			}
		}
	}
}

// A plan without a map is a ring; an algorithm that was asked for by name is refused.
func TestMakePlanWithoutMap(t *testing.T) {
	hosts := []netmap.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	m, err := netmap.NewMap(netmap.MapConfig{Self: "a"})
	if err != nil {
		t.Fatal(err)
	}
	snap := m.Snapshot(hosts, time.Now())
	mapErr := complete(snap)
	if mapErr == nil {
		t.Fatal("an empty map is complete")
	}
	req := groupRequest("a", "b", "c")
	for _, algorithm := range []string{"", "auto", "ring"} {
		req.Algorithm = algorithm
		p, info, err := planOver(shape{}, snap, mapErr, req)
		if err != nil || info.Algorithm != "ring" || info.Bound != 0 {
			t.Errorf("%q without a map: %+v, %v", algorithm, info, err)
			continue
		}
		if err := plan.Verify(p, plan.Rules{}); err != nil {
			t.Errorf("%q: %v", algorithm, err)
		}
	}
	for _, algorithm := range []string{"min3", "magpie", "nonsense"} {
		req.Algorithm = algorithm
		if _, _, err := planOver(shape{}, snap, mapErr, req); err == nil || !strings.Contains(err.Error(), algorithm) {
			t.Errorf("%q without a map: error %v, want one that names it", algorithm, err)
		}
	}
}

// A failed New must give back all that it took, and close what it was handed.
func TestNewFailsCleanly(t *testing.T) {
	id := newCluster(t, "x")
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"no identity", func(o *Options) { o.Identity = nil }, "identity"},
		{"seed", func(o *Options) { o.Seeds = []string{"nowhere"} }, `"nowhere"`},
		{"spool is a file", func(o *Options) { o.Spool = blocked }, blocked},
		{"probe interval", func(o *Options) { o.ProbeInterval = time.Millisecond }, "1ms"},
		{"probe share", func(o *Options) { o.ProbeShare = 2 }, "2"},
		{"map wait", func(o *Options) { o.MapWait = -time.Second }, "-1s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := openSocket("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			api := newFakeListener()
			opts := Options{Identity: id, Conn: conn, API: api}
			tt.change(&opts)
			if a, err := New(opts); err == nil {
				a.Close()
				t.Fatal("New succeeded")
			} else if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not quote %q", err, tt.want)
			}
			if err := conn.SetDeadline(time.Now()); err == nil {
				t.Error("the socket that New was handed is still open")
			}
			select {
			case <-api.closed:
			default:
				t.Error("the listener that New was handed is still open")
			}
		})
	}
	// After all that, an agent of the same folder starts, and a second one does not.
	a, err := New(Options{Identity: id})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := New(Options{Identity: id}); err == nil {
		b.Close()
		t.Error("two agents run from one folder")
	} else if !strings.Contains(err.Error(), "already running from "+id.Dir) {
		t.Errorf("second agent of a folder: %v", err)
	}
	if _, err := os.Lstat(a.opts.Socket); err != nil {
		t.Errorf("the second agent took the first one's socket: %v", err)
	}
	a.Close()
	b, err := New(Options{Identity: id})
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	b.Close()
}

// A second host under the name of a live one ends, and says why: whether it asks the live
// one itself or another member, and whether it has a certificate of its own or a copy.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	first := newCluster(t, "a")
	a := startHost(t, first, nil)
	b := startHost(t, admit(t, first, "b"), nil, a)
	waitMembers(t, a, b)
	twin := admit(t, first, "a")
	copied := *b.id
	copied.Dir = t.TempDir()
	for _, tt := range []struct {
		name     string
		id       *identity.Identity
		ask, has *testHost
	}{
		{"asks the live one", twin, a, a},
		{"asks another", twin, b, a},
		{"a copied folder", &copied, a, b},
	} {
		begun := time.Now()
		h := startHost(t, tt.id, nil, tt.ask)
		err := h.wait()
		h.err = nil // else the end of the test would complain
		want := fmt.Sprintf("the name %q belongs to a live host at %v", tt.has.Name(), tt.has.Addr())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--name") {
			t.Errorf("%s: Run returned %v, want %q", tt.name, err, want)
		}
		t.Logf("%s: after %v", tt.name, time.Since(begun))
	}
	if a.Alive() != 2 || b.Alive() != 2 {
		t.Errorf("the first sees %d members, the other %d", a.Alive(), b.Alive())
	}
}

// A seed that is this host itself, by another of its addresses, is no other host.
func TestSeedIsOneself(t *testing.T) {
	t.Parallel()
	conn, err := openSocket("0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	port := conn.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	h := startHost(t, newCluster(t, "a"), func(o *Options) {
		o.Conn = conn
		o.Advertise = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
		o.Seeds = []string{fmt.Sprintf("127.0.0.2:%d", port)}
	})
	eventually(t, 10*time.Second, "the seed is tried", func() error {
		if !strings.Contains(h.log.String(), "no seed answered yet") || !strings.Contains(h.log.String(), "own name") {
			return errors.New("it was not")
		}
		return nil
	})
	select {
	case err := <-h.ended:
		t.Errorf("the agent ended: %v", err)
		h.ended <- err
	default:
	}
}
