package group

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Small operations ("eager", as MPI libraries call what needs no handshake) do not wait for the
// coordinator's round trip. What each rank contributes travels with the call itself, over the
// paths of a [Tree]: from each host to the leader of its site, from there, for all ranks of the
// site at once, to the leaders of the other sites and to the hosts of its own, and from each
// leader to its hosts. So the last rank's call reaches every rank after one way between sites
// and two inside them. A host that has the contributions of all ranks has its result.
//
// Every rank tells the coordinator of its call as it always does, and says whether it was eager:
// if all were, there is nothing to plan; if one was not, the operation is planned and started, and
// no host has the contributions of all. So both sides decide the same from the same facts,
// and nobody waits for the decision. Ranks that disagree fail the group as ever.
//
// What a broken stream between two members may have lost goes again, by way of the coordinator.

// A Tree says how the contributions to small operations of a group travel. The directory of the
// job makes it from one map, when all ranks have come, and all hosts get the same.
type Tree struct {
	// Leaders is the leader of each host's site: indices into the hosts. A leader leads itself.
	Leaders []int `json:"leaders"`
	// Limit bounds what all ranks contribute together to an operation that travels so, in bytes.
	Limit int64 `json:"limit"`
	// Straight bounds, for a group inside one site, what a host gets of an operation whose contributions go straight from each host to
	// each other one, in bytes. 0: none does.
	Straight int64 `json:"straight,omitempty"`
	// Across is Straight for alltoalls, where that is more, and in groups of several sites. 0: Straight is.
	Across int64 `json:"across,omitempty"`
	// Rounds bounds, for a group inside one site, what all ranks contribute together to an operation whose contributions go in rounds and not by
	// way of the leader (rounds.go), in bytes. 0: none does.
	Rounds int64 `json:"rounds,omitempty"`
	// Order is the order of the hosts in rounds and hops: indices into the hosts, those of one switch behind one another. Nil: as they are.
	Order []int `json:"order,omitempty"`
	// Hops bounds, for a group inside one site, what all ranks contribute together to an alltoall of equal blocks that goes in hops (hops.go), in bytes. 0: none does.
	Hops int64 `json:"hops,omitempty"`
	// Via is for each leader, and each other one, from which of them the latter has what is of the former, if that is not much (via.go). Leaders count in the order
	// of the hosts. Nil: from itself. Only between sites.
	Via [][]int `json:"via,omitempty"`
	// Offers says that the coordinator may offer plans for small allgathers and alltoalls, see offers.go. Only between sites.
	Offers bool `json:"offers,omitempty"`
	// Brief says that all hosts know the short form of words (short.go). A directory of before that says nothing of it, and may serve hosts that do not.
	Brief bool `json:"brief,omitempty"`
	// Rate is how much any host can take in, in bytes a second; 0 where unknown.
	Rate float64 `json:"rate,omitempty"`
	// Bound is the least time that any small operation could take: the longest of the shortest
	// ways between two hosts, by way of leaders or straight. 0 where unknown.
	Bound time.Duration `json:"bound,omitempty"`
	Epoch uint64        `json:"epoch,omitempty"` // of the map
}

// smallVersion numbers what is said in this package of how small operations travel. A group has a tree only if all its hosts know it; where one knows less, each
// operation is planned, which takes longer and is as right. It grows with what a host that does not know of it would get wrong.
const smallVersion = 1

// maxEager bounds Tree.Limit and Tree.Straight: what is kept of operations under way is a multiple of them.
const maxEager = 64 << 10

// maxAcross and MaxRounds bound Tree.Across and Tree.Rounds likewise. A host keeps what it sends of operations that may not be over everywhere, which for ranks that wait for each
// other is the last two.
const maxAcross, MaxRounds = 512 << 10, 256 << 10

// maxHops bounds Tree.Hops. A host sends a part of it that is the smaller the more hosts there are.
const maxHops = 4 << 20

func (t *Tree) check(hosts int) error {
	if len(t.Leaders) != hosts || t.Limit < 0 || t.Limit > maxEager || t.Bound < 0 {
		return fmt.Errorf("tree with %d leaders for %d hosts, a limit of %d bytes and a bound of %v", len(t.Leaders), hosts, t.Limit, t.Bound)
	}
	if t.Straight < 0 || t.Straight > maxEager || t.Rounds < 0 || t.Rounds > MaxRounds || !(t.Rate >= 0) {
		return fmt.Errorf("tree with %d bytes that go straight and %d in rounds, at %g bytes a second", t.Straight, t.Rounds, t.Rate)
	}
	if t.Across != 0 && (t.Across < t.Straight || t.Across > maxAcross) {
		return fmt.Errorf("tree with %d bytes of an alltoall that go straight", t.Across)
	}
	if t.Hops < 0 || t.Hops > maxHops || t.Hops > 0 && t.Rounds == 0 {
		return fmt.Errorf("tree with %d bytes that go in hops, and %d in rounds", t.Hops, t.Rounds)
	}
	if len(t.Order) > 0 {
		for i, h := range slices.Sorted(slices.Values(t.Order)) {
			if i != h || len(t.Order) != hosts {
				return fmt.Errorf("tree with the order %v of %d hosts", t.Order, hosts)
			}
		}
	}
	for h, l := range t.Leaders {
		if l < 0 || l >= hosts || t.Leaders[l] != l {
			return fmt.Errorf("tree in which host %d is led by %d", h, l)
		}
	}
	if err := t.checkVia(); err != nil {
		return err
	}
	if t.Straight+t.Rounds > 0 && !t.oneSite() {
		return fmt.Errorf("tree of several sites with %d bytes of an allgather that go straight, or in rounds", t.Straight+t.Rounds)
	}
	return nil
}

// offersFor reports whether plans of small operations of a collective may be offered.
func (t *Tree) offersFor(c plan.Collective) bool {
	return t != nil && t.Offers && (c == plan.Allgather || c == plan.Alltoall)
}

// brief reports whether words can have the short form.
func (t *Tree) brief() bool { return t != nil && t.Brief }

// oneSite reports whether all hosts have one leader.
func (t *Tree) oneSite() bool {
	return !slices.ContainsFunc(t.Leaders, func(l int) bool { return l != t.Leaders[0] })
}

// takes is the least time in which a host gets so many bytes, 0 where it is not known, as without a tree.
func (t *Tree) takes(bytes int64) time.Duration {
	if t == nil || t.Rate == 0 {
		return 0
	}
	return time.Duration(min(float64(bytes)/t.Rate*1e9, math.MaxInt64/2))
}

// treeOf returns the tree of a group, nil for none: then small operations are planned like others.
func (g *Groups) treeOf(roster []string) *Tree {
	if g.cfg.Tree == nil {
		return nil
	}
	hosts := uniqueHosts(roster)
	t := g.cfg.Tree(hosts)
	t.Limit, t.Straight, t.Rounds, t.Across = min(t.Limit, maxEager), min(t.Straight, maxEager), min(t.Rounds, MaxRounds), min(t.Across, maxAcross)
	t.Hops = min(t.Hops, maxHops)
	if err := t.check(len(hosts)); err != nil {
		g.log.Warn("small operations are planned like large ones", "err", err)
		return nil
	}
	return &t
}

// relay hands on what the member on host from could not send to another itself.
func (c *coordinator) relay(from string, m message) {
	to := m.Host
	if !slices.Contains(c.hosts, to) {
		c.fail(&Failure{Kind: Internal, Rank: -1, Host: from, Cause: fmt.Sprintf("contributions for host %q, which is not of the group", bounded(to))})
		return
	}
	m.Kind, m.Host = kindItems, from
	switch b := c.boxes[to]; {
	case c.gone[to]: // it has all that it needed
	case b != nil:
		b.send(m)
	case len(c.parked) >= peerQueue:
		c.hostLost(to, "its agent is not attached")
	default:
		c.parked = append(c.parked, parked{to, m})
	}
}

// A parked message is for a host that has not attached yet.
type parked struct {
	to string
	m  message
}

// unpark sends what has waited for host.
func (c *coordinator) unpark(host string) {
	c.parked = slices.DeleteFunc(c.parked, func(p parked) bool {
		if p.to == host {
			c.boxes[host].send(p.m)
		}
		return p.to == host
	})
}
