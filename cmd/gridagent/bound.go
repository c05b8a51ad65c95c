package main

import (
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/probe/netmap"
)

// explainBound says what binds, with pools by name: plan.Bound's own text lists all hosts
// of a pool. hosts and names are those of the hosts and of the leaf pools.
func explainBound(b plan.Bound, hosts, names []string) string {
	into := ""
	switch {
	case b.Set != nil:
		for i, p := range b.Set {
			if i > 0 {
				into += "+"
			}
			into += names[p]
		}
		into = "into " + into
	case b.Links != nil:
		for i, l := range b.Links {
			if i > 0 {
				into += ", "
			}
			into += names[l[0]] + "→" + names[l[1]]
		}
		into = "over " + into
	case b.Trunk != nil:
		into = "over " + b.Trunk.From + "→" + b.Trunk.To
	case b.Host >= 0 && b.Out:
		into = "out of host " + hosts[b.Host]
	case b.Host >= 0:
		into = "into host " + hosts[b.Host]
	default:
		return "0s: nothing moves"
	}
	return fmt.Sprintf("%s: %s %s at %s Mbit/s", formatSeconds(b.Seconds), formatBytes(b.Bytes), into, significant(b.Rate.Mbps()))
}

// explainDirect says what binds an alltoall that does not relay, empty where relays gain nothing.
func explainDirect(s *planner.Scheduled, names []string) string {
	if s.Direct.Seconds <= s.Bound.Seconds {
		return ""
	}
	return explainBound(s.Direct, s.Plan.Hosts, names)
}

// poolNames names pools that share no host: by their site where it is the pool's own, else by the
// first host.
func poolNames(s *netmap.Snapshot, leaves [][]int) []string {
	of := make(map[string]int) // site -> number of leaf pools that hold one of its hosts
	for _, leaf := range leaves {
		seen := make(map[string]bool)
		for _, h := range leaf {
			if site := s.Host(h).Site; !seen[site] {
				seen[site] = true
				of[site]++
			}
		}
	}
	names := make([]string, len(leaves))
	for i, leaf := range leaves {
		first := s.Host(leaf[0])
		names[i] = first.Name
		own := first.Site != "" && of[first.Site] == 1
		for _, h := range leaf {
			own = own && s.Host(h).Site == first.Site
		}
		if own {
			names[i] = first.Site
		}
	}
	return names
}
