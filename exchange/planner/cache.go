package planner

import (
	"cmp"
	"container/list"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A Kept plan is one that can be run again. It is verified before it is kept, and never modified.
type Kept struct {
	Collective plan.Collective
	Asked      string // algorithm; empty for the best
	Hosts      int
	Bytes      int64 // of the largest block
	Selection  Summary
	// Parts are the encoded parts of all hosts, for exchange.Restamp.
	Parts [][]byte
	Basis *Basis
	// Shape names what else the plan stands on: the epoch of the pool tree, and declared switches.
	Shape string
	// MapEpoch is that of the map from which it was made.
	MapEpoch uint64
}

// A Summary is what is kept of a [Selection].
type Summary struct {
	Algorithm  string
	Class      Spot
	Bound      float64 // seconds
	Direct     float64 // seconds; 0: none, see [Selection.Direct]
	Forecast   float64 // seconds, not corrected
	Cost       float64 // seconds that it took to make the plan
	Reason     string
	Candidates []Candidate
}

// size is how much memory k takes, in bytes, about.
func (k *Kept) size() int {
	n := 1024 + k.Basis.size()
	for _, p := range k.Parts {
		n += len(p) + 24
	}
	return n
}

// Limits of a [Cache].
const (
	maxKept      = 256
	maxKeptBytes = 64 << 20
	maxDrops     = 32
	maxAside     = 16
	// checkPause is for how long a plan that has been compared with the map is run again without another look: the
	// map itself is older, and to take it costs more than all else.
	checkPause = time.Second
)

// Why plans are dropped: the kinds of [Drop].
const (
	DropMap        = "map"        // an estimate that it stands on has moved
	DropShape      = "tree"       // the pool tree or a declared switch tree has changed
	DropExperience = "experience" // operations have shown another to be faster
	DropRoom       = "room"       // others have been used since
)

// A Drop tells of a plan that is kept no longer.
type Drop struct {
	Time       time.Time
	Collective plan.Collective
	Algorithm  string
	Hosts      int
	Bytes      int64
	Kind       string
	Why        string // in words
}

// A Cache keeps plans for operations that come again: at most 256 of them, in 64 MiB. Its methods
// may be called concurrently. The zero value is empty and ready.
//
// A plan that another has outdone waits aside: trials of other algorithms are short, and to make it
// anew after one costs as much as the trial's own plan.
type Cache struct {
	mu       sync.Mutex // guards all below; nothing blocks while it is held
	entries  map[Key]*list.Element
	recent   list.List // of *cached, the last used in front
	aside    []*cached // outdone ones, which count in bytes too; the oldest first, at most maxAside
	bytes    int
	hits     uint64
	misses   uint64
	drops    []Drop // the latest, oldest first
	dropKind map[string]uint64
}

type cached struct {
	key        Key
	kept       *Kept
	made, used time.Time
	checked    time.Time
	hits       uint64
}

// Checks are what a kept plan must still pass, cheap ones first. Each returns why it fails, or "".
type Checks struct {
	Shape string
	// Moved compares the plan's basis with the map; it is asked at most once a second for a plan.
	Moved func(*Kept) string
	// Outdone says whether another algorithm is expected to be faster by now.
	Outdone func(*Kept) string
}

// Lookup returns the plan that is kept for key, if it still holds at now. One that does not is dropped; where another algorithm has outdone it, a plan takes its
// place that was outdone before, and is not now.
func (c *Cache) Lookup(key Key, now time.Time, checks Checks) (*Kept, bool) {
	c.mu.Lock()
	var e *cached
	if at := c.entries[key]; at != nil {
		e = at.Value.(*cached)
	}
	fresh := e != nil && now.Sub(e.checked) < checkPause && !now.Before(e.checked)
	c.mu.Unlock()
	if e == nil {
		c.count(&c.misses)
		return nil, false
	}
	kind, why := DropShape, ""
	if e.kept.Shape != checks.Shape {
		why = fmt.Sprintf("planned with %s, now it is %s", e.kept.Shape, checks.Shape)
	}
	if why == "" && checks.Outdone != nil {
		kind, why = DropExperience, checks.Outdone(e.kept)
	}
	if why == "" && !fresh && checks.Moved != nil {
		kind, why = DropMap, checks.Moved(e.kept)
	}
	if why != "" {
		return c.instead(c.outdo(e, now, kind, why), now, checks)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.entries[key]
	c.hits++
	if at != nil && at.Value == e {
		e.hits++
		e.used = now
		if !fresh {
			e.checked = now
		}
		c.recent.MoveToFront(at)
	}
	return e.kept, true
}

// outdo drops e, unless another has taken its place by now. One that another algorithm has outdone it puts aside, and returns those for the same key that were there.
func (c *Cache) outdo(e *cached, now time.Time, kind, why string) (others []*cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.entries[e.key]
	if at == nil || at.Value != e {
		return nil
	}
	c.drop(at, now, kind, why)
	if kind != DropExperience {
		return nil
	}
	others = c.takeAside(func(o *cached) bool { return o.key == e.key })
	c.setAside(e)
	return others
}

// instead returns the first of others that holds now, which is kept again. Those that may hold another time go back aside.
func (c *Cache) instead(others []*cached, now time.Time, checks Checks) (*Kept, bool) {
	var found *cached
	others = slices.DeleteFunc(others, func(o *cached) bool {
		k := o.kept
		if k.Shape != checks.Shape || checks.Moved != nil && checks.Moved(k) != "" {
			return true
		}
		if found == nil && (checks.Outdone == nil || checks.Outdone(k) == "") {
			found = o
		}
		return found == o
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range others {
		c.setAside(o)
	}
	if found == nil {
		c.misses++
		return nil, false
	}
	c.hits++
	found.hits++
	found.used, found.checked = now, now
	c.enter(found, now)
	return found.kept, true
}

// setAside puts a plan aside, if there is room, in place of the oldest. The lock is held.
func (c *Cache) setAside(e *cached) {
	size := e.kept.size()
	if c.bytes+size > maxKeptBytes {
		return
	}
	if len(c.aside) == maxAside {
		c.dropAside()
	}
	c.aside, c.bytes = append(c.aside, e), c.bytes+size
}

// dropAside makes room where the oldest was that waits aside. The lock is held.
func (c *Cache) dropAside() {
	oldest := c.aside[0]
	c.takeAside(func(e *cached) bool { return e == oldest })
}

// takeAside takes those from aside that are wanted. The lock is held.
func (c *Cache) takeAside(wanted func(*cached) bool) (taken []*cached) {
	c.aside = slices.DeleteFunc(c.aside, func(e *cached) bool {
		if !wanted(e) {
			return false
		}
		taken, c.bytes = append(taken, e), c.bytes-e.kept.size()
		return true
	})
	return taken
}

// Stands reports whether Lookup would find a plan for key. It counts as no use of it, and drops nothing.
func (c *Cache) Stands(key Key, checks Checks) bool {
	c.mu.Lock()
	at := c.entries[key]
	if at == nil {
		c.mu.Unlock()
		return false
	}
	k := at.Value.(*cached).kept
	c.mu.Unlock()
	return k.Shape == checks.Shape && (checks.Outdone == nil || checks.Outdone(k) == "") && (checks.Moved == nil || checks.Moved(k) == "")
}

func (c *Cache) count(n *uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

// Keep keeps a plan for key, in place of what was kept for it, and drops those that were not used for
// the longest time where there is no room.
func (c *Cache) Keep(key Key, k *Kept, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takeAside(func(e *cached) bool { return e.key == key && e.kept.Selection.Algorithm == k.Selection.Algorithm }) // k is newer
	c.enter(&cached{key: key, kept: k, made: now, used: now, checked: now}, now)
}

// enter is Keep of e. The lock is held.
func (c *Cache) enter(e *cached, now time.Time) {
	if c.entries == nil {
		c.entries = make(map[Key]*list.Element)
	}
	if at := c.entries[e.key]; at != nil {
		c.forget(at)
	}
	size := e.kept.size()
	if size > maxKeptBytes/4 {
		return // it would push all others out
	}
	for len(c.aside) > 0 && c.bytes+size > maxKeptBytes {
		c.dropAside()
	}
	for c.recent.Len() > 0 && (c.recent.Len() >= maxKept || c.bytes+size > maxKeptBytes) {
		c.drop(c.recent.Back(), now, DropRoom, fmt.Sprintf("%d plans of %d bytes are kept, and others were used since", c.recent.Len(), c.bytes))
	}
	c.bytes += size
	c.entries[e.key] = c.recent.PushFront(e)
}

// forget removes a plan. The lock is held.
func (c *Cache) forget(at *list.Element) {
	e := c.recent.Remove(at).(*cached)
	delete(c.entries, e.key)
	c.bytes -= e.kept.size()
}

// drop removes a plan and notes why. The lock is held.
func (c *Cache) drop(at *list.Element, now time.Time, kind, why string) {
	k := at.Value.(*cached).kept
	c.forget(at)
	if c.dropKind == nil {
		c.dropKind = make(map[string]uint64)
	}
	c.dropKind[kind]++
	if len(c.drops) == maxDrops {
		c.drops = slices.Delete(c.drops, 0, 1)
	}
	c.drops = append(c.drops, Drop{
		Time: now, Collective: k.Collective, Algorithm: k.Selection.Algorithm, Hosts: k.Hosts, Bytes: k.Bytes, Kind: kind, Why: why,
	})
}

// CacheStats is the state of a [Cache].
type CacheStats struct {
	Plans        []KeptStats // the last used first, and behind them those that wait aside
	Bytes        int
	Hits, Misses uint64
	Dropped      map[string]uint64 // by kind
	Drops        []Drop            // the latest, newest first
}

// KeptStats tells of one plan. Kept must not be modified.
type KeptStats struct {
	*Kept
	Made, Used time.Time
	Hits       uint64
	Size       int // bytes of memory
	PartBytes  int // of all parts together
	// Aside: another algorithm is expected to be faster, and the plan waits until it is not.
	Aside bool
}

// stats tells of e.
func (e *cached) stats() KeptStats {
	k := KeptStats{Kept: e.kept, Made: e.made, Used: e.used, Hits: e.hits, Size: e.kept.size()}
	for _, p := range e.kept.Parts {
		k.PartBytes += len(p)
	}
	return k
}

// Stats returns the state of c.
func (c *Cache) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := CacheStats{Bytes: c.bytes, Hits: c.hits, Misses: c.misses, Dropped: make(map[string]uint64), Drops: slices.Clone(c.drops)}
	for k, n := range c.dropKind {
		s.Dropped[k] = n
	}
	slices.Reverse(s.Drops)
	for at := c.recent.Front(); at != nil; at = at.Next() {
		s.Plans = append(s.Plans, at.Value.(*cached).stats())
	}
	for _, e := range slices.Backward(c.aside) {
		k := e.stats()
		k.Aside = true
		s.Plans = append(s.Plans, k)
	}
	return s
}

// again is for how many operations of its kind a plan that is made anew is expected to serve.
const again = 100

// An algorithm disappoints that takes more than maxCommon times its forecast, and disappointed times what it was expected to take when it was chosen.
const disappointed = 1.5

// disappointing says whether the algorithm that was taken takes so much longer than it was expected to that the choice is to be made again. Of a plan as good as the bound, no others are forecast,
// and so none could outdo it.
func (s *Summary) disappointing(factor func(algorithm string) float64) string {
	now := factor(s.Algorithm)
	at := slices.IndexFunc(s.Candidates, func(c Candidate) bool { return c.Algorithm == s.Algorithm })
	others := slices.ContainsFunc(s.Candidates, func(c Candidate) bool { return c.Forecast == 0 })
	if at < 0 || !others || now <= maxCommon || now <= disappointed*s.Candidates[at].Factor {
		return ""
	}
	return fmt.Sprintf("%s is now expected to take %s, and was to take %s", s.Algorithm, seconds(s.Forecast*now), seconds(s.Candidates[at].Predicted()))
}

// Outdone says whether a candidate of s is expected to be faster than the one that was taken, when the
// forecasts are corrected by factor: by more than a tie, and by more than planning costs an operation when
// a hundred share a plan. It also says so where the one that was taken disappoints. Else it is empty.
func (s *Summary) Outdone(factor func(algorithm string) float64) string {
	mine := s.Forecast * factor(s.Algorithm)
	var best *Candidate
	least := mine
	for i := range s.Candidates {
		c := &s.Candidates[i]
		if c.Forecast == 0 || c.Algorithm == s.Algorithm {
			continue
		}
		if p := c.Forecast * factor(c.Algorithm); cmp.Less(p, least) {
			least, best = p, c
		}
	}
	if best == nil || mine-least <= max(tie*mine, s.Cost/again) {
		return s.disappointing(factor)
	}
	return fmt.Sprintf("%s is now expected to take %s, %s %s", best.Algorithm, seconds(least), s.Algorithm, seconds(mine))
}
