package exchange

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// grace is how long streams of an ended part may go on writing: enough to finish a
// frame on a link that moves, and to tell the peer why.
const grace = 100 * time.Millisecond

// A run is one part being executed.
type run struct {
	eng   *Engine
	part  *Part
	data  Data
	start time.Time
	began time.Duration // start, since the engine was made

	// ctx ends when the part fails (the cause says why), when the caller's context
	// ends, and after success. cancel may be called under mu.
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when nothing is left
	landed chan struct{} // closed when this host has its result, see land

	writers sync.WaitGroup // goroutines of Run
	tender  sync.WaitGroup // who looks after the lanes, see tend
	stopped chan struct{}  // closed when the writers have ended
	readers sync.WaitGroup // streams served by callers of Accept; added to under mu while !ended

	mu      sync.Mutex // guards everything below, and all that it points to; never held over I/O
	ended   bool       // no further stream is served
	tending bool       // somebody looks after the lanes
	left    int        // receives, sends and outgoing tokens that are not complete
	toLand  int        // receives that are not complete, and sends of which something is to be written
	toGet   int        // receives that are not complete
	blocks  []*block   // as part.Blocks
	number  map[int]*block
	peers   map[string]*peer
	sends   []*send                 // as part.Sends
	recvs   []*recv                 // as part.Recvs
	waiting map[milestone][]*send   // by what they wait for
	tokens  map[milestone]*incoming // tokens that are to arrive
	claims  *sync.Cond              // on mu: a claimed entry has arrived or was given up
	meters  []*meter                // of the lanes, if somebody wants samples
	wakes   []*sync.Cond            // lanes of other runs, that have room now

	alone   bool // no other exchange had anything to send here when it began, see [Engine.othersLanded]; set before anything of it runs
	crowded bool // there were others beside each other of late; likewise
	port    port // see leave.go
	sites   runSites
	doubt   doubt // whether the others have begun, see sure.go

	// Re-planning, see relief.go.
	ways     map[string]*route // by site
	levels   map[string]*level // by site
	helped   []*peer           // to whom this host delivers for others, where it does not for itself
	waits    bool              // standBy keeps it from ending
	standBys int               // so often
	relief   Relief
}

// A block is a block's state at this host.
type block struct {
	Block
	index   int // in Part.Blocks
	number  int
	chunks  int
	mem     memory // of a forwarded block: from its first chunk to its last confirmation
	have    bitmap // entries that are here: chunks, then the checksum
	claimed bitmap // entries that a stream is reading; at the origin: chunks that are summed
	left    int    // entries missing; at the origin: chunks not summed
	sum     uint64 // of the chunks that are here (at the origin: that are summed)
	want    uint64 // as received
	recv    *recv  // nil at the origin
	sends   []*sendBlock
	open    int // sends not confirmed
}

// A recv is the state of a transfer to this host.
type recv struct {
	*Recv
	from       *peer
	left       int   // blocks
	missing    int64 // bytes
	told       bool  // those who wait for it wait no more
	start, end time.Duration
	started    bool
}

// An incoming is a token that a peer will send.
type incoming struct {
	from *peer
	seen bool
}

// A peer is a host that this one exchanges frames with.
type peer struct {
	name  string
	index int // in Part.Hosts

	// Outgoing.
	cond    *sync.Cond // on run.mu: something changed for the lanes to this peer
	ctx     context.Context
	cancel  context.CancelFunc // when nothing is left to send, or the run ends
	sends   []*send            // plan order
	first   int                // sends before it are confirmed
	out     map[int]*sendBlock // by block number
	tokens  []*token
	open    int // sends not confirmed and tokens not seen
	path    Path
	loses   bool       // packets, on the way and not only in queues that this run fills: as path said at first
	steady  bool       // what goes to its site goes without a window, see [run.goesSteady]
	level   *level     // of that
	opening float64    // bytes a second at which first windows to its site go, see [run.opens]
	win     *tap       // its window, of all lanes; nil: none
	pacer   *pacer     // of all that go to its site, or to it; nil: none
	spacing spacing    // of what goes to its site, where there is no pacer
	held    int        // lanes that wait for room in it
	midway  int        // of these, those that have begun a chunk
	lanes   int        // that are served; with several, lane 0 is one more
	spare   bool       // lane 1 is there beside a single one, see rests
	lost    uint64     // packets that lane 0's connection had lost when its stream was opened
	late    bool       // it was added under way: the map knew of no losses
	short   bool       // and is not to rest, because losses leave the other one too small a congestion window
	outs    []*outLane // with an open stream
	grow    growth
	trip    time.Duration // smoothed round trip, mean of the lanes at the last look
	quiet   bool          // nothing is to be sent for now, see route.tighten
	turn    time.Time     // when it was its turn last
	idled   bool          // a lane had nothing to write, or was held by its window, since the last look
	// A broken stream's chunks are marked lost. needAsk says that the peer is to be
	// asked which of them have arrived; asker is the lane on which it was.
	needAsk bool
	asker   *outLane

	// Where the straight way is broken or has fallen, see detour.go.
	main    *peer     // the plan's, if this one is beside it, see aside.go
	budget  int64     // bytes that may still go this way instead of main's
	vias    []string  // all lanes go by way of one of these, whatever the straight way; nil: of the plan
	away    bool      // the straight way is broken
	doubted int64     // bytes sent before the run was sure, see sure.go
	doubts  bool      // an entry for it waits until then
	deaf    bool      // news go the other way than data
	by      string    // by which host it went last
	failing time.Time // since then nothing could be opened

	// Incoming.
	recvs          []*recv
	in             map[int]Stream // newest stream of each lane
	incomingTokens int            // that it will send

	stats PeerStats
}

// sends data or tokens to us?
func (p *peer) speaks() bool { return len(p.recvs) > 0 || p.incomingTokens > 0 }

// size returns the bytes of entry i.
func (b *block) size(i, chunk int) int {
	return int(min(int64(chunk), b.Size-int64(i)*int64(chunk)))
}

// execute runs the part to its end.
func (x *run) execute(caller context.Context) error {
	stop := context.AfterFunc(x.ctx, x.wake)
	defer stop()
	x.mu.Lock()
	if x.doubt.unsure {
		x.writers.Go(x.settleDoubt)
	}
	for _, p := range x.peers {
		if p.open == 0 {
			p.cancel()
			continue
		}
		x.staff(p, x.lanesTo(p))
	}
	if x.tended() {
		x.lookAfter()
	}
	x.mu.Unlock()

	var err error
	landed := x.landed
	if x.data.Landed == nil {
		landed = nil
	}
	select {
	case <-landed:
		select {
		case <-x.done:
		default:
			x.data.Landed(x.statistics())
		}
	case <-x.done:
	case <-x.ctx.Done():
	}
	select {
	case <-x.done:
	case <-x.ctx.Done():
		select {
		case <-x.done: // both: it is complete
		default:
			err = x.failure(caller)
		}
	}
	var o outcome
	if err != nil {
		o.failure = x.reason()
	}
	// In this order, so that a stream that is no longer served finds the outcome.
	x.eng.retire(x, o)
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	x.cancel(nil)
	x.writers.Wait()
	close(x.stopped)
	x.tender.Wait()
	x.readers.Wait()
	x.mu.Lock()
	x.eachPeer(func(p *peer) { // all has ended: nobody adds a peer
		p.pacer.leave()
		x.eng.windows.leave(p.win)
	})
	x.unlock()
	return err
}

// wake lets everything that waits see that the run has ended.
func (x *run) wake() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.claims.Broadcast()
	x.eachPeer(func(p *peer) { p.cond.Broadcast() })
}

// failure returns why x.ctx has ended.
func (x *run) failure(caller context.Context) error {
	cause := context.Cause(x.ctx)
	if caller.Err() == nil || cause != context.Cause(caller) {
		return fmt.Errorf("exchange %v: %w", x.part.ID, cause)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return fmt.Errorf("exchange %v: %s: %w", x.part.ID, x.outstanding(), cause)
}

// reason returns what peers are told of the end of x.ctx.
func (x *run) reason() string {
	return reason(x.eng.cfg.Self, context.Cause(x.ctx))
}

// outstanding says what x waits for. It needs x.mu.
func (x *run) outstanding() string {
	for _, r := range x.recvs {
		if r.left > 0 {
			return fmt.Sprintf("%d steps open, first transfer %d from %s", x.left, r.ID, r.from.name)
		}
	}
	for _, s := range x.sends {
		switch {
		case s.confirmed:
		case s.waits > 0:
			return fmt.Sprintf("%d steps open, first transfer %d to %s, which waits for %d others", x.left, s.ID, s.to.name, s.waits)
		default:
			return fmt.Sprintf("%d steps open, first transfer %d to %s", x.left, s.ID, s.to.name)
		}
	}
	return fmt.Sprintf("%d steps open", x.left)
}

// blame wraps err with the first transfer with p that is not complete. It needs x.mu.
func (x *run) blame(p *peer, remote bool, err error) *TransferError {
	self := x.part.Hosts[x.part.Self]
	for _, r := range p.recvs {
		if r.left > 0 {
			return &TransferError{Transfer: r.ID, Src: p.name, Dst: self, Remote: remote, Err: err}
		}
	}
	for _, s := range p.sends {
		if !s.confirmed {
			return &TransferError{Transfer: s.ID, Src: self, Dst: p.name, Remote: remote, Err: err}
		}
	}
	return &TransferError{Transfer: -1, Src: p.name, Dst: self, Remote: remote, Err: err}
}

// peerFailed ends the run because p said so.
func (x *run) peerFailed(p *peer, reason string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancel(x.blame(p, true, &PeerError{Peer: p.name, Reason: reason}))
}

// misbehaved ends the run because p broke the protocol.
func (x *run) misbehaved(p *peer, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancel(x.blame(p, false, &ProtocolError{Peer: p.name, Reason: err.Error()}))
}

// settle counts one step as complete. It needs x.mu.
func (x *run) settle() {
	if x.left--; x.left == 0 {
		close(x.done)
	}
}

// land counts one receive as complete, or one send as written. With the last one this host has its result, and the others what they wait for
// is on its way: what it still has to hear is that it arrived, which takes a way back. It needs x.mu.
func (x *run) land() {
	x.toLand--
	x.landIfSure()
}

// hasLanded reports whether this host has its result and has handed on what it had for others.
func (x *run) hasLanded() bool {
	select {
	case <-x.landed:
		return true
	default:
		return false
	}
}

// landIfSure needs x.mu.
func (x *run) landIfSure() {
	if x.toLand == 0 && !x.doubt.unsure {
		close(x.landed)
	}
}

// reached lets go what waits for m here. It needs x.mu.
func (x *run) reached(m milestone) {
	for _, s := range x.waiting[m] {
		if s.waits--; s.waits == 0 {
			s.to.cond.Broadcast()
		}
	}
	delete(x.waiting, m)
}

// tell makes the tokens of m to hosts ready. It needs x.mu.
func (x *run) tell(m milestone, hosts []int) {
	for _, h := range hosts {
		to := x.peer(h)
		for _, t := range to.tokens {
			if t.milestone == m {
				t.ready = true
			}
		}
		to.cond.Broadcast()
	}
}
