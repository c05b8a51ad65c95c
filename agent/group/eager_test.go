package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A step is one operation that all ranks of a test call, and what each contributes to it.
type step struct {
	collective plan.Collective
	root       int
	blocks     [][][]byte // alltoall: by source and destination; else by source, one each
	inOne      bool       // alltoall: no sizes are given
}

// randomStep makes a step of n ranks, most of them small.
func randomStep(rng *rand.Rand, n int) step {
	s := step{collective: []plan.Collective{plan.Allgather, plan.Alltoall, Broadcast, Barrier}[rng.IntN(4)], root: rng.IntN(n)}
	block := func() []byte {
		size := []int{0, 1, 8, rng.IntN(60)}[rng.IntN(4)]
		if rng.IntN(60) == 0 {
			size = 5000 // over the limit: that rank's call is not eager
		}
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	s.inOne = rng.IntN(2) == 0
	even := block()
	for r := range n {
		var row [][]byte
		switch s.collective {
		case plan.Allgather:
			row = [][]byte{block()}
		case plan.Alltoall:
			for range n {
				if s.inOne {
					row = append(row, slices.Concat([]byte(nil), even))
					continue
				}
				row = append(row, block())
			}
		case Broadcast:
			row = [][]byte{nil}
			if r == s.root {
				row[0] = block()
			}
		}
		s.blocks = append(s.blocks, row)
	}
	return s
}

// call is what rank asks for.
func (s *step) call(rank int) Call {
	c := Call{Collective: s.collective, In: Bytes(slices.Concat(s.blocks[rank]...))}
	switch s.collective {
	case plan.Alltoall:
		if !s.inOne {
			for _, b := range s.blocks[rank] {
				c.Sizes = append(c.Sizes, int64(len(b)))
			}
		}
	case Broadcast:
		c.Root = s.root
	}
	return c
}

// check compares what rank got.
func (s *step) check(rank int, res *Result) error {
	var want []byte
	var sizes []int64
	for _, row := range s.blocks {
		if s.collective == Barrier {
			break
		}
		b := row[0]
		if s.collective == plan.Alltoall {
			b = row[rank]
		}
		want, sizes = append(want, b...), append(sizes, int64(len(b)))
	}
	if !bytes.Equal(res.Data, want) || !slices.Equal(res.Sizes, sizes) {
		return fmt.Errorf("%s: %d bytes in %v, want %d in %v", s.collective, len(res.Data), res.Sizes, len(want), sizes)
	}
	return nil
}

// randomTree leads hosts at random.
func randomTree(rng *rand.Rand, limit int64) func(hosts []string) Tree {
	return func(hosts []string) Tree {
		t := Tree{Leaders: make([]int, len(hosts)), Limit: limit}
		site := make(map[int]int)
		for h := range hosts {
			s := rng.IntN(3)
			if _, ok := site[s]; !ok {
				site[s] = h
			}
			t.Leaders[h] = site[s]
		}
		if rng.IntN(2) == 0 {
			t.Via = randomVia(rng, len(t.sites()))
		}
		return t
	}
}

// randomVia is a random tree from each of n leaders.
func randomVia(rng *rand.Rand, n int) [][]int {
	via := make([][]int, n)
	for s := range via {
		via[s] = make([]int, n)
		reached := []int{s}
		for _, d := range rng.Perm(n) {
			if via[s][d] = s; d != s {
				via[s][d] = reached[rng.IntN(len(reached))]
				reached = append(reached, d)
			}
		}
	}
	return via
}

// A flaky stream loses what is written from the write good on, and breaks lost writes later.
type flaky struct {
	Stream
	peer, hole bool
	good, lost int
}

// Close of a stream with a hole in it arrives nowhere: what is behind the hole does not.
func (s *flaky) Close() error {
	if s.hole {
		s.Abort()
		return nil
	}
	return s.Stream.Close()
}

func (s *flaky) Write(b []byte) (int, error) {
	s.peer = s.peer || bytes.Contains(b, []byte(`"k":"peer"`))
	switch {
	case !s.peer || s.good > 0:
		s.good--
		return s.Stream.Write(b)
	case s.lost > 0:
		s.lost--
		s.hole = true
		return len(b), nil
	}
	s.Abort()
	return 0, errors.New("the path is gone")
}

// TestSteps runs random programs of all collectives, with several operations of a rank under way
// at once, on random trees: with and without streams between members that lose what they
// carry and break, and in rounds. Every byte is checked, and that nothing is left.
func TestSteps(t *testing.T) {
	for seed := range uint64(48) {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c", "d", "e", "f", "g")
			rng := rand.New(rand.NewPCG(seed, 97))
			breaks := seed%3 == 2
			if breaks {
				for _, g := range f.hosts {
					open := g.cfg.Open
					good, lost := rng.IntN(20), rng.IntN(6)
					g.cfg.Open = func(ctx context.Context, host string) (Stream, error) {
						s, err := open(ctx, host)
						return &flaky{Stream: s, good: good, lost: lost}, err
					}
				}
			}
			ranks, hosts := make([]string, 1+rng.IntN(9)), 4
			if seed >= 24 {
				hosts = 7
			}
			for i := range ranks {
				ranks[i] = string(rune('a' + rng.IntN(hosts)))
			}
			f.tree = randomTree(rng, 2000)
			if seed >= 36 { // hosts that lead themselves, and pass on to each other
				f.tree = func(hosts []string) Tree {
					t := Tree{Leaders: make([]int, len(hosts)), Limit: 2000, Via: randomVia(rng, len(hosts))}
					for h := range t.Leaders {
						t.Leaders[h] = h
					}
					return t
				}
			} else if seed >= 24 {
				f.tree = func(hosts []string) Tree {
					return Tree{Leaders: make([]int, len(hosts)), Limit: int64(20 * len(ranks)), Rounds: 2000, Straight: int64(seed % 2 * 4000)}
				}
			} else if seed%2 == 1 { // up to 20 bytes of a rank by the tree, the rest straight
				f.tree = func(hosts []string) Tree {
					return Tree{Leaders: make([]int, len(hosts)), Limit: int64(20 * len(ranks)), Straight: 4000}
				}
			}
			steps := make([]step, 40)
			for i := range steps {
				steps[i] = randomStep(rng, len(ranks))
			}
			eager := make([]int, len(ranks))
			errs := f.each("job", ranks, func(r *Rank, rank int) error {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				rng := rand.New(rand.NewPCG(seed, uint64(rank)))
				for first := 0; first < len(steps); {
					wave := steps[first:min(len(steps), first+1+rng.IntN(MaxUnderWay))]
					var under []*Operation
					for i := range wave {
						o, err := r.Start(wave[i].call(rank))
						if err != nil {
							return fmt.Errorf("step %d: %w", first+i, err)
						}
						under = append(under, o)
						time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
					}
					for _, i := range rng.Perm(len(under)) {
						res, err := under[i].Wait(ctx)
						if err == nil {
							err = wave[i].check(rank, res)
							res.Release()
						}
						if err != nil {
							return fmt.Errorf("step %d, %s: %w", first+i, wave[i].collective, err)
						}
						if res.Report.Algorithm == "eager" {
							eager[rank]++
						}
						under[i].Drop()
						under[i].Drop()
					}
					first += len(wave)
				}
				return nil
			})
			for i, err := range errs {
				if err != nil {
					t.Errorf("seed %d: rank %d of %v: %v", seed, i, ranks, err)
				}
				if eager[i] != eager[0] || eager[i] < len(steps)/4 {
					t.Errorf("seed %d: %v operations of the ranks were eager", seed, eager)
				}
			}
			time.Sleep(2 * attachTimeout)
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

// TestLastBundle: what a host's last stream took and lost, when its ranks have left at once with their results, comes
// to others by way of the coordinator: they do not wait for their time-out.
func TestLastBundle(t *testing.T) {
	for _, leaders := range [][]int{{0, 1, 2}, {0, 0, 0}, {1, 1, 1}, {0, 1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			f.tree = func([]string) Tree { return Tree{Leaders: leaders, Limit: 1000} }
			for _, g := range f.hosts {
				open := g.cfg.Open
				g.cfg.Open = func(ctx context.Context, host string) (Stream, error) {
					s, err := open(ctx, host)
					if g.cfg.Self == "a" || host != "c" {
						return s, err
					}
					return &flaky{Stream: s, good: 1, lost: 100}, err // it takes everything, and nothing arrives
				}
			}
			errs := f.each("job", []string{"a", "b", "c"}, func(r *Rank, rank int) error {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				res, err := r.Do(ctx, Call{Collective: plan.Allgather, In: Bytes{byte(rank)}})
				if err != nil {
					return err
				}
				if !bytes.Equal(res.Data, []byte{0, 1, 2}) {
					err = fmt.Errorf("got %v", res.Data)
				}
				res.Release()
				r.Leave("")
				return err
			})
			for i, err := range errs {
				if err != nil {
					t.Errorf("leaders %v: rank %d: %v", leaders, i, err)
				}
			}
			time.Sleep(2 * attachTimeout)
			stop()
			for _, g := range f.hosts {
				if len(g.members)+len(g.coords)+len(g.claimed) != 0 {
					t.Errorf("leaders %v: %s keeps state of a group that is over", leaders, g.cfg.Self)
				}
			}
		})
	}
}

// TestPlannedOperations: without a tree, and where it is too much for one, a broadcast is planned as
// an allgather of one host's bytes, and a barrier is not planned at all.
func TestPlannedOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		defer stop()
		ranks := []string{"a", "b", "b", "c", "a"}
		rng := rand.New(rand.NewPCG(1, 1))
		data := make([]byte, 100_000)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		for i, err := range f.each("job", ranks, func(r *Rank, rank int) error {
			for root := range ranks {
				for _, n := range []int{len(data), 0, 1} {
					c := Call{Collective: Broadcast, Root: root}
					if rank == root {
						c.In = Bytes(data[:n])
					}
					res, err := r.Do(context.Background(), c)
					if err != nil {
						return err
					}
					if !bytes.Equal(res.Data, data[:n]) || res.Sizes[root] != int64(n) || res.Report.Algorithm != "test" {
						return fmt.Errorf("root %d, %d bytes: got %d, sizes %v, by %s", root, n, len(res.Data), res.Sizes, res.Report.Algorithm)
					}
					res.Release()
				}
			}
			res, err := r.Do(context.Background(), Call{Collective: Barrier})
			if err == nil && (res.Data != nil || res.buf != nil || res.Report.Algorithm != "barrier" || res.Report.Ranks != len(ranks)) {
				err = fmt.Errorf("barrier: %+v", res)
			}
			if err == nil {
				res.Release()
			}
			return err
		}) {
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
		if len(f.asked) != 3*len(ranks) {
			t.Errorf("%d plans for %d broadcasts", len(f.asked), 3*len(ranks))
		}
		for i, req := range f.asked {
			want := []int64{0, 0, 0}
			want[map[string]int{"a": 0, "b": 1, "c": 2}[ranks[i/3]]] = []int64{int64(len(data)), 0, 1}[i%3]
			if req.Collective != plan.Allgather || !slices.Equal(req.Sizes, want) {
				t.Errorf("plan %d: %s of %v, want an allgather of %v", i, req.Collective, req.Sizes, want)
			}
		}
	})
}

// TestBarrierHoldsUntilAllHaveCome, with a tree and without.
func TestBarrierHoldsUntilAllHaveCome(t *testing.T) {
	for _, tree := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			if tree {
				f.tree = randomTree(rand.New(rand.NewPCG(1, 2)), 1000)
			}
			for i, err := range f.each("job", []string{"a", "b", "c", "b"}, func(r *Rank, rank int) error {
				for round := range 5 {
					begun := time.Now()
					time.Sleep(time.Duration((rank+round)%4) * time.Second)
					if _, err := r.Do(context.Background(), Call{Collective: Barrier}); err != nil {
						return err
					}
					if took := time.Since(begun); took < 3*time.Second || took > 3*time.Second+time.Millisecond {
						return fmt.Errorf("round %d: after %v, and the last came after 3 s", round, took)
					}
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("tree %v: rank %d: %v", tree, i, err)
				}
			}
		})
	}
}

// TestFailuresWithATree: what ends a group does so in the same words at every rank where
// operations are small, too.
func TestFailuresWithATree(t *testing.T) {
	ranks := []string{"a", "b", "c", "b"}
	calls := func(odd Call, others Call) func(rank int) Call {
		return func(rank int) Call {
			if rank == 2 {
				return odd
			}
			return others
		}
	}
	for name, tc := range map[string]struct {
		call func(rank int) Call
		kind FailureKind
		says string
	}{
		"collectives": {calls(Call{Collective: Barrier}, Call{Collective: plan.Allgather}), Mismatch, "a barrier"},
		"roots":       {calls(Call{Collective: Broadcast, Root: 1}, Call{Collective: Broadcast}), Mismatch, "from rank 1"},
		"algorithms":  {calls(Call{Collective: plan.Allgather, Wish: Wish{Algorithm: "ring"}}, Call{Collective: plan.Allgather}), Mismatch, `"ring"`},
		"equal blocks": {calls(Call{Collective: plan.Alltoall, In: Bytes("12345678")}, Call{Collective: plan.Alltoall, In: Bytes("1234")}),
			Mismatch, "neither says how large its blocks are"},
		"no root":     {calls(Call{Collective: Broadcast, Root: 4}, Call{Collective: Broadcast}), RankFailed, "from rank 4 of 4"},
		"two givers":  {calls(Call{Collective: Broadcast, In: Bytes("x")}, Call{Collective: Broadcast}), RankFailed, "only the root"},
		"a full wait": {calls(Call{Collective: Barrier, In: Bytes("x")}, Call{Collective: Barrier}), RankFailed, "moves none"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			f.tree = randomTree(rand.New(rand.NewPCG(2, 2)), 1000)
			errs := f.each("job", ranks, func(r *Rank, rank int) error {
				if _, err := r.Do(context.Background(), Call{Collective: Barrier}); err != nil {
					return fmt.Errorf("a barrier before: %w", err)
				}
				time.Sleep(time.Millisecond) // it is over everywhere
				_, err := r.Do(context.Background(), tc.call(rank))
				return err
			})
			for i, err := range errs {
				var got *Failure
				if !errors.As(err, &got) || got.Kind != tc.kind || !strings.Contains(got.Error(), tc.says) || err.Error() != errs[0].Error() {
					t.Errorf("%s: rank %d: %v, want %s with %q, as rank 0 has it: %v", name, i, err, tc.kind, tc.says, errs[0])
				}
			}
		})
	}
}

// TestTooManyUnderWay: a rank that is ahead of the others is told to wait.
func TestTooManyUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		f.tree = randomTree(rand.New(rand.NewPCG(3, 2)), 1000)
		for i, err := range f.each("job", []string{"a", "b"}, func(r *Rank, rank int) error {
			var under []*Operation
			if rank == 1 {
				time.Sleep(time.Second)
			}
			for range MaxUnderWay {
				o, err := r.Start(Call{Collective: plan.Allgather, In: Bytes("x")})
				if err != nil {
					return err
				}
				under = append(under, o)
			}
			if rank == 0 {
				if _, err := r.Start(Call{Collective: Barrier}); err == nil || !strings.Contains(err.Error(), "16 operations") {
					return fmt.Errorf("one more: %v", err)
				}
				if _, err := r.Do(context.Background(), Call{Collective: Barrier}); err == nil || !strings.Contains(err.Error(), "running already") {
					return fmt.Errorf("alone: %v", err)
				}
			}
			for _, o := range under {
				res, err := o.Wait(context.Background())
				if err != nil {
					return err
				}
				res.Release()
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	})
}

// TestLiesAboutItems: what no honest member sends ends the group, and nothing else.
func TestLiesAboutItems(t *testing.T) {
	one := func(rank int, data string) []byte { return appendItem(nil, &item{rank: rank, data: []byte(data)}) }
	for name, msg := range map[string]message{
		"of another host":          {Kind: kindItems, Collective: plan.Allgather, Part: one(0, "x")},
		"far ahead":                {Kind: kindItems, Collective: plan.Allgather, Seq: 1 << 40, Part: one(2, "x")},
		"too much":                 {Kind: kindItems, Collective: plan.Allgather, Part: one(2, strings.Repeat("x", 1000/3+1))},
		"not the root":             {Kind: kindItems, Collective: Broadcast, Root: 1, Part: one(2, "x")},
		"malformed":                {Kind: kindItems, Collective: plan.Allgather, Part: []byte{9}},
		"another kind":             {Kind: kindReady},
		"straight of another host": {Kind: kindItems, Collective: plan.Allgather, Part: appendItem(nil, &item{rank: 1, straight: true})},
		"straight, and never":      {Kind: kindItems, Collective: Broadcast, Root: 2, Part: appendItem(nil, &item{rank: 2, straight: true})},
		"sizes that are none":      {Kind: kindItems, Collective: plan.Alltoall, Part: appendItem(nil, &item{rank: 2, straight: true, rows: []byte{7}, data: []byte("x")})},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			f.tree = func(hosts []string) Tree { return Tree{Leaders: []int{0, 0, 0}, Limit: 1000} }
			errs := f.each("job", []string{"a", "b", "c"}, func(r *Rank, rank int) error {
				if rank == 2 {
					if err := f.lie(r.m.id, "c", "a", msg); err != nil {
						return err
					}
				}
				time.Sleep(time.Second)
				_, err := r.Do(context.Background(), Call{Collective: Barrier})
				return err
			})
			for i, err := range errs {
				var got *Failure
				if !errors.As(err, &got) || got.Kind != Internal || got.Host != "a" {
					t.Errorf("%s: rank %d: %v", name, i, err)
				}
			}
		})
	}
}

// lie has one host say msg to another as a member would.
func (f *fabric) lie(id ID, from, to string, msg message) error {
	s, err := f.dial(from, to)
	if err != nil {
		return err
	}
	return newStreamConn(s).Send(message{Kind: kindPeer, Group: id}, msg)
}

// TestRelay: what a member cannot send itself waits for a host that has not attached.
func TestRelay(t *testing.T) {
	c := &coordinator{
		g: New(Config{}), hosts: []string{"a", "b", "c"}, boxes: map[string]*outbox{"a": newOutbox(nil, outboxRoom, nil)}, gone: map[string]bool{"c": true},
	}
	for _, to := range []string{"b", "a", "c", "b"} {
		c.relay("x", message{Kind: kindRelay, Host: to, Seq: 7})
	}
	if len(c.parked) != 2 || len(c.boxes["a"].queue) != 1 {
		t.Fatalf("%d wait, %d were sent", len(c.parked), len(c.boxes["a"].queue))
	}
	c.boxes["b"] = newOutbox(nil, outboxRoom, nil)
	c.unpark("b")
	if len(c.parked) != 0 || len(c.boxes["b"].queue) != 2 {
		t.Errorf("%d wait, %d were sent", len(c.parked), len(c.boxes["b"].queue))
	}
	if m := <-c.boxes["b"].queue; m.Kind != kindItems || m.Host != "x" || m.Seq != 7 {
		t.Errorf("sent %+v", m)
	}
	c.relay("x", message{Kind: kindRelay, Host: "y"})
	if c.failed == nil || c.failed.Kind != Internal || c.failed.Host != "x" {
		t.Errorf("for a stranger: %v", c.failed)
	}
}

func TestTreeCheck(t *testing.T) {
	for _, bad := range []Tree{
		{}, {Leaders: []int{0}}, {Leaders: []int{0, 2, 2, 3}}, {Leaders: []int{1, 1, -1}}, {Leaders: []int{1, 2, 2}},
		{Leaders: []int{0, 0, 0}, Limit: -1}, {Leaders: []int{0, 0, 0}, Limit: maxEager + 1}, {Leaders: []int{0, 0, 0}, Bound: -1},
		{Leaders: []int{0, 0, 0}, Straight: -1}, {Leaders: []int{0, 0, 0}, Straight: maxEager + 1}, {Leaders: []int{0, 0, 2}, Straight: 1},
		{Leaders: []int{0, 0, 0}, Rounds: -1}, {Leaders: []int{0, 0, 0}, Rounds: MaxRounds + 1}, {Leaders: []int{0, 0, 2}, Rounds: 1},
		{Leaders: []int{0, 0, 0}, Rate: math.NaN()}, {Leaders: []int{0, 0, 0}, Rate: -1},
	} {
		if bad.check(3) == nil {
			t.Errorf("%+v passes", bad)
		}
	}
	if good := (&Tree{Leaders: []int{0, 2, 2}, Limit: maxEager}); good.check(3) != nil {
		t.Errorf("%+v does not pass", good)
	}
}

func FuzzItems(f *testing.F) {
	f.Add(appendItem(appendItem(nil, &item{rank: 1, data: []byte("data")}), &item{rank: 2, even: true, rows: []byte{1, 1}}), uint8(3))
	f.Add(appendItem(nil, &item{rank: 1, even: true, straight: true, rows: []byte{1, 1}, data: []byte("data")}), uint8(3))
	f.Add(appendRuns(nil, []item{{rank: 0, data: []byte("data")}, {rank: 1, data: []byte("more")}, {rank: 3}, {rank: 4}}), uint8(5))
	f.Add([]byte{1, runFlag, 2, 3, 'x', 'y', 'z', 'a', 'b', 'c'}, uint8(3))
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, n uint8) {
		items, err := readItems(in, int(n))
		if err != nil {
			return
		}
		var out []byte
		for i := range items {
			if items[i].rank < 0 || items[i].rank >= int(n) {
				t.Fatalf("rank %d of %d", items[i].rank, n)
			}
			out = appendItem(out, &items[i])
		}
		again, err := readItems(out, int(n))
		if err != nil || len(again) != len(items) || payload(again) != payload(items) {
			t.Fatalf("round trip of %v: %v, %v", items, again, err)
		}
	})
}
