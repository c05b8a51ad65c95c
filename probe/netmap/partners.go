package netmap

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// nearPartners and farPartners are with how many hosts of its own site, and of others, a
	// host compares maps on its own account. A random graph with that many edges for each
	// node is connected for as many hosts as we see, and each further partner is a
	// connection that has to be kept.
	nearPartners = 4
	farPartners  = 2
	// farLooks is among how many hosts one of another site than the other partners' is looked for. Were it all, the one
	// host of a small site would be the partner of everybody: a connection to each, and news of each at the same moment.
	farLooks = 8
	// farTellers is how many hosts of a site tell their partners elsewhere at once, about.
	farTellers = 8
	// recentCallers is how many of those that turned to this host it turns to as well: who
	// happens to be nobody's partner gets news by those whom it calls.
	recentCallers = 4
	// partnerLife is after how long one partner is drawn anew.
	partnerLife = 5 * time.Minute
)

// Partners chooses whom to compare maps with: mostly hosts of the own site, where bytes cost
// little, and now and then one outside, so that all hosts of a site together cross to other
// sites about twice a round, however many they are. It is safe for concurrent use.
type Partners struct {
	site string

	mu        sync.Mutex // guards what follows
	rng       *rand.Rand
	near, far circle
	drawn     time.Time // when a partner was last drawn anew
}

// NewPartners returns the choice of a host at site.
func NewPartners(site string, rng *rand.Rand) *Partners {
	p := &Partners{site: site, rng: rng}
	p.near.size, p.far.size = nearPartners, farPartners
	return p
}

// Pick returns whom to turn to now, one of peers (which do not hold this host), and whether it is of another
// site; false if there is nobody. With stay it is one of this host's site.
func (p *Partners) Pick(peers []Host, stay bool, now time.Time) (name string, far, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	nearby := p.renew(peers, now)
	if !stay && (nearby == 0 || nearby < len(peers) && p.rng.Float64() < min(0.5, 2/float64(nearby+1))) {
		name, ok = p.far.next(p.rng)
		return name, true, ok
	}
	name, ok = p.near.next(p.rng)
	return name, false, ok
}

// Far returns the partners at other sites, of different sites where there are so many: who has news of its own tells them at once. In a
// site of more than farTellers hosts most return none, and tell each other first: hosts find what befalls a link at the same moment.
func (p *Partners) Far(peers []Host, now time.Time) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if nearby := p.renew(peers, now); p.rng.Float64()*float64(nearby+1) >= farTellers {
		return nil
	}
	return slices.Clone(p.far.own)
}

// renew draws partners in the place of those that are gone, and now and then another one. It returns how many of peers are of this
// host's site. The caller holds the lock.
func (p *Partners) renew(peers []Host, now time.Time) (nearby int) {
	alive := map[string]bool{} // of those that are in a circle, whether they still belong there
	for _, c := range []*circle{&p.near, &p.far} {
		for _, n := range slices.Concat(c.own, c.callers) {
			alive[n] = false
		}
	}
	for _, h := range peers {
		near := h.Site == p.site
		if near {
			nearby++
		}
		if _, ok := alive[h.Name]; ok {
			alive[h.Name] = near == (slices.Contains(p.near.own, h.Name) || slices.Contains(p.near.callers, h.Name))
		}
	}
	anew := now.Sub(p.drawn) >= partnerLife
	if anew {
		p.drawn = now
	}
	for _, c := range []struct {
		*circle
		near  bool
		count int
	}{{&p.near, true, nearby}, {&p.far, false, len(peers) - nearby}} {
		c.without(func(n string) bool { return !alive[n] })
		if anew && len(c.own) > 0 {
			i := p.rng.IntN(len(c.own))
			c.own = slices.Delete(c.own, i, i+1)
		}
		if len(c.own) < min(c.size, c.count) {
			c.fill(peers, p.site, c.near, p.rng)
		}
	}
	return nearby
}

// Called notes that name, at site, has turned to this host.
func (p *Partners) Called(name, site string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.far
	if site == p.site {
		c = &p.near
	}
	if slices.Contains(c.own, name) || slices.Contains(c.callers, name) {
		return
	}
	if len(c.callers) == recentCallers {
		c.callers = slices.Delete(c.callers, 0, 1)
	}
	c.callers = append(c.callers, name)
}

// Drop makes another host take the place of name, which could not be reached.
func (p *Partners) Drop(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []*circle{&p.near, &p.far} {
		c.without(func(n string) bool { return n == name })
	}
}

// A circle is the hosts of one kind that a host turns to, one after the other: news then
// reaches each of them after as many rounds as there are.
type circle struct {
	size         int
	own, callers []string
	turns        []string // whom to turn to before anybody a second time
}

func (c *circle) without(gone func(string) bool) {
	c.own, c.callers, c.turns = slices.DeleteFunc(c.own, gone), slices.DeleteFunc(c.callers, gone), slices.DeleteFunc(c.turns, gone)
}

// fill draws hosts until there are size: those at site, or those that are not, and of these such of sites that none is of, if the first
// farLooks have some.
func (c *circle) fill(peers []Host, site string, at bool, rng *rand.Rand) {
	var order []Host
	for _, i := range rng.Perm(len(peers)) {
		if h := peers[i]; (h.Site == site) == at && !slices.Contains(c.own, h.Name) {
			order = append(order, h)
		}
	}
	if !at {
		taken := make(map[string]bool) // sites
		for _, h := range peers {
			taken[h.Site] = taken[h.Site] || slices.Contains(c.own, h.Name)
		}
		var other, same []Host // of sites that none is of, and the rest
		for i, h := range order {
			if i < farLooks && !taken[h.Site] {
				taken[h.Site] = true
				other = append(other, h)
			} else {
				same = append(same, h)
			}
		}
		order = append(other, same...)
	}
	for _, h := range order {
		if len(c.own) == c.size {
			return
		}
		c.own = append(c.own, h.Name)
	}
}

func (c *circle) next(rng *rand.Rand) (string, bool) {
	if len(c.turns) == 0 {
		c.turns = append(slices.Clone(c.own), c.callers...)
		rng.Shuffle(len(c.turns), func(i, j int) { c.turns[i], c.turns[j] = c.turns[j], c.turns[i] })
	}
	if len(c.turns) == 0 {
		return "", false
	}
	name := c.turns[0]
	c.turns = c.turns[1:]
	return name, true
}
