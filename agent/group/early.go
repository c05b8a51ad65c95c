package group

import (
	"slices"
	"time"
)

// An attached conn belongs to the member on host.
type attached struct {
	host  string
	c     conn
	shown bool // the member goes by what it is shown, see message.Shown
}

// Bounds on the conns that wait for their coordinator, each with its stream's window: in
// all, and of one host, so that one that runs wild does not keep the others out.
const (
	maxEarly        = 4096
	maxEarlyPerHost = 256
)

// earlyConns holds conns that came before this host's own rank 0 knew of the group. Its
// user guards it.
type earlyConns struct {
	groups map[ID][]attached
	hosts  map[string]int // conns of each host
	total  int
}

func newEarlyConns() earlyConns {
	return earlyConns{groups: make(map[ID][]attached), hosts: make(map[string]int)}
}

// add keeps a, unless there is no room or its host has a conn for the group already.
func (e *earlyConns) add(id ID, a attached) bool {
	if e.total >= maxEarly || e.hosts[a.host] >= maxEarlyPerHost ||
		slices.ContainsFunc(e.groups[id], func(o attached) bool { return o.host == a.host }) {
		return false
	}
	e.groups[id] = append(e.groups[id], a)
	e.hosts[a.host]++
	e.total++
	return true
}

// take hands over the conns of a group.
func (e *earlyConns) take(id ID) []attached {
	conns := e.groups[id]
	delete(e.groups, id)
	e.total -= len(conns)
	for _, a := range conns {
		if e.hosts[a.host]--; e.hosts[a.host] == 0 {
			delete(e.hosts, a.host)
		}
	}
	return conns
}

// takeAll hands over all conns.
func (e *earlyConns) takeAll() []attached {
	var all []attached
	for id := range e.groups {
		all = append(all, e.take(id)...)
	}
	return all
}

// attach hands a member's conn to its coordinator and stays until the conn is done with,
// or keeps it for the coordinator that is not there yet.
func (g *Groups) attach(id ID, a attached) {
	g.mu.Lock()
	co, over := g.coords[id], g.over[id]
	// Rank 0's agent may learn of the group a moment later than the others.
	kept := co == nil && over == nil && !g.closed && g.early.add(id, a)
	g.mu.Unlock()
	switch {
	case co != nil:
		co.attach(a)
	case over != nil: // the coordinator has gone, and its last words to a member that begins again may be lost
		if a.c.Send(message{Kind: kindAbort, Failure: over}) == nil {
			a.c.Close()
			return
		}
		a.c.Abort()
	case kept:
		time.AfterFunc(attachTimeout, func() { g.dropEarly(id) })
	default:
		a.c.Abort()
	}
}

// dropEarly refuses the conns of a group that this host never came to coordinate.
func (g *Groups) dropEarly(id ID) {
	g.mu.Lock()
	waiting := g.early.take(id)
	g.mu.Unlock()
	for _, a := range waiting {
		a.c.Abort()
	}
}
