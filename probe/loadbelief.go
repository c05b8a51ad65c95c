package probe

import (
	"maps"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// linkTo returns what the link from here to a site is believed to carry, and linkFrom what that from there does:
// user bytes a second, 0 if unknown.
func (r *recorder) linkTo(site string) float64 {
	return r.linkOf(site, func(peer string) (from, to string) { return r.cfg.Self.Name, peer })
}

func (r *recorder) linkFrom(site string) float64 {
	return r.linkOf(site, func(peer string) (from, to string) { return peer, r.cfg.Self.Name })
}

func (r *recorder) linkOf(site string, way func(peer string) (from, to string)) float64 {
	if r.cfg.Known == nil || site == r.cfg.Self.site() {
		return 0
	}
	for _, q := range r.cfg.Peers() {
		if q.site() != site {
			continue
		}
		from, to := way(q.Name)
		lines, _, _ := r.claims(from, to)
		if line := r.lineOf(from, to); line > 0 {
			lines = append(lines, line)
		}
		return medianOf(lines)
	}
	return 0
}

// linkFell takes the keeper's word that the link to a site has fallen. It is believed where this host's own lanes
// to it were pressed just now, and where a train has said more than that.
func (p *Prober) linkFell(w word, pressed bool, now time.Time) {
	var peers []string
	for _, q := range p.cfg.Peers() {
		if q.site() == w.site && w.site != p.cfg.Self.site() {
			peers = append(peers, q.Name)
		}
	}
	if len(peers) == 0 || w.rate < 1 {
		return // no site of members, or no rate: from a keeper that has gone wrong
	}
	before := p.rec.bears(w.site, w.rate, now)
	p.rec.carries(w.site, peers, w.rate, before, pressed, now)
}

// pressed notes that lanes to peer, of another site, are held back by the network, and returns what the pair is
// believed to get of the link, bytes a second; 0 if unknown.
func (r *recorder) pressed(peer string, now time.Time) netmap.BytesPerSec {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pair(peer)
	p.used = now
	line, _ := p.out.line.value()
	return netmap.BytesPerSec(line)
}

// bears notes what arrives over the link to a site: for newsAge no reading that is less counts as a witness. In a full
// queue the packets of others come between those of a train, which then reads its own part. It returns what was noted
// before, 0 if that is as old.
func (r *recorder) bears(site string, rate netmap.BytesPerSec, now time.Time) (before float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.floors[site]; ok && now.Sub(f.at) <= newsAge {
		before = f.rate
	}
	r.floors[site] = floor{float64(rate), now}
	return before
}

// sameWord is up to how far a belief may lie off what a keeper said to stand on it.
const sameWord = 0.01

// A lowering is that trains have found the link of a pair slower.
type lowering struct {
	at   time.Time // zero: they have not
	from float64   // what was believed before
}

// lower notes that trains have found the link of a pair, of which line was believed, slower.
func (p *pair) lower(line, rate float64, now time.Time) {
	if rate < line {
		p.lowered = lowering{now, line}
	}
}

// A floor is what a link carries at least.
type floor struct {
	rate float64
	at   time.Time
}

// under reports whether rate is less than what has just been seen to arrive over the link to the site. The caller
// holds the lock.
func (r *recorder) under(site string, rate float64, now time.Time) bool {
	f, ok := r.floors[site]
	return ok && now.Sub(f.at) <= newsAge && rate < f.rate && apart(rate, f.rate) > otherRate
}

// carries takes what a link carries, which has fallen, for what it has of all pairs over it whose lanes the
// network has limited lately, and of those that the link limited as well before. word is what the keeper said last, 0 if
// nothing: who believed that believes more of the same keeper. All that holds where lanes of this host were pressed just now.
//
// Where not it is taken for pairs that trains have found fallen by more, in the last seconds: packets of the exchange came
// between those of the trains, which have read their own part of the link. What arrives the link carries.
func (r *recorder) carries(site string, peers []string, rate netmap.BytesPerSec, word float64, pressed bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := 0.0 // what the link carried
	lines := make(map[string]float64)
	for _, peer := range peers {
		p := r.pairs[peer]
		if p == nil {
			continue
		}
		if lines[peer], _ = p.out.line.value(); now.Sub(p.used) <= newsAge {
			before = max(before, lines[peer])
		}
	}
	for _, peer := range slices.Sorted(maps.Keys(lines)) {
		p, line := r.pairs[peer], lines[peer]
		fell := float64(rate) < line && apart(float64(rate), line) > outdated
		if now.Sub(p.lowered.at) <= newsAge && float64(rate) < p.lowered.from && r.under(site, line, now) {
			p.out.line = rateFilter{}
			r.corroborated(peer, p, finding{line: rate, e: netmap.Estimate{Spread: loneSpread}})
			continue
		}
		if !pressed {
			continue
		}
		if word > 0 && float64(rate) > word && apart(line, word) < sameWord {
			p.out.line = rateFilter{}
			fell = true
		}
		if fell && (now.Sub(p.used) <= newsAge || apart(line, before) <= sameRate) {
			r.corroborated(peer, p, finding{line: rate, e: netmap.Estimate{Spread: loneSpread}})
		}
	}
}
