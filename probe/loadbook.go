package probe

import (
	"sync"
	"time"
)

// A loadBook is what the keeper of a site has been told. The zero value is empty.
type loadBook struct {
	mu   sync.Mutex              // guards the fields below
	in   map[string]*arrivals    // by site that it comes from
	out  map[outgoing]*pressures // by where it goes, and who sends
	told map[string]*hearsay     // by site: what arrives there
	dips map[string]time.Time    // by site: when far less was last found to arrive from there
}

// An outgoing is a host of this site and a site that it sends to.
type outgoing struct{ site, host string }

// pressures are what a host has sent by lanes that were held back by the network.
type pressures struct {
	arrivals
	line float64 // what its pairs get, user bytes a second
}

// A hearsay is what the keeper of another site says that arrives there from this one.
type hearsay struct {
	dip
	at    time.Time
	rose  time.Time // when it was more than before last
	said  time.Time // when this site's hosts were told of it last
	spoke float64   // and what
}

// take takes what a host of this site tells.
func (b *loadBook) take(host string, l load, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.in == nil || len(b.in) > maxTellers || len(b.out) > maxTellers {
		b.in, b.out = make(map[string]*arrivals), make(map[outgoing]*pressures)
	}
	if l.Bytes > 0 {
		a := b.in[l.Site]
		if a == nil {
			a = &arrivals{}
			b.in[l.Site] = a
		}
		a.add(l.Bytes, l.Span, now)
	}
	if l.Pressed > 0 {
		o := outgoing{l.Site, host}
		p := b.out[o]
		if p == nil {
			p = &pressures{}
			b.out[o] = p
		}
		p.add(l.Pressed, l.Span, now)
		p.line = float64(l.Line)
	}
}

// hears reports whether hosts have told of late what arrives.
func (b *loadBook) hears() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.in) > 0
}

// fallen returns what arrives now of the sites from where far less arrives than before.
func (b *loadBook) fallen(now time.Time) map[string]dip {
	b.mu.Lock()
	defer b.mu.Unlock()
	dips := make(map[string]dip)
	for site, a := range b.in {
		if a.old(now) {
			delete(b.in, site)
		} else if d, ok := a.fallen(now); ok {
			dips[site] = d
		}
	}
	return dips
}

// more returns what arrives from site by now, as bytes a second of IP packets: the most in a second since the fall
// that was told of at since.
func (b *loadBook) more(site string, since, now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.in[site]
	if a == nil {
		return 0
	}
	a.forward(now)
	return a.most(a.binAt(since)+1-loadLate-loadParts, a.head+1-loadLate, loadUsual)
}

// paused reports whether what arrives from site is nothing to speak of beside what was said of it, in bytes a second of IP packets.
func (b *loadBook) paused(site string, said float64, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.in[site]
	return a == nil || a.paused(loadPause*said, now)
}

// unsay forgets what the keeper of another site has said: it was the end of an exchange.
func (b *loadBook) unsay(site string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.told, site)
}

// hear takes what the keeper of another site says that arrives there from this one, in user bytes a second.
func (b *loadBook) hear(site string, d dip, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told == nil || len(b.told) > maxTellers {
		b.told = make(map[string]*hearsay)
	}
	if h := b.told[site]; h != nil {
		if d.rate > (1+loadMore)*h.rate {
			h.rose = now
		}
		h.dip, h.at = d, now
	} else {
		b.told[site] = &hearsay{dip: d, at: now}
	}
}

// dipped notes that far less arrives from site.
func (b *loadBook) dipped(site string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dips == nil || len(b.dips) > maxTellers {
		b.dips = make(map[string]time.Time)
	}
	b.dips[site] = now
}

// open reports whether there is something to judge of the link to site: its end has told of a fall, and
// this site's hosts have not just heard of it.
func (b *loadBook) open(site string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.told[site]
	return h != nil && now.Sub(h.at) <= hearAge && now.Sub(h.said) >= loadSaid
}

// A known is what a keeper knows of a link to another site, beside what it has been told.
type known struct {
	line  float64                 // what it is believed to carry, user bytes a second
	alone bool                    // this site has one host
	back  func(rate float64) bool // whether the link from there has fallen to about a rate, by the map
}

// verdict returns the rate to which the link to site has fallen, if both ends say so, or what it carries more than was said of late, in
// user bytes a second; the hosts of this site are then to be told. Where less arrives from there, too, and the map knows of that, half
// of the queue is enough. One host of several whose lanes stand in a queue may have one of its own: then it must be most of what arrives.
func (b *loadBook) verdict(site string, link known, now time.Time) (rate float64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.told[site]
	if h == nil || now.Sub(h.at) > hearAge {
		return 0, false
	}
	more := now.Sub(h.said) <= followAge && h.rate > (1+loadMore)*h.spoke
	fell, need := h.rate < loadFallen*link.line, loadPressed
	if !fell && !more || !more && now.Sub(h.rose) < loadRises {
		return 0, false // what arrives grows, and nobody was told that it had fallen
	}
	pressed, hosts, begins := b.pressed(site, h.rate, link.line, now)
	if begins && !more {
		return 0, false
	}
	if !h.steady || !fell || hosts < 2 && !link.alone {
		need = loadPressedMost
	}
	if pressed < need && !(fell && pressed >= need/2 && now.Sub(b.dips[site]) <= followAge && link.back(h.rate)) {
		return 0, false
	}
	h.said, h.spoke = now, h.rate
	return h.rate, true
}

// pressed returns which share of a link to site that carries rate, and is believed to carry line, was full in the last
// second: what hosts have sent there that stood in its queue; and how many hosts have. A second in which more was sent counts for no
// more, as it was another link then. begins is that they do so only now, or by now send more than rate: then what was said to arrive is what
// the end of an exchange left, and these are the first seconds of the next one. The caller holds the lock.
func (b *loadBook) pressed(site string, rate, line float64, now time.Time) (full float64, hosts int, begins bool) {
	var sent [loadParts]float64
	for o, p := range b.out {
		if p.old(now) {
			delete(b.out, o)
			continue
		}
		if o.site != site || p.line < loadNarrow*line {
			continue
		}
		p.forward(now)
		some := false
		for i := range sent {
			rate := p.mean(p.head+1-loadLate-int64(i), 1)
			sent[i] += rate
			some = some || rate > 0
		}
		if some {
			hosts++
		}
	}
	for _, s := range sent {
		full += min(s/rate, 1) / loadParts
	}
	return full, hosts, sent[0] > loadStale*rate || sent[0]+sent[1] > 2*(sent[2]+sent[3])
}
