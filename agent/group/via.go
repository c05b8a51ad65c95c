package group

import (
	"fmt"
	"slices"
)

// From leader to leader few bytes go by the shortest ways. Where two links in a row take less time than the one between their ends, a leader in the middle
// passes on what comes to it ([Tree.Via]): each leader's contributions have a tree of their own, and all hosts know all of these trees. More bytes than
// a packet or two go straight, for on the way by another leader they load two links; whoever passes on sees the same bytes as the leader that they are of,
// so both decide alike.

// ViaBytes is how many bytes of a site's contributions are passed on, at most.
const ViaBytes = 2 << 10

// sites lists the leaders, in order: Tree.Via counts them so.
func (t *Tree) sites() []int {
	var sites []int
	for h, l := range t.Leaders {
		if h == l {
			sites = append(sites, h)
		}
	}
	return sites
}

// checkVia refuses what is no tree for each leader.
func (t *Tree) checkVia() error {
	if len(t.Via) == 0 {
		return nil
	}
	n := len(t.sites())
	bad := len(t.Via) != n
	for s, from := range t.Via {
		bad = bad || len(from) != n
		for d := 0; d < len(from) && !bad; d++ {
			at, steps := d, 0
			for ; at != s && steps < n && !bad; steps++ {
				if bad = from[at] < 0 || from[at] >= n; !bad {
					at = from[at]
				}
			}
			bad = bad || at != s
		}
	}
	if bad {
		return fmt.Errorf("the ways %v between %d leaders", t.Via, n)
	}
	return nil
}

// A passing is what a leader does with what is of another one.
type passing struct {
	from int   // from whom it has that
	to   []int // leaders to which it passes it on
}

// passings says what leader self does with what is of each, itself included; nil without Via.
func (t *Tree) passings(self int) map[int]passing {
	sites := t.sites()
	me := slices.Index(sites, self)
	if len(t.Via) == 0 || me < 0 {
		return nil
	}
	all := make(map[int]passing, len(sites))
	for s, from := range t.Via {
		p := passing{from: sites[from[me]]}
		for d, at := range from {
			if at == me && d != s {
				p.to = append(p.to, sites[d])
			}
		}
		all[sites[s]] = p
	}
	return all
}

// passes says to which leaders this one passes on so many bytes of the contributions of the site that leader of leads.
func (m *member) passes(of int, bytes int64) []int {
	switch {
	case m.passings != nil && bytes <= ViaBytes:
		return m.passings[of].to
	case of == m.self:
		return m.leaders
	}
	return nil
}

// passedBy reports whether host from, a leader, passes on to this one what is of the site that leader of leads.
func (m *member) passedBy(from, of int) bool {
	p, ok := m.passings[of]
	return ok && p.from == from
}
