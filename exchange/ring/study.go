package ring

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A StudyConfig says which random networks [Study] draws. The zero value is §5 of the
// paper. The sizes are ours: its text does not say them.
type StudyConfig struct {
	Hosts          []int   // numbers of hosts of a network; nil means 64, 128, 256, 512 and 1024
	HostsPerSwitch float64 // on average; 0 means 5
	Degree         float64 // links of a switch to others, on average; 0 means 4, under 2 is an error
	Samples        int     // networks of each size; 0 means 50
	Seed           uint64  // equal configurations with equal seeds give equal rows
}

// A StudyRow is what one way to choose a spanning tree comes to on the networks of one size.
type StudyRow struct {
	Hosts, Switches int
	Spanning        plan.Spanning

	// LR1 and LR3 are means over the networks of the maximum path length, in switches:
	// the two parts of Figure 11.
	LR1, LR3 float64
	// WorstLR1 and WorstLR3 are the largest of these lengths.
	WorstLR1, WorstLR3 int
	// ThreeHops is the share of networks, 0 to 1, on which LR3's length is 3 or less. The
	// paper says "a very high probability".
	ThreeHops float64
	// RankLoad is the mean load of a ring in rank order, see [Measure]: how many times
	// as long contention makes it take. LR1's and LR3's load is 1.
	RankLoad float64
}

// Study repeats the simulations of §5 (Figure 11): it draws random networks, takes a
// breadth-first, a depth-first and a random spanning tree of each, and compares the maximum
// path lengths of LR1 and LR3 on them. One random switch of each network is the root
// of the first two trees, and of LR1's search in all three. How a network is drawn is
// said at randomNetwork; the paper has its links from GT-ITM.
//
// It returns three rows for each size, in the order of cfg.Hosts. It fails if a value of
// cfg makes no sense, and with the error of ctx once ctx has ended, which it looks at
// before each tree.
func Study(ctx context.Context, cfg StudyConfig) ([]StudyRow, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	var rows []StudyRow
	for _, hosts := range cfg.Hosts {
		some, err := cfg.size(ctx, hosts)
		if err != nil {
			return nil, fmt.Errorf("study: %d hosts: %w", hosts, err)
		}
		rows = append(rows, some...)
	}
	return rows, nil
}

const maxStudyHosts = 4096 // what a topology can hold

func (cfg *StudyConfig) complete() error {
	if cfg.Hosts == nil {
		cfg.Hosts = []int{64, 128, 256, 512, 1024}
	}
	if cfg.HostsPerSwitch == 0 {
		cfg.HostsPerSwitch = 5
	}
	if cfg.Degree == 0 {
		cfg.Degree = 4
	}
	if cfg.Samples == 0 {
		cfg.Samples = 50
	}
	for _, h := range cfg.Hosts {
		if h < 1 || h > maxStudyHosts {
			return fmt.Errorf("%d hosts, want 1…%d", h, maxStudyHosts)
		}
		if s := float64(h) / cfg.HostsPerSwitch; !(s >= 0 && s <= maxStudyHosts) {
			return fmt.Errorf("%v hosts per switch make %v switches for %d hosts, want at most %d",
				cfg.HostsPerSwitch, s, h, maxStudyHosts)
		}
	}
	if !(cfg.Degree >= 2 && cfg.Degree <= maxStudyHosts) {
		return fmt.Errorf("%v links of a switch on average, want 2…%d: under 2 no network hangs together",
			cfg.Degree, maxStudyHosts)
	}
	if cfg.Samples < 1 {
		return fmt.Errorf("%d networks of each size, want 1 or more", cfg.Samples)
	}
	return nil
}

// size returns the rows of one size.
func (cfg *StudyConfig) size(ctx context.Context, hosts int) ([]StudyRow, error) {
	rows := []StudyRow{{Spanning: plan.SpanBFS}, {Spanning: plan.SpanDFS}, {Spanning: plan.SpanRandom}}
	for sample := range cfg.Samples {
		// Each network has its own source: it is the same whatever is studied beside it.
		rng := rand.New(rand.NewPCG(cfg.Seed, uint64(hosts)<<32|uint64(sample)))
		g, switches, err := randomNetwork(rng, hosts, cfg.HostsPerSwitch, cfg.Degree)
		if err != nil {
			return nil, err
		}
		root := rng.IntN(switches)
		for i := range rows {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			t, err := g.SpanningTree(rows[i].Spanning, root, rng)
			if err != nil {
				return nil, err
			}
			rows[i].Hosts, rows[i].Switches = hosts, switches
			rows[i].add(t, root)
		}
	}
	for i := range rows {
		n := float64(cfg.Samples)
		rows[i].LR1 /= n
		rows[i].LR3 /= n
		rows[i].ThreeHops /= n
		rows[i].RankLoad /= n
	}
	return rows, nil
}

// add adds one tree to the sums of a row.
func (r *StudyRow) add(t *plan.Topology, root int) {
	first, _ := Measure(t, depthFirst(t, root))
	_, best := LR3(t)
	r.LR1 += float64(first)
	r.LR3 += float64(best)
	r.WorstLR1, r.WorstLR3 = max(r.WorstLR1, first), max(r.WorstLR3, best)
	if best <= 3 {
		r.ThreeHops++
	}
	ranks := make([]int, len(t.Hosts()))
	for i := range ranks {
		ranks[i] = i
	}
	_, load := Measure(t, ranks)
	r.RankLoad += float64(load)
}
