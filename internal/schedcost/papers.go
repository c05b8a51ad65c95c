package main

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/min3"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// paperGrid is the grid file of tables 1 and 2 of Gupta & Vadhiyar, from this folder.
const paperGrid = "../../configs/grids/paper-3site.yaml"

// A setup is a row of table 3 of Gupta & Vadhiyar (HPDC 2007, §6.3): what making a
// Min3-Allgather schedule cost them.
type setup struct {
	name  string
	sites []string
	// Microseconds, as printed. Thresholds and pools are their sort, thres and pools.
	thresholdsAndPools, schedule, total float64
}

var setups = []setup{
	{"setup-1", []string{"UT", "UK", "NTH"}, 326.86 + 15.71 + 392.29, 282270, 283010},
	{"setup-2", []string{"UK", "NTH"}, 50.7 + 9.3 + 85.8, 166780, 166920},
	{"setup-3", []string{"NTH"}, 36.75 + 9 + 19.25, 108930, 108990},
}

// duplexes are the host models of the paper. Table 3 does not say which one it is of.
var duplexes = []plan.Duplex{plan.HalfDuplex, plan.FullDuplex}

// snapshot returns the hosts of the setup. Its number of hosts is part of no benchmark's name.
func (s setup) snapshot(gridPath string) (*netmap.Snapshot, error) {
	g, err := gridfile.Load(gridPath)
	if err != nil {
		return nil, err
	}
	whole, err := g.Snapshot()
	if err != nil {
		return nil, err
	}
	var hosts []int
	for i, h := range whole.Hosts() {
		if slices.Contains(s.sites, h.Site) {
			hosts = append(hosts, i)
		}
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("%s: no hosts at %v", gridPath, s.sites)
	}
	return whole.Subset(hosts), nil
}

// buildAndSchedule is what the total of table 3 covers: from a map to a plan.
func buildAndSchedule(s *netmap.Snapshot, duplex plan.Duplex) (*plan.Plan, error) {
	tree, err := pools.Build(s, pools.Config{})
	if err != nil {
		return nil, err
	}
	return min3.Schedule(s, tree, []int64{blockBytes}, min3.Options{Duplex: duplex})
}

// bounds are what the papers say of the growth of a scheduler.
var bounds = []struct {
	series string // its path
	says   string
	where  string
}{
	{"alltoall/aapc-sender", "dependence graph O(\\|M\\|⁴·\\|S\\|²), its reduction O(\\|M\\|⁶), for \\|M\\| machines on \\|S\\| switches", "Faraj, Yuan & Patarasuk, journal version, §5"},
	{"alltoall/aapc-receiver", "the same", "the same"},
	{"allgather/lr3", "O(\\|V\\|·n^(k+1)·H⁴) for \\|V\\| nodes, n ports and k neighbouring switches of a switch, height H", "Faraj, Patarasuk & Yuan, §4"},
}
