package probe

import (
	"slices"

	"github.com/gridagent/gridagent/probe/netmap"
)

// What like pairs know: those between the same two sites.
type like struct {
	siteFlow
	line float64 // median rate of the link; 0 unknown
}

// manyLike is where counting ends: a site pair of which so many pairs are measured is known.
const manyLike = 32

// like returns what the map holds of the other pairs from this host's site to peer's. The
// caller holds the lock.
func (r *recorder) like(peer string) like {
	lines, claims, inside := r.claims(r.cfg.Self.Name, peer)
	if inside {
		return like{line: medianOf(lines)} // pairs of a site share no link
	}
	self := r.cfg.Self.Name
	p := r.pairs[peer]
	if p == nil {
		l := like{siteFlowOf(corroborate(self, 0, claims)), medianOf(lines)}
		l.contested = contested(self, claims)
		return l
	}
	own, _ := p.out.part.value()
	losses := func(of []claim) lossHeld { return lossHeld{} }
	if p.last.Has(netmap.FieldLatency) {
		losses = func(of []claim) lossHeld { return lossHeldOf(lossesOf(self, p.loss.count(), of), 2*p.last.Latency) }
	}
	if line, _ := p.out.line.value(); own == 0 && line > 0 {
		mine := slices.DeleteFunc(slices.Clone(claims), func(c claim) bool { return c.from != self })
		own = min(losses(mine).rate/line, 1) // who has met losses itself can tell whether another is right about what they leave
	}
	l := like{siteFlowOf(corroborate(self, own, claims)), medianOf(lines)}
	l.contested = contested(self, claims)
	l.losses = losses(claims)
	return l
}

// claims returns what the map holds of the pairs between the sites of from and to, without that
// pair: the rates of the link, and the estimates. inside says that it is one site.
func (r *recorder) claims(from, to string) (lines []float64, claims []claim, inside bool) {
	if r.cfg.Known == nil {
		return nil, nil, false
	}
	members := append(slices.Clone(r.cfg.Peers()), r.cfg.Self)
	fromSite, toSite := "", ""
	for _, m := range members {
		if m.Name == from {
			fromSite = m.site()
		}
		if m.Name == to {
			toSite = m.site()
		}
	}
	for _, a := range members {
		if a.site() != fromSite {
			continue
		}
		for _, b := range members {
			if len(lines) >= manyLike {
				return lines, claims, fromSite == toSite
			}
			if b.site() != toSite || a.Name == b.Name {
				continue
			}
			if a.Name == from && b.Name == to {
				continue
			}
			e, ok := r.cfg.Known(a.Name, b.Name)
			if !ok || !e.Has(netmap.FieldBandwidth) || e.Source < netmap.SourceProbed {
				continue
			}
			line := e.Bandwidth
			if e.Has(netmap.FieldLine) && e.Line > 0 {
				line = e.Line
			}
			lines, claims = append(lines, float64(line)), append(claims, claim{a.Name, e, b.Name})
		}
	}
	return lines, claims, fromSite == toSite
}
