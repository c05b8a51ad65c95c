package agent

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/internal/beat"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// poolPause is the time between two looks at the map. The tracker asks for fewer where a
// look is expensive.
const poolPause = 500 * time.Millisecond

// poolAge is how old the map of the tree may be where nothing of weight has changed since. To take it is most of what the tree costs, and
// in a grid at rest some value moves by a per cent at nearly every look.
const poolAge = 5 * time.Second

// A poolTree is the tree that the agent plans with: it follows the map by a [pools.Tracker],
// tells the log and all watchers of each new tree, and remembers the maps that trees began with.
type poolTree struct {
	// take returns the map of all live hosts, complete, the same pointer while nothing has changed.
	take func() (*netmap.Snapshot, error)
	log  *slog.Logger

	beat    beat.Beat      // of the looks
	tracker *pools.Tracker // of run's goroutine
	ask     chan struct{}  // wakes run
	history mapHistory

	mu    sync.Mutex // guards the fields below
	state poolState
}

// A poolState is a tree and a way to learn of its successor.
type poolState struct {
	tree pools.Tracked // its Tree is nil before the first
	next chan struct{} // closed when another state takes this one's place
}

func newPoolTree(take func() (*netmap.Snapshot, error), clock func() time.Time, log *slog.Logger) (*poolTree, error) {
	tracker, err := pools.NewTracker(pools.TrackConfig{Clock: clock})
	if err != nil {
		return nil, err
	}
	return &poolTree{
		take: take, log: log, tracker: tracker, ask: make(chan struct{}, 1),
		state: poolState{next: make(chan struct{})},
	}, nil
}

// run follows the map until ctx ends. It is the tracker's only user.
func (p *poolTree) run(ctx context.Context) {
	tick := time.NewTimer(p.beat.Next(time.Now(), poolPause))
	defer tick.Stop()
	for {
		p.look(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Reset(p.beat.Next(time.Now(), poolPause))
		case <-p.ask:
		}
	}
}

// look shows the map to the tracker once.
func (p *poolTree) look(now time.Time) {
	var taken *netmap.Snapshot
	changed, err := p.tracker.Observe(now, func() (s *netmap.Snapshot, err error) {
		taken, err = p.take()
		return taken, err
	})
	if err != nil {
		p.log.Debug("the pool tree waits for the map", "err", err)
		return
	}
	tree, ok := p.tracker.Current()
	if !ok {
		return
	}
	before := p.current().tree
	if changed {
		p.history.add(tree.Epoch, taken)
		p.log.Info("new pool tree", "epoch", tree.Epoch, "reason", tree.Reason)
	}
	for _, w := range tree.Warnings {
		if !slices.Contains(before.Warnings, w) {
			p.log.Warn("a site label does not fit", "warning", w)
		}
	}
	if changed || !slices.Equal(before.Warnings, tree.Warnings) {
		p.set(tree, true)
	} else if before.Tree != tree.Tree {
		p.set(tree, false) // the same pools with other thresholds are no news
	}
}

func (p *poolTree) set(tree pools.Tracked, news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.tree = tree
	if news {
		close(p.state.next)
		p.state.next = make(chan struct{})
	}
}

func (p *poolTree) current() poolState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// of returns the tree restricted to hosts, or nil if it lacks one.
func (s poolState) of(hosts []netmap.Host) *pools.Tree {
	if t := s.tree.Tree; t != nil {
		if r, ok := t.Restrict(hosts); ok {
			return r
		}
	}
	return nil
}

// fresh waits, up to limit, until the current tree is of exactly the named hosts, sorted, and
// returns the tree that there is then.
func (p *poolTree) fresh(ctx context.Context, hosts func() []string, limit time.Duration) pools.Tracked {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		s := p.current()
		if s.tree.Tree != nil && slices.Equal(hostNames(s.tree.Tree.Hosts), hosts()) {
			return s.tree
		}
		select {
		case p.ask <- struct{}{}:
		default: // asked already
		}
		select {
		case <-s.next:
		case <-ctx.Done():
			return p.current().tree
		}
	}
}

func hostNames(hosts []netmap.Host) []string {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
	}
	return names
}

// openPools makes the pool tree. Its snapshots are those of plans.
func (a *Agent) openPools() error {
	var last *netmap.Snapshot // of the poolTree's goroutine, as all below
	var labels map[string]string
	var moves uint64
	var taken time.Time
	take := func() (*netmap.Snapshot, error) {
		names := a.alive()
		sites := a.sites()
		now, news := time.Now(), a.netmap.Moves()
		known := last != nil && slices.Equal(last.Names(), names) &&
			(last.Epoch() == a.netmap.Epoch() || moves == news && now.Sub(taken) < poolAge)
		for _, n := range names {
			known = known && labels[n] == sites[n]
		}
		if !known {
			last, labels = a.snapshotOf(names), sites
			moves, taken = news, now
		}
		return last, complete(last)
	}
	var err error
	if a.pools, err = newPoolTree(take, time.Now, a.log); err == nil {
		a.pools.beat = beat.Of(a.name)
	}
	return err
}
