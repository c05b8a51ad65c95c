package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// headerTimeout is what a peer has to say which exchange its stream belongs to.
	headerTimeout = 10 * time.Second
	// farewellTimeout bounds how long an ended part's streams wait for the peer to
	// read the last frame and to stop sending.
	farewellTimeout = 5 * time.Second
	// keptOutcomes is how many ended exchanges are remembered, so that a peer whose
	// stream broke after the end can still be told how it ended. 1024 are 100 KiB or so.
	keptOutcomes = 1024
	// keptFor is how long more than that are remembered, up to mostOutcomes: a peer may take a minute to notice
	// that its stream has broken, and hosts of many groups end a hundred exchanges in a second. One
	// that is not told comes back for ever.
	keptFor      = 5 * time.Minute
	mostOutcomes = 16 * keptOutcomes
)

// A Config is what an [Engine] needs.
type Config struct {
	// Self is the name of this host, as in a plan's Hosts.
	Self string
	// Open opens a data stream to host on the given lane, connecting first if need be.
	// It is called concurrently, and again after a stream has broken.
	Open func(ctx context.Context, host string, lane int) (Stream, error)
	// Lanes says over how many lanes to send to host, at most 63. Nil means what [Path.Lanes]
	// says, and more under way where losses hold them.
	Lanes func(host string) int
	// Path tells what is known of the way to host, see [Path]. Nil means nothing.
	Path func(host string) Path
	// Observe takes what the lanes of this host carry, about once a second for each while
	// an exchange runs, and at its end. Each exchange has a goroutine of its own that calls
	// it, and it must not block. Nil means that nothing is measured.
	Observe func(Sample)
	// Lost takes what the paths have lost of what this host sent, for each lane about once a second and at the end, as Observe does. It
	// is told nothing without Observe. Nil means that nobody wants to know.
	Lost func(Toll)
	// Site names what the way to host shares with others that have the same name: for
	// [Sample.SiteLanes], and for how many pairs of hosts share a path whose Flows are not
	// known. It must not block. Nil means that each host stands alone.
	Site func(host string) string
	// Connected tells when the last connection with host was made that goes straight, zero if there is none: it shows that the way is whole,
	// in both directions, whatever was found of a connection before it. It must not block. Nil means that it is not known.
	Connected func(host string) time.Time
	// Vias lists hosts of no part that may pass data on to others which this one cannot reach any
	// more, best first. It must not block. Nil means that only hosts of the exchange do.
	Vias func() []string
	// MaxTransit bounds the memory, in bytes, for blocks that are only forwarded, over
	// all parts that run. Zero means 1 GiB. A part that needs more is refused.
	MaxTransit int64
	// MaxWaiting bounds the streams that wait for their exchange to start here. Zero
	// means 256. Further streams are turned away; their senders come back.
	MaxWaiting int
	// WaitStart is how long such a stream waits. Zero means 30 s.
	WaitStart time.Duration
	// Log receives broken streams and refused peers. Nil discards.
	Log *slog.Logger
}

// An Engine runs parts. Its methods may be called concurrently. It has no goroutines
// of its own: they belong to Run and to the callers of Accept.
type Engine struct {
	cfg    Config
	adapts bool // paths are known: see relief.go

	mu       sync.Mutex // guards the fields below; never held over I/O
	runs     map[ID]*run
	expected map[ID]*expectation
	waiting  int               // streams, over all expectations
	crowded  time.Time         // when runs were beside each other last
	pipes    int               // streams that are carried for others
	broken   map[string]breach // hosts that could not be reached, and when that was found
	transit  int64             // bytes reserved by runs
	outcomes map[ID]outcome
	order    []ending // of outcomes, oldest first
	relief   Relief

	made     time.Time // clocks in answers count from then on
	flows    flows
	pacers   pacers
	windows  windows
	spacings spacings
	blinds   blinds
	doubts   doubts
}

// An expectation is an exchange that has streams here but has not started.
type expectation struct {
	started chan struct{} // closed when it starts
	streams int
}

// An outcome is how a part ended here: well if failure is empty.
type outcome struct{ failure string }

// An ending is when the part of an exchange ended here.
type ending struct {
	id ID
	at time.Time
}

// New returns an engine.
func New(cfg Config) (*Engine, error) {
	if cfg.Self == "" || cfg.Open == nil {
		return nil, errors.New("exchange: Self and Open are required")
	}
	if cfg.MaxTransit < 0 || cfg.MaxWaiting < 0 || cfg.WaitStart < 0 {
		return nil, fmt.Errorf("exchange: negative limit: transit %d, waiting %d, start %v", cfg.MaxTransit, cfg.MaxWaiting, cfg.WaitStart)
	}
	adapts := cfg.Path != nil
	if cfg.Path == nil {
		cfg.Path = func(string) Path { return Path{} }
	}
	if cfg.Site == nil {
		cfg.Site = func(host string) string { return host }
	}
	if cfg.MaxTransit == 0 {
		cfg.MaxTransit = 1 << 30
	}
	if cfg.MaxWaiting == 0 {
		cfg.MaxWaiting = 256
	}
	if cfg.WaitStart == 0 {
		cfg.WaitStart = 30 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{
		cfg:      cfg,
		adapts:   adapts,
		made:     time.Now(),
		runs:     make(map[ID]*run),
		expected: make(map[ID]*expectation),
		outcomes: make(map[ID]outcome),
	}, nil
}

// Run executes this host's part of an exchange. It returns nil when every block has
// arrived and is verified, and every host that this one sends to has confirmed. Each
// exchange is run once.
//
// When ctx ends, Run ends promptly with an error that wraps the cause and says what
// was outstanding; peers are told. Other errors: an invalid part or layout,
// [ErrRunning], [ErrTransit], and [*TransferError] around a [*ChecksumError], a
// [*ProtocolError] or a [*PeerError]. When it returns, its goroutines and streams have
// ended and nothing touches the buffers of data any more; after an error, the
// contents of the result are undefined.
func (e *Engine) Run(ctx context.Context, part *Part, data Data) (Stats, error) {
	x, err := newRun(ctx, e, part, data)
	if err != nil {
		return Stats{}, err
	}
	defer x.cancel(nil)
	e.hold(x)
	if err := e.begin(x); err != nil {
		return Stats{}, fmt.Errorf("exchange %v: %w", part.ID, err)
	}
	err = x.execute(ctx)
	st := x.statistics()
	e.mu.Lock()
	e.relief.add(st.Relief)
	e.mu.Unlock()
	return st, err
}

// begin registers x and lets the streams that wait for it go on.
func (e *Engine) begin(x *run) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	id := x.part.ID
	_, ended := e.outcomes[id]
	if ended || e.runs[id] != nil {
		return ErrRunning
	}
	need := x.part.Transit()
	if need > e.cfg.MaxTransit-e.transit {
		return fmt.Errorf("%w: %d bytes to forward, %d of %d are free", ErrTransit, need, e.cfg.MaxTransit-e.transit, e.cfg.MaxTransit)
	}
	e.transit += need
	e.runs[id] = x
	if x.alone = e.othersLanded(x); !x.alone {
		e.crowded = x.start
	}
	x.crowded = !e.crowded.IsZero() && x.start.Sub(e.crowded) < crowdedFor
	if w := e.expected[id]; w != nil {
		close(w.started)
		delete(e.expected, id)
	}
	return nil
}

// othersLanded reports whether all runs but x have handed on what they had for others: they may still have to hear that it arrived, as the last operation of a group has when the next one begins. It needs e.mu.
func (e *Engine) othersLanded(x *run) bool {
	for _, o := range e.runs {
		if o != x && !o.hasLanded() {
			return false
		}
	}
	return true
}

// others counts the runs beside x that may have something to send, by the sites to which they send.
func (e *Engine) others(x *run) map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	var n map[string]int
	for _, o := range e.runs {
		if o == x || o.hasLanded() {
			continue
		}
		if n == nil {
			n = make(map[string]int)
		}
		for site := range o.sites.to {
			n[site]++
		}
	}
	return n
}

// retire remembers how x ended. Later streams of its exchange are told so.
func (e *Engine) retire(x *run, o outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id := x.part.ID
	delete(e.runs, id)
	e.transit -= x.part.Transit()
	e.remember(id, o)
}

// remember keeps how an exchange ended, and forgets those that are too old or too many. It needs e.mu.
func (e *Engine) remember(id ID, o outcome) {
	now := time.Now()
	e.outcomes[id] = o
	e.order = append(e.order, ending{id, now})
	for n := len(e.order); n > mostOutcomes || n > keptOutcomes && now.Sub(e.order[0].at) > keptFor; n-- {
		delete(e.outcomes, e.order[0].id)
		e.order = e.order[1:]
	}
}

// Accept serves a data stream that the host called from has opened, until it ends.
// from must be proven, by the lane's certificate. ctx bounds the wait for the exchange
// to start here; during that wait the stream is not read.
func (e *Engine) Accept(ctx context.Context, from string, s Stream) {
	s.SetReadDeadline(time.Now().Add(headerTimeout))
	r := newFrameReader(s)
	h, err := r.header()
	if err != nil {
		if errors.Is(err, errMalformed) {
			e.cfg.Log.Warn("data stream refused", "peer", from, "error", err)
		}
		s.Abort()
		return
	}
	if h.lane == fromLane && h.host != e.cfg.Self {
		if h, from, err = unwrap(h, r, s); err != nil {
			e.cfg.Log.Debug("data stream refused", "peer", from, "error", err)
			s.Abort()
			return
		}
	}
	s.SetReadDeadline(time.Time{})
	if h.lane > newsLane {
		e.carry(ctx, from, h, r, s)
		return
	}
	for {
		x, o, err := e.await(ctx, h.id)
		if err != nil {
			// Not a refusal: the sender comes back until its own context ends.
			e.cfg.Log.Debug("data stream turned away", "peer", from, "exchange", h.id, "error", err)
			s.Abort()
			return
		}
		if x != nil {
			var attached, over bool
			if o, attached, over = x.serve(from, h.lane, r, s); !attached {
				continue // it has ended in the meantime
			}
			if over {
				return
			}
		}
		if o != nil {
			o.tell(r, s)
		} else {
			s.Abort()
		}
		return
	}
}

// await returns the run of exchange id, or how it ended, waiting for it to start.
func (e *Engine) await(ctx context.Context, id ID) (*run, *outcome, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x, o := e.lookup(id); x != nil || o != nil {
		return x, o, nil
	}
	if e.waiting >= e.cfg.MaxWaiting {
		return nil, nil, fmt.Errorf("%d streams wait for an exchange to start", e.waiting)
	}
	w := e.expected[id]
	if w == nil {
		w = &expectation{started: make(chan struct{})}
		e.expected[id] = w
	}
	e.waiting++
	w.streams++
	e.mu.Unlock()
	timer := time.NewTimer(e.cfg.WaitStart)
	defer timer.Stop()
	var err error
	select {
	case <-w.started:
	case <-timer.C:
		err = fmt.Errorf("exchange has not started within %v", e.cfg.WaitStart)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	e.mu.Lock()
	e.waiting--
	if w.streams--; w.streams == 0 && e.expected[id] == w {
		delete(e.expected, id)
	}
	if x, o := e.lookup(id); x != nil || o != nil {
		return x, o, nil
	}
	if err == nil {
		err = errors.New("exchange is forgotten")
	}
	return nil, nil, err
}

// lookup needs e.mu.
func (e *Engine) lookup(id ID) (*run, *outcome) {
	if x := e.runs[id]; x != nil {
		return x, nil
	}
	if o, ok := e.outcomes[id]; ok {
		return nil, &o
	}
	return nil, nil
}

// tell writes the outcome to the opener of s and waits until it hangs up: ending the
// stream before that could overtake the frame.
func (o outcome) tell(r frameReader, s Stream) {
	f := frame{kind: frameComplete}
	if o.failure != "" {
		f = frame{kind: frameFail, reason: o.failure}
	}
	deadline := time.Now().Add(farewellTimeout)
	s.SetWriteDeadline(deadline)
	s.SetReadDeadline(deadline)
	if _, err := s.Write(f.appendTo(nil)); err != nil {
		s.Abort()
		return
	}
	s.Close()
	io.Copy(io.Discard, r.br)
	s.CloseRead()
}
