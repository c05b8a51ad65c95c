package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/agent/membership"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// What is checked of a declared switch tree: against the members, and against what is measured.

// CheckSwitches says why the agent of host cannot declare this switch-tree file ([Options.Switches]).
func CheckSwitches(file []byte, host string) error {
	t, err := plan.ReadTopology("switch tree", file)
	if err != nil {
		return err
	}
	if !t.Covers([]string{host}) {
		return fmt.Errorf("the switch tree of this site lacks this host, %s; it holds %.100s", host, strings.Join(t.Hosts(), " "))
	}
	if len(file) > maxTreeBytes {
		return fmt.Errorf("the switch tree of this site has %d bytes, at most %d fit", len(file), maxTreeBytes)
	}
	return nil
}

// foreign returns a host of t that is known to be of another site, or "".
func foreign(t *plan.Topology, label string, site map[string]string) string {
	for _, h := range t.Hosts() {
		if s, ok := site[h]; ok && s != label {
			return h
		}
	}
	return ""
}

// lacking returns the live hosts of a site that t does not hold, by name.
func lacking(t *plan.Topology, label string, members []membership.Member) []string {
	holds := make(map[string]bool)
	for _, h := range t.Hosts() {
		holds[h] = true
	}
	var out []string
	for _, m := range members {
		if m.State == membership.Alive && m.Site == label && !holds[m.Name] {
			out = append(out, m.Name)
		}
	}
	slices.Sort(out)
	return out
}

// nameSome lists a few hosts and counts the others.
func nameSome(hosts []string) string {
	const some = 5
	what, more := "host ", ""
	if len(hosts) > 1 {
		what = "hosts "
	}
	if n := len(hosts) - some; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return what + strings.Join(hosts[:min(len(hosts), some)], ", ") + more
}

// The bounds within which the median measured rate of a tree's pairs may lie, of the rate declared.
const (
	treeFaster = 1.2
	treeSlower = 0.5
)

// over returns the tree for plans over snap: without its rate where that does not fit what was measured between the hosts of snap.
func (t siteTree) over(snap *netmap.Snapshot) *plan.Topology {
	at := make(map[string]int, snap.N())
	for i, h := range snap.Names() {
		at[h] = i
	}
	hosts := slices.DeleteFunc(slices.Clone(t.Hosts()), func(h string) bool { _, ok := at[h]; return !ok })
	if t.doubt(hosts, func(from, to string) (netmap.BytesPerSec, bool) { return snap.Bandwidth(at[from], at[to]) }) == "" {
		return t.Topology
	}
	return t.WithBandwidth(0)
}

// doubt compares a declared tree with what was measured between hosts of it, and returns what does
// not fit, or "". One train at a time crosses a site, so the shape cannot be judged so, only the rate.
func (t siteTree) doubt(hosts []string, rate func(from, to string) (netmap.BytesPerSec, bool)) string {
	declared, ok := t.Bandwidth()
	if !ok {
		return ""
	}
	var rates []netmap.BytesPerSec
	for _, a := range hosts {
		for _, b := range hosts {
			if r, ok := rate(a, b); ok && a != b {
				rates = append(rates, r)
			}
		}
	}
	if len(rates) < 2 {
		return ""
	}
	slices.Sort(rates)
	median := rates[len(rates)/2]
	if median >= treeSlower*declared && median <= treeFaster*declared {
		return ""
	}
	return fmt.Sprintf("site %s: %s declares links of %.4g Mbit/s, and between its hosts %.4g Mbit/s are measured; correct bandwidth_mbps, or leave it away",
		t.site, t.by[0], declared.Mbps(), median.Mbps())
}
