package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A lab is what estimates are drawn of: hosts by site, with ports and one rate between sites, in Mbit/s.
type lab struct {
	labels []string // of hosts; those whose labels begin with the same letter are at one site
	port   func(host int) float64
	link   float64
	lag    time.Duration
}

// snapshot draws the estimates with so much noise, relative.
func (l lab) snapshot(noise float64, rng *rand.Rand) *netmap.Snapshot {
	n := len(l.labels)
	hosts := make([]netmap.Host, n)
	est := make([]netmap.Estimate, n*n)
	for i, a := range l.labels {
		hosts[i] = netmap.Host{Name: fmt.Sprintf("h%04d", i), Site: a}
		for j, b := range l.labels {
			e := netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 50 * time.Microsecond}
			rate := min(l.port(i), l.port(j))
			if a[0] != b[0] {
				rate, e.Latency = min(rate, l.link), l.lag
			}
			e.Bandwidth = netmap.BytesPerSec(rate*(1+noise*rng.NormFloat64())) * netmap.Mbps
			est[i*n+j] = e
		}
	}
	return netmap.NewSnapshot(0, hosts, est)
}

// TestClustersUnderNoise: with estimates that are 5 % off, and the tree of each draw, which differs from draw to draw, rightly labelled
// sites are the clusters of every draw. A plan then stands on the same sites however the noise falls.
func TestClustersUnderNoise(t *testing.T) {
	alike := func(int) float64 { return 100 }
	sites := []string{"A", "A", "A", "A", "A", "B", "B", "B", "B", "C", "C", "C"}
	for _, tt := range []struct {
		name string
		lab
	}{
		{"slow links", lab{sites, alike, 10, 20 * time.Millisecond}},
		{"links like the LANs", lab{sites, alike, 100, 20 * time.Millisecond}},
		{"near each other", lab{sites, alike, 50, 200 * time.Microsecond}},
		{"unlike ports", lab{sites, func(h int) float64 { return []float64{1000, 100}[h%2] }, 10, 20 * time.Millisecond}},
	} {
		trees := map[string]bool{}
		for seed := range uint64(50) {
			snap := tt.snapshot(0.05, rand.New(rand.NewPCG(seed, 1)))
			tree, err := pools.Build(snap, pools.Config{})
			if err != nil {
				t.Fatal(err)
			}
			trees[fmt.Sprint(tree.Leaves())] = true
			p := &Problem{Snapshot: snap, Tree: tree}
			if got, want := fmt.Sprint(p.Clusters()), "[[0 1 2 3 4] [5 6 7 8] [9 10 11]]"; got != want {
				t.Errorf("%s, seed %d: %s of leaves %v", tt.name, seed, got, tree.Leaves())
			}
		}
		if len(trees) < 2 {
			t.Errorf("%s: the noise does not reach the trees", tt.name)
		}
	}
}

// TestClustersOfYoungLAN: what five agents of one LAN read of it that had started together, with eleven others on the same two cores, takes their site not apart. It does where
// no pair of two halves reads what ports have, with certainty.
func TestClustersOfYoungLAN(t *testing.T) {
	read := [5][5]float64{{0, 129.3, 178.8, 132.2, 76.46}, {179.4, 0, 179, 179.4, 89.04}, {146.4, 178.2, 0, 147, 107.5}, {179, 57.11, 178.5, 0, 177.9}, {179, 166.2, 179.3, 167.8, 0}}
	spread := [5][5]float64{{0, 1.042, 0.294, 0.5, 0.954}, {0.5, 0, 0.205, 0.5, 0.972}, {0.5, 0.5, 0, 0.644, 0.5}, {0.5, 1.18, 0.296, 0, 0.5}, {0.021, 0.5, 0.02, 0.5, 0}}
	l := lab{[]string{"A", "A", "A", "A", "A", "B", "B", "B"}, func(int) float64 { return 179 }, 2, 10 * time.Millisecond}
	for _, certain := range []bool{false, true} {
		snap := l.snapshot(0, rand.New(rand.NewPCG(1, 1)))
		est := make([]netmap.Estimate, 0, 64)
		for i := range 8 {
			for j := range 8 {
				e := snap.Estimate(i, j)
				if i < 5 && j < 5 {
					mbps := read[i][j]
					if certain && i < 3 != (j < 3) {
						mbps = min(mbps, 90)
					}
					if e.Bandwidth = netmap.BytesPerSec(mbps) * netmap.Mbps; !certain {
						e.Spread = spread[i][j]
					}
				}
				est = append(est, e)
			}
		}
		p := &Problem{Snapshot: netmap.NewSnapshot(0, snap.Hosts(), est)}
		tree, err := pools.Build(p.Snapshot, pools.Config{})
		if err != nil {
			t.Fatal(err)
		}
		p.Tree = tree
		if got := p.Clusters(); (len(got) == 2) == certain {
			t.Errorf("certain %v: clusters %v of leaves %v", certain, got, tree.Leaves())
		}
	}
}

// TestClustersOnSwitches: 32 hosts of one label on four switches are one cluster in every draw of a young map, though most ways between
// switches are measured beside others, and the tree takes the site apart. That is not so where the cables carry less than ports.
func TestClustersOnSwitches(t *testing.T) {
	for seed := range uint64(20) {
		for _, slower := range []bool{false, true} {
			c := cabling{dealt(32, 4), 0.5, 0.01, 0.01}
			snap := c.snapshot(rand.New(rand.NewPCG(seed, 2)))
			tree := &pools.Tree{Root: &pools.Pool{}, Hosts: snap.Hosts()}
			for s := range 4 {
				leaf := &pools.Pool{}
				for h := s; h < 32; h += 4 {
					leaf.Hosts = append(leaf.Hosts, h)
				}
				tree.Root.Hosts, tree.Root.Children = append(tree.Root.Hosts, leaf.Hosts...), append(tree.Root.Children, leaf)
			}
			slices.Sort(tree.Root.Hosts)
			if slower {
				est := make([]netmap.Estimate, 0, 32*32)
				for i := range 32 * 32 {
					e := snap.Estimate(i/32, i%32)
					if c.home[i/32] != c.home[i%32] {
						e.Bandwidth *= 0.7
					}
					est = append(est, e)
				}
				snap = netmap.NewSnapshot(0, snap.Hosts(), est)
			}
			got := (&Problem{Snapshot: snap, Tree: tree}).Clusters()
			if want := map[bool]int{false: 1, true: 4}[slower]; len(got) != want {
				t.Errorf("seed %d, slower cables %v: %d clusters, want %d", seed, slower, len(got), want)
			}
		}
	}
}

// TestClustersAndOneThirdHost: what one of the hosts of a third site measures, or says, takes no LAN apart whose hosts have two labels; what most of
// them do does. And with many of them noise alone does not.
func TestClustersAndOneThirdHost(t *testing.T) {
	const third = 5
	for odd := range third + 1 {
		l := lab{[]string{"A1", "A1", "A1", "A2", "A2", "A2", "C", "C", "C", "C", "C"}, func(int) float64 { return 100 }, 10, 20 * time.Millisecond}
		snap := l.snapshot(0, rand.New(rand.NewPCG(1, 1)))
		est := make([]netmap.Estimate, 0, 121)
		for i := range 11 {
			for j := range 11 {
				e := snap.Estimate(i, j)
				if i >= 6 && i < 6+odd && j >= 3 && j < 6 {
					e.Bandwidth /= 2
				}
				est = append(est, e)
			}
		}
		p := &Problem{Snapshot: netmap.NewSnapshot(0, snap.Hosts(), est)}
		p.Tree = &pools.Tree{Root: &pools.Pool{Hosts: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Children: []*pools.Pool{{Hosts: []int{0, 1, 2, 3, 4, 5}}, {Hosts: []int{6, 7, 8, 9, 10}}}}, Hosts: snap.Hosts()}
		want := 2
		if 2*odd > third {
			want = 3
		}
		if got := p.Clusters(); len(got) != want {
			t.Errorf("%d of %d third hosts reach one label better: clusters %v, want %d", odd, third, got, want)
		}
	}
	l := lab{[]string{"A1", "A2"}, func(int) float64 { return 100 }, 10, 20 * time.Millisecond}
	leaf := &pools.Pool{}
	for h := range 100 {
		l.labels, leaf.Hosts = append(l.labels, "C"), append(leaf.Hosts, h+2)
	}
	tree := &pools.Tree{Root: &pools.Pool{Hosts: append([]int{0, 1}, leaf.Hosts...), Children: []*pools.Pool{{Hosts: []int{0, 1}}, leaf}}}
	for seed := range uint64(20) {
		p := &Problem{Snapshot: l.snapshot(0.05, rand.New(rand.NewPCG(seed, 1))), Tree: tree}
		// with ports of 102 hosts the noise alone takes the two apart now and then, as the pair of two flows is one reading
		if got := p.Clusters(); len(got) != 2 && within(p.Snapshot, ports(p.Snapshot), 0, 1) {
			t.Errorf("seed %d: %d clusters", seed, len(got))
		}
	}
}

// TestClustersOfManyLabels: one LAN, each of whose many hosts has its own label. How often two labels are compared is bounded: 1,000
// hosts took two minutes.
func TestClustersOfManyLabels(t *testing.T) {
	l := lab{port: func(int) float64 { return 100 }}
	root := &pools.Pool{}
	var sets [][]int
	for i := range 300 {
		l.labels, root.Hosts, sets = append(l.labels, fmt.Sprintf("A%d", i)), append(root.Hosts, i), append(sets, []int{i})
	}
	p := &Problem{Snapshot: l.snapshot(0, rand.New(rand.NewPCG(1, 1)))}
	p.Tree = &pools.Tree{Root: root, Hosts: p.Snapshot.Hosts()}
	if got := p.Clusters(); len(got) != 1 {
		t.Errorf("%d clusters, want one", len(got))
	}
	for _, k := range []int{1, 3, 100, 300} {
		n := newNeighbours(p.Snapshot, ports(p.Snapshot), sets[:k])
		if looks := k * k / 2 * len(n.third); looks > mostLooks || k <= 100 && len(n.third) < len(sets) || len(n.third) < 30 {
			t.Errorf("%d labels: %d third hosts are asked", k, len(n.third))
		}
	}
}

// TestClustersPart: whatever labels and estimates say, and where they say nothing, each host is in one set, and sets ascend.
func TestClustersPart(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := []int{1, 2, 3, 5, 7, 13}[rng.IntN(6)]
		hosts := make([]netmap.Host, n)
		est := make([]netmap.Estimate, n*n)
		root := &pools.Pool{}
		leaves := make([]*pools.Pool, 1+rng.IntN(n))
		for k := range leaves {
			leaves[k] = &pools.Pool{}
		}
		for i := range n {
			hosts[i] = netmap.Host{Name: fmt.Sprint(i), Site: []string{"", "A", "B", "C"}[rng.IntN(4)]}
			root.Hosts = append(root.Hosts, i)
			k := leaves[rng.IntN(len(leaves))]
			k.Hosts = append(k.Hosts, i)
			for j := range n {
				est[i*n+j] = netmap.Estimate{
					Known: netmap.Field(rng.IntN(4)) & (netmap.FieldLatency | netmap.FieldBandwidth), Latency: time.Duration(rng.IntN(2000)) * time.Microsecond,
					Bandwidth: netmap.BytesPerSec(1+rng.IntN(3)) * netmap.Mbps,
				}
			}
		}
		leaves = slices.DeleteFunc(leaves, func(k *pools.Pool) bool { return len(k.Hosts) == 0 })
		if len(leaves) > 1 {
			root.Children = leaves
		}
		p := &Problem{Snapshot: netmap.NewSnapshot(0, hosts, est), Tree: &pools.Tree{Root: root, Hosts: hosts}, memo: new(memo)}
		var all, firsts []int
		for _, set := range p.Clusters() {
			if len(set) == 0 || !slices.IsSorted(set) {
				t.Fatalf("seed %d: %v", seed, p.Clusters())
			}
			all, firsts = append(all, set...), append(firsts, set[0])
		}
		slices.Sort(all)
		if !slices.Equal(all, root.Hosts) || !slices.IsSorted(firsts) {
			t.Fatalf("seed %d: %v of %d hosts", seed, p.Clusters(), n)
		}
		p.Clusters()[0][0] = -1 // it is the caller's
		if p.Clusters()[0][0] != 0 {
			t.Fatalf("seed %d: callers share their sets", seed)
		}
	}
}
