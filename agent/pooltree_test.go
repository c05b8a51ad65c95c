package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A worldMap is a complete map of hosts at sites A and B, whose rates a test changes.
type worldMap struct {
	mu    sync.Mutex
	hosts []netmap.Host
	lan   float64 // Mbit/s
	wan   float64
	epoch uint64
	err   error
}

func newWorldMap(names ...string) *worldMap {
	w := &worldMap{lan: 100, wan: 2}
	for _, n := range names {
		w.hosts = append(w.hosts, netmap.Host{Name: n, Site: strings.ToUpper(n[:1])})
	}
	return w
}

func (w *worldMap) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *worldMap) take() (*netmap.Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epoch++
	n := len(w.hosts)
	est := make([]netmap.Estimate, n*n)
	for at := range est {
		rate, latency := w.wan, 40*time.Millisecond
		if w.hosts[at/n].Site == w.hosts[at%n].Site {
			rate, latency = w.lan, 60*time.Microsecond
		}
		est[at] = netmap.Estimate{
			Known: netmap.FieldBandwidth | netmap.FieldLatency, Source: netmap.SourceProbed, Measured: time.Now(),
			Bandwidth: netmap.BytesPerSec(rate) * netmap.Mbps, Latency: latency,
		}
	}
	return netmap.NewSnapshot(w.epoch, slices.Clone(w.hosts), est), w.err
}

// TestPoolTreeFollowsTheMap: watchers hear of each tree, the log has it once, and plans get the part
// that is theirs.
func TestPoolTreeFollowsTheMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldMap("a0", "a1", "b0", "b1")
		w.err = errors.New("no map yet")
		log := &testLog{w: t.Output()}
		p, err := newPoolTree(w.take, time.Now, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); p.run(ctx) }()
		defer func() { stop(); <-ended }()

		time.Sleep(5 * time.Second)
		if s := p.current(); s.tree.Tree != nil || p.current().of(w.hosts) != nil {
			t.Fatalf("a tree without a map: %v", s.tree)
		}
		first := p.current().next
		w.change(func() { w.err = nil })
		<-first
		s := p.current()
		if s.tree.Epoch != 1 || !strings.Contains(s.tree.Reason, "first tree of 4 hosts: A | B") {
			t.Fatalf("epoch %d: %s", s.tree.Epoch, s.tree.Reason)
		}
		part := p.current().of([]netmap.Host{{Name: "b1", Site: "B"}, {Name: "a0", Site: "A"}, {Name: "b0", Site: "B"}})
		if part == nil || part.Check(3) != nil || fmt.Sprint(part.Leaves()) != "[[0 2] [1]]" {
			t.Errorf("the tree of b1, a0, b0: %v", part)
		}
		if p.current().of([]netmap.Host{{Name: "a0"}, {Name: "c9"}}) != nil {
			t.Error("a tree with a host that it lacks")
		}

		// The same rates, a little off, and other rates that split nothing else: no news.
		begun := time.Now()
		for k := range 60 {
			time.Sleep(10 * time.Second)
			w.change(func() { w.wan, w.lan = 2+0.2*float64(k%2), 60 })
		}
		select {
		case <-s.next:
			t.Fatalf("news after %v: %+v", time.Since(begun), p.current().tree)
		default:
		}

		// What was far becomes as near as what is near: one pool, soon.
		w.change(func() { w.wan = 60 })
		begun = time.Now()
		<-s.next
		if s = p.current(); s.tree.Epoch != 2 || time.Since(begun) > 10*time.Second || !s.tree.Tree.Root.Leaf() || !strings.Contains(s.tree.Reason, "→") {
			t.Errorf("after %v: epoch %d, %s", time.Since(begun), s.tree.Epoch, s.tree.Reason)
		}
		w.change(func() { w.hosts = w.hosts[:3] })
		<-s.next
		if s = p.current(); s.tree.Epoch != 3 || !strings.HasPrefix(s.tree.Reason, "host b1 left") {
			t.Errorf("epoch %d, %s", s.tree.Epoch, s.tree.Reason)
		}
		if n := strings.Count(log.String(), "new pool tree"); n != 3 || !strings.Contains(log.String(), s.tree.Reason) {
			t.Errorf("%d lines in the log", n)
		}
		var epochs []uint64
		for _, m := range p.history.list() {
			epochs = append(epochs, m.epoch)
		}
		if !slices.Equal(epochs, []uint64{1, 2, 3}) {
			t.Errorf("maps of %v are kept", epochs)
		}

		// Who asks for a tree of hosts that the next look will show, waits for it and no longer.
		w.change(func() { w.hosts = append(w.hosts, netmap.Host{Name: "b1", Site: "B"}) })
		begun = time.Now()
		tree := p.fresh(ctx, func() []string { return []string{"a0", "a1", "b0", "b1"} }, time.Minute)
		if tree.Epoch != 4 || time.Since(begun) > time.Second {
			t.Errorf("epoch %d after %v", tree.Epoch, time.Since(begun))
		}
		begun = time.Now()
		tree = p.fresh(ctx, func() []string { return []string{"never"} }, time.Minute)
		if tree.Epoch != 4 || time.Since(begun) != time.Minute {
			t.Errorf("a host that never comes: epoch %d after %v", tree.Epoch, time.Since(begun))
		}
	})
}

// The history forgets the oldest, and holds neither too many maps nor too many bytes.
func TestMapHistoryIsBounded(t *testing.T) {
	var h mapHistory
	small, err := newWorldMap("a0", "a1", "b0").take()
	if err != nil {
		t.Fatal(err)
	}
	for epoch := range uint64(40) {
		h.add(epoch+1, small)
	}
	if l := h.list(); len(l) != maxOldMaps || l[0].epoch != 25 || l[len(l)-1].epoch != 40 {
		t.Errorf("%d maps from epoch %d", len(l), l[0].epoch)
	}
	for _, n := range []int{450, 1000} {
		large := netmap.NewSnapshot(1, make([]netmap.Host, n), make([]netmap.Estimate, n*n))
		fit := maxOldMapBytes / oldMap{snap: large}.bytes()
		for epoch := range uint64(fit + 2) {
			h.add(100+epoch, large)
		}
		if l := h.list(); len(l) != fit {
			t.Errorf("%d hosts: %d maps, want %d", n, len(l), fit)
		}
	}
}

// Predictions are not kept: they would show as changes when they give way to measurements.
func TestMeasuredLeavesPredictionsOut(t *testing.T) {
	s, err := newWorldMap("a0", "a1").take()
	if err != nil {
		t.Fatal(err)
	}
	e := s.Estimate(0, 1)
	p := e
	p.Source = netmap.SourcePredicted
	m := measured(netmap.NewSnapshot(4, s.Hosts(), []netmap.Estimate{{}, e, p, {}}))
	if got := m.Estimate(1, 0); m.Epoch() != 4 || m.Estimate(0, 1) != e || got.Has(netmap.FieldBandwidth) || got.Bandwidth != 0 || got.Latency != e.Latency {
		t.Errorf("%+v, %+v", m.Estimate(0, 1), got)
	}
}

// TestPoolsService runs the three calls against real agents, one of which leaves.
func TestPoolsService(t *testing.T) {
	t.Parallel()
	first := newCluster(t, "a")
	a := startHost(t, first, nil)
	b := startHost(t, admit(t, first, "b"), nil, a)
	waitMembers(t, a, b)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	api := a.client(t).API()
	var tree *apiv1.PoolsResponse
	eventually(t, 40*time.Second, "pool tree", func() error {
		r, err := api.Pools(ctx, connect.NewRequest(&apiv1.PoolsRequest{}))
		if err != nil {
			return err
		}
		tree = r.Msg
		return nil
	})
	if tree.PoolsEpoch == 0 || tree.Reason == "" || tree.Since == nil || !strings.Contains(tree.Rendered, "2 hosts") {
		t.Errorf("pools: %v", tree)
	}
	r, err := api.Pools(ctx, connect.NewRequest(&apiv1.PoolsRequest{Criterion: "average"}))
	if err != nil || r.Msg.PoolsEpoch != 0 || r.Msg.Since != nil {
		t.Errorf("a tree made for the request: %v, %v", r, err)
	}

	stream, err := api.WatchPools(ctx, connect.NewRequest(&apiv1.WatchPoolsRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() || stream.Msg().Epoch < tree.PoolsEpoch || stream.Msg().Rendered == "" {
		t.Fatalf("first event: %v, %v", stream.Msg(), stream.Err())
	}
	b.Leave()
	for stream.Receive() {
		if e := stream.Msg(); strings.HasPrefix(e.Reason, "host b left") {
			if e.Epoch <= tree.PoolsEpoch || strings.Contains(string(e.TreeJson), `"b"`) {
				t.Errorf("event %v", e)
			}
			break
		}
	}
	if stream.Err() != nil {
		t.Fatal(stream.Err())
	}

	// The map before and after.
	d, err := api.MapDiff(ctx, connect.NewRequest(&apiv1.MapDiffRequest{From: tree.PoolsEpoch}))
	if err != nil {
		t.Fatal(err)
	}
	before, err := netmap.ParseMatrix(d.Msg.FromJson, time.Now())
	if err != nil || before.N() != 2 || d.Msg.From != tree.PoolsEpoch || d.Msg.To != 0 {
		t.Errorf("from %d to %d: %v, %v", d.Msg.From, d.Msg.To, before, err)
	}
	after, err := netmap.ParseMatrix(d.Msg.ToJson, time.Now())
	if err != nil || after.N() != 1 {
		t.Errorf("now: %v, %v", after, err)
	}
	last := d.Msg.Epochs[len(d.Msg.Epochs)-1]
	for _, tt := range []struct{ from, to, gotFrom, gotTo uint64 }{{0, 0, last - 1, 0}, {0, last, last - 1, last}, {last, last - 1, last, last - 1}} {
		d, err := api.MapDiff(ctx, connect.NewRequest(&apiv1.MapDiffRequest{From: tt.from, To: tt.to}))
		if err != nil || d.Msg.From != tt.gotFrom || d.Msg.To != tt.gotTo {
			t.Errorf("from %d to %d: %v, %v", tt.from, tt.to, d, err)
		}
	}
	for _, tt := range [][2]uint64{{999, 0}, {0, 999}, {0, 1}} {
		_, err := api.MapDiff(ctx, connect.NewRequest(&apiv1.MapDiffRequest{From: tt[0], To: tt[1]}))
		wantCode(t, err, connect.CodeNotFound)
	}

	// A watcher's stream ends with the agent.
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	if stream.Receive() {
		t.Errorf("an event of an agent that has ended: %v", stream.Msg())
	}
}

// As many watchers as there may be, and one more.
func TestPoolWatchersAreBounded(t *testing.T) {
	var w poolWatchers
	for range maxPoolWatchers {
		if !w.enter() {
			t.Fatal("refused too early")
		}
	}
	if w.enter() {
		t.Error("one too many")
	}
	w.leave()
	if !w.enter() || w.enter() {
		t.Error("a place that was given back is not one place")
	}
}
