package netmap

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// What arrives is read by the receiver, so a host can make all who send to it believe any rate. What
// they then report of it is contradicted by nobody. It shows where the rates that hosts find to it differ
// from those to the other hosts of its site, and what it sends does not differ from what they send: a
// slow port, or a host in another place than its label says, shows in both directions.

// misreadTime is for how long that must last: after a change of a link some of its pairs are
// measured before others.
const misreadTime = 3 * time.Minute

// A Misreading is a host by whose word most of those that send to it reach it at another rate than the
// other hosts of its site.
type Misreading struct {
	Host       string
	High       bool // faster, else slower
	Of, Hosts  int  // of so many hosts, of all that can be compared
	Example    string
	Rate, Like BytesPerSec // of the example, and what the sender's site gets to the others
}

// String is the sentence for an operator.
func (d Misreading) String() string {
	how, then := "slower", "it has a fault, or lies about what arrives"
	if d.High {
		how, then = "faster", "that is not believed"
	}
	return fmt.Sprintf("host %s: by its word what %d of %d hosts send to it arrives %s than at the other hosts of its site (%s: %.4g Mbit/s, to others %.4g), and what it sends does not; %s",
		d.Host, d.Of, d.Hosts, how, d.Example, d.Rate.Mbps(), d.Like.Mbps(), then)
}

// A way leads from the hosts of one site to those of another, or of the same.
type way struct{ from, to string }

// A rated pair is one whose rate its sender has measured.
type rated struct {
	from, to string
	rate     BytesPerSec
}

// findMisreadings says which hosts misread. sites is the label of each host; ways are known by labels, so
// that hosts without one are passed over. The same pairs give the same answer.
func findMisreadings(pairs []rated, sites map[string]string) []Misreading {
	in, out := map[way]map[string][]BytesPerSec{}, map[way]map[string][]BytesPerSec{}
	add := func(m map[way]map[string][]BytesPerSec, w way, host string, r BytesPerSec) {
		if m[w] == nil {
			m[w] = map[string][]BytesPerSec{}
		}
		m[w][host] = append(m[w][host], r)
	}
	to := map[string][]rated{}
	for _, p := range pairs {
		w := way{sites[p.from], sites[p.to]}
		if w.from == "" || w.to == "" {
			continue
		}
		add(in, w, p.to, p.rate)
		add(out, w, p.from, p.rate)
		to[p.to] = append(to[p.to], p)
	}
	incoming, outgoing := likes(in), likes(out)
	var found []Misreading
	for _, host := range slices.Sorted(maps.Keys(to)) {
		slices.SortFunc(to[host], func(a, b rated) int { return cmp.Compare(a.from, b.from) })
		var high, low Misreading
		n := 0
		for _, p := range to[host] {
			like, ok := incoming[way{sites[p.from], sites[host]}][host]
			if !ok {
				continue
			}
			n++
			d, others := &low, like.low
			if p.rate > like.high {
				d, others = &high, like.high
			}
			if p.rate >= like.low && p.rate <= like.high || !apart(float64(p.rate), float64(others)) {
				continue
			}
			if d.Of++; d.Of == 1 {
				*d = Misreading{Host: host, High: d == &high, Of: 1, Example: p.from + "→" + host, Rate: p.rate, Like: others}
			}
		}
		for _, d := range []Misreading{high, low} {
			d.Hosts = n
			if d.Of >= max(least, min(enough, n/2+1)) && 2*d.Of > n && sendsLikeOthers(host, sites[host], d.High, outgoing) {
				found = append(found, d)
			}
		}
	}
	return found
}

// sendsLikeOthers reports whether what host, at site, sends is known over some way, and over none far
// faster, or slower, than what the others send.
func sendsLikeOthers(host, site string, high bool, outgoing map[way]map[string]like) bool {
	known := false
	for w, hosts := range outgoing {
		l, ok := hosts[host]
		if w.from != site || !ok {
			continue
		}
		known = true
		if high && l.own > contraryRate*l.low || !high && contraryRate*l.own < l.high {
			return false
		}
	}
	return known
}

// A like is the median rate of one host over a way, and the two in the middle of the others' medians: one
// value twice where these are odd in number. Of two others, who are both there, one may be the odd one.
type like struct{ own, low, high BytesPerSec }

// likes compares the hosts of each way where there are two others at least.
func likes(rates map[way]map[string][]BytesPerSec) map[way]map[string]like {
	out := map[way]map[string]like{}
	for w, hosts := range rates {
		names := slices.Sorted(maps.Keys(hosts))
		if len(names) < least+1 {
			continue
		}
		each := make([]BytesPerSec, len(names))
		for i, n := range names {
			slices.Sort(hosts[n])
			each[i] = median(hosts[n])
		}
		sorted := slices.Sorted(slices.Values(each))
		out[w] = map[string]like{}
		for i, n := range names {
			at, _ := slices.BinarySearch(sorted, each[i])
			low, high := middleWithout(sorted, at)
			out[w][n] = like{each[i], low, high}
		}
	}
	return out
}

// middleWithout returns the two values in the middle of sorted v without the one at i; there are two others
// at least.
func middleWithout(v []BytesPerSec, i int) (low, high BytesPerSec) {
	at := func(k int) BytesPerSec {
		if k >= i {
			k++
		}
		return v[k]
	}
	n := len(v) - 1
	return at((n - 1) / 2), at(n / 2)
}

// ratedPairs returns the rates that hosts have measured lately of what they send, as they are believed;
// those of suspects are left out. The caller holds the lock.
func (m *Map) ratedPairs(suspects map[string]bool, now time.Time) []rated {
	old := max(contraryAge, 2*refreshEvery(len(m.reports)))
	var out []rated
	for _, reporter := range m.speakers() {
		if suspects[reporter] {
			continue
		}
		m.each(reporter, func(e *entry) {
			if e.kind != sent || !e.est.Has(FieldBandwidth) || e.est.Source < SourceProbed || now.Sub(e.est.Measured) > old {
				return
			}
			b := believe(e.est, m.estimate(e.name, peer{reporter, received}), false, suspects[e.name], now)
			out = append(out, rated{reporter, e.name, b.Bandwidth})
		})
	}
	return out
}

// Misreadings returns the hosts that misread what is sent to them, by name. The rates to those that
// read too much count for nothing: [Predict] makes a better guess. The caller must not modify the result.
func (m *Map) Misreadings(now time.Time) []Misreading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lookForSuspects(now).misread
}

// lookForMisreadings returns those that have lasted for patience, and since when each is seen. The caller
// holds the lock.
func (m *Map) lookForMisreadings(suspects map[string]bool, since map[string]time.Time, now time.Time, patience time.Duration) ([]Misreading, map[string]time.Time) {
	if m.cfg.Sites == nil {
		return nil, nil
	}
	var lasting []Misreading
	seen := map[string]time.Time{}
	for _, d := range findMisreadings(m.ratedPairs(suspects, now), m.cfg.Sites()) {
		first, ok := since[d.Host]
		if !ok || first.After(now) {
			first = now
		}
		seen[d.Host] = first
		if now.Sub(first) >= patience && !suspects[d.Host] {
			lasting = append(lasting, d)
		}
	}
	return lasting, seen
}

// doubts are the hosts whose word counts for less: liars are suspects, and by the word of those in
// inflated too much arrives at them.
type doubts struct{ liars, inflated map[string]bool }

// temper returns what is believed of a pair to host without what only host can have said.
func (d doubts) temper(e Estimate, host string) Estimate {
	if d.inflated[host] {
		return e.only(^receiverFields)
	}
	return e
}
