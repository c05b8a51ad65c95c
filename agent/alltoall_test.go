package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/shuffle"
	"github.com/gridagent/gridagent/probe/netmap"
)

// even is a map of hosts that are all 10 ms and 10 Mbit/s apart.
func even(names ...string) *netmap.Snapshot {
	hosts := make([]netmap.Host, len(names))
	for i, n := range names {
		hosts[i].Name = n
	}
	est := make([]netmap.Estimate, len(names)*len(names))
	for i := range est {
		est[i] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 10 * time.Millisecond, Bandwidth: 10 * netmap.Mbps}
	}
	return netmap.NewSnapshot(3, hosts, est)
}

// alltoallRequest asks for blocks of sizes of their own.
func alltoallRequest(seed uint64, hosts ...string) group.Request {
	rng := rand.New(rand.NewPCG(seed, 5))
	r := group.Request{Collective: plan.Alltoall, Hosts: hosts, Matrix: make([][]int64, len(hosts))}
	for i := range hosts {
		for j := range hosts {
			n := int64(rng.IntN(3) * rng.IntN(100_000))
			if i == j {
				n = 0
			}
			r.Matrix[i] = append(r.Matrix[i], n)
		}
	}
	return r
}

func TestMakeAlltoallPlan(t *testing.T) {
	hosts := []string{"a", "b", "c", "d", "e"}
	for seed := range uint64(10) {
		for n := 1; n <= len(hosts); n++ {
			req := alltoallRequest(seed, hosts[:n]...)
			for _, alg := range []string{"", "aapc", "group-shuffle", "bruck"} {
				req.Algorithm = alg
				req.Options = group.Options{}
				if alg == "aapc" {
					req.Options.Sync = "sender"
				}
				p, info, err := planOver(shape{}, even(hosts[:n]...), nil, req)
				if err != nil {
					t.Fatalf("seed %d: %q over %d hosts: %v", seed, alg, n, err)
				}
				if err := plan.Verify(p, plan.Rules{Chunked: true}); err != nil {
					t.Errorf("seed %d: %q over %d hosts: %v", seed, alg, n, err)
				}
				if p.Collective != plan.Alltoall || info.Epoch != 3 || alg != "" && info.Algorithm != alg || info.Predicted < info.Bound {
					t.Errorf("seed %d: %q over %d hosts: %s, %+v", seed, alg, n, p.Collective, info)
				}
				for i, row := range req.Matrix {
					for j, want := range row {
						if got := p.Size(plan.Block{Origin: i, Dest: j}); i != j && got != want {
							t.Errorf("seed %d: block %d→%d has %d bytes, want %d", seed, i, j, got, want)
						}
					}
				}
			}
		}
	}
	// Without a map.
	mapErr := errors.New("the map is empty")
	req := alltoallRequest(1, hosts...)
	if p, info, err := planOver(shape{}, even(hosts...), mapErr, req); err != nil || info.Algorithm != "shift" || plan.Verify(p, plan.Rules{}) != nil {
		t.Errorf("without a map: %+v, %v", info, err)
	}
	for _, alg := range []string{"aapc", "bruck", "min3"} {
		req.Algorithm = alg
		if _, _, err := planOver(shape{}, even(hosts...), mapErr, req); err == nil || !strings.Contains(err.Error(), alg) {
			t.Errorf("%q without a map: error %v, want one that names it", alg, err)
		}
	}
}

// TestGivenPlan takes plans whose hosts stand in any order, and proves that they become the
// same plan over the group's hosts.
func TestGivenPlan(t *testing.T) {
	hosts := []string{"a", "b", "c", "d", "e"}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 6))
		n := 1 + rng.IntN(len(hosts))
		req := alltoallRequest(seed, hosts[:n]...)
		order := rng.Perm(n)
		names := make([]string, n)
		sizes := plan.AlltoallSizes{Matrix: make([][]int64, n)}
		for i, h := range order {
			names[i] = hosts[h]
			for _, k := range order {
				sizes.Matrix[i] = append(sizes.Matrix[i], req.Matrix[h][k])
			}
		}
		given, err := shuffle.Pairwise(names, sizes)
		if rng.IntN(2) == 0 { // an allgather
			req.Collective, req.Sizes = plan.Allgather, nil
			list := make([]int64, n)
			for h := range hosts[:n] {
				req.Sizes = append(req.Sizes, int64(1000*h+rng.IntN(3)))
			}
			for i, h := range order {
				list[i] = req.Sizes[h]
			}
			given, err = baseline.Bruck(names, list)
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if req.Plan, err = given.AppendJSON(nil); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		p, info, err := planOver(shape{}, even(hosts[:n]...), nil, req)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !info.Given || info.Algorithm != given.Algorithm || !slices.Equal(p.Hosts, req.Hosts) {
			t.Errorf("seed %d: %+v over %v", seed, info, p.Hosts)
		}
		if err := plan.Verify(p, plan.Rules{}); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		for i := range p.Transfers {
			x, y := &given.Transfers[i], &p.Transfers[i]
			if given.Hosts[x.Src] != p.Hosts[y.Src] || given.Hosts[x.Dst] != p.Hosts[y.Dst] || given.Bytes(x) != p.Bytes(y) || !slices.Equal(x.After, y.After) {
				t.Fatalf("seed %d: transfer %d became %+v", seed, i, y)
			}
		}
		if _, blind, err := planOver(shape{}, even(hosts[:n]...), errors.New("no map"), req); err != nil || blind.Bound != 0 || blind.Predicted != 0 {
			t.Errorf("seed %d: without a map: %+v, %v", seed, blind, err)
		}
	}
}

func TestGivenPlanIsRefused(t *testing.T) {
	hosts := []string{"a", "b", "c"}
	for _, tc := range []struct {
		name string
		edit func(p *plan.Plan, r *group.Request)
		says string
	}{
		{"none", func(*plan.Plan, *group.Request) {}, ""},
		{"another collective", func(_ *plan.Plan, r *group.Request) { r.Collective, r.Sizes = plan.Allgather, []int64{1, 1, 1} }, "for an alltoall"},
		{"a host too many", func(p *plan.Plan, r *group.Request) { p.Hosts[1] = "x" }, `its host "x" has no rank`},
		{"a host too few", func(p *plan.Plan, r *group.Request) {
			r.Hosts = append(r.Hosts[:3:3], "d")
			r.Matrix = alltoallRequest(1, r.Hosts...).Matrix
		}, `host "d" has ranks`},
		{"another size", func(p *plan.Plan, r *group.Request) { r.Matrix[2][0]++ }, "1000 bytes from host c for host a, the ranks have 1001"},
		{"a transfer too few", func(p *plan.Plan, r *group.Request) { p.Transfers = p.Transfers[:5] }, "never reaches"},
		{"a long name", func(p *plan.Plan, r *group.Request) { p.Algorithm = strings.Repeat("x", 65) }, "65 bytes"},
	} {
		p, err := shuffle.Shift(slices.Clone(hosts), plan.AlltoallSizes{Uniform: 1000})
		if err != nil {
			t.Fatal(err)
		}
		req := group.Request{Collective: plan.Alltoall, Hosts: hosts, Matrix: [][]int64{{0, 1000, 1000}, {1000, 0, 1000}, {1000, 1000, 0}}}
		tc.edit(p, &req)
		if req.Plan, err = p.AppendJSON(nil); err != nil {
			t.Fatal(err)
		}
		_, _, err = planOver(shape{}, even(req.Hosts...), nil, req)
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.says)
		}
	}
	req := group.Request{Collective: plan.Alltoall, Hosts: hosts, Plan: []byte(`{"collective":`)}
	if _, _, err := planOver(shape{}, even(hosts...), nil, req); err == nil {
		t.Error("half a plan is taken")
	}
}

func TestCheckOptions(t *testing.T) {
	for _, tc := range []struct {
		w    group.Wish
		says string
	}{
		{group.Wish{}, ""},
		{group.Wish{Options: group.Options{Sync: "sender", SyncBlock: 3, SyncStrict: true}}, ""},
		{group.Wish{Algorithm: "group-shuffle", Options: group.Options{Fanout: 3}}, ""},
		{group.Wish{Algorithm: "nonsense"}, "nonsense"},
		{group.Wish{Algorithm: "shift", Options: group.Options{Fanout: 3}}, "fanout is not for shift"},
		{group.Wish{Algorithm: "aapc", Options: group.Options{Sync: "always"}}, `"always"`},
		{group.Wish{Options: group.Options{Within: "always"}}, `"always"`},
		{group.Wish{Options: group.Options{Sync: "none", SyncBlock: 2}}, "no meaning"},
		{group.Wish{Plan: []byte("{}"), Options: group.Options{Sync: "sender"}}, "as it is"},
	} {
		err := checkOptions(&tc.w)
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%+v: error %v, want %q", tc.w, err, tc.says)
		}
	}
}

// TestAlltoallThreeAgents is an alltoall over real sockets and spool files: by an algorithm,
// and by a plan that one rank brings.
func TestAlltoallThreeAgents(t *testing.T) {
	t.Parallel()
	hosts := threeHosts(t)
	a, b, c := hosts[0], hosts[1], hosts[2]
	at := []*testHost{c, a, b, a, c} // five ranks
	names := []string{"b", "c", "a"}
	ranksOf := map[string][]int{"a": {1, 3}, "b": {2}, "c": {0, 4}}
	size := func(s, d int) int { return s * d * 10_007 % 90_001 }
	sizes := plan.AlltoallSizes{Matrix: make([][]int64, 3)}
	for i, from := range names {
		for _, to := range names {
			var n int64
			for _, s := range ranksOf[from] {
				for _, d := range ranksOf[to] {
					n += int64(size(s, d))
				}
			}
			sizes.Matrix[i] = append(sizes.Matrix[i], n)
		}
	}
	p, err := shuffle.Pairwise(names, sizes)
	if err != nil {
		t.Fatal(err)
	}
	given, err := p.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		plan   []byte
		report string
	}{{nil, ""}, {given, "pairwise"}} {
		const seed = 8
		blocks := make([][][]byte, len(at))
		for s := range at {
			var list []int
			for d := range at {
				list = append(list, size(s, d))
			}
			blocks[s] = randomBlocks(seed+uint64(s), list...)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for r, h := range at {
			wg.Go(func() {
				rank, err := h.client(t).Join(ctx, "cross", r, len(at))
				if err != nil {
					t.Errorf("rank %d: %v", r, err)
					return
				}
				defer rank.Close()
				var opts client.AlltoallOptions
				for d := range at {
					opts.Sizes = append(opts.Sizes, int64(size(r, d)))
				}
				if r == 3 {
					opts.Plan = tc.plan
				}
				res, err := rank.Alltoall(ctx, bytes.Join(blocks[r], nil), opts)
				if err != nil {
					t.Errorf("rank %d: %v", r, err)
					return
				}
				defer res.Close()
				var want []byte
				for s := range at {
					want = append(want, blocks[s][r]...)
				}
				if !bytes.Equal(res.Data, want) {
					t.Errorf("rank %d: wrong bytes", r)
				}
				if rep := res.Report; rep.PlanGiven != (tc.plan != nil) || tc.report != "" && rep.Algorithm != tc.report {
					t.Errorf("rank %d: report %v", r, rep)
				}
			})
		}
		wg.Wait()
	}
	for _, h := range hosts {
		eventually(t, 5*time.Second, "spool", func() error {
			if left := spoolFiles(t, h); len(left) > 0 {
				return fmt.Errorf("left in the spool: %v", left)
			}
			return nil
		})
	}
}

// TestAlltoallJSON is the example of docs/api.md, and what a script can get wrong.
func TestAlltoallJSON(t *testing.T) {
	t.Parallel()
	curl := httpClient(t, startHost(t, newCluster(t, "solo"), nil), false)
	bodies := []string{
		`{"job":"j3","rank":0,"ranks":2,"data":"QUFhYQ=="}`,
		`{"job":"j3","rank":1,"ranks":2,"data":"QmJiYg==","sizes":[1,3]}`,
	}
	answers := make([]map[string]any, 2)
	var wg sync.WaitGroup
	for r, body := range bodies {
		wg.Go(func() { _, answers[r] = post(t, curl, "Alltoall", body) })
	}
	wg.Wait()
	for r, want := range []struct{ data, sizes string }{{"AAB", "[2 1]"}, {"aabbb", "[2 3]"}} {
		data, err := base64.StdEncoding.DecodeString(fmt.Sprint(answers[r]["data"]))
		if err != nil || string(data) != want.data || fmt.Sprint(answers[r]["sizes"]) != want.sizes {
			t.Errorf("rank %d: %q, %v", r, data, answers[r])
		}
	}
	for _, bad := range []struct{ method, body, code, says string }{
		{"Alltoall", `{"job":"j","rank":0,"ranks":1,"algorithm":"min3"}`, "invalid_argument", "min3"},
		{"Alltoall", `{"job":"j","rank":0,"ranks":1,"options":{"sync":"x"}}`, "invalid_argument", `"x"`},
		{"Alltoall", `{"job":"j","rank":0,"ranks":1,"sizes":[1125899906842625]}`, "invalid_argument", "1125899906842625"},
		{"Alltoall", `{"job":"j","rank":0,"ranks":1,"data":"QUFhYQ==","sizes":[3]}`, "aborted", "rank 0 on host solo failed: its input has 4 bytes"},
		{"Alltoall", `{"job":"j","rank":0,"ranks":1,"data":"QUFhYQ==","planJson":"e30="}`, "aborted", `its plan: line 1: "collective" is missing`},
		{"Alltoall", `{"job":"j","rank":0,"ranks":1,"algorithm":"shift","planJson":"e30="}`, "invalid_argument", "give one of the two"},
		{"Allgather", `{"job":"j","rank":0,"ranks":1,"planJson":"e30="}`, "aborted", "its plan: "},
		{"Alltoall", `{"job":"j","rank":0}`, "failed_precondition", "has not joined"},
	} {
		_, out := post(t, curl, bad.method, bad.body)
		if out["code"] != bad.code || !strings.Contains(fmt.Sprint(out["message"]), bad.says) {
			t.Errorf("%s %s: %v, want %s with %q", bad.method, bad.body, out, bad.code, bad.says)
		}
	}
}
