package probe

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A keeper that refuses everything, or grants leases to itself alone, would end what its site's other
// hosts measure. They cannot know why it refuses; so a host that has been refused for far longer
// than an honest keeper would have to asks the next one, as if the first had left. Two trains
// may then meet on the link, see [keeper]. Where the budget lets few of many hosts measure, turns that come at fixed times may
// leave one out for as long: as long as hosts beside the keeper measure the link, nobody is denied.
const (
	// denyLeast is how many refusals in a row, and denyAfter for how long at least, make a denial.
	denyLeast = 5
	denyAfter = 10 * time.Minute
	// denyTurns is how many times as long as its turn on the link takes to come, by the link's
	// budget, a host waits where that is more.
	denyTurns = 4
	// denyExchange is the same where the last reason was an exchange: twice what a host may hold its site's
	// links for, since not everybody is measured in the pause between.
	denyExchange = 2*(holdMost+holdRest) + denyAfter
	// denyRest is how long another one is asked until the first is once more.
	denyRest = 10 * time.Minute
	// denyMost is how many keepers may be passed over; then a host leases its links from itself.
	denyMost = 2
	// slowest is the rate that is taken for a link of which this host knows nothing, in bytes a second.
	slowest = 64e3
	// holdTold is after how long a hold is told of: honest or not, it is why the map grows old.
	holdTold = 15 * time.Minute
)

// A denial is a row of refusals by one keeper.
type denial struct {
	since, last time.Time // the first and the last of them
	n           int
	passed      bool   // it was passed over since: what others measure then says nothing of it
	why         string // of the last, fit to be shown
}

// lasts reports whether the keeper is to be passed over by a host whose turn takes so long to come.
func (d denial) lasts(turn time.Duration) bool {
	patience := max(denyAfter, denyTurns*turn)
	if d.why == "exchange" {
		patience = max(denyExchange, patience)
	}
	return d.n >= denyLeast && d.last.Sub(d.since) >= patience
}

// lender returns whom to ask for the link to site: the keeper, or where that has denied it, another.
func (p *Prober) lender(site string) string {
	self := p.cfg.Self
	members := slices.DeleteFunc(append(slices.Clone(p.cfg.Peers()), self), func(m Peer) bool { return m.site() != self.site() })
	for range denyMost {
		name := keeperOf(self.site(), members)
		p.mu.Lock()
		d, ok := p.denial(name, site, len(members))
		p.mu.Unlock()
		if !ok || time.Since(d.last) >= denyRest || !d.passed && p.lends(name, site, members, time.Now()) {
			return name
		}
		p.pass(name, site)
		members = slices.DeleteFunc(members, func(m Peer) bool { return m.Name == name })
	}
	return self.Name
}

// pass notes that a keeper was passed over.
func (p *Prober) pass(keeper, site string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.links[site]; l != nil {
		if d, ok := l.denied[keeper]; ok {
			d.passed = true
			l.denied[keeper] = d
		}
	}
}

// denial returns the refusals of a keeper of this site, which has so many hosts, if they are to be
// heeded. The caller holds the lock.
func (p *Prober) denial(keeper, site string, hosts int) (denial, bool) {
	l := p.links[site]
	if l == nil || keeper == p.cfg.Self.Name {
		return denial{}, false
	}
	d, ok := l.denied[keeper]
	rate := slowest
	if l.read > 0 {
		rate = float64(l.read)
	}
	each := watchCost / (parts[watch] * p.cfg.linkTerms().share * rate) // seconds
	return d, ok && d.lasts(time.Duration(float64(hosts)*each*float64(time.Second)))
}

// lends reports whether one of mates, the hosts of this site, other than this host and the keeper, has lately measured the link to
// site, as far as the map says.
func (p *Prober) lends(keeper, site string, mates []Peer, now time.Time) bool {
	if p.cfg.Known == nil {
		return false
	}
	peers := p.cfg.Peers()
	for _, m := range mates {
		if m.Name == keeper || m.Name == p.cfg.Self.Name {
			continue
		}
		for _, q := range peers {
			if q.site() != site {
				continue
			}
			if e, ok := p.cfg.Known(m.Name, q.Name); ok && e.Source >= netmap.SourceProbed && now.Sub(e.Measured) < denyAfter {
				return true
			}
		}
	}
	return false
}

// answered notes what a keeper said to a request for the link to site.
func (p *Prober) answered(keeper, site string, err error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.links[site]
	if l == nil {
		return
	}
	var busy *BusyError
	switch {
	case err == nil:
		delete(l.denied, keeper)
	case errors.As(err, &busy):
		if l.denied == nil {
			l.denied = make(map[string]denial)
		}
		d, ok := l.denied[keeper]
		if !ok || now.Sub(d.last) > 2*denyRest {
			d = denial{since: now}
		}
		d.n, d.last, d.why = d.n+1, now, printable(busy.Why)
		l.denied[keeper] = d
		for name, other := range l.denied { // of keepers that have long been others
			if now.Sub(other.last) > 2*denyRest {
				delete(l.denied, name)
			}
		}
	}
}

// Warnings returns a sentence for each link whose keeper grants this host nothing, and for each host that has
// held for long the links that this host keeps; in order.
func (p *Prober) Warnings(now time.Time) []string {
	out := p.keeper.longHolds(now)
	own := p.cfg.Self.site()
	mates := slices.DeleteFunc(append(slices.Clone(p.cfg.Peers()), p.cfg.Self), func(m Peer) bool { return m.site() != own })
	type denied struct {
		keeper, site string
		denial
	}
	var all []denied
	p.mu.Lock()
	for site := range p.links {
		for _, m := range mates {
			if d, ok := p.denial(m.Name, site, len(mates)); ok {
				all = append(all, denied{m.Name, site, d})
			}
		}
	}
	p.mu.Unlock()
	for _, d := range all {
		if d.passed || !p.lends(d.keeper, d.site, mates, now) {
			out = append(out, fmt.Sprintf("host %s: as keeper of the links of site %s it has let this host probe none to site %s for %v (last reason: %q); another host is asked",
				d.keeper, own, d.site, now.Sub(d.since).Round(time.Second), d.why))
		}
	}
	slices.Sort(out)
	return out
}
