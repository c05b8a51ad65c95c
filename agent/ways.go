package agent

import (
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// The shortest ways between the leaders of sites, by which small operations go (agent/group/via.go).

const (
	// passTime is what a leader takes to pass on what comes to it.
	passTime = 500 * time.Microsecond
	// passWorth is what a way by other leaders may take at most, as a part of the one way that it replaces.
	passWorth = 0.9
)

// leaderWays are the shortest ways between leaders.
type leaderWays struct {
	place map[int]int // of each leader among them
	took  [][]time.Duration
	via   [][]int // [group.Tree.Via]: nil where all go straight
}

// between returns how long the way between two leaders' sites is that is straight as long as that says.
func (w *leaderWays) between(from, to int, straight time.Duration) time.Duration {
	if w.via == nil || from == to {
		return straight
	}
	return min(straight, w.took[w.place[from]][w.place[to]])
}

// waysOf returns the shortest ways between leaders that the map knows, by the rule of Bellman (Quarterly of Applied Mathematics 16, 1958) and Ford.
func waysOf(snap *netmap.Snapshot, leaders []int) *leaderWays {
	w := &leaderWays{place: make(map[int]int)}
	var sites []int
	for h, l := range leaders {
		if h == l {
			w.place[h] = len(sites)
			sites = append(sites, h)
		}
	}
	n := len(sites)
	straight := make([][]time.Duration, n)
	via := make([][]int, n)
	for s := range sites {
		straight[s], via[s] = make([]time.Duration, n), make([]int, n)
		for d := range sites {
			via[s][d] = s
			if e := snap.Estimate(sites[s], sites[d]); s != d && e.Has(netmap.FieldLatency) {
				straight[s][d] = e.Latency
			}
		}
	}
	shorter := false
	for s := range sites {
		took := slices.Clone(straight[s])
		for changed := true; changed; {
			changed = false
			for p := range sites {
				for d := range sites {
					if p == s || d == s || p == d || took[p] == 0 || straight[p][d] == 0 {
						continue
					}
					by := took[p] + passTime + straight[p][d]
					if by < took[d] && float64(by) <= passWorth*float64(straight[s][d]) {
						took[d], via[s][d], changed, shorter = by, p, true, true
					}
				}
			}
		}
		w.took = append(w.took, took)
	}
	if shorter {
		w.via = via
	}
	return w
}
