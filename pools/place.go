package pools

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Misplacement is a host whose label names one site while its links look like those of
// another. The pool tree does not read labels, so the host stands where it measures; the
// label is what an operator should look at.
type Misplacement struct {
	Host  string
	Label string // the site that it says
	Like  string // the site that it measures like
	// Medians over the links to the hosts of Like and of Label, of the worse direction each.
	LikeRate, LabelRate       netmap.BytesPerSec
	LikeLatency, LabelLatency time.Duration // one way
}

// doubtNumbers parts who is misplaced from what was measured, in the sentence of String.
const doubtNumbers = ": "

// String is a sentence for the operator.
func (m Misplacement) String() string {
	rate := func(r netmap.BytesPerSec) string { return formatMbps(r, 3) }
	return fmt.Sprintf("host %s is labelled %s but measures like a host of %s%s%s Mbit/s and %v to the hosts of %s, %s Mbit/s and %v to those of %s",
		m.Host, m.Label, m.Like, doubtNumbers, rate(m.LikeRate), m.LikeLatency.Round(10*time.Microsecond), m.Like,
		rate(m.LabelRate), m.LabelLatency.Round(10*time.Microsecond), m.Label)
}

// What makes a host nearer to one site than to another. Noise does not reach these: single
// readings of one link lie within a factor of 1.5, and a queue of a site's own traffic delays
// the ways to all other hosts alike.
const (
	nearRate    = 2                    // factor between the rates
	nearLatency = 2                    // factor between the latencies
	nearStep    = 2 * time.Millisecond // and how far apart they must be besides
)

// Misplaced returns the hosts of s that measure as if they stood in another site than their
// label says, by name. Such a host has links to the hosts of the other site that are like
// those inside that site, and links to those of its own label that are like the links
// between the two sites. That takes two hosts in the other site, one more of its own label,
// and measurements, since predictions follow the labels; and most hosts of a label must be
// where it says, for else nobody can tell what the label means.
func Misplaced(s *netmap.Snapshot) []Misplacement {
	v := newVicinity(s)
	var out []Misplacement
	for h, host := range s.Hosts() {
		if m, ok := v.misplaced(h); ok {
			m.Host, m.Label = host.Name, host.Site
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b Misplacement) int { return cmp.Compare(a.Host, b.Host) })
	return out
}

// A way is the median of what was measured of a set of pairs; of an even number the slower of
// the middle two, so that a second misplaced host does not hide the first.
type way struct {
	rate    netmap.BytesPerSec
	latency time.Duration
	ok      bool // both were measured for a pair at least
}

// nearer reports whether a is clearly the way to a closer place than b: by rate or by
// latency, and the other one does not contradict.
func (a way) nearer(b way) bool {
	byRate, againstRate := a.rate >= nearRate*b.rate, b.rate >= nearRate*a.rate
	byLatency, againstLatency := sooner(a.latency, b.latency), sooner(b.latency, a.latency)
	return a.ok && b.ok && (byRate || byLatency) && !againstRate && !againstLatency
}

// like reports whether neither of the two is clearly the way to a closer place by either measure.
func (a way) like(b way) bool {
	return a.ok && b.ok && a.rate < nearRate*b.rate && b.rate < nearRate*a.rate &&
		!sooner(a.latency, b.latency) && !sooner(b.latency, a.latency)
}

func sooner(a, b time.Duration) bool { return b-a > nearStep && b >= nearLatency*a }

// vicinity has the hosts of a snapshot by label.
type vicinity struct {
	s      *netmap.Snapshot
	labels []string // sorted, without ""
	hosts  map[string][]int
	inside map[string]way // within a site; filled on demand
}

func newVicinity(s *netmap.Snapshot) *vicinity {
	v := &vicinity{s: s, hosts: map[string][]int{}, inside: map[string]way{}}
	for i, h := range s.Hosts() {
		if h.Site == "" {
			continue
		}
		if v.hosts[h.Site] == nil {
			v.labels = append(v.labels, h.Site)
		}
		v.hosts[h.Site] = append(v.hosts[h.Site], i)
	}
	slices.SortFunc(v.labels, strings.Compare)
	return v
}

// way measures between two sets of hosts.
func (v *vicinity) way(a, b []int) way { return v.quantile(a, b, 0.5) }

// quantile is way with another share of the pairs that are faster than what it returns.
func (v *vicinity) quantile(a, b []int, faster float64) way {
	var rates []netmap.BytesPerSec
	var latencies []time.Duration
	for _, i := range a {
		for _, j := range b {
			if i == j {
				continue
			}
			// A link is as good as its worse direction: the two of one may differ widely.
			rate, latency := netmap.BytesPerSec(math.Inf(1)), time.Duration(-1)
			for _, e := range []netmap.Estimate{v.s.Estimate(i, j), v.s.Estimate(j, i)} {
				if e.Has(netmap.FieldLatency) {
					latency = max(latency, e.Latency)
				}
				if e.Has(netmap.FieldBandwidth) && e.Source != netmap.SourcePredicted {
					rate = min(rate, e.Bandwidth)
				}
			}
			if latency >= 0 {
				latencies = append(latencies, latency)
			}
			if !math.IsInf(float64(rate), 1) {
				rates = append(rates, rate)
			}
		}
	}
	if len(rates) == 0 || len(latencies) == 0 {
		return way{}
	}
	slices.Sort(rates)
	slices.Sort(latencies)
	return way{
		rate:    rates[int((1-faster)*float64(len(rates)-1))],
		latency: latencies[int(math.Ceil(faster*float64(len(latencies)-1)))],
		ok:      true,
	}
}

// misplaced looks for the site that host h measures like.
func (v *vicinity) misplaced(h int) (Misplacement, bool) {
	label := v.s.Host(h).Site
	if label == "" || len(v.hosts[label]) < 2 {
		return Misplacement{}, false
	}
	own := v.way([]int{h}, v.hosts[label])
	var best way
	like := ""
	for _, other := range v.labels {
		if other == label || len(v.hosts[other]) < 2 {
			continue
		}
		there := v.way([]int{h}, v.hosts[other])
		if !there.nearer(own) || !there.like(v.within(other)) || !own.like(v.way(without(v.hosts[label], h), v.hosts[other])) {
			continue
		}
		if like == "" || there.nearer(best) {
			like, best = other, there
		}
	}
	return Misplacement{
		Like: like, LikeRate: best.rate, LikeLatency: best.latency,
		LabelRate: own.rate, LabelLatency: own.latency,
	}, like != ""
}

// within measures the fastest sixth of the links inside a site: one misplaced host of three
// leaves only a third of them as they should be.
func (v *vicinity) within(site string) way {
	w, ok := v.inside[site]
	if !ok {
		w = v.quantile(v.hosts[site], v.hosts[site], 1.0/6)
		v.inside[site] = w
	}
	return w
}

// without returns hosts but h.
func without(hosts []int, h int) []int {
	return slices.DeleteFunc(slices.Clone(hosts), func(i int) bool { return i == h })
}
