package group

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// What goes straight comes from each host itself, and of an alltoall only what is for the host; what is smaller comes from the leader.
func TestStraight(t *testing.T) {
	for _, c := range []struct {
		collective plan.Collective
		size       int   // that a rank gives
		leads, led int64 // what the leader and another host get from each other host, and from the leader
	}{
		{plan.Allgather, 20, 20, 80},    // by the tree: all of it comes from the leader
		{plan.Allgather, 21, 21, 21},    // straight
		{plan.Alltoall, 4 * 4, 16, 64},  // by the tree, to everybody
		{plan.Alltoall, 4 * 20, 20, 20}, // straight, only what is for the host
	} {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c", "d")
			defer stop()
			f.tree = func([]string) Tree {
				return Tree{Leaders: []int{0, 0, 0, 0}, Limit: 4 * 20, Straight: 4000, Rate: 1000, Bound: time.Millisecond}
			}
			errs := f.each("job", []string{"a", "b", "c", "d"}, func(r *Rank, rank int) error {
				in := bytes.Repeat([]byte{byte(rank)}, c.size)
				res, err := r.Do(context.Background(), Call{Collective: c.collective, In: Bytes(in)})
				if err != nil {
					return err
				}
				defer res.Release()
				got, from := make(map[string]int64), "a"
				for _, p := range res.Report.Peers {
					got[p.Host] = p.Received
				}
				if rank == 0 {
					from = "b"
				}
				want := c.led
				if rank == 0 {
					want = c.leads
				}
				if got[from] != want || res.Report.Algorithm != "eager" {
					return fmt.Errorf("%s of %d: %d bytes from %s by %s, want %d", c.collective, c.size, got[from], from, res.Report.Algorithm, want)
				}
				needed := res.Report.Received
				if c.collective == plan.Alltoall { // and not what is for others
					needed = int64(3 * c.size / 4)
				}
				if bound := max(time.Millisecond, time.Duration(needed)*time.Millisecond); res.Report.Bound != bound {
					return fmt.Errorf("bound %v of %d bytes at 1000 a second, want %v", res.Report.Bound, needed, bound)
				}
				return nil
			})
			for i, err := range errs {
				if err != nil {
					t.Errorf("rank %d: %v", i, err)
				}
			}
		})
	}
}

// Streams to hosts that nothing goes straight to are not opened, and those that are open end with the group.
func TestStraightStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		defer stop()
		f.tree = func([]string) Tree { return Tree{Leaders: []int{0, 0, 0}, Limit: 30, Straight: 300} }
		errs := f.each("job", []string{"a", "b", "c"}, func(r *Rank, rank int) error {
			peers := func() int { r.m.mu.Lock(); defer r.m.mu.Unlock(); return len(r.m.peers) }
			want := []int{2, 1, 1}[rank] // by the tree
			if _, err := r.Allgather(context.Background(), Bytes(make([]byte, 10)), Wish{}); err != nil || peers() != want {
				return fmt.Errorf("%d peers, want %d: %v", peers(), want, err)
			}
			if _, err := r.Allgather(context.Background(), Bytes(make([]byte, 50)), Wish{}); err != nil || peers() != 2 {
				return fmt.Errorf("%d peers, want 2: %v", peers(), err)
			}
			return nil
		})
		for i, err := range errs {
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	})
}

// Ranks that give blocks of two sizes to an alltoall of equal ones are told so, also where one goes straight and the other by the tree.
func TestStraightDisagreement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		defer stop()
		f.tree = func([]string) Tree { return Tree{Leaders: []int{0, 0, 0}, Limit: 60, Straight: 300} }
		errs := f.each("job", []string{"a", "b", "c"}, func(r *Rank, rank int) error {
			_, err := r.Do(context.Background(), Call{Collective: plan.Alltoall, In: Bytes(make([]byte, []int{3, 90, 90}[rank]))})
			return err
		})
		for i, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "disagree") || err.Error() != errs[0].Error() {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	})
}

// TestPassedShare: which contributions go by way of others.
func TestPassedShare(t *testing.T) {
	tree := func(straight, rounds int64, rate float64) *Tree {
		return &Tree{Limit: 2 << 10, Straight: straight, Rounds: rounds, Rate: rate}
	}
	for _, tt := range []struct {
		name string
		n    int
		tree *Tree
		c    plan.Collective
		want int64
	}{
		{"by the tree", 8, tree(0, 0, 1e8), plan.Allgather, 256},
		{"in rounds", 8, tree(0, 32<<10, 1e8), plan.Allgather, 4 << 10},
		{"an alltoall that cannot go straight", 8, tree(0, 32<<10, 1e8), plan.Alltoall, 4 << 10},
		// 7 messages or 3: what 4 take is 1,000 bytes and, at 50 MB/s, 24,000 more.
		{"an alltoall", 8, tree(8<<10, 32<<10, 5e7), plan.Alltoall, 25_000 / 8},
		{"an alltoall over slow ports", 8, tree(8<<10, 32<<10, 1e5), plan.Alltoall, 256},
		{"an alltoall of many over slow ports", 24, tree(24<<10, 32<<10, 625e3), plan.Alltoall, (18*250 + 1350) / 24},
		{"no more than goes in rounds", 8, tree(8<<10, 16<<10, 1e9), plan.Alltoall, 2 << 10},
		{"where nothing is known of ports", 8, tree(8<<10, 32<<10, 0), plan.Alltoall, 256},
	} {
		m := &member{hosts: make([]string, tt.n), roster: make([]string, tt.n), rounds: roundsOf(tt.n), tree: tt.tree}
		if got := m.passedShare(tt.c); got != tt.want {
			t.Errorf("%s: %d bytes, want %d", tt.name, got, tt.want)
		}
	}
}

// TestAcross: an alltoall may be larger than an allgather to go straight.
func TestAcross(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c", "d")
		defer stop()
		f.tree = func([]string) Tree {
			return Tree{Leaders: []int{0, 0, 0, 0}, Limit: 4 * 20, Straight: 400, Across: 4000}
		}
		errs := f.each("job", []string{"a", "b", "c", "d"}, func(r *Rank, rank int) error {
			for _, c := range []struct {
				collective plan.Collective
				size       int
				eager      bool
			}{
				{plan.Allgather, 100, true}, {plan.Allgather, 101, false},
				{plan.Alltoall, 4 * 101, true}, {plan.Alltoall, 4 * 900, true}, {plan.Alltoall, 4 * 1001, false},
			} {
				in := bytes.Repeat([]byte{byte(rank)}, c.size)
				res, err := r.Do(context.Background(), Call{Collective: c.collective, In: Bytes(in)})
				if err != nil {
					return err
				}
				if got := res.Report.Algorithm == "eager"; got != c.eager {
					return fmt.Errorf("%s of %d by %s", c.collective, c.size, res.Report.Algorithm)
				}
				res.Release()
			}
			return nil
		})
		for i, err := range errs {
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	})
}

// TestFar: between sites alltoalls go straight that are more than headers, and what hosts get is only what is for them.
func TestFar(t *testing.T) {
	hosts := []string{"a", "b", "c", "d", "e"}
	tree := Tree{Leaders: []int{0, 0, 2, 2, 2}, Limit: 8000, Across: 5 * 400}
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, hosts...)
		defer stop()
		f.tree = func([]string) Tree { return tree }
		const n = 5
		errs := f.each("job", hosts, func(r *Rank, rank int) error {
			for _, c := range []struct {
				block    int
				eager    bool
				straight bool // else by the leaders, and all blocks come to all
			}{{messageBytes/2 - 5, true, false}, {messageBytes/2 + 1, true, true}, {390, true, true}, {401, false, true}} {
				var in, want []byte
				for d := range n {
					in = append(in, bytes.Repeat([]byte{byte(10*rank + d)}, c.block)...)
					want = append(want, bytes.Repeat([]byte{byte(10*d + rank)}, c.block)...)
				}
				res, err := r.Do(context.Background(), Call{Collective: plan.Alltoall, In: Bytes(in)})
				if err != nil {
					return err
				}
				if got := res.Report.Algorithm == "eager"; got != c.eager {
					return fmt.Errorf("%d bytes a pair by %s", c.block, res.Report.Algorithm)
				}
				if !bytes.Equal(res.Data, want) {
					return fmt.Errorf("%d bytes a pair: the result is wrong", c.block)
				}
				if got := res.Report.Received; c.eager && (got == int64((n-1)*c.block)) != c.straight {
					return fmt.Errorf("%d bytes a pair: %d bytes came", c.block, got)
				}
				res.Release()
			}
			return nil
		})
		for i, err := range errs {
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	})
	// What may go by the leaders does where no more could go straight.
	less := tree
	less.Across = less.Limit / 5
	for want, tree := range map[int64]Tree{5 * messageBytes / 2: tree, 1600: less} {
		m := &member{tree: &tree, hosts: hosts, roster: hosts}
		if got := m.passedShare(plan.Alltoall); got != want {
			t.Errorf("with %d bytes that can go straight %d go by the leaders, want %d", tree.Across, got, want)
		}
	}
}

// TestAcrossLost: alltoalls that go straight, up to sixteen of a rank under way, while streams between hosts lose what they take and then end: it comes again from
// what is kept, which is no more than can be missing.
func TestAcrossLost(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			rng := rand.New(rand.NewPCG(seed, 19))
			f.tree = func([]string) Tree { return Tree{Leaders: []int{0, 0, 0}, Limit: 30, Straight: 90, Across: 3000} }
			f.dead = 50 * time.Millisecond
			const ops = 200
			cuts := make(chan struct{})
			go func() {
				defer close(cuts)
				for range 4 {
					time.Sleep(time.Duration(10+rng.IntN(40)) * time.Millisecond)
					for _, way := range [][2]string{{"b", "c"}, {"c", "b"}} {
						if rng.IntN(2) == 0 {
							f.sever(way[0], way[1])
						}
					}
				}
			}()
			errs := f.each("job", []string{"a", "b", "c"}, func(r *Rank, rank int) error {
				return manyUnderWay(r, rand.New(rand.NewPCG(seed, uint64(rank))), ops, func(i int) Call {
					var in []byte
					for d := range 3 {
						in = append(in, bytes.Repeat([]byte{byte(i), byte(rank), byte(d)}, 50)...)
					}
					return Call{Collective: plan.Alltoall, In: Bytes(in)}
				}, func(i int, got []byte) error {
					for s := range 3 {
						if want := bytes.Repeat([]byte{byte(i), byte(s), byte(rank)}, 50); !bytes.Equal(got[s*150:(s+1)*150], want) {
							return fmt.Errorf("operation %d: %v from rank %d", i, got[s*150:s*150+3], s)
						}
					}
					return nil
				})
			})
			<-cuts
			for i, err := range errs {
				if err != nil {
					t.Errorf("seed %d: rank %d: %v", seed, i, err)
				}
			}
		})
	}
}
