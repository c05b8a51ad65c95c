package probe

import (
	"maps"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A link between two sites that falls during an exchange is to be known at once, and trains are
// few then: in a full queue most of their packets are lost. But the exchange itself shows the
// fall to each host that sends over the link; it only cannot tell how much of it is due to the
// link. So two things are taken together: what a train of one host has read, and that the
// lanes of another, which trusted the same rate, have fallen at the same time.
const (
	// newsEvery is how often a host looks at what the others of its site have found.
	newsEvery = 250 * time.Millisecond
	// newsAge is up to which age their findings, and the fall of own lanes, count together. Hosts
	// whose clocks differ by more do without the findings of each other.
	newsAge = 10 * time.Second
)

// used notes that the network limits a lane to peer, of another site, and whether what this
// host's lanes get there has fallen.
func (r *recorder) used(peer, site string, fallen bool) {
	if site == "" || site == r.cfg.Self.site() {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pair(peer).used = now
	if fallen {
		r.fell[site] = now
	}
}

// fallen reports whether what lanes to the site get has just fallen. The caller holds the lock.
func (r *recorder) fallen(site string, now time.Time) bool {
	at, ok := r.fell[site]
	return ok && now.Sub(at) <= newsAge
}

// news looks, while an exchange runs here, whether other hosts of this site have found a link to
// another one slower than this host believes it to be.
func (p *Prober) news(now time.Time) {
	if p.cfg.Known == nil || !p.cfg.Busy() {
		return
	}
	self := p.cfg.Self
	var sites map[string][]string // peers by site
	for _, q := range p.look() {
		if q.site() != self.site() {
			if sites == nil {
				sites = make(map[string][]string)
			}
			sites[q.site()] = append(sites[q.site()], q.Name)
		}
	}
	if sites == nil {
		return // one site has no links
	}
	round, _ := roundAt(now)
	r := p.roster()
	own := r.team(self.site())
	if own < 0 {
		return
	}
	for _, site := range slices.Sorted(maps.Keys(sites)) {
		peers := slices.Sorted(slices.Values(sites[site]))
		mates := slices.DeleteFunc(slices.Clone(r.teams[own].players(round)), func(h string) bool { return h == self.Name })
		if suspect := p.rec.hear(mates, site, peers, now); suspect != "" {
			p.Suspect(suspect)
		}
		if suspect := p.rec.mirrored(mates, site, peers, now); suspect != "" {
			p.Suspect(suspect)
		}
	}
}

// witnessed reports whether something else than a train says that the link to the site has
// fallen: this host's own lanes, or a host that has read about the same rate. The caller holds the lock.
func (r *recorder) witnessed(site string, rate float64, now time.Time) bool {
	h, ok := r.heard[site]
	if r.under(site, rate, now) {
		return false
	}
	return r.fallen(site, now) || ok && now.Sub(h.at) <= newsAge && apart(rate, float64(h.line)) <= sameRate
}

// A finding is the estimate of a pair of another host of this site.
type finding struct {
	from, to string
	line     netmap.BytesPerSec
	e        netmap.Estimate
	at       time.Time // when it was heard of
}

// findings returns what mates have measured of the link to peers, up to newsAge ago, the newest
// first. The caller holds the lock.
func (r *recorder) findings(mates, peers []string, now time.Time) []finding {
	var fs []finding
	for _, from := range mates {
		for _, to := range peers {
			e, ok := r.cfg.Known(from, to)
			if !ok || !e.Has(netmap.FieldBandwidth) || e.Source < netmap.SourceProbed || now.Sub(e.Measured).Abs() > newsAge {
				continue
			}
			f := finding{from: from, to: to, line: e.Bandwidth, e: e, at: now}
			if e.Has(netmap.FieldLine) && e.Line > 0 {
				f.line = e.Line
			}
			fs = append(fs, f)
		}
	}
	slices.SortStableFunc(fs, func(a, b finding) int { return b.e.Measured.Compare(a.e.Measured) })
	return fs
}

// hear compares what mates have found of the link to a site with what this host believes of its
// pairs with peers there. Where they have found a fall since, and this host's own lanes
// show one, it is believed of the pairs that lanes use. If too few hosts have seen it then
// for the others to believe it of the link ([netmap.Freshen]), a peer is returned that is to be suspected.
func (r *recorder) hear(mates []string, site string, peers []string, now time.Time) (suspect string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fs := slices.DeleteFunc(r.findings(mates, peers, now), func(f finding) bool { return r.under(site, float64(f.line), now) })
	if len(fs) == 0 || fs[0].line <= 0 {
		return ""
	}
	news := fs[0]
	from, to := map[string]bool{}, map[string]bool{}
	for _, f := range fs {
		if apart(float64(f.line), float64(news.line)) <= sameRate {
			from[f.from], to[f.to] = true, true
		}
	}
	var open []string // pairs of this host that it knows nothing new of
	for _, peer := range peers {
		p := r.pairs[peer]
		if p == nil {
			continue
		}
		line, _ := p.out.line.value()
		other := float64(news.line) < line && apart(float64(news.line), line) > outdated
		if other {
			r.heard[site] = news
		}
		switch {
		case !other:
			if line > 0 && apart(float64(news.line), line) <= sameRate {
				from[r.cfg.Self.Name], to[peer] = true, true
			}
		case !p.last.Measured.Before(news.e.Measured): // this host has looked since
		case r.fallen(site, now) && now.Sub(p.used) <= newsAge:
			p.lower(line, float64(news.line), now)
			r.corroborated(peer, p, news)
			from[r.cfg.Self.Name], to[peer] = true, true
		default:
			open = append(open, peer)
		}
	}
	if len(open) == 0 || len(from) >= 2 && len(to) >= min(2, len(peers)) {
		return ""
	}
	for _, peer := range open {
		if !to[peer] {
			return peer
		}
	}
	return open[0]
}

// corroborated takes what another host has found of the link for two readings of peer's. The
// caller holds the lock.
func (r *recorder) corroborated(peer string, p *pair, news finding) {
	spread := max(news.e.Spread, loneSpread)
	first := p.out.train(float64(news.line), spread)
	if p.out.train(float64(news.line), spread) || first {
		p.out.linkChanged()
	}
	r.publish(peer, p, r.like(peer), netmap.SourceObserved)
}

// mirrored returns a peer that is to be suspected because what comes from its site is said to have fallen: links mostly
// fall in both directions, and an exchange may fill but one of them, of which alone the loads tell. A train that
// reads as little is believed then. It returns "" where lanes there are held back, which tell more, and where this
// host has looked since.
func (r *recorder) mirrored(mates []string, site string, peers []string, now time.Time) (suspect string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fs := r.findings(peers, append(slices.Clone(mates), r.cfg.Self.Name), now)
	if len(fs) == 0 || fs[0].line <= 0 {
		return ""
	}
	news := fs[0]
	if !agreed(fs, float64(news.line), len(peers)) {
		return ""
	}
	place, _ := slices.BinarySearch(slices.Sorted(slices.Values(mates)), r.cfg.Self.Name) // mates begin with different peers
	for i := range peers {
		peer := peers[(place+i)%len(peers)]
		p := r.pairs[peer]
		if p == nil {
			continue
		}
		if now.Sub(p.used) <= pressAge || p.trained.After(news.e.Measured) {
			return ""
		}
		line, _ := p.out.line.value()
		if other := float64(news.line) < line && apart(float64(news.line), line) > outdated; other && suspect == "" {
			suspect = peer
		}
	}
	if suspect != "" {
		r.heard[site] = news
	}
	return suspect
}

// agreed reports whether two hosts, or the only one of a site, have found about rate.
func agreed(fs []finding, rate float64, hosts int) bool {
	senders := make(map[string]bool)
	for _, f := range fs {
		if apart(float64(f.line), rate) <= sameRate {
			senders[f.from] = true
		}
	}
	return len(senders) >= min(2, hosts)
}

// fallenBack reports whether hosts of another site, there, have just found that the link from them to those here carries about rate.
func (r *recorder) fallenBack(there, here []string, rate float64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(there) > 0 && agreed(r.findings(there, here, now), rate, len(there))
}
