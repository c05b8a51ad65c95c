package group

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A fabric connects the Groups of several hosts in memory and runs exchanges by
// copying between their buffers.
type fabric struct {
	t     *testing.T
	mu    sync.Mutex
	hosts map[string]*Groups
	cut   map[string]bool
	mute  map[string]bool
	open  map[string][]*half
	runs  map[string]*meeting       // by part
	hold  time.Duration             // how long an exchange takes
	live  int                       // buffers allocated and not released
	asked []Request                 // of plans
	stops map[string]func()         // ends the Run of a host
	tree  func(hosts []string) Tree // nil: none

	age      byte                                         // of the map: plans of another age differ
	stands   byte                                         // the age whose plans the planner would make again
	begun    map[string]int                               // hosts that have begun each part
	fail     func(x Exchange) error                       // of a run; nil: none does
	refused  int                                          // attempts that hosts turned away
	knows    func(host string, seq uint64) bool           // what was begun at a host before; nil: nothing
	ponders  time.Duration                                // how long the planner takes
	predicts time.Duration                                // how long it says that an operation takes; 0: it does not say
	late     time.Duration                                // by how much each message is, about
	ancient  string                                       // a host that can begin nothing before the coordinator's word
	foreseen int                                          // exchanges that ended well and had begun before the coordinator's word
	hears    func() uint64                                // what counts packets from any host; nil: nothing does
	dead     time.Duration                                // after how long a severed connection is found dead; 0: 6 s
	rest     func(ctx context.Context, host string) error // what is left of a run when its data are there; nil: nothing is
	opened   func(a, b *half) Stream                      // what who opens a stream gets, whose end is a; nil: a
}

// A meeting gathers the buffers of one exchange until all hosts are there.
type meeting struct {
	bufs  map[string]Exchange
	ready chan struct{}
}

// half is one end of an in-memory stream.
type half struct {
	r, w    net.Conn // ends of two pipes, each of which is used one way
	to      string
	aborted *atomic.Bool // either end has
	abort   func()
	mute    func() bool    // what is written now goes nowhere
	severed atomic.Bool    // that is so for ever, of this stream
	cut     atomic.Bool    // its connection, which was no QUIC's, has ended, and nobody knows why
	aside   bool           // it counts as one by way of a third host
	code    *atomic.Uint32 // with which the other end aborted it; 0: as if the connection ended
}

func (h *half) Read(b []byte) (int, error) {
	n, err := h.r.Read(b)
	switch {
	case err == nil || !h.aborted.Load():
	case h.code.Load() != 0:
		err = &quic.StreamError{ErrorCode: quic.StreamErrorCode(h.code.Load()), Remote: true}
	case h.cut.Load():
		err = fmt.Errorf("%w: %w", ErrMoved, io.ErrUnexpectedEOF)
	case h.severed.Load():
		err = deadConn{io.ErrUnexpectedEOF}
	default:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (h *half) Write(b []byte) (int, error) {
	if h.mute() && !h.aborted.Load() {
		return len(b), nil
	}
	return h.w.Write(b)
}

func (h *half) Aside() bool { return h.aside }

func (h *half) SetReadDeadline(t time.Time) error { return h.r.SetReadDeadline(t) }

// The other end of a mute stream does not hear of its end either.

func (h *half) Close() error {
	if h.mute() {
		return nil
	}
	return h.w.Close()
}

func (h *half) CancelRead(quic.StreamErrorCode) { h.r.Close() }

func (h *half) Abort() {
	if h.mute() {
		h.r.Close()
		h.w.SetWriteDeadline(time.Now())
		return
	}
	h.abort()
}

func newFabric(t *testing.T, names ...string) (*fabric, func()) {
	f := &fabric{t: t, hosts: map[string]*Groups{}, cut: map[string]bool{}, mute: map[string]bool{}, open: map[string][]*half{}, runs: map[string]*meeting{}, begun: map[string]int{}, stops: map[string]func(){}}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, name := range names {
		f.hosts[name] = New(Config{
			Self: name,
			Open: func(_ context.Context, host string) (Stream, error) { return f.dial(name, host) },
			Again: func(_ context.Context, host string, _ time.Time, wanted func() bool) (Stream, error) {
				s, err := f.connect(name, host, true)
				if err == nil && !wanted() {
					s.Abort()
					return nil, errors.New("not wanted")
				}
				return s, err
			},
			Heard: func(string) uint64 {
				if f.hears == nil {
					return 0
				}
				return f.hears()
			},
			Members: func() []string { return names },
			Plan:    f.plan,
			Run:     func(ctx context.Context, x Exchange) (Transferred, error) { return f.run(ctx, name, x) },
			Alloc:   func(_ ID, _ uint64, n int64) (Buffer, error) { return f.alloc(n) },
			Tree: func(hosts []string) Tree {
				if f.tree == nil {
					return Tree{}
				}
				return f.tree(hosts)
			},
			Latency: func(string) time.Duration { return f.late },
			Restamp: f.restamp,
			Refuse: func(ID, uint64) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.refused++
			},
			Known: func(_ ID, seq uint64) bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.knows != nil && f.knows(name, seq)
			},
			Stands: func(Request) bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.age == f.stands
			},
		})
	}
	for name, g := range f.hosts {
		ctx, stop := context.WithCancel(ctx)
		f.stops[name] = stop
		wg.Go(func() { g.Run(ctx) })
	}
	return f, func() { cancel(); wg.Wait() }
}

// A slowWay brings what is read later than it was sent.
type slowWay struct {
	Stream
	by time.Duration
}

func (s *slowWay) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b)
	if err == nil {
		time.Sleep(s.by)
	}
	return n, err
}

func (f *fabric) dial(from, to string) (Stream, error) { return f.connect(from, to, false) }

func (f *fabric) connect(from, to string, aside bool) (Stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut[from] || f.cut[to] {
		return nil, errors.New("no route")
	}
	ar, bw := net.Pipe()
	br, aw := net.Pipe()
	aborted, code := new(atomic.Bool), new(atomic.Uint32)
	abort := func() {
		aborted.Store(true)
		for _, p := range []net.Conn{ar, aw, br, bw} {
			p.Close()
		}
	}
	a, b := &half{r: ar, w: aw, to: to, aborted: aborted, abort: abort, aside: aside, code: code}, &half{r: br, w: bw, to: from, aborted: aborted, abort: abort, aside: aside, code: code}
	for _, h := range []*half{a, b} {
		h.mute = func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.mute[from] || f.mute[to] || h.severed.Load()
		}
	}
	f.open[from] = append(f.open[from], a)
	f.open[to] = append(f.open[to], b)
	if f.late > 0 {
		go f.hosts[to].Serve(from, &slowWay{b, f.late})
		return &slowWay{a, f.late}, nil
	}
	go f.hosts[to].Serve(from, b)
	if f.opened != nil {
		return f.opened(a, b), nil
	}
	return a, nil
}

// stopHost ends a host's Run, as an agent's end does.
func (f *fabric) stopHost(host string) { f.stops[host]() }

// kill breaks every stream of a host and refuses new ones. It is mute first: a host without
// power does not tell over the last of its streams that the others are gone.
func (f *fabric) kill(host string) {
	f.mu.Lock()
	f.cut[host], f.mute[host] = true, true
	streams := f.open[host]
	f.mu.Unlock()
	for _, s := range streams {
		s.abort()
	}
}

func (f *fabric) plan(ctx context.Context, r Request) ([][]byte, Planned, error) {
	f.mu.Lock()
	f.asked = append(f.asked, r)
	age, ponders := f.age, f.ponders
	f.mu.Unlock()
	if ponders > 0 {
		select {
		case <-time.After(ponders):
		case <-ctx.Done():
			return nil, Planned{}, ctx.Err()
		}
	}
	if r.Algorithm == "broken" || string(r.Plan) == "broken" {
		return nil, Planned{}, errors.New("no such algorithm")
	}
	parts := make([][]byte, len(r.Hosts))
	for i := range parts {
		parts[i] = append(stamp(r.Group, r.Seq), age)
		parts[i] = append(parts[i], r.Collective...)
	}
	return parts, Planned{Algorithm: "test", Cost: time.Millisecond, Given: r.Plan != nil, Predicted: f.predicts}, nil
}

// stamp is what the parts of an operation begin with.
func stamp(id ID, seq uint64) []byte { return binary.BigEndian.AppendUint64(bytes.Clone(id[:]), seq) }

func (f *fabric) restamp(part []byte, id ID, seq uint64) ([]byte, error) {
	head := stamp(id, seq)
	return append(head, part[len(head):]...), nil
}

// cut returns the pieces of bufs, which count as one behind the other, in order.
func cut(t *testing.T, bufs [][]byte, segs []Segment) (pieces [][]byte) {
	for _, s := range segs {
		for _, b := range bufs {
			if s.Offset < int64(len(b)) {
				if s.Offset+s.Len > int64(len(b)) {
					t.Errorf("segment %+v reaches beyond a buffer of %d bytes", s, len(b))
					break
				}
				pieces = append(pieces, b[s.Offset:s.Offset+s.Len])
				break
			}
			s.Offset -= int64(len(b))
		}
	}
	return pieces
}

// carry moves a block from its origin to dst as the engine would: a stream of bytes.
func (f *fabric) carry(b plan.Block, src, dst Exchange) {
	from := src.Results
	if src.Send != nil {
		from = [][]byte{src.Send}
	}
	block := bytes.Join(cut(f.t, from, src.Layout(b)), nil)
	for _, p := range cut(f.t, dst.Results, dst.Layout(b)) {
		block = block[copy(p, block):]
	}
	if len(block) > 0 {
		f.t.Errorf("block %v: %d bytes have no place", b, len(block))
	}
}

func (f *fabric) run(ctx context.Context, name string, x Exchange) (Transferred, error) {
	f.mu.Lock()
	if f.fail != nil {
		if err := f.fail(x); err != nil {
			f.begun[string(x.Part)]++
			f.mu.Unlock()
			return Transferred{}, err
		}
	}
	m := f.runs[string(x.Part)]
	if m == nil {
		m = &meeting{bufs: map[string]Exchange{}, ready: make(chan struct{})}
		f.runs[string(x.Part)] = m
	}
	m.bufs[name] = x
	f.begun[string(x.Part)]++
	if len(m.bufs) == len(x.Hosts) {
		for d, to := range x.Hosts {
			for o, h := range x.Hosts {
				b := plan.Block{Origin: o, Dest: plan.All}
				if bytes.HasSuffix(x.Part, []byte(plan.Alltoall)) {
					b.Dest = d
				}
				if o != d {
					f.carry(b, m.bufs[h], m.bufs[to])
				}
			}
		}
		close(m.ready)
		if x.Sure != nil {
			f.foreseen++
		}
	}
	f.mu.Unlock()
	select {
	case <-m.ready:
	case <-ctx.Done():
		f.mu.Lock()
		delete(m.bufs, name)
		f.mu.Unlock()
		return Transferred{}, context.Cause(ctx)
	}
	if f.rest != nil {
		x.Landed(Transferred{})
		return Transferred{}, f.rest(ctx, name)
	}
	if f.hold == 0 { // no timer: hosts that all ask for one that is due at once upset the race detector (golang/go#78156)
		return Transferred{}, nil
	}
	select {
	case <-time.After(f.hold):
		return Transferred{}, nil
	case <-ctx.Done():
		return Transferred{}, context.Cause(ctx)
	}
}

type memBuffer struct {
	f *fabric
	b []byte
}

func (b *memBuffer) Bytes() []byte         { return b.b }
func (b *memBuffer) Path() (string, error) { return "", nil }
func (b *memBuffer) Release()              { b.f.mu.Lock(); b.f.live--; b.f.mu.Unlock() }

func (f *fabric) alloc(n int64) (Buffer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live++
	return &memBuffer{f, make([]byte, n)}, nil
}

// each runs do for every rank at once; ranks[i] is the host of rank i.
func (f *fabric) each(job string, ranks []string, do func(r *Rank, rank int) error) []error {
	errs := make([]error, len(ranks))
	var wg sync.WaitGroup
	for i, host := range ranks {
		wg.Go(func() {
			r, err := f.hosts[host].Join(context.Background(), job, i, len(ranks), JoinOptions{})
			if err != nil {
				errs[i] = err
				return
			}
			errs[i] = do(r, i)
			r.Leave("client ended")
		})
	}
	wg.Wait()
	return errs
}

func block(seed uint64, rank int) []byte {
	rng := rand.New(rand.NewPCG(seed, uint64(rank)))
	b := make([]byte, rng.IntN(200))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// manyUnderWay has r go through so many operations, up to [MaxUnderWay] of them under way, and check what each got.
func manyUnderWay(r *Rank, rng *rand.Rand, ops int, call func(i int) Call, check func(i int, got []byte) error) error {
	var under []*Operation
	done := 0
	finish := func() error {
		res, err := under[0].Wait(context.Background())
		if err != nil {
			return fmt.Errorf("operation %d: %w", done, err)
		}
		err = check(done, res.Data)
		res.Release()
		under[0].Drop()
		under, done = under[1:], done+1
		return err
	}
	for i := range ops {
		o, err := r.Start(call(i))
		if err != nil {
			return err
		}
		under = append(under, o)
		for most := 1 + rng.IntN(MaxUnderWay); len(under) >= most; {
			if err := finish(); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
	}
	for len(under) > 0 {
		if err := finish(); err != nil {
			return err
		}
	}
	return nil
}
