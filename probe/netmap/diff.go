package netmap

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Differences below these are not worth a line, whatever share of the value they are: a
// LAN's round trip of 0.1 ms doubles with every interrupt, and a share of lost packets
// that was never above one in a thousand is counted on a handful of packets.
const (
	diffLatency = 100 * time.Microsecond
	diffLoss    = 0.001
)

// DiffFields are the parts of an estimate that [Compare] looks at, in the order of
// [FieldChange].
var DiffFields = [...]Field{FieldBandwidth, FieldLatency, FieldCapacity, FieldLoss}

// A Diff is what changed between two snapshots of one network.
type Diff struct {
	Came, Left []Host    // by name
	Relabelled []Relabel // by name: hosts that stand in both, under another site label
	Pairs      int       // ordered pairs of hosts that stand in both
	Changes    []Change  // by name of sender, then of receiver
}

// A Relabel is a host that carries another site label than before.
type Relabel struct {
	Host   Host // as it is now
	Before string
}

// A Change is one ordered pair of which more than the threshold moved.
type Change struct {
	From, To      Host // as they are now
	Before, After Estimate
	Moved         Field // which of [DiffFields]; also one that is known on one side only
}

// Compare returns what changed from before to after. A value counts as moved if the larger
// of the two is more than threshold above the smaller one (0.1 is 10 %), so that the way
// back lists the same pairs; or if it is known in one of them only. A latency must also
// differ by 0.1 ms and a loss by 0.001. Hosts are told apart by name; their order
// does not matter. It returns an error that quotes threshold if that is not a number from 0.
func Compare(before, after *Snapshot, threshold float64) (*Diff, error) {
	if !(threshold >= 0) { // NaN too
		return nil, fmt.Errorf("compare maps: threshold %v, want 0 or more", threshold)
	}
	d := new(Diff)
	type common struct {
		host     Host
		was, now int
	}
	index := make(map[string]int, before.N())
	for i, h := range before.hosts {
		index[h.Name] = i
	}
	var both []common
	for i, h := range after.hosts {
		was, ok := index[h.Name]
		if !ok {
			d.Came = append(d.Came, h)
			continue
		}
		delete(index, h.Name)
		both = append(both, common{h, was, i})
		if site := before.hosts[was].Site; site != h.Site {
			d.Relabelled = append(d.Relabelled, Relabel{Host: h, Before: site})
		}
	}
	for _, i := range index {
		d.Left = append(d.Left, before.hosts[i])
	}
	byName := func(a, b Host) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(d.Came, byName)
	slices.SortFunc(d.Left, byName)
	slices.SortFunc(d.Relabelled, func(a, b Relabel) int { return byName(a.Host, b.Host) })
	slices.SortFunc(both, func(a, b common) int { return byName(a.host, b.host) })
	d.Pairs = len(both) * max(len(both)-1, 0)
	for _, from := range both {
		for _, to := range both {
			if from.now == to.now {
				continue
			}
			c := Change{From: from.host, To: to.host,
				Before: before.Estimate(from.was, to.was).clean(), After: after.Estimate(from.now, to.now).clean()}
			for _, f := range DiffFields {
				if moved(c.Before, c.After, f, threshold) {
					c.Moved |= f
				}
			}
			if c.Moved != 0 {
				d.Changes = append(d.Changes, c)
			}
		}
	}
	return d, nil
}

// Empty reports whether nothing changed.
func (d *Diff) Empty() bool {
	return len(d.Came)+len(d.Left)+len(d.Relabelled)+len(d.Changes) == 0
}

func moved(before, after Estimate, f Field, threshold float64) bool {
	a, was := diffValue(before, f)
	b, is := diffValue(after, f)
	if !was || !is {
		return was != is
	}
	low, high, least := min(a, b), max(a, b), 0.0
	switch f {
	case FieldLatency:
		least = diffLatency.Seconds()
	case FieldLoss:
		least = diffLoss
	}
	return high-low > least && high > low*(1+threshold)
}

// diffValue returns one of [DiffFields]: bytes a second, seconds, or a share.
func diffValue(e Estimate, f Field) (v float64, ok bool) {
	switch f {
	case FieldBandwidth:
		v = float64(e.Bandwidth)
	case FieldLatency:
		v = e.Latency.Seconds()
	case FieldCapacity:
		v = float64(e.Capacity)
	case FieldLoss:
		return e.Loss, e.TellsLoss() // each more moves that of a few packets
	}
	return v, e.Has(f)
}

// A SiteChange is what changed between the hosts of two sites, or inside one.
type SiteChange struct {
	From, To string // labels, as they are now
	Changed  int    // ordered pairs in [Diff.Changes]
	Moved    []FieldChange
}

// A FieldChange says how one part moved over the changed pairs of two sites.
type FieldChange struct {
	Field      Field
	Rose, Fell int
	Came, Gone int // pairs that have a value where they had none, and the other way round
	// Medians over the pairs that rose or fell; 0 where none did. They hold that field alone.
	Before, After Estimate
}

// Sites sums the changed pairs up by the sites of their hosts, by label of the sender's, then
// of the receiver's. Fields that did not move are left out.
func (d *Diff) Sites() []SiteChange {
	type sites struct{ from, to string }
	groups := make(map[sites][]Change)
	var order []sites
	for _, c := range d.Changes {
		k := sites{c.From.Site, c.To.Site}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], c)
	}
	slices.SortFunc(order, func(a, b sites) int {
		return cmp.Or(strings.Compare(a.from, b.from), strings.Compare(a.to, b.to))
	})
	out := make([]SiteChange, 0, len(order))
	for _, k := range order {
		s := SiteChange{From: k.from, To: k.to, Changed: len(groups[k])}
		for _, f := range DiffFields {
			if fc := fieldChange(groups[k], f); fc.Rose+fc.Fell+fc.Came+fc.Gone > 0 {
				s.Moved = append(s.Moved, fc)
			}
		}
		out = append(out, s)
	}
	return out
}

func fieldChange(changes []Change, f Field) FieldChange {
	fc := FieldChange{Field: f}
	var was, is []float64
	for _, c := range changes {
		if c.Moved&f == 0 {
			continue
		}
		a, before := diffValue(c.Before, f)
		b, after := diffValue(c.After, f)
		switch {
		case !before:
			fc.Came++
			continue
		case !after:
			fc.Gone++
			continue
		case a < b:
			fc.Rose++
		default:
			fc.Fell++
		}
		was, is = append(was, a), append(is, b)
	}
	if len(was) > 0 {
		fc.Before, fc.After = oneField(f, middle(was)), oneField(f, middle(is))
	}
	return fc
}

// oneField is the inverse of diffValue.
func oneField(f Field, v float64) Estimate {
	e := Estimate{Known: f}
	switch f {
	case FieldBandwidth:
		e.Bandwidth = BytesPerSec(v)
	case FieldLatency:
		e.Latency = seconds(v)
	case FieldCapacity:
		e.Capacity = BytesPerSec(v)
	case FieldLoss:
		e.Loss = v
	}
	return e
}

// middle sorts v, which is not empty, and returns the middle, or the mean of the middle two.
func middle(v []float64) float64 {
	slices.Sort(v)
	a, b := v[(len(v)-1)/2], v[len(v)/2]
	return a + (b-a)/2
}
