package membership

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// A State is what is believed of a member.
type State int

const (
	// Unseen is remembered from an earlier run and not heard of in this one.
	Unseen State = iota
	// Alive takes part in gossip; it may be under suspicion.
	Alive
	// Failed does not answer: it died, or a split is between us.
	Failed
	// Stopped said that it was stopping, and is expected back.
	Stopped
	// Left said that it was leaving for good.
	Left
)

func (s State) String() string {
	switch s {
	case Unseen:
		return "unseen"
	case Alive:
		return "alive"
	case Failed:
		return "failed"
	case Stopped:
		return "stopped"
	case Left:
		return "left"
	}
	return "unknown"
}

// A Member is a host of the cluster, as gossip has it.
type Member struct {
	Name  string
	Addr  netip.AddrPort
	State State
	Since time.Time // of State, on this host's clock; for Unseen, when it was last alive
	Meta

	parting State // Stopped or Left if it has said that it will be so: what follows is no death
}

const (
	// leftMemory is how long it is remembered, also on disk, that a member left: as long
	// as a host may be down and come back with that member in its memory.
	leftMemory = 30 * 24 * time.Hour
	// leftSlack is how much later than its departure a host may be thought to have been
	// alive: clocks differ, and a death is noticed some 20 s late.
	leftSlack = time.Minute
	// maxTold bounds those who left that a state exchange tells of: some 25 kB.
	maxTold = 256
	// maxGone bounds the members that are kept although they are not alive. Pruning
	// sorts, so it is put off until there are pruneSlack more.
	maxGone    = 1024
	pruneSlack = 128
)

// A table holds what is known of all members. memberlist's own list is no
// substitute: it forgets the dead, and reading it while it changes is a race.
type table struct {
	self string

	mu      sync.Mutex // guards the fields below; held for map operations only
	members map[string]Member
	sorted  []Member // all of them by name; nil if something has changed since
	version uint64   // counts changes
	subs    map[chan struct{}]struct{}
}

func newTable(self string, peers []Peer) *table {
	t := &table{self: self, members: make(map[string]Member), subs: make(map[chan struct{}]struct{})}
	for _, p := range peers {
		if p.Name == self {
			continue
		}
		m := Member{Name: p.Name, Addr: p.Addr, State: Unseen, Since: p.Seen, Meta: Meta{Site: p.Site}}
		if !p.Left.IsZero() {
			m.State, m.Since = Left, p.Left
		}
		t.members[p.Name] = m
	}
	t.prune(time.Now())
	return t
}

// set stores m and returns what was there before. An address belongs to one host:
// a member that was lost there under another name is forgotten.
func (t *table) set(m Member) (old Member, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, known = t.members[m.Name]
	if known && old == m {
		return old, known
	}
	if m.State == Alive {
		for name, o := range t.members {
			if o.Addr == m.Addr && name != m.Name && o.State != Alive {
				delete(t.members, name)
			}
		}
	}
	t.members[m.Name] = m
	t.prune(m.Since)
	t.changed()
	return old, known
}

// parts notes that a host has said that it will be s, Stopped or Left. If it was just found
// dead, it is by now.
func (t *table) parts(name string, s State, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m, ok := t.members[name]
	switch {
	case ok && m.State == Alive && m.parting != s:
		m.parting = s
	case ok && m.State == Failed && now.Sub(m.Since) < leftSlack:
		m.State = s
	default:
		return
	}
	t.members[name] = m
	t.changed()
}

// bury takes in from another host who has left, unless more is known here: that the host
// is alive, or was after it is said to have left.
func (t *table) bury(left []Peer, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	used := make(map[netip.AddrPort]bool)
	for _, m := range t.members {
		if m.State == Alive {
			used[m.Addr] = true
		}
	}
	for _, p := range left {
		at := p.Left
		if at.After(now) {
			at = now
		}
		m, known := t.members[p.Name]
		switch {
		case p.Name == t.self, p.Left.IsZero(), now.Sub(at) > leftMemory:
			continue
		case !known && used[p.Addr]: // that of another host by now
			continue
		case !known: // for others to whom this host will tell it
			m = Member{Name: p.Name, Addr: p.Addr, Meta: Meta{Site: p.Site}}
		case m.State == Alive, m.State == Left && !at.After(m.Since), m.State != Left && m.Since.Sub(at) > leftSlack:
			continue
		}
		m.State, m.Since = Left, at
		t.members[p.Name] = m
		t.changed()
	}
	t.prune(now)
}

// left returns up to n of those who have left, the last to leave first.
func (t *table) left(n int) []Peer {
	all, _ := t.peers(time.Time{})
	all = slices.DeleteFunc(all, func(p Peer) bool { return p.Left.IsZero() })
	slices.SortStableFunc(all, func(a, b Peer) int { return b.Left.Compare(a.Left) })
	return all[:min(n, len(all))]
}

// prune forgets who left long ago, and the longest gone beyond maxGone.
func (t *table) prune(now time.Time) {
	var gone []Member
	for name, m := range t.members {
		switch {
		case m.State == Left && now.Sub(m.Since) > leftMemory:
			delete(t.members, name)
			t.sorted = nil
		case m.State != Alive:
			gone = append(gone, m)
		}
	}
	if len(gone) <= maxGone+pruneSlack {
		return
	}
	slices.SortFunc(gone, func(a, b Member) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name)) })
	for _, m := range gone[:len(gone)-maxGone] {
		delete(t.members, m.Name)
	}
	t.sorted = nil
}

// changed tells the subscribers; one that has not looked since the last change has
// a signal waiting already.
func (t *table) changed() {
	t.version++
	t.sorted = nil
	for ch := range t.subs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (t *table) get(name string) (Member, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m, ok := t.members[name]
	return m, ok
}

// list returns a copy, sorted by name, and the number of changes so far.
func (t *table) list() ([]Member, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sorted == nil {
		t.sorted = slices.SortedFunc(maps.Values(t.members), func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	}
	return slices.Clone(t.sorted), t.version
}

// company reports whether any other member is alive.
func (t *table) company() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, m := range t.members {
		if m.State == Alive && name != t.self {
			return true
		}
	}
	return false
}

// in returns the members in any of the states, in an order drawn by rng.
func (t *table) in(rng *rand.Rand, states ...State) []Member {
	all, _ := t.list()
	all = slices.DeleteFunc(all, func(m Member) bool { return !slices.Contains(states, m.State) })
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// peers returns what is worth remembering: everyone but this host.
func (t *table) peers(now time.Time) ([]Peer, uint64) {
	all, version := t.list()
	var out []Peer
	for _, m := range all {
		if m.Name == t.self {
			continue
		}
		p := Peer{Name: m.Name, Addr: m.Addr, Site: m.Site, Seen: m.Since.UTC().Truncate(time.Second)}
		switch m.State {
		case Alive:
			p.Seen = now.UTC().Truncate(time.Second)
		case Left:
			p.Left = p.Seen
		}
		out = append(out, p)
	}
	return out, version
}

// subscribe returns a channel that holds one value whenever the members may have changed
// since it was last received from; the first is there at once. stop ends it.
func (t *table) subscribe() (changes <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	ch <- struct{}{} // what there is now is the first change
	t.mu.Lock()
	defer t.mu.Unlock()
	t.subs[ch] = struct{}{}
	return ch, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.subs, ch)
	}
}
