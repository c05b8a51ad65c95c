package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A siteLink sums up the pairs of hosts from one site to another, or inside one.
type siteLink struct {
	pairs     int
	bandwidth []float64 // Mbit/s of the pairs where it is known, sorted
	latency   []float64 // seconds, sorted
	trust     []trust   // of each pair, sorted
	newest    time.Time
	capacity  float64   // Mbit/s, the most that any pair showed; 0 where unknown
	lanes     int       // that it took, 0 where unknown
	carried   float64   // Mbit/s, what exchanges were seen to get; 0 where unknown
	loss      []float64 // shares, of the pairs where it is known, sorted
}

// siteLinks sums s up by ordered pair of labels. Hosts without a label count as one site.
func siteLinks(s *netmap.Snapshot, now time.Time) (sites []string, hosts map[string]int, links map[[2]string]*siteLink) {
	hosts = make(map[string]int)
	links = make(map[[2]string]*siteLink)
	for i, from := range s.Hosts() {
		hosts[from.Site]++
		for j, to := range s.Hosts() {
			if i == j {
				continue
			}
			k := [2]string{from.Site, to.Site}
			l := links[k]
			if l == nil {
				l = new(siteLink)
				links[k] = l
			}
			l.add(s.Estimate(i, j), now)
		}
	}
	for _, l := range links {
		slices.Sort(l.bandwidth)
		slices.Sort(l.latency)
		slices.Sort(l.trust)
		slices.Sort(l.loss)
	}
	return slices.Sorted(maps.Keys(hosts)), hosts, links
}

func (l *siteLink) add(e netmap.Estimate, now time.Time) {
	l.pairs++
	if e.Has(netmap.FieldLatency) {
		l.latency = append(l.latency, e.Latency.Seconds())
	}
	if c := e.Capacity.Mbps(); e.Has(netmap.FieldCapacity) && c > l.capacity {
		l.capacity, l.lanes = c, 0
		if e.Has(netmap.FieldLanes) {
			l.lanes = e.Lanes
		}
	}
	if e.Has(netmap.FieldCarried) {
		l.carried = max(l.carried, e.Carried.Mbps())
	}
	if e.TellsLoss() {
		l.loss = append(l.loss, e.Loss)
	}
	if !e.Has(netmap.FieldBandwidth) {
		return // large maps are known by sample: a gap says nothing of the link
	}
	l.bandwidth = append(l.bandwidth, e.Bandwidth.Mbps())
	l.trust = append(l.trust, trustOf(e, now))
	if e.Source != netmap.SourcePredicted && e.Measured.After(l.newest) {
		l.newest = e.Measured
	}
}

// middleTrust is that of the median pair.
func (l *siteLink) middleTrust() trust {
	if len(l.trust) == 0 {
		return trustUnknown
	}
	return l.trust[len(l.trust)/2]
}

// rate shows the median, and the range where pairs differ: a host that is slower than its
// neighbours must not vanish behind them.
func (l *siteLink) rate() string {
	n := len(l.bandwidth)
	if n == 0 {
		return "?"
	}
	mid, least, most := l.bandwidth[n/2], l.bandwidth[0], l.bandwidth[n-1]
	text := significant(mid)
	if l.middleTrust() == trustPredicted {
		text = "~" + text
	}
	if least < 0.8*mid || most > 1.2*mid {
		text += " (" + significant(least) + "-" + significant(most) + ")"
	}
	return text
}

func (l *siteLink) delay() string {
	if len(l.latency) == 0 {
		return "?"
	}
	return formatSeconds(l.latency[len(l.latency)/2])
}

// printMapSites shows a map by pairs of sites: as a matrix, or as a list where that is too wide.
func (a *app) printMapSites(v mapView) error {
	sites, hosts, links := siteLinks(v.snap, v.now)
	var t *paintedTable
	matrix := len(sites) <= maxMapColumns/2
	if matrix { // cells are up to twice as wide as those of hosts
		t = a.paintedTable(v.p, "from", "hosts")
		for _, s := range sites {
			t.names(siteName(s))
		}
		for _, from := range sites {
			row := []paintedCell{plain(siteName(from)), plain(hosts[from])}
			for _, to := range sites {
				if l := links[[2]string{from, to}]; l != nil {
					row = append(row, paintedCell{l.rate() + " / " + l.delay(), l.middleTrust()})
				} else {
					row = append(row, paintedCell{})
				}
			}
			t.row(row...)
		}
	} else {
		t = a.paintedTable(v.p, "from", "to", "pairs", "known", "Mbit/s", "latency", "capacity", "lanes", "loss", "newest")
		for _, from := range sites {
			for _, to := range sites {
				l := links[[2]string{from, to}]
				if l == nil {
					continue
				}
				capacity, lanes := l.together()
				t.row(plain(siteName(from)), plain(siteName(to)), plain(l.pairs), plain(len(l.bandwidth)),
					paintedCell{l.rate(), l.middleTrust()}, plain(l.delay()),
					plain(capacity), plain(lanes), plain(l.losses()), plain(formatAge(l.newest, v.now)))
			}
		}
	}
	if err := t.print(a.out); err != nil {
		return err
	}
	if matrix {
		if err := a.printMapLinks(v); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.out, "\n%d hosts: --all lists every pair\n", v.snap.N())
	return err
}

// siteName shows a site's label.
func siteName(label string) string {
	if strings.TrimSpace(label) == "" {
		return "(none)"
	}
	return label
}
