package main

import (
	"fmt"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/probe/netmap"
)

// maxMapColumns is the widest map that is shown as a matrix: 14 hosts fill 160 columns.
// A larger one is shown as a list.
const maxMapColumns = 14

// printMap shows the bandwidth and latency of every pair of hosts.
func (a *app) printMap(reply *apiv1.MapResponse, s *netmap.Snapshot) error {
	fmt.Fprintf(a.out, "epoch %d: %d of %d pairs measured; one flow in Mbit/s / one-way latency, from row to column\n\n",
		reply.GetEpoch(), reply.GetPairsMeasured(), reply.GetPairsTotal())
	if s.N() > maxMapColumns {
		return a.printMapList(s)
	}
	head := []string{"from"}
	for _, h := range s.Hosts() {
		head = append(head, h.Name)
	}
	t := a.table(head...)
	for i, h := range s.Hosts() {
		row := []any{h.Name}
		for j := range s.N() {
			cell := ""
			if i != j {
				cell = formatEstimate(s.Estimate(i, j))
			}
			row = append(row, cell)
		}
		t.row(row...)
	}
	return t.flush()
}

func (a *app) printMapList(s *netmap.Snapshot) error {
	t := a.table("from", "to", "Mbit/s", "latency", "capacity", "loss", "source")
	for i := range s.N() {
		for j := range s.N() {
			e := s.Estimate(i, j)
			if i == j || e.Known == 0 {
				continue
			}
			t.row(s.Host(i).Name, s.Host(j).Name, known(e, netmap.FieldBandwidth, significant(e.Bandwidth.Mbps())),
				known(e, netmap.FieldLatency, formatDuration(e.Latency)), known(e, netmap.FieldCapacity, significant(e.Capacity.Mbps())),
				known(e, netmap.FieldLoss, significant(e.Loss*100)+"%"), e.Source)
		}
	}
	return t.flush()
}

// formatEstimate shows bandwidth / latency; what was not measured is a question mark, and
// a value that was predicted from like pairs carries a tilde.
func formatEstimate(e netmap.Estimate) string {
	bandwidth, latency := "?", "?"
	if e.Has(netmap.FieldBandwidth) {
		bandwidth = significant(e.Bandwidth.Mbps())
		if e.Source == netmap.SourcePredicted {
			bandwidth = "~" + bandwidth
		}
	}
	if e.Has(netmap.FieldLatency) {
		latency = formatDuration(e.Latency)
	}
	return bandwidth + " / " + latency
}

func known(e netmap.Estimate, f netmap.Field, text string) string {
	if !e.Has(f) {
		return ""
	}
	return text
}
