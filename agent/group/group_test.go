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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	ponders  time.Duration                                // how long the planner takes
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
	aside   bool           // it counts as one by way of a third host
	code    *atomic.Uint32 // with which the other end aborted it; 0: as if the connection ended
}

func (h *half) Read(b []byte) (int, error) {
	n, err := h.r.Read(b)
	switch {
	case err == nil || !h.aborted.Load():
	case h.code.Load() != 0:
		err = &quic.StreamError{ErrorCode: quic.StreamErrorCode(h.code.Load()), Remote: true}
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
			Restamp: f.restamp,
			Refuse: func(ID, uint64) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.refused++
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
	return parts, Planned{Algorithm: "test", Cost: time.Millisecond, Given: r.Plan != nil}, nil
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

func (b *memBuffer) Bytes() []byte { return b.b }
func (b *memBuffer) Path() string  { return "" }
func (b *memBuffer) Release()      { b.f.mu.Lock(); b.f.live--; b.f.mu.Unlock() }

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

func TestAllgatherReturnsBlocksInRankOrder(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c", "d")
			rng := rand.New(rand.NewPCG(seed, 99))
			ranks := make([]string, 1+rng.IntN(9))
			for i := range ranks {
				ranks[i] = string(rune('a' + rng.IntN(4)))
			}
			errs := f.each("job", ranks, func(r *Rank, rank int) error {
				for round := range uint64(3) {
					var want []byte
					for i := range ranks {
						want = append(want, block(seed+round, i)...)
					}
					res, err := r.Allgather(context.Background(), Bytes(block(seed+round, rank)), Wish{})
					if err != nil {
						return err
					}
					if !bytes.Equal(res.Data, want) {
						return fmt.Errorf("round %d: wrong bytes", round)
					}
					res.Release()
				}
				return nil
			})
			for i, err := range errs {
				if err != nil {
					t.Errorf("seed %d: rank %d of %v: %v", seed, i, ranks, err)
				}
			}
			time.Sleep(time.Second)
			stop()
			if f.live != 0 {
				t.Errorf("seed %d: %d result buffers were not released", seed, f.live)
			}
			for _, g := range f.hosts {
				if len(g.members)+len(g.coords)+len(g.claimed)+len(g.dir.jobs) != 0 {
					t.Errorf("seed %d: %s keeps state of a group that is over", seed, g.cfg.Self)
				}
			}
		})
	}
}

func TestSameJobAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		for range 5 {
			for i, err := range f.each("job", []string{"a", "b", "a"}, func(r *Rank, _ int) error {
				res, err := r.Allgather(context.Background(), Bytes("x"), Wish{})
				if err == nil {
					res.Release()
				}
				return err
			}) {
				if err != nil {
					t.Fatalf("rank %d: %v", i, err)
				}
			}
		}
	})
}

// A tape keeps what is sent on it.
type tape struct{ bytes.Buffer }

func (*tape) Close() error                    { return nil }
func (*tape) SetReadDeadline(time.Time) error { return nil }
func (*tape) CancelRead(quic.StreamErrorCode) {}
func (*tape) Abort()                          {}

// A member of the cluster that is not of the group attaches, and sends its word in the same
// write, so that it lies in the coordinator's buffer when the conn is refused.
func TestStrangerHasNoSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		defer stop()
		for i, err := range f.each("job", []string{"a", "b"}, func(r *Rank, rank int) error {
			if rank == 0 {
				var said tape
				c := newStreamConn(&said)
				c.Send(message{Kind: kindAttach, Group: r.m.id})
				c.Send(message{Kind: kindBroken, Cause: "says the stranger"})
				s, err := f.dial("c", "a")
				if err != nil {
					return err
				}
				if _, err := s.Write(said.Bytes()); err != nil {
					return err
				}
				time.Sleep(time.Second)
			}
			res, err := r.Allgather(context.Background(), Bytes("x"), Wish{})
			if err == nil {
				res.Release()
			}
			return err
		}) {
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	})
}

// A conn that waits for a coordinator which never comes must not outlive Run.
func TestEarlyConnEndsWithRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		s, err := f.dial("b", "a")
		if err != nil {
			t.Fatal(err)
		}
		c := newStreamConn(s)
		if err := c.Send(message{Kind: kindAttach, Group: ID{1}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begun := time.Now()
		stop()
		if _, err := c.Recv(); err == nil || time.Since(begun) > 0 {
			t.Errorf("the conn ended after %v with %v, want at once", time.Since(begun), err)
		}
	})
}

// failures runs one operation of six ranks on three hosts, with harm done one second
// into an exchange of a minute, and returns what the ranks got.
func failures(t *testing.T, harm func(f *fabric, ranks []*Rank)) []error {
	f, stop := newFabric(t, "a", "b", "c")
	defer stop()
	f.hold = time.Minute
	var mu sync.Mutex
	ranks := make([]*Rank, 6)
	go func() {
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		harm(f, ranks)
	}()
	start := time.Now()
	errs := f.each("job", []string{"a", "b", "c", "a", "b", "c"}, func(r *Rank, rank int) error {
		mu.Lock()
		ranks[rank] = r
		mu.Unlock()
		res, err := r.Allgather(context.Background(), Bytes{byte(rank)}, Wish{})
		if err == nil {
			res.Release()
		}
		return err
	})
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("the ranks ended after %v", d)
	}
	if f.live != 0 {
		t.Errorf("%d result buffers were not released", f.live)
	}
	return errs
}

func wantFailure(t *testing.T, err error, want Failure) {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) || f.Kind != want.Kind || f.Rank != want.Rank || f.Host != want.Host || !strings.Contains(f.Cause, want.Cause) {
		t.Errorf("got error %v, want %+v", err, want)
	}
}

func TestLostClientIsNamedAtEveryRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range failures(t, func(_ *fabric, r []*Rank) { go r[4].Leave("its client ended") }) {
			wantFailure(t, err, Failure{Kind: RankLost, Rank: 4, Host: "b", Cause: "its client ended"})
		}
	})
}

func TestLostHostIsNamedAtEveryOtherRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, err := range failures(t, func(f *fabric, _ []*Rank) { f.kill("c") }) {
			if i%3 != 2 {
				wantFailure(t, err, Failure{Kind: RankLost, Rank: 2, Host: "c", Cause: "cannot be reached"})
			} else if err == nil {
				t.Errorf("rank %d on the lost host got a result", i)
			}
		}
	})
}

func TestSilentHostIsNamedAtEveryOtherRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, err := range failures(t, func(f *fabric, _ []*Rank) {
			f.mu.Lock()
			f.mute["b"] = true
			f.mu.Unlock()
		}) {
			if i%3 != 1 {
				wantFailure(t, err, Failure{Kind: RankLost, Rank: 1, Host: "b", Cause: "nothing was heard"})
			} else {
				wantFailure(t, err, Failure{Kind: RankLost, Rank: 0, Host: "a", Cause: "nothing was heard"})
			}
		}
	})
}

func TestLostCoordinatorIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, err := range failures(t, func(f *fabric, _ []*Rank) { f.kill("a") }) {
			if i%3 != 0 {
				wantFailure(t, err, Failure{Kind: RankLost, Rank: 0, Host: "a", Cause: "cannot be reached"})
			} else if err == nil {
				t.Errorf("rank %d on the lost host got a result", i)
			}
		}
	})
}

func TestRanksThatDisagree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		errs := f.each("job", []string{"a", "b"}, func(r *Rank, rank int) error {
			_, err := r.Allgather(context.Background(), Bytes(nil), Wish{Algorithm: []string{"min3", "ring"}[rank]})
			return err
		})
		for _, err := range errs {
			var fail *Failure
			if !errors.As(err, &fail) || fail.Kind != Mismatch || !strings.Contains(fail.Cause, "ring") || !strings.Contains(fail.Cause, "min3") {
				t.Errorf("different algorithms: %v", err)
			}
		}
		var wg sync.WaitGroup
		for i, host := range []string{"a", "b"} {
			wg.Go(func() {
				_, err := f.hosts[host].Join(context.Background(), "sizes", i, 2+i, JoinOptions{})
				var fail *Failure
				if !errors.As(err, &fail) || fail.Kind != Mismatch {
					t.Errorf("different numbers of ranks: %v", err)
				}
			})
		}
		wg.Wait()
		for _, err := range f.each("job", []string{"a", "b"}, func(r *Rank, _ int) error {
			_, err := r.Allgather(context.Background(), Bytes(nil), Wish{Algorithm: "broken"})
			return err
		}) {
			if err == nil || !strings.Contains(err.Error(), "no such algorithm") {
				t.Errorf("planning that fails: %v", err)
			}
		}
	})
}

func TestRankThatGivesUpWhileForming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := f.hosts["b"].Join(ctx, "job", 1, 2, JoinOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("join without the others: %v", err)
		}
		// The place is free again, here and, once the withdrawal has arrived, at the directory.
		time.Sleep(time.Second)
		for i, err := range f.each("job", []string{"a", "a"}, func(*Rank, int) error { return nil }) {
			if err != nil {
				t.Errorf("rank %d after another host gave its place up: %v", i, err)
			}
		}
	})
}

func FuzzMessage(f *testing.F) {
	var buf bytes.Buffer
	c := newStreamConn(&sink{&buf})
	c.Send(message{Kind: kindStart, Seq: 3, Sizes: []int64{1, 2}, Part: []byte("part"), Rows: []byte("rows")})
	f.Add(buf.Bytes())
	f.Add([]byte{2, '{', '}', 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, in []byte) {
		c := newStreamConn(&sink{bytes.NewBuffer(in)})
		m, err := c.Recv()
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := newStreamConn(&sink{&out}).Send(m); err != nil {
			t.Fatal(err)
		}
		again, err := newStreamConn(&sink{&out}).Recv()
		if err != nil || again.Kind != m.Kind || again.Seq != m.Seq || !bytes.Equal(again.Part, m.Part) || !bytes.Equal(again.Rows, m.Rows) {
			t.Fatalf("round trip of %+v: %+v, %v", m, again, err)
		}
	})
}

// sink is a Stream over a buffer.
type sink struct{ *bytes.Buffer }

func (*sink) Close() error                    { return nil }
func (*sink) CancelRead(quic.StreamErrorCode) {}
func (*sink) SetReadDeadline(time.Time) error { return nil }
func (*sink) Abort()                          {}

// TestLastWordIsHeard: a host goes on until each of its ranks has said that it leaves. Ranks that left at the same instant used to be
// counted before they had said so: the host ended, and the other ranks heard that the last one was lost.
func TestLastWordIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "c")
		f.each("job", []string{"a", "c", "c"}, func(r *Rank, rank int) error {
			switch rank {
			case 1: // leaves, and has not come to say so yet
				r.m.mu.Lock()
				r.gone = true
				r.m.mu.Unlock()
				time.Sleep(2 * time.Second)
				if err := context.Cause(r.m.ctx); err != nil {
					t.Errorf("the host has ended the group: %v", err)
				}
				r.m.mu.Lock()
				r.gone = false
				r.m.mu.Unlock()
			case 2:
				time.Sleep(time.Second)
			default:
				time.Sleep(3 * time.Second)
				if err := context.Cause(r.m.ctx); err != nil {
					t.Errorf("rank 0 heard %v", err)
				}
			}
			r.Leave("")
			return nil
		})
		stop()
	})
}
