package agent

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gridagent/gridagent/agent/membership"
	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/beat"
)

// Operators can declare the switch tree of a site, in a file that some or all of its agents are
// given. Gossip carries the file's digest; who does not know a digest asks a host that
// announces it for the file. Any host may have to make the plan of a job, so all hold all trees.
//
// A way to infer the tree from measurements has its place here: one more source of trees for a
// site without a declaration (see switches.trees).
const (
	maxTreeBytes = 256 << 10 // of a switch-tree file; 4,096 hosts of 40 bytes a name fit
	maxTrees     = 256       // that are held at a time, one a site
	treePause    = 2 * time.Second
	treeRetry    = 30 * time.Second
	treeTimeout  = 20 * time.Second
)

// switches holds the declared switch trees of all sites.
type switches struct {
	own     []byte // this host's file; nil without one
	members func() []membership.Member
	open    func(ctx context.Context, host string) (*lane.Stream, error)
	log     *slog.Logger
	beat    beat.Beat // of the rounds

	mu    sync.Mutex // guards trees; never held over I/O
	trees map[uint64]*declaredTree
}

// A declaredTree is a switch-tree file, or why there is none yet.
type declaredTree struct {
	topology *plan.Topology // nil: not fetched, or refused
	next     time.Time      // when to ask again
	failed   error          // for good: the file was fetched and is no tree of its site
}

// treeDigest names a file in gossip; never 0.
func treeDigest(file []byte) uint64 {
	if file == nil {
		return 0
	}
	sum := sha256.Sum256(file)
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// run fetches the trees that members announce until ctx ends.
func (s *switches) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.beat.Next(time.Now(), treePause)):
		}
		s.round(ctx)
	}
}

// round fetches what is announced and not held, one after the other, and forgets what nobody
// announces any more.
func (s *switches) round(ctx context.Context) {
	from := make(map[uint64][]string)
	for _, m := range s.members() {
		if m.State == membership.Alive && m.Switches != 0 {
			from[m.Switches] = append(from[m.Switches], m.Name)
		}
	}
	var missing []uint64
	now := time.Now()
	s.mu.Lock()
	for d := range s.trees {
		if from[d] == nil {
			delete(s.trees, d)
		}
	}
	for d := range from {
		t := s.trees[d]
		if t == nil && len(s.trees) < maxTrees {
			t = &declaredTree{}
			s.trees[d] = t
		}
		if t != nil && t.topology == nil && t.failed == nil && !now.Before(t.next) {
			missing = append(missing, d)
		}
	}
	s.mu.Unlock()
	slices.Sort(missing)
	for _, d := range missing {
		host := from[d][int(uint64(now.UnixNano())%uint64(len(from[d])))]
		t, err := s.fetch(ctx, host, d)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		if held := s.trees[d]; held != nil {
			held.topology, held.failed, held.next = t, nil, time.Now().Add(treeRetry)
			if bad, ok := err.(*treeError); ok {
				held.failed = bad
			}
		}
		s.mu.Unlock()
		if err != nil {
			s.log.Warn("declared switch tree not usable", "host", host, "err", err)
		} else {
			s.log.Info("declared switch tree", "host", host, "hosts", len(t.Hosts()), "switches", len(t.Switches()))
		}
	}
}

// A treeError says that a host's file is no switch tree: asking again would not help.
type treeError struct{ err error }

func (e *treeError) Error() string { return e.err.Error() }
func (e *treeError) Unwrap() error { return e.err }

// fetch asks host for the file with this digest.
func (s *switches) fetch(ctx context.Context, host string, digest uint64) (*plan.Topology, error) {
	var file []byte
	if digest == treeDigest(s.own) {
		file = s.own
	} else {
		ctx, cancel := context.WithTimeout(ctx, treeTimeout)
		defer cancel()
		st, err := s.open(ctx, host)
		if err != nil {
			return nil, err
		}
		defer st.Abort() // after Close it only stops reading
		defer context.AfterFunc(ctx, st.Abort)()
		if err := st.Close(); err != nil {
			return nil, err
		}
		if file, err = io.ReadAll(io.LimitReader(st, maxTreeBytes+1)); err != nil {
			return nil, fmt.Errorf("switch tree of %s: %w", host, err)
		}
	}
	if len(file) > maxTreeBytes || treeDigest(file) != digest {
		return nil, fmt.Errorf("switch tree of %s: %d bytes that are not the file it announces", host, len(file))
	}
	t, err := plan.ReadTopology("switch tree of "+host, file)
	if err != nil {
		return nil, &treeError{err}
	}
	return t, nil
}

// serve hands out this host's own file.
func (s *switches) serve(st *lane.Stream) {
	st.SetDeadline(time.Now().Add(treeTimeout))
	if _, err := st.Write(s.own); err != nil {
		st.Abort()
		return
	}
	st.CancelRead(0)
	st.Close()
}

// A siteTree is the declared tree of a site.
type siteTree struct {
	site   string
	by     []string // hosts whose operators declared it
	digest uint64   // of their file
	*plan.Topology
}

// current returns the tree of each site that has one, by site, and what is wrong with the others:
// a tree holds hosts of its own site only, and all who declare one for a site declare the same.
func (s *switches) current() (trees []siteTree, warnings []string) {
	members := s.members()
	site := make(map[string]string, len(members))
	declared := make(map[string]map[uint64][]string) // site → digest → hosts
	for _, m := range members {
		site[m.Name] = m.Site
		if m.State != membership.Alive || m.Switches == 0 {
			continue
		}
		if declared[m.Site] == nil {
			declared[m.Site] = make(map[uint64][]string)
		}
		declared[m.Site][m.Switches] = append(declared[m.Site][m.Switches], m.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for label, digests := range declared {
		if len(digests) > 1 {
			var who []string
			for _, hosts := range digests {
				who = append(who, slices.Min(hosts))
			}
			slices.Sort(who)
			warnings = append(warnings, fmt.Sprintf("site %s: hosts %s declare different switch trees; none is used until they agree", label, strings.Join(who, " and ")))
			continue
		}
		for d, hosts := range digests {
			slices.Sort(hosts)
			t := s.trees[d]
			switch {
			case t == nil:
			case t.failed != nil:
				warnings = append(warnings, fmt.Sprintf("site %s: the switch tree that %s declares is not used: %v", label, hosts[0], t.failed))
			case t.topology != nil:
				if stranger := foreign(t.topology, label, site); stranger != "" {
					warnings = append(warnings, fmt.Sprintf("site %s: the switch tree that %s declares is not used: host %s is of site %s", label, hosts[0], stranger, site[stranger]))
					continue
				}
				if lacks := lacking(t.topology, label, members); len(lacks) > 0 {
					warnings = append(warnings, fmt.Sprintf("site %s: the switch tree that %s declares lacks %s: it is not used where a host that it lacks takes part; name all live hosts of the site in it",
						label, hosts[0], nameSome(lacks)))
				}
				trees = append(trees, siteTree{label, hosts, d, t.topology})
			}
		}
	}
	slices.SortFunc(trees, func(a, b siteTree) int { return strings.Compare(a.site, b.site) })
	slices.Sort(warnings)
	return trees, warnings
}
