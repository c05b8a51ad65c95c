package probe

import (
	"cmp"
	"slices"
	"time"
)

// The tournament says whose turn it is, without a master: every host computes it from
// the names and labels of the members and from the number of the round. Where views
// or clocks differ, hosts take turns that are not theirs, and the slots of hosts and
// the leases of links refuse what would collide.
//
// A round has two parts. First hosts meet inside their sites, each at most one other.
// Then hosts of different sites meet: each directed link between two sites has at most
// one turn, and each host at most one, as the one that sends or the one that receives.
const (
	// roundTime is the length of a round. A session over 0.3 s of round trips fits into
	// what insideTime leaves of it; one that takes longer finds its host's slot held
	// in the next round and loses nothing but that turn.
	roundTime  = time.Second
	insideTime = 250 * time.Millisecond

	// fullInside is up to how many hosts of a site all meet. More meet in rings, in
	// which each host has two neighbours, drawn anew every ringLife rounds, one ring
	// after the other: rings of a random order are a sample that misses nobody, keeps a
	// host's partners at 2 × rings whatever the size, and moves one pair a ring when
	// a host comes or goes.
	fullInside = 32
	rings      = 8
	ringLife   = 4 * 3600
	ringRounds = 3 // a ring of odd length has three colours

	// fullAcross is up to how many hosts of a site all take part between sites. Of more,
	// players do, those that a hand points at which goes round all hosts in handTime rounds.
	fullAcross = 16
	players    = 8
	handTime   = 4 * 3600

	// field is the order of the field that spreads meetings evenly, a prime no less than
	// fullAcross. See base.
	field = 17
)

// roundAt returns the number of the round that now lies in, and how far it has come.
func roundAt(now time.Time) (round int64, into time.Duration) {
	ns := now.UnixNano()
	round = ns / int64(roundTime)
	return round, time.Duration(ns - round*int64(roundTime))
}

// A roster is the membership as the tournament sees it. It is made once for a
// membership, and not changed.
type roster struct {
	teams []team // by name
}

// A team is the hosts of one site.
type team struct {
	name  string
	hosts []string // by name
	clock []string // by hash: the order in which the hand of players passes them
	marks []uint64 // the hash of each of clock
}

// newRoster returns the roster of members, in any order. A name that appears twice
// counts once, with the lesser label.
func newRoster(members []Peer) *roster {
	ms := slices.Clone(members)
	slices.SortFunc(ms, func(a, b Peer) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.site(), b.site()))
	})
	ms = slices.CompactFunc(ms, func(a, b Peer) bool { return a.Name == b.Name })
	slices.SortStableFunc(ms, func(a, b Peer) int { return cmp.Compare(a.site(), b.site()) })
	r := &roster{}
	for _, m := range ms {
		if k := len(r.teams); k == 0 || r.teams[k-1].name != m.site() {
			r.teams = append(r.teams, team{name: m.site()})
		}
		t := &r.teams[len(r.teams)-1]
		t.hosts = append(t.hosts, m.Name)
	}
	for i := range r.teams {
		if t := &r.teams[i]; len(t.hosts) > fullAcross {
			t.clock = shuffled(t.hosts, 0)
			for _, h := range t.clock {
				t.marks = append(t.marks, mix(h, 0))
			}
		}
	}
	return r
}

// team returns the index of the site, or -1.
func (r *roster) team(site string) int {
	i, ok := slices.BinarySearchFunc(r.teams, site, func(t team, s string) int { return cmp.Compare(t.name, s) })
	if !ok {
		return -1
	}
	return i
}

// A meeting is a turn of two hosts.
type meeting struct{ from, to string }

// inside returns whom host of the site meets in the first part of the round, or "". Of
// the two the one with the lower name begins and the other follows.
//
// All pairs of a site of n ≤ 32 hosts meet once in n−1 rounds, or n if n is odd, and
// the sampled pairs of a larger one in 24.
func (r *roster) inside(round int64, site, host string) string {
	k := r.team(site)
	if k < 0 {
		return ""
	}
	hosts := r.teams[k].hosts
	n := len(hosts)
	i, ok := slices.BinarySearch(hosts, host)
	if !ok || n < 2 {
		return ""
	}
	if n <= fullInside {
		if j := circle(n, int(round%int64(colours(n))), i); j != i {
			return hosts[j]
		}
		return ""
	}
	ring := int(round / ringRounds % rings)
	before, after, rank := neighbours(hosts, host, ringSeed(round, ring))
	return ringMeeting(before, after, rank, n, int(round%ringRounds))
}

// partners returns all whom host may meet inside its site about now, in no order of
// worth.
func (r *roster) partners(round int64, site, host string) []string {
	k := r.team(site)
	if k < 0 {
		return nil
	}
	hosts := r.teams[k].hosts
	if len(hosts) <= fullInside {
		return slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return h == host })
	}
	var ps []string
	for ring := range rings {
		before, after, _ := neighbours(hosts, host, ringSeed(round, ring))
		ps = append(ps, before, after)
	}
	slices.Sort(ps)
	return slices.Compact(ps)
}

// across returns the turn of host of the site in the second part of the round; ok is
// false if it has none.
//
// Sites are coloured as hosts are inside a site, and each colour stands for two
// directed links. A site of k players has up to k turns a round, in slots 0 … k−1, each with
// another player; a link is in the same slot at both ends, and in another each round. So
// with C = 2 colours(sites), a directed link between sites of k and l players has min(k, l, C) turns
// in C rounds, and every pair of its players has met after 289 C rounds, with up to 17 sites
// (see base), most far sooner.
func (r *roster) across(round int64, site, host string) (m meeting, ok bool) {
	own := r.team(site)
	if own < 0 {
		return meeting{}, false
	}
	mine := r.teams[own].players(round)
	pos := slices.Index(mine, host)
	if pos < 0 {
		return meeting{}, false
	}
	s, k := len(r.teams), len(mine)
	c := 2 * colours(s)
	if c == 0 {
		return meeting{}, false
	}
	cycle := round / int64(c)
	slot := mod(pos-r.base(cycle, own), k)
	if slot >= c {
		return meeting{}, false
	}
	colour := int((int64(slot) + round*stride(c)) % int64(c))
	other := circle(s, colour/2, own)
	if other == own {
		return meeting{}, false
	}
	theirs := r.teams[other].players(round)
	if slot >= len(theirs) {
		return meeting{}, false
	}
	peer := theirs[mod(r.base(cycle, other)+slot, len(theirs))]
	if (own < other) == (colour%2 == 0) {
		return meeting{host, peer}, true
	}
	return meeting{peer, host}, true
}

// stride returns by how many slots a link moves from one round to the next, of c: coprime to c,
// so that it comes through all in c rounds, and near the golden section of it, so
// that the rounds in which a link of few slots has a turn lie evenly.
func stride(c int) int64 {
	want := int(0.382*float64(c) + 0.5)
	for d := range c {
		for _, s := range [2]int{want - d, want + d} {
			if s >= 1 && s <= c && coprime(s, c) {
				return int64(s)
			}
		}
	}
	return 1
}

func coprime(a, b int) bool {
	for b != 0 {
		a, b = b, a%b
	}
	return a == 1
}

// foreign returns all whom host may meet outside its site about now.
func (r *roster) foreign(round int64, site, host string) []Peer {
	own := r.team(site)
	if own < 0 || !slices.Contains(r.teams[own].players(round), host) {
		return nil
	}
	var ps []Peer
	for i := range r.teams {
		if i == own {
			continue
		}
		for _, h := range r.teams[i].players(round) {
			ps = append(ps, Peer{h, r.teams[i].name})
		}
	}
	return ps
}

// base returns by how much the players of a team are turned in a cycle of rounds.
//
// Cycle numbers are written to the base 17 as … e v, and team i is turned by v + e·i,
// modulo 17. Over 17² cycles the amounts of two teams i ≠ j modulo 17 take every pair of
// values once (lines of different slope meet once; Bush 1952 makes orthogonal arrays so), hence every player of
// the one meets every one of the other in each slot. Teams of the same i modulo 17, beyond 17 sites,
// are told apart by a hash that changes after 17² cycles.
func (r *roster) base(cycle int64, i int) int {
	v, e := cycle%field, cycle/field%field
	return int((v + e*int64(i%field) + int64(mix(r.teams[i].name, uint64(cycle/(field*field)))%field)) % field)
}

// players returns the hosts of the team that take part between sites. The caller must
// not change it.
func (t *team) players(round int64) []string {
	if len(t.hosts) <= fullAcross {
		return t.hosts
	}
	hand := uint64(round%handTime) * (^uint64(0)/handTime + 1)
	first, _ := slices.BinarySearch(t.marks, hand)
	ps := make([]string, players)
	for i := range ps {
		ps[i] = t.clock[(first+i)%len(t.clock)]
	}
	return ps
}

// colours returns how many rounds n players need to meet each other once: n−1 for even
// n, n for odd n, in which one rests in each round; none for one.
func colours(n int) int {
	switch {
	case n < 2:
		return 0
	case n%2 == 0:
		return n - 1
	}
	return n
}

// circle returns whom player i of n ≥ 2 meets in a round 0 … colours(n)−1, or i if it rests: two
// below c = colours(n) meet when their sum is the round modulo c, which is odd, so that
// exactly one meets itself; with even n it meets player c instead (the circle method of
// tournaments, as an edge colouring in Gross & Yellen, Graph Theory and Its Applications).
func circle(n, round, i int) int {
	c := colours(n)
	if i == c { // half of round, modulo the odd c
		if round%2 == 1 {
			round += c
		}
		return round / 2 % c
	}
	if j := mod(round-i, c); j != i || n%2 == 1 {
		return j
	}
	return c
}

// mod returns a modulo n, 0 ≤ result < n.
func mod(a, n int) int { return (a%n + n) % n }
