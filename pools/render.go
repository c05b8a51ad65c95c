package pools

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gridagent/gridagent/probe/netmap"
)

// String draws the tree, a line for each pool: the sites of its hosts, how many there are,
// and its threshold in Mbit/s. Where a pool holds only some hosts of a site, it says how
// many; a pool of hosts without site labels is named by its first and last host.
func (t *Tree) String() string {
	if t.Root == nil {
		return "(no pools)\n"
	}
	perSite := map[string]int{}
	for _, h := range t.Hosts {
		perSite[h.Site]++
	}
	var b strings.Builder
	var draw func(p *Pool, head, tail string)
	draw = func(p *Pool, head, tail string) {
		fmt.Fprintf(&b, "%s%s · %s", head, t.label(p, perSite), plural(len(p.Hosts), "host"))
		if p.Threshold > 0 {
			fmt.Fprintf(&b, " · %s Mbit/s", formatMbps(p.Threshold, 4))
		}
		b.WriteByte('\n')
		for i, c := range p.Children {
			if i == len(p.Children)-1 {
				draw(c, tail+"└── ", tail+"    ")
			} else {
				draw(c, tail+"├── ", tail+"│   ")
			}
		}
	}
	draw(t.Root, "", "")
	return b.String()
}

// formatMbps shows r with so many significant digits, and in whole Mbit/s where it has more than
// that before the point: 2170 and not 2.17e+03, as people write rates.
func formatMbps(r netmap.BytesPerSec, digits int) string {
	v := r.Mbps()
	if v >= math.Pow10(digits)-0.5 { // which would be rounded up to it
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

// label names the hosts of p: "UT", "UK+NTH", "UT (3 of 8)", "h0…h4".
func (t *Tree) label(p *Pool, perSite map[string]int) string {
	count := map[string]int{}
	var sites []string // in the order of the hosts
	for _, h := range p.Hosts {
		site := ""
		if h < len(t.Hosts) {
			site = t.Hosts[h].Site
		}
		if count[site] == 0 {
			sites = append(sites, site)
		}
		count[site]++
	}
	if count[""] > 0 { // the labels do not tell: fall back on the hosts
		first, last := t.name(p.Hosts[0]), t.name(p.Hosts[len(p.Hosts)-1])
		if first == last {
			return first
		}
		return first + "…" + last
	}
	for i, site := range sites {
		switch {
		case len(p.Hosts) == 1 && perSite[site] > 1:
			sites[i] = site + " " + t.name(p.Hosts[0])
		case count[site] < perSite[site]:
			sites[i] = fmt.Sprintf("%s (%d of %d)", site, count[site], perSite[site])
		}
	}
	return strings.Join(sites, "+")
}

// name returns the name of host h, or its number in a tree without names.
func (t *Tree) name(h int) string {
	if h < len(t.Hosts) {
		return t.Hosts[h].Name
	}
	return "#" + strconv.Itoa(h)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
