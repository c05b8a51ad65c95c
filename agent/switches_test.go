package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/agent/membership"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

const twoSwitches = `{"switches":["s0","s1"],"links":[["s0","s1"]],"hosts":{"a0":"s0","a1":"s1","a2":"s0"},"bandwidth_mbps":100}`

// TestDeclaredTrees: a tree is used where the hosts of its site that declare one agree and its hosts
// are of that site; else a warning says who is to change what.
func TestDeclaredTrees(t *testing.T) {
	topo, err := plan.ParseTopology([]byte(twoSwitches))
	if err != nil {
		t.Fatal(err)
	}
	member := func(name, site string, switches uint64) membership.Member {
		return membership.Member{Name: name, State: membership.Alive, Meta: membership.Meta{Site: site, Switches: switches}}
	}
	for _, tc := range []struct {
		name    string
		members []membership.Member
		trees   map[uint64]*declaredTree
		used    int
		warning string // a part of it
	}{
		{"agreed", []membership.Member{member("a0", "A", 7), member("a1", "A", 7), member("a2", "A", 0), member("b0", "B", 0)},
			map[uint64]*declaredTree{7: {topology: topo}}, 1, ""},
		{"a host that it lacks", []membership.Member{member("a0", "A", 7), member("a1", "A", 0), member("a3", "A", 0)},
			map[uint64]*declaredTree{7: {topology: topo}}, 1, "that a0 declares lacks host a3:"},
		{"hosts that it lacks", []membership.Member{member("a0", "A", 7), member("z9", "A", 0), member("a3", "A", 0), member("b0", "B", 0), {Name: "a4", State: membership.Failed, Meta: membership.Meta{Site: "A"}}},
			map[uint64]*declaredTree{7: {topology: topo}}, 1, "lacks hosts a3, z9:"},
		{"not fetched yet", []membership.Member{member("a0", "A", 7)}, map[uint64]*declaredTree{7: {}}, 0, ""},
		{"two trees", []membership.Member{member("a0", "A", 7), member("a1", "A", 8)},
			map[uint64]*declaredTree{7: {topology: topo}, 8: {topology: topo}}, 0, "hosts a0 and a1 declare different"},
		{"a host of another site", []membership.Member{member("a0", "A", 7), member("a1", "B", 0)},
			map[uint64]*declaredTree{7: {topology: topo}}, 0, "host a1 is of site B"},
		{"no tree", []membership.Member{member("a0", "A", 7)},
			map[uint64]*declaredTree{7: {failed: &treeError{errors.New("no tree")}}}, 0, "a0 declares is not used"},
	} {
		s := &switches{members: func() []membership.Member { return tc.members }, trees: tc.trees}
		trees, warnings := s.current()
		if len(trees) != tc.used {
			t.Errorf("%s: %d trees are used, want %d", tc.name, len(trees), tc.used)
		}
		if all := strings.Join(warnings, "\n"); (tc.warning == "") != (all == "") || !strings.Contains(all, tc.warning) {
			t.Errorf("%s: warned %q, want %q", tc.name, all, tc.warning)
		}
	}
}

// TestTreeDoubt: what is measured between the hosts of a tree may not be far from what it declares.
func TestTreeDoubt(t *testing.T) {
	topo, err := plan.ParseTopology([]byte(twoSwitches))
	if err != nil {
		t.Fatal(err)
	}
	tree := siteTree{"A", []string{"a1"}, 7, topo}
	for mbps, fits := range map[netmap.BytesPerSec]bool{95: true, 60: true, 40: false, 200: false} {
		doubt := tree.doubt(topo.Hosts(), func(from, to string) (netmap.BytesPerSec, bool) { return mbps * netmap.Mbps, from != "a2" })
		if (doubt == "") != fits {
			t.Errorf("%v Mbit/s measured on 100: %q", mbps, doubt)
		}
	}
	if doubt := tree.doubt(topo.Hosts(), func(string, string) (netmap.BytesPerSec, bool) { return 0, false }); doubt != "" {
		t.Errorf("nothing measured: %q", doubt)
	}
}

// TestDoubtedRateIsLeftOut: where a declared rate does not fit what is measured, plans go by what is: one host that declares nonsense must not
// make every operation of its site impossible.
func TestDoubtedRateIsLeftOut(t *testing.T) {
	r := group.Request{Collective: plan.Allgather, Hosts: []string{"a0", "a1", "a2"}, Sizes: []int64{1 << 20, 1 << 20, 1 << 20}}
	snap := even(r.Hosts...) // 10 Mbit/s
	bound := func(rate string) time.Duration {
		t.Helper()
		a := shapedAgent(t, strings.Replace(twoSwitches, `,"bandwidth_mbps":100`, rate, 1))
		_, info, err := planOver(a.shape(snap), snap, nil, r)
		if err != nil {
			t.Fatalf("%s: %v", rate, err)
		}
		return info.Bound
	}
	measured := bound("")
	for _, rate := range []string{"8e-06", "1e-05", "4", "30", "1e+07"} {
		if got := bound(`,"bandwidth_mbps":` + rate); got != measured {
			t.Errorf("%s Mbit/s are declared where 10 are measured: the bound is %v, want %v", rate, got, measured)
		}
	}
	if got := bound(`,"bandwidth_mbps":9`); got <= measured {
		t.Errorf("9 Mbit/s are declared where 10 are measured: the bound is %v, by what is measured it is %v", got, measured)
	}
}

func TestNameSome(t *testing.T) {
	for n, want := range map[int]string{1: "host a", 2: "hosts a, b", 5: "hosts a, b, c, d, e", 7: "hosts a, b, c, d, e and 2 more"} {
		if got := nameSome(strings.Split("abcdefg", "")[:n]); got != want {
			t.Errorf("%d hosts: %q, want %q", n, got, want)
		}
	}
}

func TestTreeDigest(t *testing.T) {
	if treeDigest(nil) != 0 || treeDigest([]byte{}) == 0 || treeDigest([]byte("a")) == treeDigest([]byte("b")) {
		t.Error("digests do not tell files apart, or no file from one")
	}
}

// TestPlansKnowSwitches: hosts scattered over two switches are joined by a ring that crosses between
// the switches once each way, if their tree is declared; by itself an allgather takes no such care.
func TestPlansKnowSwitches(t *testing.T) {
	var hosts []string
	tree := `{"switches":["s0","s1"],"links":[["s0","s1"]],"hosts":{`
	for i := range 8 {
		hosts = append(hosts, fmt.Sprintf("a%d", i))
		tree += fmt.Sprintf(`%s"a%d":"s%d"`, map[bool]string{true: ","}[i > 0], i, i%2)
	}
	topo, err := plan.ParseTopology([]byte(tree + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	req := group.Request{Collective: plan.Allgather, Hosts: hosts, Sizes: slices.Repeat([]int64{64 << 10}, len(hosts))}
	crossings := func(sh shape) (n int, algorithm string) {
		p, info, err := planOver(sh, even(hosts...), nil, req)
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range p.Transfers {
			if tr.Src%2 != tr.Dst%2 {
				n += len(tr.Blocks)
			}
		}
		return n, info.Algorithm
	}
	blind, _ := crossings(shape{})
	known, algorithm := crossings(shape{switches: []*plan.Topology{topo}})
	if known > 2*len(hosts) || blind <= known {
		t.Errorf("%s passes %d blocks between the switches, want at most %d; without the tree %d do", algorithm, known, 2*len(hosts), blind)
	}
}
