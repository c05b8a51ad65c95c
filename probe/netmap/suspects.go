package netmap

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Two ends of a pair contradict each other if their rates differ by more than contraryRate, and
// more still where the receiver is unsure of its own,
// or their latencies by as much and by more than contraryDelay. Both must have measured
// within contraryAge, and neither may be outdated beside the other: a link that has
// changed is seen by one end first. In large grids, where confirmations are rare, both
// times are longer. What has made a suspect stands for contraryAge: who goes on lying is not believed again because nobody
// happened to measure beside it for five minutes. It ends at once where the other end takes it back or the claims fit.
//
// Latencies are halves of round trips, so what either of two hosts says of its way to the
// other must be the same. That is compared, too. Estimates carry the time of their rates and
// not of their latencies; so a contradiction must last for contraryTime instead, or for
// contraryEach a reporter: a round of pings takes 0.1 s a peer.
const (
	contraryRate  = 3.0
	contraryDelay = 5 * time.Millisecond
	contraryAge   = 30 * time.Minute
	contraryTime  = time.Minute
	contraryEach  = 300 * time.Millisecond

	// enough contradicting hosts make a suspect, or more than half of those that it shares a
	// pair with where there are few, but two at least: of two hosts that contradict each
	// other nobody can say who lies. Receivers report only where they object, so that a host is not
	// judged by the reports about it alone: two liars must not make a suspect of each host
	// that objects to both.
	enough, least = 3, 2
)

// A Suspect is a host whose reports most of its counterparts contradict.
type Suspect struct {
	Host        string
	Contradicts []string // the hosts that measured otherwise, by name
	Example     string   // one pair, with what either end says
}

// String is the sentence for an operator.
func (s Suspect) String() string {
	names := s.Contradicts
	more := ""
	if len(names) > 5 {
		names, more = names[:5], fmt.Sprintf(" and %d more", len(names)-5)
	}
	return fmt.Sprintf("host %s: what it reports contradicts %s%s (%s); theirs is believed", s.Host, strings.Join(names, ", "), more, s.Example)
}

// A contradiction is a pair whose two ends say what cannot both be true.
type contradiction struct {
	from, to string
	example  string // "": they agree
	alone    bool   // only one end has said anything
}

// apart reports whether a and b differ by more than contraryRate.
func apart(a, b float64) bool { return math.Max(a, b) > contraryRate*math.Min(a, b) }

// delaysApart is apart for latencies, of which small ones may differ.
func delaysApart(a, b time.Duration) bool {
	return apart(float64(a), float64(b)) && (a-b).Abs() > contraryDelay
}

// contradicts says how the sender's and the receiver's reports of a pair contradict each
// other, "" if they do not or are too far apart in time, with confirmations every so often;
// compared is false if they have nothing in common. suspect says that one of the two was a suspect when it was looked last.
func contradicts(s, r Estimate, suspect bool, now time.Time, every time.Duration) (how string, compared bool) {
	old := max(contraryAge, 2*every)
	between := max(outdated, every)
	if suspect {
		between = old
	}
	if now.Sub(s.Measured) > old || now.Sub(r.Measured) > old || s.Measured.Sub(r.Measured).Abs() > between {
		return "", (s.Known&r.Known)&(FieldBandwidth|FieldLatency) != 0
	}
	if s.Has(FieldBandwidth) && r.Has(FieldBandwidth) {
		compared = true
		// The receiver's doubt counts, and not the sender's: who lies would say that it is unsure.
		if hi, lo := max(s.Bandwidth, r.Bandwidth), min(s.Bandwidth, r.Bandwidth); float64(hi) > contraryRate*(1+r.Spread)*float64(lo) {
			return fmt.Sprintf("the sender says %.4g Mbit/s, the receiver %.4g", s.Bandwidth.Mbps(), r.Bandwidth.Mbps()), true
		}
	}
	if s.Has(FieldLatency) && r.Has(FieldLatency) {
		compared = true
		if delaysApart(s.Latency, r.Latency) {
			return fmt.Sprintf("the sender says %v, the receiver %v", s.Latency, r.Latency), true
		}
	}
	return "", compared
}

// findSuspects decides who lies. all holds every pair of which both ends reported the same
// kind of thing, with how they contradict each other, if they do, and the others. The host that most others
// contradict is taken first, and its pairs then count no more: they must not make a
// suspect of those whom it contradicts. The same pairs give the same suspects.
func findSuspects(all []contradiction) []Suspect {
	if !slices.ContainsFunc(all, func(c contradiction) bool { return c.example != "" }) {
		return nil // as nearly always
	}
	type standing struct {
		peers map[string]bool // everyone it shares a pair with
		foes  map[string]string
		pairs int
		bad   int
	}
	var out []Suspect
	gone := map[string]bool{}
	for {
		hosts := map[string]*standing{}
		at := func(name string) *standing {
			h := hosts[name]
			if h == nil {
				h = &standing{peers: map[string]bool{}, foes: map[string]string{}}
				hosts[name] = h
			}
			return h
		}
		for _, c := range all {
			if gone[c.from] || gone[c.to] {
				continue
			}
			for _, end := range [][2]string{{c.from, c.to}, {c.to, c.from}} {
				h := at(end[0])
				h.peers[end[1]] = true
				if c.alone {
					continue
				}
				h.pairs++
				if c.example != "" {
					h.bad++
					if old, ok := h.foes[end[1]]; !ok || c.example < old {
						h.foes[end[1]] = c.example
					}
				}
			}
		}
		worst := ""
		for _, name := range slices.Sorted(maps.Keys(hosts)) {
			h := hosts[name]
			if len(h.foes) < max(least, min(enough, len(h.peers)/2+1)) || 2*h.bad <= h.pairs {
				continue
			}
			if worst == "" || cmp.Or(cmp.Compare(len(h.foes), len(hosts[worst].foes)), cmp.Compare(h.bad, hosts[worst].bad)) > 0 {
				worst = name
			}
		}
		if worst == "" {
			break
		}
		foes := slices.Sorted(maps.Keys(hosts[worst].foes))
		out = append(out, Suspect{Host: worst, Contradicts: foes, Example: hosts[worst].foes[foes[0]]})
		gone[worst] = true
	}
	slices.SortFunc(out, func(a, b Suspect) int { return cmp.Compare(a.Host, b.Host) })
	return out
}

// suspicion keeps the suspects between two looks.
type suspicion struct {
	stale bool // a value of weight has changed since
	at    time.Time
	list  []Suspect
	slow  map[string]time.Time // since when a host's latencies contradict those of others

	misread      []Misreading
	misreadSince map[string]time.Time // since when each host is seen to

	doubts doubts // of all of them
}

// suspectEvery bounds what looking for suspects costs: one pass over all entries.
const suspectEvery = 5 * time.Second

// Suspects returns the hosts that contradict most of those whom they share pairs with, by
// name. What they say counts for a pair only where the other end has said nothing, and of
// rates not even then: [Predict] makes a better guess. The caller must not modify the result.
func (m *Map) Suspects(now time.Time) []Suspect {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lookForSuspects(now).list
}

// lookForSuspects returns what is known of suspects; the caller holds the lock.
func (m *Map) lookForSuspects(now time.Time) *suspicion {
	s := &m.suspects
	passed := now.Sub(s.at)
	if !s.at.IsZero() && passed >= 0 && (passed < suspectEvery || !s.stale && passed < time.Minute) {
		return s
	}
	rates, delays := m.contradictions(now)
	list := findSuspects(rates)
	slow := map[string]time.Time{}
	patience := max(contraryTime, time.Duration(len(m.reports))*contraryEach)
	for _, x := range findSuspects(delays) {
		since, ok := s.slow[x.Host]
		if !ok || since.After(now) {
			since = now
		}
		slow[x.Host] = since
		if now.Sub(since) >= patience && !slices.ContainsFunc(list, func(y Suspect) bool { return y.Host == x.Host }) {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b Suspect) int { return cmp.Compare(a.Host, b.Host) })
	d := doubts{map[string]bool{}, map[string]bool{}}
	for _, x := range list {
		d.liars[x.Host] = true
	}
	misread, since := m.lookForMisreadings(d.liars, s.misreadSince, now, max(patience, misreadTime))
	for _, x := range misread {
		d.inflated[x.Host] = x.High
	}
	*s = suspicion{at: now, list: list, slow: slow, misread: misread, misreadSince: since, doubts: d}
	return s
}

// contradictions compares what the two ends of pairs say: rates and latencies of the same direction, and
// what each says of the round trip. A list without a contradiction may be empty. The caller holds the lock.
func (m *Map) contradictions(now time.Time) (rates, delays []contradiction) {
	every := refreshEvery(len(m.reports))
	speakers, liars := m.speakers(), m.suspects.doubts.liars
	bad := false
	for _, reporter := range speakers {
		m.each(reporter, func(e *entry) {
			if e.kind != sent {
				return
			}
			c := contradiction{from: reporter, to: e.name}
			if r := m.find(e.name, peer{reporter, received}); r != nil {
				if how, ok := contradicts(e.est, r.est, liars[reporter] || liars[e.name], now, every); ok {
					if how != "" {
						c.example, bad = reporter+"→"+e.name+": "+how, true
					}
					rates = append(rates, c)
				}
			}
			if reporter >= e.name || !e.est.Has(FieldLatency) {
				return // the other end's turn, or nothing
			}
			if back := m.find(e.name, peer{reporter, sent}); back != nil && back.est.Has(FieldLatency) {
				c.example = ""
				if delaysApart(e.est.Latency, back.est.Latency) {
					c.example = fmt.Sprintf("%s⇄%s: half of the round trip is %v to %s and %v to %s", reporter, e.name, e.est.Latency, reporter, back.est.Latency, e.name)
				}
				delays = append(delays, c)
			}
		})
	}
	if !bad {
		return nil, delays
	}
	for _, reporter := range speakers {
		m.each(reporter, func(e *entry) {
			if e.kind != overhead {
				rates = append(rates, contradiction{from: reporter, to: e.name, alone: true})
			}
		})
	}
	return rates, delays
}

// speakers returns all who have reported, Self among them, by name.
func (m *Map) speakers() []string {
	names := slices.Collect(maps.Keys(m.reports))
	if m.reports[m.cfg.Self] == nil {
		names = append(names, m.cfg.Self)
	}
	slices.Sort(names)
	return names
}
