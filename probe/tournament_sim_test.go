package probe

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A simWorld plays rounds of the tournament with the budgets of links and the choice of
// probes, and without a network: every train arrives and takes no time.
type simWorld struct {
	members  []Peer
	site     map[string]string
	roster   *roster
	now      time.Time
	rng      *rand.Rand
	inside   map[meeting]time.Time // when a pair was measured
	across   map[meeting]time.Time
	budgets  map[siteLink]*budget
	watched  map[siteLink]time.Time
	gap      map[siteLink]time.Duration // the longest time between two trains, after the first
	sessions map[string]int
	bytes    map[string]int64
	partners map[string]map[string]bool
}

const (
	simRate     = 12.5e6            // bytes a second of every link between sites: 100 Mbit/s
	simInside   = 90 * trainPayload // bytes of a session inside a site, at 100 Mbit/s and more
	simAcross   = watchCost         //
	simInterval = time.Minute       // default of [Config.Interval]
)

func newSimWorld(sites, hosts int) *simWorld {
	w := &simWorld{
		site: make(map[string]string), now: time.Unix(1.7e9, 0), rng: rand.New(rand.NewPCG(1, 1)),
		inside: make(map[meeting]time.Time), across: make(map[meeting]time.Time),
		budgets: make(map[siteLink]*budget), watched: make(map[siteLink]time.Time), gap: make(map[siteLink]time.Duration),
		sessions: make(map[string]int), bytes: make(map[string]int64), partners: make(map[string]map[string]bool),
	}
	for s := range sites {
		for h := range hosts {
			p := Peer{fmt.Sprintf("s%02d-%03d", s, h), fmt.Sprintf("s%02d", s)}
			w.members = append(w.members, p)
			w.site[p.Name] = p.Site
			w.partners[p.Name] = make(map[string]bool)
		}
	}
	w.roster = newRoster(w.members)
	return w
}

// round plays one round.
func (w *simWorld) round() {
	round, _ := roundAt(w.now)
	for _, p := range w.members {
		if q := w.roster.inside(round, p.Site, p.Name); q != "" {
			m := meeting{p.Name, q}
			w.partners[p.Name][q] = true
			c := candidate{measured: w.inside[m], spread: 0.05, important: 1}
			if c.worth(w.now, simInterval) >= 1 {
				w.inside[m] = w.now
				w.spend(m, simInside)
			}
		}
		m, ok := w.roster.across(round, p.Site, p.Name)
		if !ok {
			continue
		}
		if w.partners[m.from][m.to] = true; m.from != p.Name {
			continue
		}
		l := siteLink{w.site[m.from], w.site[m.to]}
		b := w.budgets[l]
		if b == nil {
			b = &budget{rate: simRate, at: w.now}
			w.budgets[l] = b
		}
		t := terms{share: accounted * 0.01, burst: 3 << 20}
		before, seen := w.watched[l]
		if seen && w.now.Sub(before) < watchGap || b.wait(w.now, watch, simAcross, t) > 0 {
			continue
		}
		if seen {
			w.gap[l] = max(w.gap[l], w.now.Sub(before))
		}
		w.watched[l] = w.now
		w.across[m] = w.now
		b.spend(w.now, watch, simAcross, netmap.BytesPerSec(simRate), t)
		w.spend(m, simAcross)
	}
	w.now = w.now.Add(roundTime)
}

func (w *simWorld) spend(m meeting, bytes int64) {
	w.sessions[m.from]++
	w.sessions[m.to]++
	w.bytes[m.from] += bytes
}

// From 20 hosts to 1,000 what a host does is bounded, and every link between two sites
// is watched within the same time. With the tournament, choice and budgets as they are.
func TestThousandHosts(t *testing.T) {
	type cost struct {
		sessions, bytes float64 // a host and minute, mean
		most            float64 // sessions of the busiest host in a minute
		partners        int     // most
		gap             time.Duration
		cpu             time.Duration // a host and round
	}
	const minutes = 1
	measure := func(sites, hosts int) (c cost) {
		w := newSimWorld(sites, hosts)
		for range 30 { // the first measurements
			w.round()
		}
		clear(w.sessions)
		clear(w.bytes)
		clear(w.gap)
		begin := time.Now()
		for range minutes * 60 {
			w.round()
		}
		n := float64(sites * hosts)
		c.cpu = time.Duration(float64(time.Since(begin)) / n / minutes / 60)
		for _, p := range w.members {
			c.sessions += float64(w.sessions[p.Name]) / n / minutes
			c.bytes += float64(w.bytes[p.Name]) / n / minutes
			c.most = max(c.most, float64(w.sessions[p.Name])/minutes)
			c.partners = max(c.partners, len(w.partners[p.Name]))
		}
		if got, want := len(w.watched), sites*(sites-1); got != want {
			t.Errorf("%d × %d hosts: %d of %d links watched", sites, hosts, got, want)
		}
		for _, g := range w.gap {
			c.gap = max(c.gap, g)
		}
		t.Logf("%d × %d hosts: a host has %.1f sessions and %.1f kB a minute (the busiest %.1f sessions), %d partners at most; a link waits %v at most; %v a host and round",
			sites, hosts, c.sessions, c.bytes/1e3, c.most, c.partners, c.gap, c.cpu)
		return c
	}
	small, middle, large := measure(4, 5), measure(10, 10), measure(10, 100)
	for _, c := range []cost{middle, large} {
		if c.sessions > 60 || c.bytes > 4e6 || c.most > 120 {
			t.Errorf("a host has %.1f sessions and %.0f bytes a minute, the busiest %.1f sessions", c.sessions, c.bytes, c.most)
		}
		if c.partners > 2*rings+9*fullAcross {
			t.Errorf("a host has %d partners", c.partners)
		}
		if c.gap > 10*time.Second {
			t.Errorf("a link waited %v for a train", c.gap)
		}
	}
	if large.bytes > 2*max(middle.bytes, small.bytes) || large.sessions > 2*max(middle.sessions, small.sessions) {
		t.Errorf("the price of a host grows: %.1f, %.1f, %.1f sessions, %.0f, %.0f, %.0f bytes a minute",
			small.sessions, middle.sessions, large.sessions, small.bytes, middle.bytes, large.bytes)
	}
}
