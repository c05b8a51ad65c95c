package min3

import (
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

// TestPaperGrid records the schedules of 64 KiB a host on the grid of Tables 1-2:
// the first transfers to read, and a checksum over all 380.
//
// Within a site all links are equal, so most choices are ties: of equal times the
// lower data index goes first, then the lower sub-pool (UT, then UK and NTH together; inside
// of those UK, then NTH), source and destination.
func TestPaperGrid(t *testing.T) {
	for _, duplex := range models {
		t.Run(duplex.String(), func(t *testing.T) {
			s, tree := paperGrid()
			p, err := Schedule(s, tree, []int64{65536}, Options{Duplex: duplex})
			if err != nil {
				t.Fatal(err)
			}
			if err := prove(scenario{s, tree, []int64{65536}, Options{Duplex: duplex}}, p); err != nil {
				t.Fatal(err)
			}
			all := lines(p)
			var b strings.Builder
			fmt.Fprintf(&b, "3-site grid, 8 + 4 + 8 hosts, 64 KiB, %v duplex\n", duplex)
			fmt.Fprintf(&b, "makespan %.9f s, %d transfers, crc32 %08x\n", p.Makespan, len(all), crc32.ChecksumIEEE([]byte(strings.Join(all, "\n"))))
			fmt.Fprintln(&b, strings.Join(all[:32], "\n"))
			name := filepath.Join("testdata", "paper-"+duplex.String()+".golden")
			if *update {
				if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("%s differs:\n%s", name, b.String())
			}
		})
	}
}

// TestPaperGridTree: the tree that this file writes down is the one that pools finds.
func TestPaperGridTree(t *testing.T) {
	s, tree := paperGrid()
	built, err := pools.Build(s, pools.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := built.Sets(), tree.Sets(); !reflect.DeepEqual(got, want) {
		t.Errorf("pools.Build gives %v, the tests use %v", got, want)
	}
}

// TestPaperGridRankOrder: on this grid the order of the ranks changes the
// half-duplex makespan and leaves the full-duplex one alone.
func TestPaperGridRankOrder(t *testing.T) {
	grid, _ := paperGrid()
	for _, duplex := range models {
		makespans := map[float64]int{}
		for seed := range uint64(40) {
			perm := rand.New(rand.NewPCG(seed, 7)).Perm(20)
			s := grid.Subset(perm)
			var site [3]pools.Pool
			for i, h := range perm {
				k := 0
				if h >= 8 {
					k = 1
				}
				if h >= 12 {
					k = 2
				}
				site[k].Hosts = append(site[k].Hosts, i)
			}
			p, err := Schedule(s, &pools.Tree{Root: join(&site[0], join(&site[1], &site[2]))}, []int64{65536}, Options{Duplex: duplex})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			makespans[p.Makespan]++
		}
		if one := len(makespans) == 1; one != (duplex == Full) {
			t.Errorf("%v duplex: makespans over 40 orders of the ranks: %v", duplex, makespans)
		}
	}
}

// TestThreeHostsByHand follows equations 2 and 3 on paper. Host 0 is alone, 1 and 2
// are a pool; a block takes 10 ms between the pools and 1 ms inside, no latency.
func TestThreeHostsByHand(t *testing.T) {
	s := snapshot(3, func(i, j int) netmap.Estimate {
		if i == 0 || j == 0 {
			return measured(0, 1e5)
		}
		return measured(0, 1e6)
	})
	tree := &pools.Tree{Root: join(leaf(0, 1), leaf(1, 3))}
	tests := []struct {
		duplex plan.Duplex
		want   []string
	}{
		// 0→1 and 1→0 use different ports and run at once; block 2 waits for the receiver
		// of host 0. Inside the pool block 1 goes at once, block 0 when host 1 has it, and
		// block 2 when block 0 has left the receiver of host 1.
		{Full, []string{
			line(0, 0, 0, 1, -1, 0, 0.010),
			line(1, 1, 1, 0, -1, 0, 0.010),
			line(2, 1, 1, 2, -1, 0, 0.001),
			line(3, 2, 2, 0, -1, 0.010, 0.020),
			line(4, 0, 1, 2, 0, 0.010, 0.011),
			line(5, 2, 2, 1, -1, 0.010, 0.011),
		}},
		// Without send overhead sending keeps no port, so host 0 takes block 2 while block 0 is on
		// its way. Host 1 receives until 10 ms and only then sends block 1. Inside the
		// pool all three tie at 11 ms: block 0 first, and host 2 receives it.
		{Half, []string{
			line(0, 0, 0, 1, -1, 0, 0.010),
			line(1, 2, 2, 0, -1, 0, 0.010),
			line(2, 1, 1, 0, -1, 0.010, 0.020),
			line(3, 0, 1, 2, 0, 0.010, 0.011),
			line(4, 1, 1, 2, -1, 0.011, 0.012),
			line(5, 2, 2, 1, -1, 0.012, 0.013),
		}},
	}
	for _, tt := range tests {
		p, err := Schedule(s, tree, []int64{1000}, Options{Duplex: tt.duplex})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(lines(p), "\n"); got != strings.Join(tt.want, "\n") {
			t.Errorf("%v duplex:\n%s", tt.duplex, got)
		}
	}
}
