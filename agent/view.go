package agent

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/agent/membership"
	"github.com/gridagent/gridagent/probe"
	"github.com/gridagent/gridagent/probe/netmap"
)

// What the rooms want to know of each other, in the form in which they want it.

// alive lists the names of the members that are believed alive, this host among them.
func (a *Agent) alive() []string {
	names := []string{a.name}
	for _, m := range a.members.Members() {
		if m.Name != a.name && m.State == membership.Alive {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Alive counts the members that are believed alive, this host among them.
func (a *Agent) Alive() int { return len(a.alive()) }

// Coverage counts the ordered pairs of live hosts with a measured bandwidth, those with
// a predicted one, and all.
func (a *Agent) Coverage() (measured, predicted, total int) { return coverage(a.current().snap) }

// others is alive without this host.
func (a *Agent) others() []string {
	names := a.alive()
	i := slices.Index(names, a.name)
	return slices.Delete(names, i, i+1)
}

func (a *Agent) probePeers() []probe.Peer {
	var out []probe.Peer
	for _, m := range a.members.Members() {
		if m.Name != a.name && m.State == membership.Alive {
			out = append(out, probe.Peer{Name: m.Name, Site: m.Site})
		}
	}
	return out
}

// sites returns the site label of every member.
func (a *Agent) sites() map[string]string {
	out := make(map[string]string)
	for _, m := range a.members.Members() {
		out[m.Name] = m.Site
	}
	out[a.name] = a.opts.Identity.Settings.Site
	return out
}

// A knownMap is a snapshot with an index by name, kept until the map changes.
type knownMap struct {
	epoch uint64
	hosts string
	snap  *netmap.Snapshot
	index map[string]int
	full  func() *netmap.Snapshot // snap with gaps predicted, made when first asked for
}

// current returns the map of all live hosts, without predictions.
func (a *Agent) current() *knownMap {
	names := a.alive()
	key := fmt.Sprint(names)
	k := a.known.Load()
	if k != nil && k.epoch == a.netmap.Epoch() && k.hosts == key {
		return k
	}
	sites := a.sites()
	hosts := make([]netmap.Host, len(names))
	index := make(map[string]int, len(names))
	for i, n := range names {
		hosts[i] = netmap.Host{Name: n, Site: sites[n]}
		index[n] = i
	}
	snap := a.netmap.Snapshot(hosts, time.Now())
	k = &knownMap{
		epoch: snap.Epoch(), hosts: key, snap: snap, index: index,
		full: sync.OnceValue(func() *netmap.Snapshot { return netmap.Predict(snap) }),
	}
	a.known.Store(k)
	return k
}

func (a *Agent) knownEstimate(from, to string) (netmap.Estimate, bool) {
	k := a.current()
	i, ok := k.index[from]
	j, ok2 := k.index[to]
	if !ok || !ok2 {
		return netmap.Estimate{}, false
	}
	e := k.snap.Estimate(i, j)
	return e, e.Known != 0
}

// latencyFrom estimates the one-way latency from host: half of the measured round
// trip, 0 where nothing was measured.
func (a *Agent) latencyFrom(host string) time.Duration {
	for _, pair := range [][2]string{{host, a.name}, {a.name, host}} {
		if e, ok := a.knownEstimate(pair[0], pair[1]); ok && e.Has(netmap.FieldLatency) {
			return e.Latency
		}
	}
	return 0
}

// refusals counts connections that were refused, and remembers whose refusal was logged.
type refusals struct {
	mu     sync.Mutex // guards the fields below
	count  uint64
	logged map[string]bool
}

// maxRefusalSources bounds the memory that strangers can claim.
const maxRefusalSources = 1024

func (a *Agent) refusedConnection(from net.Addr, err error) {
	ip := from.String()
	if host, _, splitErr := net.SplitHostPort(ip); splitErr == nil {
		ip = host
	}
	a.refused.mu.Lock()
	a.refused.count++
	first := !a.refused.logged[ip] && len(a.refused.logged) < maxRefusalSources
	if first {
		if a.refused.logged == nil {
			a.refused.logged = make(map[string]bool)
		}
		a.refused.logged[ip] = true
	}
	a.refused.mu.Unlock()
	if first {
		a.log.Warn("connection refused (logged once per source)", "from", from.String(), "err", err)
	}
}
