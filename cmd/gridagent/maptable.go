package main

import (
	"fmt"
	"time"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// maxMapColumns is the widest map that is shown as a matrix: 14 hosts fill 160 columns.
	// A larger one is shown as a list.
	maxMapColumns = 14
	// maxMapHosts is the largest map of which every pair is listed unasked: 24 hosts have 552.
	maxMapHosts = 24
)

// A mapView is a map and how to show it.
type mapView struct {
	reply *apiv1.MapResponse
	snap  *netmap.Snapshot
	now   time.Time // when the agent answered
	all   bool
	p     painter
}

// printMap shows bandwidth and latency: of every pair of hosts, or of pairs of sites where
// those would be too many.
func (a *app) printMap(v mapView) error {
	n := v.snap.N()
	sites, list := n > maxMapHosts && !v.all, n > maxMapColumns || v.all
	what := "from row to column"
	if sites {
		what = "medians over the pairs of hosts, with least and most where they differ by more than a fifth"
	} else if list {
		what = "a line a pair"
	}
	_, err := fmt.Fprintf(a.out, "epoch %d: %d of %d pairs measured%s; one flow in Mbit/s / one-way latency, %s\n\n",
		v.reply.GetEpoch(), v.reply.GetPairsMeasured(), v.reply.GetPairsTotal(), v.ages(), what)
	if err != nil {
		return err
	}
	switch {
	case sites:
		err = a.printMapSites(v)
	case list:
		err = a.printMapList(v)
	default:
		err = a.printMapMatrix(v)
	}
	if lanes := laneGroups(v.reply.GetLanes()); err == nil && len(lanes) > 0 {
		_, err = fmt.Fprintf(a.out, "\nfrom this host data go over\n")
		for _, l := range lanes {
			if err == nil {
				_, err = fmt.Fprintf(a.out, "  %s  %s\n", l.kind, l)
			}
		}
	}
	if legend := v.p.legend(); err == nil && legend != "" {
		_, err = fmt.Fprintf(a.out, "\n%s\n", legend)
	}
	return err
}

func (a *app) printMapMatrix(v mapView) error {
	t := a.paintedTable(v.p, "from")
	t.names(v.snap.Names()...)
	for i, h := range v.snap.Hosts() {
		row := []paintedCell{plain(h.Name)}
		for j := range v.snap.N() {
			if i == j {
				row = append(row, paintedCell{})
				continue
			}
			e := v.snap.Estimate(i, j)
			row = append(row, paintedCell{formatEstimate(e), trustOf(e, v.now)})
		}
		t.row(row...)
	}
	if err := t.print(a.out); err != nil {
		return err
	}
	return a.printMapLinks(v)
}

func (a *app) printMapList(v mapView) error {
	t := a.paintedTable(v.p, "from", "to", "Mbit/s", "spread", "latency", "capacity", "lanes", "loss", "age", "source")
	for i := range v.snap.N() {
		for j := range v.snap.N() {
			e := v.snap.Estimate(i, j)
			if i == j || e.Known == 0 {
				continue
			}
			trust := trustOf(e, v.now)
			spread := ""
			if e.Has(netmap.FieldBandwidth) && e.Spread > 0 {
				spread = formatShare(e.Spread)
			}
			painted := func(text string) paintedCell { return paintedCell{text, trust} }
			t.row(plain(v.snap.Host(i).Name), plain(v.snap.Host(j).Name),
				painted(known(e, netmap.FieldBandwidth, significant(e.Bandwidth.Mbps()))),
				painted(spread),
				plain(known(e, netmap.FieldLatency, formatDuration(e.Latency))),
				plain(severalGet(e)),
				plain(known(e, netmap.FieldLanes, fmt.Sprint(e.Lanes))),
				plain(lossOf(e)),
				painted(formatAge(e.Measured, v.now)), plain(e.Source))
		}
	}
	return t.print(a.out)
}

// severalGet shows what several lanes get, or what they get at least where nobody has searched, or where a port was all that the search met.
func severalGet(e netmap.Estimate) string {
	if e.Has(netmap.FieldCarried) {
		return "≥" + significant(e.Carried.Mbps())
	}
	return known(e, netmap.FieldCapacity, significant(e.Capacity.Mbps()))
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

// lossOf returns the share of lost packets, "" if too few were counted.
func lossOf(e netmap.Estimate) string {
	if !e.TellsLoss() {
		return ""
	}
	return formatShare(e.Loss)
}

// formatShare shows a share of 1 in per cent. What is little is not nothing.
func formatShare(v float64) string {
	if v > 0 && v < 5e-6 {
		return "<0.001%"
	}
	return significant(v*100) + "%"
}

// formatAge shows how long ago measured was: no finer than a person wants to know it.
func formatAge(measured, now time.Time) string {
	if measured.IsZero() {
		return ""
	}
	switch age := max(now.Sub(measured), 0); {
	case age < time.Minute:
		return shortDuration(age.Round(time.Second))
	case age < 48*time.Hour:
		return shortDuration(age.Round(time.Minute))
	default:
		return fmt.Sprintf("%dd", int(age.Hours()/24))
	}
}
