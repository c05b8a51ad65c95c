package group

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// A claim is a rank of a job that one client of this host may hold.
type claim struct {
	job  string
	rank int
}

// A holding is one client's claim; released is closed when it ends.
type holding struct{ released chan struct{} }

// claimPatience is how long a Join waits for another client's claim to end: a client
// that has closed its rank may be back before the agent has noticed.
const claimPatience = 3 * time.Second

// ErrClosed means that the agent is stopping.
var ErrClosed = errors.New("the agent is stopping")

// JoinOptions say how a rank waits for the others.
type JoinOptions struct {
	// Limit ends the wait: when the time of the first rank is up, all ranks that wait
	// get the same [Failure] of kind NotFormed, which lists those that have not come.
	// Zero waits for ever.
	Limit time.Duration
	// Waiting, if not nil, is told now and then how many ranks are present, and which
	// are not, as in 2,5,7-9.
	Waiting func(present int, missing string)
}

// formingGrace is how long after its time a rank waits for the directory to say so: all
// ranks shall have the same words. A directory that says nothing is out of reach.
const formingGrace = 3 * time.Second

// errNoWord ends the wait for a directory.
var errNoWord = errors.New("the directory of the job has not answered in time")

// Join enters a rank and returns when all ranks of the job have joined, or with the
// [Failure] that prevents it.
func (g *Groups) Join(ctx context.Context, job string, rank, ranks int, opts JoinOptions) (*Rank, error) {
	if err := checkJob(job, rank, ranks); err != nil {
		return nil, err
	}
	key := claim{job, rank}
	hold, err := g.claim(ctx, key)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.ctx, func() { cancel(ErrClosed) })()
	formed, err := g.form(ctx, message{Kind: kindRegister, Job: job, Rank: rank, Ranks: ranks, Token: rand.Uint64(), Small: smallVersion, Offers: g.cfg.Restamp != nil}, opts)
	if err != nil {
		g.unclaim(key, hold)
		return nil, err
	}
	r, err := g.enter(key, hold, formed)
	if err != nil {
		g.unclaim(key, hold)
	}
	return r, err
}

func checkJob(job string, rank, ranks int) error {
	switch {
	case job == "" || len(job) > 256:
		return fmt.Errorf("job %.40q: want a name of 1 to 256 bytes", job)
	case !utf8.ValidString(job) || strings.ContainsFunc(job, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("job %.40q: want a name of characters that print", job)
	case ranks < 1 || ranks > maxRanks:
		return fmt.Errorf("%d ranks: want 1 to %d", ranks, maxRanks)
	case rank < 0 || rank >= ranks:
		return fmt.Errorf("rank %d of %d: ranks count from 0", rank, ranks)
	}
	return nil
}

// claim reserves a rank for one client.
func (g *Groups) claim(ctx context.Context, key claim) (*holding, error) {
	patience := time.NewTimer(claimPatience)
	defer patience.Stop()
	for {
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			return nil, ErrClosed
		}
		other := g.claimed[key]
		if other == nil {
			h := &holding{released: make(chan struct{})}
			g.claimed[key] = h
			g.mu.Unlock()
			return h, nil
		}
		g.mu.Unlock()
		select {
		case <-other.released:
		case <-patience.C:
			return nil, taken(key.job, key.rank, g.cfg.Self, g.cfg.Self)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// unclaim ends a claim, once.
func (g *Groups) unclaim(key claim, h *holding) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.claimed[key] == h {
		delete(g.claimed, key)
		close(h.released)
	}
}

// form registers with the job's directory until the group is formed. The directory
// can change while agents learn of each other, or die: then it registers anew.
func (g *Groups) form(ctx context.Context, reg message, opts JoinOptions) (message, error) {
	begun := time.Now()
	if opts.Limit > 0 && opts.Limit < math.MaxInt64-formingGrace {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Limit+formingGrace, errNoWord)
		defer cancel()
	}
	var at, missing string
	waiting := func(m message) {
		missing = m.Missing
		if opts.Waiting != nil {
			opts.Waiting(m.Ranks, m.Missing)
		}
	}
	for {
		at = directoryHost(reg.Job, g.cfg.Members())
		if opts.Limit > 0 {
			reg.Limit = max(opts.Limit-time.Since(begun), 1)
			reg.Waited = opts.Limit - reg.Limit
		}
		m, err := g.registerAt(ctx, at, reg, waiting)
		if err == nil {
			return m, nil
		}
		var f *Failure
		if errors.As(err, &f) {
			return message{}, f
		}
		g.log.Debug("registration ended, trying again", "job", reg.Job, "rank", reg.Rank, "directory", at, "err", err)
		pause := time.NewTimer(200*time.Millisecond + rand.N(200*time.Millisecond))
		select {
		case <-ctx.Done():
			pause.Stop()
			err := context.Cause(ctx)
			if errors.Is(err, errNoWord) {
				err = silentDirectory(reg, opts.Limit, at, missing)
			}
			return message{}, err
		case <-pause.C:
		}
	}
}

// silentDirectory is the failure of a rank whose time is up and that has heard nothing
// of the host at, which would know who is missing. missing is what was heard last.
func silentDirectory(reg message, limit time.Duration, at, missing string) *Failure {
	f := &Failure{Kind: NotFormed, Rank: -1, Cause: fmt.Sprintf(
		"job %q has not formed within %v, and host %s, which brings its ranks together, does not answer", reg.Job, limit, at)}
	if missing != "" {
		f.Cause += "; when it was last heard, it missed ranks " + missing
	}
	return f
}

// registerAt registers at one directory and waits there as long as it is the right one.
func (g *Groups) registerAt(ctx context.Context, at string, reg message, waiting func(message)) (message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := g.dialDirectory(ctx, at)
	if err != nil {
		return message{}, err
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	defer c.Abort()
	tasks.Go(func() { g.watchDirectory(ctx, reg.Job, at, c) })
	if err := c.Send(reg); err != nil {
		return message{}, err
	}
	for {
		m, err := c.Recv()
		if err != nil {
			return message{}, err
		}
		switch m.Kind {
		case kindWaiting:
			waiting(m)
		case kindFormed:
			return m, checkFormed(m, reg, g.cfg.Self)
		case kindRefused:
			if m.Failure == nil {
				return message{}, fmt.Errorf("%s refused without a reason", at)
			}
			return message{}, m.Failure
		default:
			return message{}, fmt.Errorf("%s answered %q to a registration", at, m.Kind)
		}
	}
}

func checkFormed(m, reg message, self string) error {
	if len(m.Hosts) != reg.Ranks || m.Hosts[reg.Rank] != self {
		return fmt.Errorf("roster of %d hosts does not hold rank %d on %s", len(m.Hosts), reg.Rank, self)
	}
	if m.Tree != nil {
		return m.Tree.check(len(uniqueHosts(m.Hosts)))
	}
	return nil
}

func (g *Groups) dialDirectory(ctx context.Context, at string) (conn, error) {
	if at == g.cfg.Self {
		near, far := pipe()
		ok := g.start(func() {
			m, err := far.Recv()
			if err != nil {
				return
			}
			g.dir.serve(at, m, far)
		})
		if !ok {
			return nil, ErrClosed
		}
		return near, nil
	}
	s, err := g.cfg.Open(ctx, at)
	if err != nil {
		return nil, err
	}
	return newStreamConn(s), nil
}

// watchDirectory ends the conn when ctx does or another host has become the directory.
func (g *Groups) watchDirectory(ctx context.Context, job, at string, c conn) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			c.Abort()
			return
		case <-tick.C:
			if directoryHost(job, g.cfg.Members()) != at {
				c.Abort()
				return
			}
		}
	}
}

// overLocked keeps why a group has failed, for a time, for those who may still ask.
func (g *Groups) overLocked(id ID, f *Failure) {
	g.over[id] = f
	time.AfterFunc(attachTimeout, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.over, id)
	})
}

// enter adds a formed rank to its group's member, which the first local rank creates,
// along with the coordinator if rank 0 is here. A group can have failed by then: a second
// member, and a second coordinator, would wait for hosts that will not come again.
func (g *Groups) enter(key claim, hold *holding, formed message) (*Rank, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	if f := g.over[formed.Group]; f != nil {
		return nil, f
	}
	m := g.members[formed.Group]
	if m == nil {
		m = newMember(g, key.job, formed)
		g.members[formed.Group] = m
		close(g.entered)
		g.entered = make(chan struct{})
		if formed.Hosts[0] == g.cfg.Self {
			co := newCoordinator(g, formed)
			g.coords[formed.Group] = co
			co.early = g.early.take(formed.Group)
			g.startLocked(co.run)
		}
		g.startLocked(m.run)
	}
	return m.add(key, hold), nil
}
