package main

import (
	"fmt"
	"strings"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// A laneGroup is hosts to which data go over the same kind of lane for the same kind of reason.
type laneGroup struct {
	kind           string
	why            string // of the first host
	hosts          []string
	sent, received uint64 // over TCP, bytes
}

// maxLaneHosts is how many hosts of a group are named.
const maxLaneHosts = 8

// laneGroups sums lanes up, in the order of their first hosts. Reasons that differ in a number
// (a round trip) are one: they begin with the same word.
func laneGroups(lanes []*apiv1.LaneStatus) []*laneGroup {
	var groups []*laneGroup
	at := make(map[[2]string]*laneGroup)
	for _, l := range lanes {
		kind := oneLine(l.GetKind())
		if c := l.GetCongestion(); c != "" {
			kind += " with " + oneLine(c)
		}
		word, _, _ := strings.Cut(l.GetWhy(), " ")
		g := at[[2]string{kind, word}]
		if g == nil {
			g = &laneGroup{kind: kind, why: oneLine(l.GetWhy())}
			at[[2]string{kind, word}] = g
			groups = append(groups, g)
		}
		g.hosts = append(g.hosts, oneLine(l.GetHost()))
		g.sent, g.received = g.sent+l.GetTcpSentBytes(), g.received+l.GetTcpReceivedBytes()
	}
	return groups
}

func (g *laneGroup) String() string {
	names := g.hosts
	more := ""
	if len(names) > maxLaneHosts {
		names, more = names[:maxLaneHosts], fmt.Sprintf(" and %d more", len(names)-maxLaneHosts)
	}
	s := fmt.Sprintf("to %s%s: %s", strings.Join(names, " "), more, g.why)
	if g.sent > 0 || g.received > 0 {
		s += fmt.Sprintf("; over TCP sent %s, received %s", formatBytes(g.sent), formatBytes(g.received))
	}
	return s
}
