package group

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A member is this host's share in one group: its local ranks, what they want, and
// the conn to the coordinator.
type member struct {
	g      *Groups
	id     ID
	job    string
	roster []string
	hosts  []string
	ctx    context.Context // ends with the group; its cause is the failure
	cancel context.CancelCauseFunc
	box    chan *message // to the coordinator; drained by run
	alarms chan *message // that goes before it

	feeds   sync.WaitGroup // of those that send to peers, see feedAll
	leaving chan struct{}  // closed by run when all ranks of this host have left
	ended   chan struct{}  // closed by read when the coordinator has hung up after that: all ranks have left

	// Small operations; see tree.go.
	tree         *Tree           // nil where there is none
	at           []int           // host of each rank
	names        [32]byte        // digest of the roster
	self         int             // this host
	own          []int           // ranks of this host
	siteRanks    map[int][]int   // by leader
	ranksOf      [][]int         // by host
	order, place []int           // of the hosts in rounds and hops, and where each stands in it
	rounds       []round         // where contributions go in some
	leaders, led []int           // if this host leads: the other leaders, and its hosts
	passings     map[int]passing // likewise, by leader; see via.go

	mu     sync.Mutex // guards the fields below; nothing blocks while it is held
	peers  map[int]*peer
	local  map[int]*Rank
	ops    map[uint64]*op
	failed *Failure

	// Small operations.
	feeding bool              // run has begun: who adds a peer has to feed it
	sealed  bool              // no peer is added any more
	eagers  map[uint64]*eager // that some rank has begun, and are not over
	past    uint64            // operations before it are over at all hosts, or planned
	settled uint64            // operations before it are over, or planned, but for those in behind
	behind  map[uint64]bool   // few: each rank of this host has them under way

	offers []offer // of operations to come, see offers.go

	// How long calls may wait, see lazy.go.
	pause time.Duration // of operations by plans of before
	small smallPause
}

// An op is one operation of the group at this host.
type op struct {
	seq      uint64
	inputs   map[int]contribution
	running  bool          // execute has it: inputs are in use until finished
	early    *early        // it runs by a plan of before, and the coordinator has not spoken; nil otherwise
	shown    bool          // it is over, and what came shows that all had begun by that plan: the coordinator's word is of no concern
	finished chan struct{} // closed when result or err is set
	result   *result
	err      error
	holders  int           // local ranks that still hold the result, and the rest of its run
	through  chan struct{} // closed when that rest is over; nil: it is, or there was none
	progress atomic.Pointer[func() (done, total int64)]
}

// over reports whether o has ended, well or not.
func (o *op) over() bool {
	select {
	case <-o.finished:
		return true
	default:
		return false
	}
}

// abandon returns once the operation of a group that is over no longer uses the
// inputs: when it has ended, or at once if it never started and now never will.
func (m *member) abandon(o *op) {
	m.mu.Lock()
	running := o.running
	if !running {
		o.inputs = nil
	}
	m.mu.Unlock()
	if running {
		<-o.finished
	}
}

// A result is what an operation left at this host.
type result struct {
	views    map[int]view // by local rank
	bufs     []Buffer     // those of views, each once
	info     Planned
	elapsed  time.Duration
	transfer Transferred
	// rest is how what is left of the run ends: the others have yet to confirm what they get. nil: nothing is.
	rest <-chan error
}

func newMember(g *Groups, job string, formed message) *member {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(g.ctx))
	m := &member{
		g: g, id: formed.Group, job: job, roster: formed.Hosts, hosts: uniqueHosts(formed.Hosts),
		ctx: ctx, cancel: cancel, box: make(chan *message, memberRoom), alarms: make(chan *message, 1),
		leaving: make(chan struct{}), ended: make(chan struct{}),
		local: make(map[int]*Rank), ops: make(map[uint64]*op), eagers: make(map[uint64]*eager), behind: make(map[uint64]bool),
	}
	m.grow(formed.Tree)
	m.names = namesOf(m.roster)
	return m
}

func (m *member) add(key claim, hold *holding) *Rank {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &Rank{m: m, rank: key.rank, key: key, hold: hold}
	m.local[key.rank] = r
	return r
}

// memberRoom is how many messages of a member's ranks can wait for its outbox, and how many there, in pieces of up to maxLazy, if that is more than what all ranks
// have under way.
const memberRoom = 64

// run keeps the conn to the coordinator until the group is over for this host.
func (m *member) run() {
	defer m.forget()
	late := time.NewTimer(attachTimeout) // as long as the directory keeps its word for the ranks
	defer late.Stop()
	m.feedAll()
	defer m.awaitFeeds()
	c, err := m.dial()
	if err != nil {
		m.lostCoordinator(err)
		return
	}
	box := newOutbox(c, max(memberRoom, MaxUnderWay*len(m.own))/maxLazy, m.g.turn(m.roster[0], m.mates()))
	box.urgent = m.alarms
	var tasks sync.WaitGroup
	tasks.Go(box.run)
	tasks.Go(func() { m.read(c) })
	box.finish(m.forward(box, late.C, &tasks)...)
	tasks.Wait()
}

// forward moves what this host says to the outbox, until the group is over for it, and returns what is left. Where the coordinator hears more
// slowly than small operations end, for which nobody waits for it, there is no room, and ranks wait in say.
func (m *member) forward(box *outbox, late <-chan time.Time, tasks *sync.WaitGroup) (rest []*message) {
	left := 0 // ranks of this host that have said so here: one that is about to would not be heard any more
	waiting := newLull()
	defer waiting.timer.Stop()
	for {
		var next *message
		select {
		case next = <-m.box:
		case <-waiting.timer.C:
		case <-late:
			if rank := m.absent(); rank >= 0 {
				m.alarm(message{Kind: kindLost, Rank: rank, Cause: "its client gave up while the group formed"})
			}
			continue
		case <-m.ctx.Done():
		}
		if m.ctx.Err() != nil {
			if next != nil {
				waiting.add(next)
			}
			break
		}
		last := false
		if next != nil {
			if next.Kind == kindLeft {
				left++
			}
			if last = next.Kind == kindLeft && left == m.here(); last {
				close(m.leaving) // before the coordinator hears of it: it may hang up at once
			}
			if !waiting.add(next) {
				continue
			}
		}
		if words := waiting.take(); words != nil {
			select {
			case box.queue <- words:
			case <-m.ctx.Done():
				rest = append(rest, words)
			}
		}
		if last {
			tasks.Go(m.linger)
		}
	}
	if words := waiting.take(); words != nil {
		rest = append(rest, words)
	}
	for len(m.box) > 0 {
		rest = append(rest, <-m.box)
	}
	return rest
}

// linger ends the group for this host, whose ranks have left, when others wait for nothing of it.
func (m *member) linger() {
	m.awaitRests() // others wait for what is under way
	select {
	case <-m.ended:
	default:
		m.awaitFeeds() // or queued
	}
	m.cancel(nil)
}

// mates is how many hosts of the group are at this one's site, itself included; all, where that is not known.
func (m *member) mates() (n int) {
	if m.tree == nil {
		return len(m.hosts)
	}
	for _, l := range m.tree.Leaders {
		if l == m.tree.Leaders[m.self] {
			n++
		}
	}
	return n
}

func (m *member) dial() (conn, error) {
	if m.roster[0] == m.g.cfg.Self {
		near, far := pipe()
		if !m.g.start(func() { m.g.attach(m.id, attached{m.g.cfg.Self, far, true}) }) {
			far.Abort()
		}
		return near, nil
	}
	ctx, cancel := context.WithTimeout(m.ctx, attachTimeout)
	defer cancel()
	s, err := m.g.cfg.Open(ctx, m.roster[0])
	if err != nil {
		return nil, err
	}
	c := newStreamConn(s)
	c.heard = m.g.heard(m.roster[0])
	se := newSession(m.id, c)
	se.brief.Store(m.tree.brief())
	if again := m.g.cfg.Again; again != nil {
		se.again = func(ctx context.Context, since time.Time, wanted func() bool) (Stream, error) {
			return again(ctx, m.roster[0], since, wanted)
		}
	}
	return se, se.Send(message{Kind: kindAttach, Group: m.id, Token: rand.Uint64(), Shown: true})
}

func (m *member) read(c conn) {
	for {
		msg, err := c.Recv()
		switch {
		case err != nil:
			select {
			case <-m.leaving:
				close(m.ended)
				if len(m.resting()) > 0 {
					return
				}
			default:
			}
			m.lostCoordinator(err)
			return
		case msg.Kind == kindFetch:
			m.sendPlan(msg)
		case msg.Kind == kindStart:
			m.start(msg)
		case msg.Kind == kindGo:
			m.goOn(msg)
		case msg.Kind == kindRecall:
			m.recalled(msg.Begun)
		case msg.Kind == kindOffer:
			m.offer(msg)
		case msg.Kind == kindItems:
			if err := m.items(msg.Host, &msg); err != nil {
				m.alarm(message{Kind: kindBroken, Seq: msg.Seq, Cause: err.Error()})
			}
		case msg.Kind == kindAbort && msg.Failure != nil:
			m.fail(msg.Failure)
			return
		}
	}
}

// lostCoordinator fails the group because rank 0's host is gone, unless it is over anyway.
func (m *member) lostCoordinator(err error) {
	if m.ctx.Err() != nil {
		return
	}
	m.fail(&Failure{Kind: RankLost, Rank: 0, Host: m.roster[0], Cause: "its agent cannot be reached (" + bounded(err.Error()) + ")"})
}

// fail ends the group at this host: running operations are cancelled with f.
func (m *member) fail(f *Failure) {
	m.mu.Lock()
	if m.failed == nil && m.ctx.Err() == nil {
		m.failed = f
	}
	m.mu.Unlock()
	m.cancel(f)
}

// stop ends the group because the agent is stopping; the others are told first.
func (m *member) stop() {
	f := stopped(m.g.cfg.Self)
	m.alarm(message{Kind: kindLost, Rank: slices.Index(m.roster, m.g.cfg.Self), Cause: f.Cause, Failure: f})
	m.fail(f)
}

// forget frees the ranks' names for new groups. Results stay until their holders leave.
func (m *member) forget() {
	m.cancel(nil)
	m.g.mu.Lock()
	delete(m.g.members, m.id)
	m.mu.Lock()
	if m.failed != nil && len(m.local) < m.here() { // the others of this host are yet to come
		m.g.overLocked(m.id, m.failed)
	}
	m.mu.Unlock()
	m.g.mu.Unlock()
	for _, r := range m.local { // complete: the group was the only way to add
		m.g.unclaim(r.key, r.hold)
	}
}

// here counts the group's ranks on this host.
func (m *member) here() (n int) {
	for _, h := range m.roster {
		if h == m.g.cfg.Self {
			n++
		}
	}
	return n
}

// absent returns the first rank of this host that has not entered, -1 if all have. Its client may have ended while the word that
// the group has formed was on its way, and nobody else knows. One that hears the word yet gets the failure that the others have.
func (m *member) absent() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rank := range m.own {
		if m.local[rank] == nil {
			return rank
		}
	}
	return -1
}

// sendPlan hands the plan that a local rank has brought to the coordinator.
func (m *member) sendPlan(msg message) {
	m.mu.Lock()
	var given []byte
	if o := m.ops[msg.Seq]; o != nil {
		given = o.inputs[msg.Rank].plan
	}
	m.mu.Unlock()
	m.g.start(func() { m.say(message{Kind: kindPlan, Seq: msg.Seq, Rank: msg.Rank, Part: given}) })
}

// say queues a message to the coordinator, and waits until there is room. What reads the coordinator's words must not: by
// them there is.
func (m *member) say(msg message) {
	select {
	case m.box <- &msg:
	case <-m.ctx.Done():
	}
}

// alarm has the coordinator told what ends the group, before all that waits. It waits for nothing: what comes second says nothing new.
func (m *member) alarm(msg message) {
	select {
	case m.alarms <- &msg:
	default:
	}
}

func (m *member) busy() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.ops {
		if o.through != nil {
			return true
		}
	}
	return m.runningLocked()
}

// resting lists what is closed when what others have yet to confirm is through, of operations whose ranks here have their results.
func (m *member) resting() (through []<-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.ops {
		if o.through != nil {
			through = append(through, o.through)
		}
	}
	return through
}

// awaitRests waits until they are through, and once the group has ended for as long as LastWords: nobody waits for anything then, and
// who has not confirmed will not.
func (m *member) awaitRests() {
	ended := m.ended
	var limit <-chan time.Time
	for _, through := range m.resting() {
		for waits := true; waits; {
			select {
			case <-through:
				waits = false
			case <-ended:
				ended, limit = nil, time.After(LastWords)
			case <-limit:
				return
			case <-m.ctx.Done():
				return
			}
		}
	}
}

// runningLocked reports whether an exchange runs: not one that still waits for other
// ranks, which may be long in coming.
func (m *member) runningLocked() bool {
	for _, o := range m.ops {
		if o.running && !o.over() && !o.early.stalls() {
			return true
		}
	}
	return false
}

func (m *member) status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Status{Job: m.job, Ranks: len(m.roster), State: "formed"}
	for r := range m.local {
		s.LocalRanks = append(s.LocalRanks, r)
	}
	slices.Sort(s.LocalRanks)
	if m.runningLocked() {
		s.State = "running"
	}
	if m.failed != nil {
		s.State = "failed"
	}
	return s
}

// dropLocked ends one hold of o's result. It returns the buffers to free, outside the lock, if it
// was the last.
func (m *member) dropLocked(o *op) []Buffer {
	o.holders--
	if o.holders > 0 {
		return nil
	}
	delete(m.ops, o.seq)
	if o.result == nil {
		return nil
	}
	return o.result.bufs
}

func free(bufs []Buffer) {
	for _, b := range bufs {
		b.Release()
	}
}
