package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestRounds: in groups of any size each host gets each contribution once, from as many hosts as there are rounds, and tells as many. No host carries more than
// another.
func TestRounds(t *testing.T) {
	for n := 2; n <= 17; n++ {
		synctest.Test(t, func(t *testing.T) {
			hosts := make([]string, n)
			for i := range hosts {
				hosts[i] = fmt.Sprintf("h%02d", i)
			}
			f, stop := newFabric(t, hosts...)
			defer stop()
			order := rand.New(rand.NewPCG(uint64(n), 5)).Perm(n)
			f.tree = func([]string) Tree {
				return Tree{Leaders: make([]int, n), Limit: 10, Rounds: int64(n * 50), Order: order}
			}
			const size = 30
			var want []byte
			for rank := range n {
				want = append(want, fill(1, rank, size)...)
			}
			for rank, err := range f.each("job", hosts, func(r *Rank, rank int) error {
				if _, err := r.Do(context.Background(), Call{Collective: Barrier}); err != nil {
					return err
				}
				res, err := r.Allgather(context.Background(), Bytes(fill(1, rank, size)), Wish{})
				if err != nil {
					return err
				}
				defer res.Release()
				if !bytes.Equal(res.Data, want) || res.Report.Algorithm != "eager" {
					return fmt.Errorf("wrong bytes, or by %s", res.Report.Algorithm)
				}
				var from, to []string
				at := slices.Index(order, rank)
				for k := (n + 1) / 2; ; k = (k + 1) / 2 {
					from, to = append(from, hosts[order[(at-k+n)%n]]), append(to, hosts[order[(at+k)%n]])
					if k == 1 {
						break
					}
				}
				for _, p := range res.Report.Peers {
					if p.Received > 0 != slices.Contains(from, p.Host) || p.Sent > 0 != slices.Contains(to, p.Host) {
						return fmt.Errorf("%s got %d bytes from %s and sent it %d", hosts[rank], p.Received, p.Host, p.Sent)
					}
				}
				if moved := int64((n - 1) * size); res.Report.Sent != moved || res.Report.Received != moved {
					return fmt.Errorf("sent %d bytes and got %d, want %d", res.Report.Sent, res.Report.Received, moved)
				}
				if open := len(r.m.peers); open != bits.Len(uint(n-1)) {
					return fmt.Errorf("%d streams", open)
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("%d hosts, rank %d: %v", n, rank, err)
				}
			}
		})
	}
}

// nearestFirst returns the rounds of the papers.
func nearestFirst(n int) []round {
	var distances []int
	for d := 1; d < n; d *= 2 {
		distances = append(distances, d)
	}
	return roundsOver(n, distances)
}

// TestWhoTellsWhom: by rounds of either order and any number of hosts each host gets the contribution of each other once, from a host that has it by then.
func TestWhoTellsWhom(t *testing.T) {
	for n := 1; n <= 300; n++ {
		for order, rounds := range map[string][]round{"farthest first": roundsOf(n), "nearest first": nearestFirst(n)} {
			held := map[int]bool{0: true} // of the hosts so far behind each, by symmetry
			if len(rounds) != bits.Len(uint(n-1)) {
				t.Fatalf("%d hosts: %d rounds", n, len(rounds))
			}
			for k, r := range rounds {
				var got []int
				for _, b := range r.behind {
					if !held[b] {
						t.Fatalf("%d hosts, %s, round %d: a host tells of the one %d behind it, which it knows nothing of", n, order, k, b)
					}
					got = append(got, (b+r.distance)%n)
				}
				for _, b := range got {
					if held[b] {
						t.Fatalf("%d hosts, %s, round %d: a host is told twice of the one %d behind it", n, order, k, b)
					}
					held[b] = true
				}
			}
			if len(held) != n {
				t.Fatalf("%d hosts, %s: each has %d contributions", n, order, len(held))
			}
		}
	}
}

// TestRoundsAreEven: also where the number of hosts is no power of two no round has more than a quarter more contributions than the papers' largest.
func TestRoundsAreEven(t *testing.T) {
	for n := 2; n <= 300; n++ {
		most := func(rounds []round) (out int) {
			for _, r := range rounds {
				out = max(out, len(r.behind))
			}
			return out
		}
		if near, far := most(nearestFirst(n)), most(roundsOf(n)); far > near+near/4 {
			t.Errorf("%d hosts: a round of %d contributions, with the nearest host first %d", n, far, near)
		}
	}
}

// TestFarFirstStaysNear: of four switches with eight hosts each, one after the other in the order of hosts, a third as much leaves one as if the nearest came first.
func TestFarFirstStaysNear(t *testing.T) {
	leaves := func(rounds []round) (blocks int) {
		for _, r := range rounds {
			blocks += len(r.behind) * min(r.distance, 8) // so many hosts of a switch send to another
		}
		return blocks
	}
	if near, far := leaves(nearestFirst(32)), leaves(roundsOf(32)); near != 213 || far != 72 {
		t.Errorf("%d blocks leave a switch with the nearest host first, and %d with the farthest first; want 213 and 72", near, far)
	}
}

// TestOrderOfHosts: an order is of all hosts, each once.
func TestOrderOfHosts(t *testing.T) {
	for _, tt := range []struct {
		order []int
		ok    bool
	}{{nil, true}, {[]int{2, 0, 1}, true}, {[]int{}, true}, {[]int{0, 1}, false}, {[]int{0, 1, 1}, false}, {[]int{0, 1, 3}, false}, {[]int{0, 1, -1}, false}, {[]int{0, 1, 2, 0}, false}} {
		tree := Tree{Leaders: make([]int, 3), Rounds: 10, Order: tt.order}
		if err := tree.check(3); (err == nil) != tt.ok {
			t.Errorf("order %v: %v", tt.order, err)
		}
	}
}

// TestLiesInRounds: a host tells of those that it has in a round, and of no others.
func TestLiesInRounds(t *testing.T) {
	for of, lie := range []bool{true, true, false, true} { // what host c tells a, of four: in the first round of itself, and nothing in the second
		synctest.Test(t, func(t *testing.T) {
			hosts := []string{"a", "b", "c", "d"}
			f, stop := newFabric(t, hosts...)
			defer stop()
			f.tree = func([]string) Tree { return Tree{Leaders: make([]int, 4), Limit: 1000, Rounds: 1000} }
			errs := f.each("job", hosts, func(r *Rank, rank int) error {
				if rank == 2 {
					msg := message{Kind: kindItems, Collective: plan.Allgather, Part: appendItem(nil, &item{rank: of, data: []byte("x")})}
					if err := f.lie(r.m.id, "c", "a", msg); err != nil {
						return err
					}
				}
				time.Sleep(time.Second)
				_, err := r.Allgather(context.Background(), Bytes("x"), Wish{})
				return err
			})
			for i, err := range errs {
				var got *Failure
				if failed := errors.As(err, &got) && got.Kind == Internal && got.Host == "a"; failed != lie || !lie && err != nil {
					t.Errorf("of host %d: rank %d: %v", of, i, err)
				}
			}
		})
	}
}

// TestRuns: what follows one another is short, and read as it was.
func TestRuns(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 311))
		var items []item
		for rank := range 1 + rng.IntN(40) {
			if rng.IntN(4) == 0 {
				continue
			}
			it := item{rank: rank, data: fill(0, rank, int64(rng.IntN(2)*3)), rows: []byte{}}
			if rng.IntN(5) == 0 {
				it.rows, it.even, it.straight = []byte{1}, rng.IntN(2) == 0, rng.IntN(2) == 0
			}
			items = append(items, it)
		}
		b := appendRuns(nil, items)
		got, err := readItems(b, 40)
		if err != nil || len(got) != len(items) || len(b) > len(appendItems(nil, items)) {
			t.Fatalf("seed %d: %d of %d items in %d bytes: %v", seed, len(got), len(items), len(b), err)
		}
		for i, it := range items {
			if g := got[i]; g.rank != it.rank || g.even != it.even || g.straight != it.straight || !bytes.Equal(g.rows, it.rows) || !bytes.Equal(g.data, it.data) {
				t.Errorf("seed %d: read %+v, was %+v", seed, g, it)
			}
		}
	}
	barrier := make([]item, 24)
	for i := range barrier {
		barrier[i].rank = i
	}
	if b := appendRuns(nil, barrier); len(b) != 4 {
		t.Errorf("a barrier of 24 ranks takes %d bytes, want 4", len(b))
	}
	for _, bad := range [][]byte{{0, runFlag}, {0, runFlag, 0, 0}, {0, runFlag, 4, 0}, {2, runFlag, 2, 0}, {0, runFlag, 2, 2, 'x', 'y', 'z'}, {0, runFlag, 2, 0, 0, runFlag, 2, 0}, {0, runFlag + 1, 2, 0}} {
		if items, err := readItems(bad, 3); err == nil {
			t.Errorf("%v is read as %+v", bad, items)
		}
	}
}
