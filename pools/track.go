package pools

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// TrackConfig tunes a [Tracker]. The zero value is what production runs.
type TrackConfig struct {
	// Build selects how trees are built.
	Build Config
	// Dwell is how long a different tree must have held before it takes over. Zero means
	// 10 s. A tree that an estimate has changed by more than a factor of 1.5 needs a tenth
	// of it, or a twentieth where most pairs of two sites show it; one that a single pair has changed by rising above its
	// like three times as much; one whose hosts differ takes over at once. A short one follows every hiccup of
	// a link, a long one plans for links that are no more.
	Dwell time.Duration
	// Margin is by how much, relative, an estimate must have moved before it counts, and
	// links must be past the threshold that puts them into or out of a pool. Zero means
	// 0.15. Negative or above 1 is an error.
	Margin float64
	// Clock tells what a rebuild costs: the next one is due 100 times as long after it, so
	// that trees take under 1 % of a core. Nil means that rebuilding costs nothing.
	Clock func() time.Time
}

const (
	// rest is for how many times the length of a rebuild the next one is put off.
	rest = 100
	// largeChange is the factor by which an estimate must have moved for the short dwell.
	largeChange = 1.5
	// shortDwell is the part of the dwell that a large change needs, three looks of the agent, and broadDwell
	// that of one which most pairs of a direction show, two looks.
	shortDwell = 10
	broadDwell = 20
	// patience bounds, in dwells, for how long trees that follow each other quickly can put
	// off the end of one that none of them is like.
	patience = 3
)

func (c TrackConfig) withDefaults() (TrackConfig, error) {
	var err error
	if c.Build, err = c.Build.withDefaults(); err != nil {
		return c, err
	}
	if c.Dwell == 0 {
		c.Dwell = 10 * time.Second
	}
	if c.Dwell < 0 {
		return c, fmt.Errorf("dwell %v: want 0 or more", c.Dwell)
	}
	if c.Margin == 0 {
		c.Margin = 0.15
	}
	if !(c.Margin > 0 && c.Margin <= 1) {
		return c, fmt.Errorf("margin %v: not in 0 … 1", c.Margin)
	}
	return c, nil
}

// Tracked is a tree that a [Tracker] holds to be the one to plan with.
type Tracked struct {
	// Epoch counts the trees of this Tracker from 1. A tree of the same structure whose
	// thresholds have moved is of the same epoch.
	Epoch uint64
	Since time.Time // when the epoch began
	// Reason is a sentence: what made this tree take its predecessor's place.
	Reason string
	Tree   *Tree
	// Warnings are sentences about hosts that measure as if they stood in another site, see
	// [Misplaced]. They may change within an epoch. Nobody modifies them.
	Warnings []string
}

// A Tracker follows a map that never stands still with a tree that mostly does. It holds
// what it believes of each pair (see pair), settles that of alike pairs on common values,
// and replaces its tree when another one has held for the dwell. The rules, in the order in
// which a measurement meets them, are in docs/pools.md. The zero value is not usable.
//
// A Tracker is for one goroutine. What it hands out may be shared.
type Tracker struct {
	cfg TrackConfig

	hosts []netmap.Host // by name
	pairs []pair        // row-major, n×n, [from*n+to]
	seen  *netmap.Snapshot
	lost  []Misplacement
	cand  *Tree // built of pairs as they are; nil before the first

	cur *Tracked
	ref []float64 // what pairs had settled on when cur took over, bytes a second

	pending  *pending
	defended *Tree // the candidate that the current tree last held out against
	doubts   doubts
	next     time.Time // no rebuild before
}

// pending is a tree that waits for its dwell.
type pending struct {
	tree  *Tree
	since time.Time // it is the candidate without a break
	first time.Time // the current tree has been no candidate without a break
}

// doubts are the warnings that wait for their dwell.
type doubts struct {
	list  []string
	since time.Time
}

// NewTracker returns a Tracker without a tree. It returns an error that quotes a wrong value of cfg.
func NewTracker(cfg TrackConfig) (*Tracker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("pool tree: %w", err)
	}
	return &Tracker{cfg: cfg}, nil
}

// Current returns the tree to plan with, or false before the first.
func (t *Tracker) Current() (Tracked, bool) {
	if t.cur == nil {
		return Tracked{}, false
	}
	return *t.cur, true
}

// Observe looks at the map at now, and reports whether another tree has taken over. It asks
// take for the map, all of whose pairs must have a bandwidth, measured or predicted; if it is
// too early after the last look, it asks nothing and changes nothing.
//
// A snapshot that take hands out again is the same map. An error is that of take, or that of
// [Build]; the tree then stays, and so does what was believed of the pairs.
func (t *Tracker) Observe(now time.Time, take func() (*netmap.Snapshot, error)) (changed bool, err error) {
	if now.Before(t.next) {
		return false, nil
	}
	var begin time.Time
	if t.cfg.Clock != nil {
		begin = t.cfg.Clock()
		defer func() { t.next = now.Add(rest * max(t.cfg.Clock().Sub(begin), 0)) }()
	}
	s, err := take()
	if err != nil {
		return false, err
	}
	if err := t.rebuild(s, now); err != nil {
		return false, err
	}
	if changed, err = t.decide(now); err == nil {
		t.doubt(now)
	}
	return changed, err
}

// nameOrder returns s with its hosts in the order of their names.
func nameOrder(s *netmap.Snapshot) *netmap.Snapshot {
	less := func(a, b netmap.Host) int { return cmp.Compare(a.Name, b.Name) }
	if slices.IsSortedFunc(s.Hosts(), less) {
		return s
	}
	order := make([]int, s.N())
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(less(s.Host(a), s.Host(b)), cmp.Compare(a, b))
	})
	return s.Subset(order)
}

// rebuild takes s in and brings the candidate up to date.
func (t *Tracker) rebuild(s *netmap.Snapshot, now time.Time) error {
	if s == t.seen {
		return nil
	}
	whole := s
	s = nameOrder(s)
	if s.N() == 0 {
		return fmt.Errorf("pool tree: %w", ErrNoHosts)
	}
	if err := checkMeasured(s); err != nil {
		return fmt.Errorf("pool tree: %w", err)
	}
	moved := t.remap(s.Hosts())
	t.lost = Misplaced(s)
	n := s.N()
	for i := range n {
		for j := range n {
			if i != j && t.pairs[i*n+j].see(s.Estimate(i, j), now, t.cfg.Margin) {
				moved = true
			}
		}
	}
	if moved { // the tree is a function of what the pairs hold
		t.settle(s)
		tree, err := Build(t.believed(nil), t.bands())
		if err != nil {
			return err
		}
		t.cand = tree
	}
	t.seen = whole
	return nil
}

// bands returns how trees are built: with bands that are wider by the margin, so that links
// part hosts only if they differ by more than noise. Two averages of readings within 10 % of
// the same truth are within a factor of 1.23 of each other, and the default is 1.265.
func (t *Tracker) bands() Config {
	cfg := t.cfg.Build
	cfg.Band = min((1+cfg.Band)*(1+t.cfg.Margin)-1, 1)
	return cfg
}

// believed returns what the pairs have settled on as a snapshot, each rate multiplied by
// scale where it is not nil.
func (t *Tracker) believed(scale []float64) *netmap.Snapshot {
	est := make([]netmap.Estimate, len(t.pairs))
	for at, p := range t.pairs {
		if scale != nil {
			p.out *= scale[at]
		}
		est[at] = netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: netmap.BytesPerSec(p.out)}
	}
	return netmap.NewSnapshot(0, t.hosts, est)
}

// decide compares the candidate with the current tree.
func (t *Tracker) decide(now time.Time) (changed bool, err error) {
	if t.cur == nil {
		t.adopt(now, fmt.Sprintf("first tree of %s: %s", plural(len(t.hosts), "host"), t.cand.outline()))
		return true, nil
	}
	if news := hostNews(t.cur.Tree.Hosts, t.hosts); news != "" {
		t.adopt(now, news+": "+t.cand.outline())
		return true, nil
	}
	if keep, err := t.keeps(); keep || err != nil {
		t.pending = nil
		return false, err
	}
	if t.pending == nil {
		t.pending = &pending{tree: t.cand, since: now, first: now}
	} else if !sameShape(t.cand.Root, t.pending.tree.Root) {
		t.pending.tree, t.pending.since = t.cand, now
	}
	why := t.turn()
	if now.Sub(t.pending.since) < t.dwell(why) && now.Sub(t.pending.first) < patience*t.cfg.Dwell {
		return false, nil
	}
	t.adopt(now, why.String()+": "+t.cand.outline())
	return true, nil
}

// dwell returns for how long a tree must have held that why has brought about. One pair that has left its
// like upwards waits longest: after a link has fallen that is mostly a pair which was not looked at since, or was misread, and
// a tree that goes back on its word is wrong for all others.
func (t *Tracker) dwell(why turn) time.Duration {
	switch {
	case why.lone && why.now > why.before:
		return patience * t.cfg.Dwell
	case why.factor <= largeChange:
		return t.cfg.Dwell
	case why.broad:
		return t.cfg.Dwell / broadDwell
	}
	return t.cfg.Dwell / shortDwell
}

// keeps reports whether the candidate gives no cause to replace the current tree.
func (t *Tracker) keeps() (bool, error) {
	switch {
	case t.cand == t.cur.Tree, t.cand == t.defended:
		return true, nil
	case sameShape(t.cand.Root, t.cur.Tree.Root):
		fresh := *t.cur // the thresholds may have moved
		fresh.Tree = t.cand
		t.cur = &fresh
		return true, nil
	case t.pending != nil && t.cand == t.pending.tree:
		return false, nil
	}
	keep, err := t.defends()
	if keep {
		t.defended = t.cand
	}
	return keep, err
}

// adopt makes the candidate the current tree.
func (t *Tracker) adopt(now time.Time, reason string) {
	next := &Tracked{Epoch: 1, Since: now, Reason: reason, Tree: t.cand}
	if t.cur != nil {
		next.Epoch = t.cur.Epoch + 1
		next.Warnings = t.cur.Warnings
	}
	t.cur, t.pending, t.defended = next, nil, nil
	t.ref = make([]float64, len(t.pairs))
	for at := range t.pairs {
		t.ref[at] = t.pairs[at].out
	}
}

// doubt brings the warnings up to date: new ones, and their end, wait for the dwell.
func (t *Tracker) doubt(now time.Time) {
	var list []string
	for _, m := range t.lost {
		list = append(list, m.String())
	}
	// The numbers in a warning move; only whom it names decides.
	if !slices.EqualFunc(list, t.doubts.list, sameDoubt) {
		t.doubts = doubts{list: list, since: now}
	}
	if now.Sub(t.doubts.since) >= t.cfg.Dwell && !slices.EqualFunc(t.doubts.list, t.cur.Warnings, sameDoubt) {
		fresh := *t.cur
		fresh.Warnings = t.doubts.list
		t.cur = &fresh
	}
}

// sameDoubt compares two warnings but for what was measured, see [Misplacement.String].
func sameDoubt(a, b string) bool {
	a, _, _ = strings.Cut(a, doubtNumbers)
	b, _, _ = strings.Cut(b, doubtNumbers)
	return a == b
}
