package exchange

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// siteOfTest is the site of a host whose name begins with it.
func siteOfTest(host string) string { return strings.TrimRight(host, "0123456789") }

// A host that sends nearly all that crosses a link knows so, and its mates that they send little; of a link that all share alike nobody is told.
func TestWeigh(t *testing.T) {
	hosts := []string{"a0", "a1", "a2", "a3", "b0", "b1"}
	direct := func(sizes []int64) *plan.Plan {
		p := &plan.Plan{Collective: plan.Allgather, Algorithm: "test", Hosts: hosts, Sizes: sizes}
		for s := range hosts {
			for d := range hosts {
				if s != d {
					p.Transfers = append(p.Transfers, plan.Transfer{ID: len(p.Transfers), Src: s, Dst: d, Phase: -1, Blocks: []plan.Block{{Origin: s, Dest: plan.All}}})
				}
			}
		}
		return p
	}
	for _, tt := range []struct {
		name  string
		sizes []int64
		alike map[string][2]int // by sender: hosts like it that would fill the link from a to b, and pairs like its own
	}{
		{"equal", []int64{1000, 1000, 1000, 1000, 1000, 1000}, map[string][2]int{"a0": {4, 8}, "a1": {4, 8}}},
		{"one has nearly all", []int64{1 << 20, 1000, 1000, 1000, 5, 5}, map[string][2]int{"a0": {1, 2}, "a1": {4, 8}}},
		{"one has two thirds", []int64{6000, 1000, 1000, 1000, 5, 5}, map[string][2]int{"a0": {2, 3}, "a1": {4, 8}}},
		{"one has all", []int64{1000, 0, 0, 0, 0, 0}, map[string][2]int{"a0": {1, 2}, "a1": {4, 8}}},
	} {
		parts, err := Split(direct(tt.sizes), ID{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		Weigh(parts, siteOfTest)
		for _, p := range parts {
			again, err := ParsePart(p.AppendTo(nil))
			if err != nil || !reflect.DeepEqual(again.Crossings, p.Crossings) {
				t.Errorf("%s: %v, %v after a journey, want %v", tt.name, err, again, p.Crossings)
			}
			want, ok := tt.alike[p.Hosts[p.Self]]
			if !ok {
				continue
			}
			if got := p.like(siteOfTest, "b0", false, 4, 4); got != want[0] {
				t.Errorf("%s: %s is one of %d, want %d", tt.name, p.Hosts[p.Self], got, want[0])
			}
			if got := p.like(siteOfTest, "b1", true, 8, 8); got != want[1] {
				t.Errorf("%s: a pair of %s is one of %d, want %d", tt.name, p.Hosts[p.Self], got, want[1])
			}
		}
		if tt.name == "equal" && len(parts[0].Crossings)+len(parts[4].Crossings) > 0 {
			t.Errorf("%v of equal blocks", parts[0].Crossings)
		}
	}
}

// Two hosts of an alltoall in three pairs and in two know that five share the link, where each would guess six or four. Where all are in as many nobody is told.
func TestWeighTellsHowManyPairsShareALink(t *testing.T) {
	hosts := []string{"a0", "a1", "b0", "b1", "b2", "b3", "b4"}
	for _, tt := range []struct {
		name string
		of   [][2]int
		told bool
	}{
		{"three and two", [][2]int{{0, 2}, {0, 3}, {0, 4}, {1, 5}, {1, 6}}, true},
		{"two each", [][2]int{{0, 2}, {0, 3}, {1, 5}, {1, 6}}, false},
	} {
		p := &plan.Plan{Collective: plan.Alltoall, Algorithm: "test", Hosts: hosts, Matrix: make([][]int64, len(hosts))}
		for i := range hosts {
			p.Matrix[i] = make([]int64, len(hosts))
		}
		for _, pair := range tt.of {
			for _, way := range [][2]int{pair, {pair[1], pair[0]}} {
				p.Matrix[way[0]][way[1]] = 1000
				p.Transfers = append(p.Transfers, plan.Transfer{ID: len(p.Transfers), Src: way[0], Dst: way[1], Phase: -1, Blocks: []plan.Block{{Origin: way[0], Dest: way[1]}}})
			}
		}
		parts, err := Split(p, ID{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		Weigh(parts, siteOfTest)
		for i, guess := range []int{2 * 3, 2 * 2} {
			want := guess
			if tt.told {
				want = len(tt.of)
			}
			if got := parts[i].like(siteOfTest, parts[i].Hosts[parts[i].Sends[0].Dst], true, guess, 2*guess); got != want {
				t.Errorf("%s: a pair of %s is one of %d, want %d", tt.name, hosts[i], got, want)
			}
		}
		if told := len(parts[2].Crossings) > 0; told == tt.told { // five in one pair each guess right, and not if one of them is in none
			t.Errorf("%s: %s is told of %v", tt.name, hosts[2], parts[2].Crossings)
		}
	}
}

// Of a slow link and a fast way back the slow one is full first of all if both have the same bytes to carry, and makes way where what comes back takes as long.
func TestBusyBack(t *testing.T) {
	path := Path{RTT: 10 * time.Millisecond, Rate: 100_000, Back: 400_000}
	for _, tt := range []struct {
		name     string
		out, in  int64 // bytes of a block
		busyBack bool
	}{
		{"as many bytes", 1000, 1000, false},
		{"four times as many back", 1000, 4000, true},
		{"half a time as long back", 1000, 2000, false},
		{"more than that back", 1000, 9000, true},
		{"nothing back", 1000, 0, true},
	} {
		hosts := []string{"a0", "a1", "b0", "c0"}
		p := &plan.Plan{Collective: plan.Alltoall, Algorithm: "test", Hosts: hosts, Matrix: make([][]int64, len(hosts))}
		for i := range hosts {
			p.Matrix[i] = make([]int64, len(hosts))
		}
		// What goes to other sites and to mates does not count.
		for _, x := range []struct {
			src, dst int
			size     int64
		}{{0, 2, tt.out}, {2, 0, tt.in}, {0, 1, 50_000}, {1, 0, 10}, {0, 3, 10}, {3, 0, 50_000}} {
			if x.size == 0 {
				continue
			}
			p.Matrix[x.src][x.dst] = x.size
			p.Transfers = append(p.Transfers, plan.Transfer{ID: len(p.Transfers), Src: x.src, Dst: x.dst, Phase: -1, Blocks: []plan.Block{{Origin: x.src, Dest: x.dst}}})
		}
		parts, err := Split(p, ID{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := parts[0].busyBack(siteOfTest, "b0", path); got != tt.busyBack {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.busyBack)
		}
	}
}

// What is told of a link is what all parts send over it, and only those are told that do.
func TestWeighRandom(t *testing.T) {
	for seed := range uint64(30) {
		parts, err := Split(randomPlan(rand.New(rand.NewPCG(seed, 29)), 64), ID{}, 64, nil)
		if err != nil {
			t.Fatal(err)
		}
		site := func(host string) string { return host[len(host)-1:] } // hosts are numbered
		Weigh(parts, site)
		for _, p := range parts {
			for _, c := range p.Crossings {
				var all int64
				for _, q := range parts {
					if site(q.Hosts[q.Self]) != site(p.Hosts[p.Self]) {
						continue
					}
					for i := range q.Sends {
						if site(q.Hosts[q.Sends[i].Dst]) == site(p.Hosts[c.Host]) {
							all += q.carries(q.Sends[i].Blocks)
						}
					}
				}
				if all != c.Bytes || site(p.Hosts[c.Host]) == site(p.Hosts[p.Self]) {
					t.Errorf("seed %d: %s is told of %d bytes to the site of %s, which are %d", seed, p.Hosts[p.Self], c.Bytes, p.Hosts[c.Host], all)
				}
			}
			if err := p.Validate(); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	}
	for _, bad := range []Crossing{{Host: 2}, {Host: 0}, {Host: -1}, {Host: 1, Bytes: -1}, {Host: 1, Bytes: maxBytes + 1}} {
		p := &Part{Collective: plan.Allgather, Hosts: []string{"a", "b"}, Chunk: 1, Crossings: []Crossing{bad}}
		if p.Validate() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
