package probe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomMembers returns n hosts on up to s sites; some carry no label.
func randomMembers(rng *rand.Rand, n, s int) []Peer {
	var ps []Peer
	for i := range n {
		p := Peer{Name: fmt.Sprintf("h%03d", i), Site: fmt.Sprintf("s%02d", rng.IntN(s))}
		if rng.IntN(20) == 0 {
			p.Site = ""
		}
		ps = append(ps, p)
	}
	return ps
}

// In a round no host has two turns in either part, no directed link has two, both ends
// of a turn know it, and whoever has a turn counts the other among its partners.
func TestTournamentRounds(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		ms := randomMembers(rng, 1+rng.IntN(90), 1+rng.IntN(7))
		r := newRoster(ms)
		start := rng.Int64N(1 << 31)
		for round := start; round < start+20; round++ {
			met := make(map[string]string)
			across := make(map[string]meeting)
			links := make(map[siteLink]meeting)
			site := make(map[string]string)
			for _, m := range ms {
				site[m.Name] = m.site()
				if p := r.inside(round, m.site(), m.Name); p != "" {
					met[m.Name] = p
					if !slices.Contains(r.partners(round, m.site(), m.Name), p) {
						t.Fatalf("seed %d, round %d: %s meets %s, who is no partner", seed, round, m.Name, p)
					}
				}
				if x, ok := r.across(round, m.site(), m.Name); ok {
					across[m.Name] = x
				}
			}
			for a, b := range met {
				if met[b] != a || site[a] != site[b] || a == b {
					t.Fatalf("seed %d, round %d: %s meets %s, who meets %s", seed, round, a, b, met[b])
				}
			}
			for host, x := range across {
				l := siteLink{site[x.from], site[x.to]}
				if across[x.from] != x || across[x.to] != x || host != x.from && host != x.to || l.from == l.to {
					t.Fatalf("seed %d, round %d: %s has the turn %v, its ends %v and %v", seed, round, host, x, across[x.from], across[x.to])
				}
				if y, ok := links[l]; ok && y != x {
					t.Fatalf("seed %d, round %d: %v carries %v and %v", seed, round, l, x, y)
				}
				links[l] = x
				other := Peer{x.from, site[x.from]}
				if host == x.from {
					other = Peer{x.to, site[x.to]}
				}
				if !slices.ContainsFunc(r.foreign(round, site[host], host), func(p Peer) bool { return p.Name == other.Name }) {
					t.Fatalf("seed %d, round %d: %s meets %s, who is no partner", seed, round, host, other.Name)
				}
			}
		}
	}
}

// All pairs of a small site meet once in colours(n) rounds.
func TestTournamentInside(t *testing.T) {
	for n := 1; n <= fullInside; n++ {
		var ms []Peer
		for i := range n {
			ms = append(ms, Peer{fmt.Sprintf("h%02d", i), "s"})
		}
		r := newRoster(ms)
		met := make(map[meeting]int)
		for round := range int64(colours(n)) {
			for _, m := range ms {
				if p := r.inside(1e9+round, "s", m.Name); p != "" {
					met[meeting{m.Name, p}]++
				}
			}
		}
		if len(met) != n*(n-1) {
			t.Errorf("%d hosts: %d ordered pairs met, want %d", n, len(met), n*(n-1))
		}
	}
}

// The sampled pairs of a large site meet within 24 rounds, and a host has at most 16.
func TestTournamentRings(t *testing.T) {
	for _, n := range []int{33, 100, 201} {
		var ms []Peer
		for i := range n {
			ms = append(ms, Peer{fmt.Sprintf("h%03d", i), "s"})
		}
		r := newRoster(ms)
		met := make(map[meeting]bool)
		for round := range int64(rings * ringRounds) {
			for _, m := range ms {
				if p := r.inside(1e9+round, "s", m.Name); p != "" {
					met[meeting{m.Name, p}] = true
				}
			}
		}
		want := 0
		for _, m := range ms {
			ps := r.partners(1e9, "s", m.Name)
			if len(ps) > 2*rings || len(ps) < rings {
				t.Errorf("n %d: %s has %d partners", n, m.Name, len(ps))
			}
			want += len(ps)
			for _, p := range ps {
				if !met[meeting{m.Name, p}] {
					t.Errorf("n %d: %s and %s did not meet", n, m.Name, p)
				}
			}
		}
		if len(met) != want {
			t.Errorf("n %d: %d pairs met, want %d", n, len(met), want)
		}
	}
}

// Every pair of players of two sites meets in both directions within the stated number
// of rounds, and a link has the turns that were stated.
func TestTournamentAcross(t *testing.T) {
	sizes := [][]int{{8, 4, 8}, {1, 1}, {2, 1, 5}, {3, 3, 3, 3, 1}, {16, 2}, {1, 1, 1, 1, 1, 1, 9}}
	for _, hosts := range sizes {
		var ms []Peer
		for s, k := range hosts {
			for i := range k {
				ms = append(ms, Peer{fmt.Sprintf("s%d-%02d", s, i), fmt.Sprintf("s%d", s)})
			}
		}
		r := newRoster(ms)
		c := 2 * colours(len(hosts))
		met := make(map[meeting]int)
		turns := make(map[siteLink]int)
		rounds, want := field*field*c, 0
		for round := range int64(rounds) {
			for _, m := range ms {
				if x, ok := r.across(int64(5*rounds)+round, m.site(), m.Name); ok && x.from == m.Name {
					met[x]++
					turns[siteLink{x.from[:2], x.to[:2]}]++
				}
			}
		}
		for i, k := range hosts {
			for j, l := range hosts {
				if i == j {
					continue
				}
				want += k * l
				link := siteLink{fmt.Sprintf("s%d", i), fmt.Sprintf("s%d", j)}
				if got := turns[link]; got != field*field*min(k, l, c) {
					t.Errorf("%v: %v had %d turns in %d rounds, want %d", hosts, link, got, rounds, field*field*min(k, l, c))
				}
			}
		}
		if len(met) != want {
			t.Errorf("%v: %d pairs met in %d rounds, want %d", hosts, len(met), rounds, want)
		}
	}
}

// Of a large site all hosts play in time, few at a time, and they change one by one.
func TestPlayersRotate(t *testing.T) {
	var ms []Peer
	for i := range 60 {
		ms = append(ms, Peer{fmt.Sprintf("h%02d", i), "s"})
	}
	r := newRoster(ms)
	played := make(map[string]bool)
	var last []string
	for round := int64(0); round < handTime; round++ {
		ps := r.teams[0].players(round)
		if len(ps) != players {
			t.Fatalf("%d players", len(ps))
		}
		for _, p := range ps {
			played[p] = true
		}
		if last != nil && ps[0] != last[0] && !slices.Contains(ps, last[len(last)-1]) {
			t.Errorf("round %d: all players changed", round)
		}
		last = slices.Clone(ps)
	}
	if len(played) != 60 {
		t.Errorf("%d of 60 played", len(played))
	}
}

// A host that comes moves few pairs: one a ring inside its site, one player across.
func TestTournamentIsSteady(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := 40 + rng.IntN(100)
		var ms []Peer
		for i := range n {
			ms = append(ms, Peer{fmt.Sprintf("h%03d", rng.IntN(1000)*1000+i), "s"})
		}
		ms = append(ms, Peer{"other", "t"})
		round := rng.Int64N(1 << 31)
		before, after := newRoster(ms), newRoster(append(slices.Clone(ms), Peer{"h-new", "s"}))
		gone := 0
		for _, m := range ms[:n] {
			now := after.partners(round, "s", m.Name)
			for _, p := range before.partners(round, "s", m.Name) {
				if !slices.Contains(now, p) {
					gone++
				}
			}
		}
		if gone > 2*rings { // each pair counts at both ends
			t.Errorf("seed %d: %d of the partners of %d hosts changed, want at most %d", seed, gone, n, 2*rings)
		}
		moved := 0
		now := after.teams[0].players(round)
		for _, p := range before.teams[0].players(round) {
			if !slices.Contains(now, p) {
				moved++
			}
		}
		if moved > 1 {
			t.Errorf("seed %d: %d players changed", seed, moved)
		}
	}
}

// Members in another order, or twice, are the same membership; strangers have no turn.
func TestRosterIsDeterministic(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	ms := randomMembers(rng, 50, 3)
	a := newRoster(ms)
	twice := append(slices.Clone(ms), ms...)
	rng.Shuffle(len(twice), func(i, j int) { twice[i], twice[j] = twice[j], twice[i] })
	b := newRoster(twice)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Error("the order of the members matters")
	}
	if a.inside(7, "s00", "nobody") != "" || a.inside(7, "nowhere", "h000") != "" {
		t.Error("a stranger meets somebody")
	}
	if _, ok := a.across(7, "nowhere", "h000"); ok {
		t.Error("a stranger has a turn")
	}
	if r := newRoster(nil); len(r.teams) != 0 {
		t.Error("teams of nobody")
	}
}
