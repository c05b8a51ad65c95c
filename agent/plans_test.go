package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/agent/membership"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// mapOf gives three hosts a map of each other, as if they had measured, and waits until the first has all of it.
func mapOf(t *testing.T, hosts []*testHost, mbps float64) {
	t.Helper()
	e := netmap.Estimate{
		Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 2 * time.Millisecond,
		Bandwidth: netmap.BytesPerSec(mbps) * netmap.Mbps,
	}
	for _, h := range hosts {
		for _, other := range hosts {
			if h == other {
				continue
			}
			if err := h.netmap.Set(h.name, other.name, e, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		h.mapSync.wake()
	}
	eventually(t, 20*time.Second, "the map of all pairs", func() error { return complete(hosts[0].snapshotOf([]string{"a", "b", "c"})) })
}

// TestPlanning is of one cluster: to start and to stop one takes longer than all that is tested.
func TestPlanning(t *testing.T) {
	first := newCluster(t, "a")
	still := func(o *Options) { o.ProbeCap = 1 << 20 } // the map is what the test says
	a := startHost(t, first, still)
	hosts := []*testHost{a, startHost(t, admit(t, first, "b"), still, a), startHost(t, admit(t, first, "c"), still, a)}
	waitMembers(t, hosts...)
	t.Run("kept", func(t *testing.T) { testPlansAreKept(t, hosts) })
	t.Run("tune", func(t *testing.T) { testTune(t, hosts) })
}

// testPlansAreKept: the second operation of its kind runs the plan of the first; it is made anew when the
// map has moved, and how operations went is in what is expected.
func testPlansAreKept(t *testing.T, hosts []*testHost) {
	mapOf(t, hosts, 20)
	a := hosts[0].Agent
	r := group.Request{Group: group.ID{1}, Collective: plan.Allgather, Hosts: []string{"a", "b", "c"}, Sizes: []int64{100_000, 0, 50_000}}
	made, info, err := a.plan(t.Context(), r)
	if err != nil || info.Cached || info.Reason == "" || info.Predicted <= 0 {
		t.Fatalf("%+v, %v", info, err)
	}
	r.Seq = 1
	now := time.Now()
	again, info2, ok := a.planKept(exchangeID(r.Group, r.Seq), r, now)
	if !ok || !info2.Cached || info2.Algorithm != info.Algorithm || info2.Bound != info.Bound {
		t.Fatalf("found %v: %+v, want %+v", ok, info2, info)
	}
	for i := range again {
		first, err := exchange.ParsePart(made[i])
		if err != nil {
			t.Fatal(err)
		}
		second, err := exchange.ParsePart(again[i])
		if err != nil {
			t.Fatal(err)
		}
		if second.ID != exchangeID(r.Group, 1) || first.ID != exchangeID(r.Group, 0) {
			t.Errorf("part %d is of exchange %v, before %v", i, second.ID, first.ID)
		}
		if second.ID = first.ID; !bytes.Equal(second.AppendTo(nil), made[i]) {
			t.Errorf("part %d is another", i)
		}
	}
	other := r
	other.Sizes = []int64{100_000, 1, 50_000}
	if _, _, ok := a.planKept(exchange.ID{}, other, now); ok {
		t.Error("a plan for other sizes was taken")
	}

	// Both operations took twice as long as forecast, the one beside the other: that says nothing. A third alone does.
	end := func(seq uint64, times float64) {
		took := time.Duration(times * float64(info.Predicted))
		a.finished(group.Finished{
			Group: r.Group, Seq: seq, Collective: r.Collective, Planned: info, Hosts: r.Hosts, Elapsed: took, Ended: now.Add(time.Duration(max(seq, 1))*time.Hour + took),
		})
	}
	end(0, 2)
	end(1, 2)
	if got := a.plans.experience.Corrections(now); len(got) != 0 {
		t.Errorf("learnt %+v of two operations at once", got)
	}
	for seq := uint64(2); seq < 5; seq++ {
		if _, _, ok := a.planKept(exchangeID(r.Group, seq), r, now); !ok {
			t.Fatal("the plan is gone")
		}
		end(seq, 2)
	}
	if got := a.plans.experience.Corrections(now); len(got) != 1 || got[0].Median < 1.99 || got[0].Median > 2.01 || got[0].Algorithm != info.Algorithm {
		t.Errorf("learnt %+v, want 2 for %s", got, info.Algorithm)
	}
	if _, later, ok := a.planKept(exchange.ID{9}, r, now); !ok || later.Predicted < info.Predicted*3/2 {
		t.Errorf("found %v; expected %v, before it was %v", ok, later.Predicted, info.Predicted)
	}

	mapOf(t, hosts, 5)
	eventually(t, 10*time.Second, "a plan that stands on links that are no more", func() error {
		if _, _, ok := a.planKept(exchange.ID{8}, r, time.Now().Add(2*time.Second)); ok {
			return errors.New("is still run")
		}
		return nil
	})
	reply, err := hosts[0].client(t).Planner().PlanCache(t.Context(), connect.NewRequest(&apiv1.PlanCacheRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	m := reply.Msg
	if len(m.Plans) != 0 || len(m.Drops) != 1 || m.Hits < 5 || m.Misses < 3 || len(m.Corrections) != 1 {
		t.Errorf("%v", m)
	}
}

// testTune runs two algorithms over three live hosts: each size has a winner, what was measured is
// remembered over a restart, and no host is left with a group.
func testTune(t *testing.T, hosts []*testHost) {
	mapOf(t, hosts, 20)
	tune := func(ctx context.Context, m *apiv1.TuneRequest, seen func(*apiv1.TuneEvent)) error {
		stream, err := hosts[0].client(t).Planner().Tune(ctx, connect.NewRequest(m))
		if err != nil {
			return err
		}
		defer stream.Close()
		for stream.Receive() {
			seen(stream.Msg())
		}
		return stream.Err()
	}
	rows := make(map[string][]*apiv1.TuneRow)
	var done *apiv1.TuneDone
	err := tune(t.Context(), &apiv1.TuneRequest{Sizes: []uint64{0, 5000}, Algorithms: []string{"bruck", "ring"}, Iterations: 2}, func(e *apiv1.TuneEvent) {
		if r := e.GetRow(); r != nil {
			key := fmt.Sprint(r.Collective, r.Bytes)
			rows[key] = append(rows[key], r)
		}
		if d := e.GetDone(); d != nil {
			done = d
		}
	})
	if err != nil || len(rows) != 4 || done.GetHosts() != 3 {
		t.Fatalf("%v: %d sizes, %v", err, len(rows), done)
	}
	for key, rs := range rows {
		if len(rs) != 2 || !rs[0].Winner || rs[1].Winner || rs[0].MeasuredSeconds > rs[1].MeasuredSeconds || len(rs[0].Seconds) != 2 || rs[0].MeasuredSeconds <= 0 {
			t.Errorf("%s: %v", key, rs)
		}
	}
	data, err := os.ReadFile(done.Saved)
	if err != nil {
		t.Fatal(err)
	}
	x, err := planner.ParseExperience(data, time.Now())
	if err != nil || len(x.Records()) < 4 {
		t.Errorf("%v: %s", err, data)
	}

	// Ended in the middle, it ends everywhere.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = tune(ctx, &apiv1.TuneRequest{Collectives: []string{"allgather"}, Sizes: []uint64{1000}, Algorithms: []string{"ring"}, Iterations: 100}, func(e *apiv1.TuneEvent) { cancel() })
	if err == nil {
		t.Error("a run that was called off says that it is done")
	}
	eventually(t, 10*time.Second, "the end of all groups", func() error {
		for _, h := range hosts {
			if s := h.groups.Status(); len(s) > 0 {
				return fmt.Errorf("%s still has %v", h.name, s)
			}
			if !h.plans.slot.TryLock() {
				return fmt.Errorf("%s is still at it", h.name)
			}
			h.plans.slot.Unlock()
		}
		return nil
	})
	if _, err := hosts[0].newTuneRun(ctx, &apiv1.TuneRequest{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was called off is planned: %v", err)
	}
	for _, bad := range []struct {
		m    *apiv1.TuneRequest
		says string
	}{
		{&apiv1.TuneRequest{Hosts: []string{"nosuch"}}, "no such host"},
		{&apiv1.TuneRequest{Hosts: []string{"a"}}, "two at least"},
		{&apiv1.TuneRequest{Hosts: []string{"b", "b"}}, "twice"},
		{&apiv1.TuneRequest{Collectives: []string{"reduce"}}, "no collective"},
		{&apiv1.TuneRequest{Algorithms: []string{"auto"}}, "no algorithm"},
		{&apiv1.TuneRequest{Sizes: []uint64{1 << 62}}, "at most"},
		{&apiv1.TuneRequest{Iterations: 1000}, "iterations"},
	} {
		if err := tune(t.Context(), bad.m, func(*apiv1.TuneEvent) {}); err == nil || !strings.Contains(err.Error(), bad.says) || strings.Contains(err.Error(), "and auto") {
			t.Errorf("%v: %v, want an error with %q", bad.m, err, bad.says)
		}
	}
}

// TestTuneHosts: what is too large a run is refused before anything is planned for it.
func TestTuneHosts(t *testing.T) {
	alive := make([]string, 2*maxTuneHosts)
	for i := range alive {
		alive[i] = fmt.Sprintf("h%04d", i)
	}
	for _, c := range []struct {
		alive, hosts int
		algorithms   []string
		says         string // "": it is not refused
	}{
		{1, 0, nil, "two at least"},
		{2, 0, nil, ""},
		{maxCompared, 0, nil, ""},
		{maxCompared + 1, 0, nil, "name algorithms"},
		{maxCompared + 1, 0, []string{"ring"}, ""},
		{maxTuneHosts, 0, []string{"ring"}, ""},
		{maxTuneHosts + 1, 0, []string{"ring"}, "at most 1024"},
		{2 * maxTuneHosts, 0, nil, "at most 1024"},
		{2 * maxTuneHosts, maxCompared, nil, ""},
	} {
		hosts, err := tuneHosts("h0000", alive[:c.alive], &apiv1.TuneRequest{Hosts: alive[:c.hosts], Algorithms: c.algorithms})
		if c.says == "" && (err != nil || hosts[0] != "h0000") || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%d hosts alive, %d named, by %v: %d hosts, %v, want %q", c.alive, c.hosts, c.algorithms, len(hosts), err, c.says)
		}
	}
}

func FuzzTuneOrder(f *testing.F) {
	f.Add([]byte(`{"job":"tune-x","rank":1,"ranks":3,"ops":[{"collective":"allgather","algorithm":"ring","bytes":1024}]}`))
	f.Add([]byte(`{"job":"tune-x","rank":-1,"ranks":3,"ops":[{"collective":"alltoall","algorithm":"bruck","bytes":-1}]}`))
	f.Add([]byte(`{"job":"tune-x","rank":1,"ranks":1000000000,"ops":[{}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		o, err := parseTuneOrder(in)
		if err != nil {
			return
		}
		if o.Ranks > maxTuneHosts || o.Rank >= o.Ranks || slices.ContainsFunc(o.Ops, func(op tuneOp) bool { return op.Bytes*int64(o.Ranks) > maxTuneBytes }) {
			t.Fatalf("%+v", o)
		}
	})
}

// shapedAgent is an agent that plans over a pool tree of epoch 1 and the switch tree that a0 has declared for its site.
func shapedAgent(t *testing.T, file string) *Agent {
	t.Helper()
	topo, err := plan.ParseTopology([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPoolTree(nil, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.set(pools.Tracked{Epoch: 1}, true)
	digest := treeDigest([]byte(file))
	members := []membership.Member{{Name: "a0", State: membership.Alive, Meta: membership.Meta{Site: "A", Switches: digest}}}
	return &Agent{pools: p, switches: &switches{
		members: func() []membership.Member { return members },
		trees:   map[uint64]*declaredTree{digest: {topology: topo}},
	}}
}

// TestKeptWithItsShape: a plan that was made while the pool tree changed is kept under the name of what it stands on, and is not run again.
func TestKeptWithItsShape(t *testing.T) {
	a := shapedAgent(t, twoSwitches)
	r := group.Request{Collective: plan.Allgather, Hosts: []string{"a0", "a1", "a2"}, Sizes: []int64{1000, 1000, 1000}}
	snap, now := even(r.Hosts...), time.Now()
	before := a.shapeName()
	d, err := decide(a.shape(snap), snap, nil, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	a.pools.set(pools.Tracked{Epoch: 2}, true)
	a.keep(exchange.ID{}, r, d, nil, snap, now)
	p, err := problemOf(r)
	if err != nil {
		t.Fatal(err)
	}
	key := planner.KeyOf(r.Hosts, p, r.Algorithm)
	if _, ok := a.plans.cache.Lookup(key, now, planner.Checks{Shape: a.shapeName()}); ok {
		t.Error("a plan over the old pool tree stands under the new one")
	}
	a.keep(exchange.ID{}, r, d, nil, snap, now)
	if _, ok := a.plans.cache.Lookup(key, now, planner.Checks{Shape: before}); !ok {
		t.Error("it is not kept under the old one")
	}
}

// TestShapeName: trees of the same hosts with other cables, or another rate, are other shapes.
func TestShapeName(t *testing.T) {
	names := make(map[string]string)
	for _, file := range []string{
		twoSwitches,
		strings.Replace(twoSwitches, `"a2":"s0"`, `"a2":"s1"`, 1),
		strings.Replace(twoSwitches, `:100}`, `:10}`, 1),
	} {
		name := shapedAgent(t, file).shapeName()
		if other, ok := names[name]; ok {
			t.Errorf("%q names %s and %s", name, other, file)
		}
		names[name] = file
	}
}
