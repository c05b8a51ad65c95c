package agent

import (
	"context"
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

// mapPeers are the other members that are believed alive, as maps call them.
func (a *Agent) mapPeers() []netmap.Host {
	peers := a.probePeers()
	out := make([]netmap.Host, len(peers))
	for i, p := range peers {
		out[i] = netmap.Host{Name: p.Name, Site: p.Site}
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

// liveSites returns the label of every member that is alive, self among them, and how many hosts there are of each.
func liveSites(members []membership.Member, self, site string) (labels map[string]string, hosts map[string]int) {
	labels, hosts = map[string]string{self: site}, map[string]int{site: 1}
	for _, m := range members {
		if m.Name != self && m.State == membership.Alive {
			labels[m.Name] = m.Site
			hosts[m.Site]++
		}
	}
	return labels, hosts
}

// isMember reports whether what host measures counts.
func (a *Agent) isMember(host string) bool {
	m, ok := a.members.Member(host)
	return host == a.name || ok && heeded(m, time.Now())
}

// heeded reports whether what m measured counts: as long as it is alive, and then, unless it has left for good, as long as hosts repeat what they measured
// once. Who joins after a death never hears of the host and refuses its report: maps that kept it would differ, and be compared in full, for ever.
func heeded(m membership.Member, now time.Time) bool {
	return m.State == membership.Alive || m.State != membership.Left && now.Sub(m.Since) < netmap.KeepOwn
}

// mapSignature is the purpose of the signatures on rows of the map.
const mapSignature = "map rows"

// openNetmap makes the map. What this host measures it signs, and it believes of others
// what they have signed: rows reach it by way of third hosts.
func (a *Agent) openNetmap() error {
	signer := a.opts.Identity.Signer()
	var err error
	a.netmap, err = netmap.NewMap(netmap.MapConfig{
		Self:       a.name,
		Member:     a.isMember,
		Sites:      a.sites,
		Credential: signer.Credential(),
		Sign: func(message []byte) ([]byte, error) {
			return signer.Sign(mapSignature, message)
		},
		Verify: func(host string, credential, message, signature []byte) error {
			return signer.Verify(mapSignature, host, credential, message, signature)
		},
	})
	return err
}

// A knownMap is a snapshot of all live hosts, kept until the map changes. It takes n²
// estimates: it is for who wants to see them all. Who asks for one pair uses
// [Agent.knownEstimate], who plans for a group [Agent.snapshotOf].
type knownMap struct {
	epoch uint64
	hosts string
	snap  *netmap.Snapshot
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
	for i, n := range names {
		hosts[i] = netmap.Host{Name: n, Site: sites[n]}
	}
	snap := a.netmap.Snapshot(hosts, time.Now())
	k = &knownMap{epoch: snap.Epoch(), hosts: key, snap: snap}
	a.known.Store(k)
	return k
}

// knownEstimate returns what is measured of a pair.
func (a *Agent) knownEstimate(from, to string) (netmap.Estimate, bool) {
	return a.netmap.Lookup(from, to, time.Now())
}

// guesser keeps what predictions are made from for a few seconds.
type guesser struct {
	wanted chan struct{} // holds one token if they are to be made anew

	mu sync.Mutex // guards guess
	guess
}

// A guess is what predictions are made from. It does not change any more.
type guess struct {
	at        time.Time
	predictor *netmap.Predictor
	sites     map[string]string // of all members
	hosts     map[string]int    // of each that are alive
}

const (
	// guessEvery bounds what gathering all measured pairs costs.
	guessEvery = 5 * time.Second
	// guessOld is from when on whoever asks waits for new ones: nobody has asked for a while, and the old ones say nothing of the meantime.
	guessOld = 4 * guessEvery
)

// believedEstimate is knownEstimate with what was not measured of a pair far apart predicted from its like: its bandwidth, and what several
// lanes get, which one pair of two sites measures for all. Of a pair within a site only the bandwidth matters.
func (a *Agent) believedEstimate(from, to string) (netmap.Estimate, bool) {
	e, ok := a.knownEstimate(from, to)
	if e.Has(netmap.FieldBandwidth) && beside(e) || !e.Has(netmap.FieldLatency) {
		return e, ok
	}
	like, sites := a.like()
	return like.Fill(e, netmap.Host{Name: from, Site: sites[from]}, netmap.Host{Name: to, Site: sites[to]}), true
}

// like returns what predictions are made from, the pairs of live hosts, and the labels of all members. Neither changes any more. They are
// some seconds old at most, and nobody waits for new ones where others have asked lately: with 1,000 hosts these take 30 ms, and more where each has measured many.
func (a *Agent) like() (*netmap.Predictor, map[string]string) {
	g := &a.guesses
	g.mu.Lock()
	defer g.mu.Unlock()
	switch age := time.Since(g.at); {
	case g.predictor == nil || age >= guessOld:
		g.guess = a.newGuesses()
	case age >= guessEvery:
		select {
		case g.wanted <- struct{}{}:
		default:
		}
	}
	return g.predictor, g.sites
}

// renewGuesses makes new ones when they are wanted, until ctx ends.
func (a *Agent) renewGuesses(ctx context.Context) {
	g := &a.guesses
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.wanted:
		}
		g.mu.Lock()
		young := time.Since(g.at) < guessEvery // they were wanted again while these were made
		g.mu.Unlock()
		if young {
			continue
		}
		next := a.newGuesses()
		g.mu.Lock()
		g.guess = next
		g.mu.Unlock()
	}
}

func (a *Agent) newGuesses() guess {
	now := time.Now()
	live, hosts := liveSites(a.members.Members(), a.name, a.opts.Identity.Settings.Site)
	return guess{at: now, predictor: a.netmap.Predictor(live, now), sites: a.sites(), hosts: hosts}
}

// hostsOf returns how many live hosts of a site there were when [Agent.like] last looked.
func (a *Agent) hostsOf(site string) int {
	a.guesses.mu.Lock()
	defer a.guesses.mu.Unlock()
	return a.guesses.hosts[site]
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
