package mpic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/shuffle"
	"github.com/gridagent/gridagent/min3"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

func hosts(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	return names
}

// matrix returns sizes of which some are 0.
func matrix(rng *rand.Rand, n int) [][]int64 {
	m := make([][]int64, n)
	for i := range m {
		for range n {
			m[i] = append(m[i], max(0, rng.Int64N(3000)-500))
		}
	}
	return m
}

// sites is a snapshot of n hosts on three sites, each pair of sites with a bandwidth of its own.
func sites(n int) *netmap.Snapshot {
	infos := make([]netmap.Host, n)
	est := make([]netmap.Estimate, n*n)
	site := func(i int) int { return 3 * i / n }
	for i := range n {
		infos[i].Name = hosts(n)[i]
		for j := range n {
			e := netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 60 * time.Microsecond, Bandwidth: 85 * netmap.Mbps}
			if a, b := site(i), site(j); a != b {
				e.Latency, e.Bandwidth = 50*time.Millisecond, netmap.BytesPerSec(1+a+b)*netmap.Mbps
			}
			if i != j {
				est[i*n+j] = e
			}
		}
	}
	return netmap.NewSnapshot(1, infos, est)
}

// topology is the cluster of Faraj & Yuan's figure 1, with six machines on four switches.
func topology(t testing.TB) *plan.Topology {
	t.Helper()
	topo, err := plan.NewTopology([]string{"s0", "s1", "s2", "s3"}, [][2]int{{0, 1}, {0, 2}, {1, 3}},
		hosts(6), []int{0, 0, 2, 3, 3, 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// randomPlan draws a plan with relays, transfers of several blocks, and synchronisations of
// every kind. Blocks of no bytes may be missing.
func randomPlan(rng *rand.Rand, n int, collective plan.Collective) *plan.Plan {
	p := &plan.Plan{Collective: collective, Algorithm: "random", Hosts: hosts(n), Transfers: []plan.Transfer{}}
	var blocks []plan.Block
	for o := range n {
		for d := range n {
			if collective == plan.Alltoall {
				blocks = append(blocks, plan.Block{Origin: o, Dest: d})
			}
		}
		if collective == plan.Allgather {
			blocks = append(blocks, plan.Block{Origin: o, Dest: plan.All})
		}
	}
	switch m := matrix(rng, n); {
	case rng.IntN(3) == 0:
		p.MessageBytes = 1000
	case collective == plan.Alltoall:
		p.Matrix = m
	default:
		p.Sizes = m[0]
	}
	type at struct {
		host  int
		block plan.Block
	}
	brought := make(map[at]int)
	holds := func(host int, b plan.Block) bool {
		_, ok := brought[at{host, b}]
		return ok || b.Origin == host
	}
	wanted := func() bool {
		for h := range n {
			for _, b := range blocks {
				if (b.Dest == plan.All || b.Dest == h) && !holds(h, b) && p.Size(b) > 0 {
					return true
				}
			}
		}
		return false
	}
	for wanted() {
		src, dst := rng.IntN(n), rng.IntN(n)
		if src == dst {
			continue
		}
		t := plan.Transfer{ID: len(p.Transfers), Src: src, Dst: dst, Phase: -1}
		for _, k := range rng.Perm(len(blocks)) {
			b := blocks[k]
			relay := b.Dest != plan.All && b.Dest != dst
			if len(t.Blocks) < 3 && holds(src, b) && !holds(dst, b) && (!relay || rng.IntN(6) == 0) {
				t.Blocks = append(t.Blocks, b)
				if a, ok := brought[at{src, b}]; ok {
					t.After = append(t.After, a)
				}
			}
		}
		if len(t.Blocks) == 0 {
			continue
		}
		for _, b := range t.Blocks {
			brought[at{dst, b}] = t.ID
		}
		for k := rng.IntN(4); t.ID > 0 && k > 0; k-- {
			t.After = append(t.After, rng.IntN(t.ID))
			t.Sync = []string{"", plan.SyncSender, plan.SyncReceiver, plan.SyncDummy, plan.SyncBarrier}[(t.ID/4)%5]
		}
		slices.Sort(t.After)
		t.After = slices.Compact(t.After)
		p.Transfers = append(p.Transfers, t)
	}
	return p
}

// A sample is a plan that the tests compile and run.
type sample struct {
	name string
	plan *plan.Plan
}

// samples returns plans of all kinds for up to eight ranks.
func samples(t testing.TB) []sample {
	t.Helper()
	var all []sample
	add := func(name string, p *plan.Plan, err error) {
		t.Helper()
		if err == nil {
			err = plan.Verify(p, plan.Rules{})
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, sample{name, p})
	}
	rng := rand.New(rand.NewPCG(9, 1))
	uniform := plan.AlltoallSizes{Uniform: 1000}
	pool := [][]int{{0, 1, 2}, {3, 4}, {5, 6}}

	p, err := baseline.Ring(hosts(4), []int64{1000})
	add("ring", p, err)
	p, err = baseline.Bruck(hosts(5), []int64{10, 0, 3000, 1, 7})
	add("bruck-v", p, err)
	p, err = baseline.RecursiveDoubling(hosts(7), []int64{1000})
	add("doubling-7", p, err)
	p, err = baseline.MagPIe(hosts(7), []int64{1000}, pool)
	add("magpie", p, err)
	grid := sites(6)
	tree, err := pools.Build(grid, pools.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p, err = min3.Schedule(grid, tree, []int64{1000}, min3.Options{})
	add("min3", p, err)
	p, err = baseline.Simple(hosts(1), []int64{1000})
	add("alone", p, err)

	p, err = baseline.AlltoallBruck(hosts(5), uniform)
	add("alltoall-bruck", p, err)
	p, err = baseline.AlltoallHierarchical(hosts(7), plan.AlltoallSizes{Matrix: matrix(rng, 7)}, pool)
	add("alltoall-hierarchical-v", p, err)
	p, err = shuffle.Pairwise(hosts(5), plan.AlltoallSizes{Matrix: matrix(rng, 5)})
	add("pairwise-v", p, err)
	p, err = shuffle.Group(hosts(6), uniform, 2)
	add("group-shuffle", p, err)
	for name, opt := range map[string]phase.Options{
		"aapc-none": {}, "aapc-dummy": {Sync: phase.Dummy}, "aapc-sender": {Sync: phase.Sender}, "aapc-receiver": {Sync: phase.Receiver},
		"aapc-barrier": {Sync: phase.Barrier}, "aapc-barrier-sender": {Sync: phase.Barrier, Block: 3, Within: phase.Sender},
	} {
		p, err = phase.Schedule(topology(t), uniform, opt)
		add(name, p, err)
	}
	add("random-allgather", randomPlan(rng, 5, plan.Allgather), nil)
	add("random-alltoall", randomPlan(rng, 4, plan.Alltoall), nil)
	empty, err := plan.NewAlltoall("nothing", hosts(3), plan.AlltoallSizes{Matrix: [][]int64{{0, 0, 5}, {0, 0, 0}, {0, 0, 0}}})
	if err != nil {
		t.Fatal(err)
	}
	empty.Transfers = []plan.Transfer{{Src: 0, Dst: 2, Blocks: []plan.Block{{Origin: 0, Dest: 2}}, Phase: -1}}
	add("left-out", empty, nil)
	slices.SortFunc(all, func(a, b sample) int { return len(a.plan.Hosts) - len(b.plan.Hosts) })
	return all
}
