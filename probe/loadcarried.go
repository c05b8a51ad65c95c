package probe

import (
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// What an exchange gets of a link is no measurement of it: it sends what its plan says. But the link carries that at least, whoever
// looks. In a young grid that is never idle nobody has searched for what several flows get, and plans take a link that many pairs
// of hosts use for one that carries a single flow. So the keeper of the site where packets arrive, whom all hosts of the site tell
// what does ([load]), puts the most that came in each of two half seconds in a row into the map, until there is a search. One that a port of its two hosts held is none:
// many pairs may get more ([netmap.PortHolds]).

const (
	// carriedMore is by how much more must arrive than is believed to be news.
	carriedMore = 1.1
	// carriedSame is the share of what was said from which on it holds for carriedAge more.
	carriedSame = 0.8
	carriedAge  = 5 * time.Minute
	// carriedBins is over how many bins what arrives is a mean, and carriedBack how far back the keeper looks.
	carriedBins = 2
	carriedBack = 8
	// carriedRises is for how long what arrives has not grown before it is news: an exchange fills a link by and by, and what
	// its first part got would hold the next one back.
	carriedRises = 750 * time.Millisecond
)

// A carrying is what exchanges, or a glance, were seen to bring over the link of a pair, user bytes a second.
type carrying struct {
	rate  float64   // 0: nothing that was not known
	until time.Time // when that counts no more
	peak  float64   // of what arrives now
	rose  time.Time // when it grew last
}

// brought returns by site the highest rate of late at which packets arrived, as user bytes a second.
func (b *loadBook) brought(now time.Time) map[string]float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	rates := make(map[string]float64)
	for site, a := range b.in {
		a.forward(now)
		end := a.head + 1 - loadLate
		if rate := carried(a.twice(end-carriedBack, end, carriedBins)); rate > 0 {
			rates[site] = rate
		}
	}
	return rates
}

// brings takes what arrives here of all that a site sends, while this host is the keeper of its own.
func (p *Prober) brings(now time.Time) {
	for site, rate := range p.book.brought(now) {
		if peer := keeperOf(site, p.cfg.Peers()); peer != "" && site != p.cfg.Self.site() {
			p.rec.brings(peer, min(rate, float64(netmap.MaxRate)), now)
		}
	}
}

// brings takes what arrives from the site of peer, and puts it into the map if nobody has searched for what that link carries and this
// is more than is believed.
func (r *recorder) brings(peer string, rate float64, now time.Time) {
	if r.cfg.Known == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pair(peer)
	c := &p.carried
	if rate >= carriedSame*c.rate {
		c.until = later(c.until, now.Add(carriedAge))
	}
	if rate > carriedMore*c.peak {
		c.peak, c.rose = rate, now
		return
	}
	if c.peak = max(c.peak, rate); c.rose.IsZero() || now.Sub(c.rose) < carriedRises {
		return
	}
	rate, c.peak, c.rose = c.peak, 0, time.Time{} // it is judged once, and the next one anew
	r.carry(peer, p, rate, carriedMore, now)
}

// glimpsed takes what lanes of a glance brought from peer.
func (r *recorder) glimpsed(peer string, rate float64, now time.Time) {
	if r.cfg.Known == nil || !(rate > 0) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.carry(peer, r.pair(peer), min(rate, float64(netmap.MaxRate)), glanceHeld, now)
}

// jointly takes what several pairs of hosts got at once of the link from the site of peer ([Prober.joint]), as peer says. That cannot be more than so many pairs get.
func (r *recorder) jointly(peer string, rate float64, now time.Time) {
	if r.cfg.Known == nil || !(rate >= 1) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pair(peer)
	if _, searched := r.link(peer); searched { // and no port held that pair
		return
	}
	if one := r.found(peer); one > 0 {
		rate = min(rate, jointMost*jointSpare*one)
	}
	p.carried.rate, p.carried.until = min(rate, float64(netmap.MaxRate)), now.Add(jointKept)
	r.side(peer, p, now)
}

// found returns the most that searches are known to have found of the link from peer's site, each between two hosts; 0 if none is. The caller holds the lock.
func (r *recorder) found(peer string) (most float64) {
	_, claims, _ := r.claims(peer, r.cfg.Self.Name)
	own, _ := r.cfg.Known(peer, r.cfg.Self.Name)
	for _, c := range append(claims, claim{peer, own, r.cfg.Self.Name}) {
		if c.e.Has(netmap.FieldCapacity) {
			most = max(most, float64(c.e.Capacity))
		}
	}
	return most
}

// carry puts what arrives from the site of peer into the map if nobody has searched for what that link carries and this is so many times what is
// believed. The caller holds the lock.
func (r *recorder) carry(peer string, p *pair, rate, more float64, now time.Time) {
	c := &p.carried
	lines, searched := r.link(peer)
	switch {
	case searched:
		r.unbring(peer, p, now)
	case rate > more*max(medianOf(lines), c.rate):
		c.rate, c.until = rate, later(c.until, now.Add(carriedAge))
		r.side(peer, p, now)
		r.cfg.Log.Debug("more came over a link than is known", "from", peer, "mbps", netmap.BytesPerSec(rate).Mbps())
	}
}

// link returns what is believed of one flow over the link from peer's site, of each pair, and whether somebody has searched for what several get.
// The caller holds the lock.
func (r *recorder) link(peer string) (lines []float64, searched bool) {
	lines, claims, _ := r.claims(peer, r.cfg.Self.Name)
	if line := r.lineOf(peer, r.cfg.Self.Name); line > 0 {
		e, _ := r.cfg.Known(peer, r.cfg.Self.Name)
		lines, claims = append(lines, line), append(claims, claim{peer, e, r.cfg.Self.Name})
	}
	for _, c := range claims {
		searched = searched || c.e.Has(netmap.FieldCapacity|netmap.FieldLanes) && !netmap.PortHolds(c.e.Capacity, r.port(c.from, true), r.port(c.to, false))
	}
	return lines, searched
}

// port returns the most that host is believed to get to, or from, others of its site; 0 if nothing is known. The caller holds the lock.
func (r *recorder) port(host string, out bool) (most netmap.BytesPerSec) {
	members := append(slices.Clone(r.cfg.Peers()), r.cfg.Self)
	site := ""
	for _, m := range members {
		if m.Name == host {
			site = m.site()
		}
	}
	seen := 0
	for _, m := range members {
		if m.site() != site || m.Name == host || seen >= manyLike {
			continue
		}
		from, to := host, m.Name
		if !out {
			from, to = to, from
		}
		if e, ok := r.cfg.Known(from, to); ok && e.Has(netmap.FieldBandwidth) {
			most = max(most, e.Bandwidth)
			seen++
		}
	}
	return most
}

// unbring takes back what exchanges were said to bring. The caller holds the lock.
func (r *recorder) unbring(peer string, p *pair, now time.Time) {
	if p.carried.rate > 0 {
		p.carried.rate = 0
		r.side(peer, p, now)
	}
}

// bringsLess takes that the link from peer's site has fallen to rate: what it brought before says no more of it.
func (r *recorder) bringsLess(peer string, rate float64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.pairs[peer]; p != nil && p.carried.rate > rate {
		r.unbring(peer, p, now)
	}
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
