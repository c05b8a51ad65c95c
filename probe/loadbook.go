package probe

import (
	"sync"
	"time"
)

// A drop is a lane that has fallen.
type drop struct {
	had float64
	at  time.Time
}

// drops are the lanes of a host that have fallen, by site.
type drops struct {
	mu    sync.Mutex // guards sites
	sites map[string]map[laneName]drop
	n     int
}

type laneName struct {
	peer string
	lane int
}

// note takes in that a lane to the site gets far less than it had.
func (d *drops) note(site string, l laneName, had float64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n >= maxDrops {
		d.sites, d.n = nil, 0
	}
	if d.sites == nil {
		d.sites = make(map[string]map[laneName]drop)
	}
	if d.sites[site] == nil {
		d.sites[site] = make(map[laneName]drop)
	}
	old, ok := d.sites[site][l]
	if !ok {
		d.n++
	}
	// A lane that goes on falling is compared with less and less.
	if ok && now.Sub(old.at) <= dropAge {
		had = max(had, old.had)
	}
	d.sites[site][l] = drop{had, now}
}

// recovered takes in that a lane to the site gets rate now.
func (d *drops) recovered(site string, l laneName, rate float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, ok := d.sites[site][l]; ok && rate >= observeFallen*x.had {
		delete(d.sites[site], l)
		d.n--
	}
}

// had returns what the lanes to the site that have just fallen had together, bytes a second.
func (d *drops) had(site string, now time.Time) (sum float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for l, x := range d.sites[site] {
		if now.Sub(x.at) > dropAge {
			delete(d.sites[site], l)
			d.n--
			continue
		}
		sum += x.had
	}
	return sum
}

// A loadBook is what the keeper of a site has been told. The zero value is empty.
type loadBook struct {
	mu   sync.Mutex                 // guards the fields below
	in   map[string]*arrivals       // by site that it comes from
	lost map[string]map[string]drop // by site that it goes to, and host of this site
	told map[string]*hearsay        // by site: what arrives there
}

// A hearsay is what the keeper of another site says that arrives there from this one.
type hearsay struct {
	dip
	at   time.Time
	said time.Time // when this site's hosts were told of it last
}

// take takes what a host of this site tells.
func (b *loadBook) take(host string, l load, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.in == nil || len(b.in) > maxDrops || len(b.lost) > maxDrops {
		b.in, b.lost = make(map[string]*arrivals), make(map[string]map[string]drop)
	}
	if l.Bytes > 0 {
		a := b.in[l.Site]
		if a == nil {
			a = &arrivals{}
			b.in[l.Site] = a
		}
		a.add(l.Bytes, l.Span, now)
	}
	hosts := b.lost[l.Site]
	if l.Fallen <= 0 {
		delete(hosts, host)
		return
	}
	if hosts == nil || len(hosts) > maxDrops {
		hosts = make(map[string]drop)
		b.lost[l.Site] = hosts
	}
	hosts[host] = drop{float64(l.Fallen), now}
}

// fallen returns what arrives now of the sites from where far less arrives than before.
func (b *loadBook) fallen(now time.Time) map[string]dip {
	b.mu.Lock()
	defer b.mu.Unlock()
	dips := make(map[string]dip)
	for site, a := range b.in {
		if binAt(now)-a.head > loadBins {
			delete(b.in, site)
		} else if d, ok := a.fallen(now); ok {
			dips[site] = d
		}
	}
	return dips
}

// hear takes what the keeper of another site says that arrives there from this one, in user bytes a second.
func (b *loadBook) hear(site string, d dip, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told == nil || len(b.told) > maxDrops {
		b.told = make(map[string]*hearsay)
	}
	if h := b.told[site]; h != nil {
		h.dip, h.at = d, now
	} else {
		b.told[site] = &hearsay{dip: d, at: now}
	}
}

// open reports whether there is something to judge of the link to site: its end has told of a fall, and
// this site's hosts have not just heard of it.
func (b *loadBook) open(site string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.told[site]
	return h != nil && now.Sub(h.at) <= dropAge && now.Sub(h.said) >= loadSaid
}

// verdict returns the rate to which the link to site has fallen, if it is believed to carry line, and
// both ends say so; the hosts of this site are then to be told. All are user bytes a second.
func (b *loadBook) verdict(site string, line float64, now time.Time) (rate float64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.told[site]
	if h == nil || now.Sub(h.at) > dropAge || !(h.rate < loadFallen*line) {
		return 0, false
	}
	had := 0.0
	for _, d := range b.lost[site] {
		if now.Sub(d.at) <= dropAge {
			had += d.had
		}
	}
	need := loadHad
	if !h.steady {
		need = loadHadMost
	}
	if had < need*line {
		return 0, false
	}
	h.said = now
	return h.rate, true
}
