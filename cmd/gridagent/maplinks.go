package main

import (
	"fmt"

	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// lanesGain is from which gain on several lanes are worth a line: less is within what readings differ by.
	lanesGain = 1.1
	// lossSeen is the least loss that is worth one: a packet in 2,000.
	lossSeen = 0.0005
)

// notable reports whether there is more to say of a link than what one flow gets.
func (l *siteLink) notable() bool {
	n := len(l.bandwidth)
	all := max(l.capacity, l.carried)
	return all > 0 && (n == 0 || all >= lanesGain*l.bandwidth[n/2]) || len(l.loss) > 0 && l.loss[len(l.loss)-1] >= lossSeen
}

// together shows what several lanes get, and how many that takes: where nobody has searched, or only hosts whose ports held them, what exchanges got, which is the least.
func (l *siteLink) together() (capacity, lanes string) {
	switch {
	case l.carried > 0:
		return "≥" + significant(max(l.carried, l.capacity)), ""
	case l.capacity == 0:
		return "", ""
	}
	if l.lanes > 0 {
		lanes = fmt.Sprint(l.lanes)
	}
	return significant(l.capacity), lanes
}

// losses shows the median, and the range where pairs differ.
func (l *siteLink) losses() string {
	n := len(l.loss)
	if n == 0 {
		return ""
	}
	mid, least, most := l.loss[n/2], l.loss[0], l.loss[n-1]
	text := formatShare(mid)
	if most-least > 0.2*mid && formatShare(least) != formatShare(most) {
		text += " (" + formatShare(least) + "-" + formatShare(most) + ")"
	}
	return text
}

// printMapLinks says of which links one flow does not tell all: those that several lanes get more of, and
// those that lose packets. It prints nothing where there are none.
func (a *app) printMapLinks(v mapView) error {
	sites, _, links := siteLinks(v.snap, v.now)
	t := a.paintedTable(v.p, "from", "to", "one flow", "several", "lanes", "loss", "newest")
	for _, from := range sites {
		for _, to := range sites {
			l := links[[2]string{from, to}]
			if l == nil || !l.notable() {
				continue
			}
			capacity, lanes := l.together()
			t.row(plain(siteName(from)), plain(siteName(to)), paintedCell{l.rate(), l.middleTrust()},
				plain(capacity), plain(lanes), plain(l.losses()), plain(formatAge(l.newest, v.now)))
		}
	}
	if len(t.rows) == 1 {
		return nil
	}
	if _, err := fmt.Fprintf(a.out, "\nfrom site to site in Mbit/s, where several lanes get more than one flow or packets are lost:\n\n"); err != nil {
		return err
	}
	return t.print(a.out)
}

// ages says how long ago the measured pairs were measured, the newest and the oldest, or "".
func (v mapView) ages() string {
	var newest, oldest netmap.Estimate
	for i := range v.snap.N() {
		for j := range v.snap.N() {
			e := v.snap.Estimate(i, j)
			if i == j || !e.Has(netmap.FieldBandwidth) || e.Source == netmap.SourcePredicted || e.Measured.IsZero() {
				continue
			}
			if newest.Measured.IsZero() || e.Measured.After(newest.Measured) {
				newest = e
			}
			if oldest.Measured.IsZero() || e.Measured.Before(oldest.Measured) {
				oldest = e
			}
		}
	}
	from, to := formatAge(newest.Measured, v.now), formatAge(oldest.Measured, v.now)
	switch {
	case from == "":
		return ""
	case from == to:
		return " " + from + " ago"
	}
	return " " + from + " to " + to + " ago"
}
