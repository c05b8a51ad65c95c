package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// hopTree is the tree of n hosts at one switch, where blocks go in hops.
func hopTree(n int) Tree {
	return Tree{Leaders: make([]int, n), Limit: 10, Rounds: 1 << 10, Straight: 1 << 10, Across: 100 << 10, Hops: 1 << 20}
}

// pair is the block of operation op from rank s to rank d.
func pair(op, s, d int, n int64) []byte { return fill(op, s*131+d*7, n) }

// blocksOf is what rank s gives of n ranks.
func blocksOf(op, s, n int, size int64) (in []byte) {
	for d := range n {
		in = append(in, pair(op, s, d, size)...)
	}
	return in
}

// checkBlocks compares what rank d got.
func checkBlocks(got []byte, op, d, n int, size int64) error {
	if int64(len(got)) != size*int64(n) {
		return fmt.Errorf("operation %d: %d bytes of %d", op, len(got), size*int64(n))
	}
	for s := range n {
		if b := got[int64(s)*size:][:size]; !bytes.Equal(b, pair(op, s, d, size)) {
			return fmt.Errorf("operation %d: the wrong %d bytes from rank %d", op, size, s)
		}
	}
	return nil
}

// TestHops: every rank gets its blocks, whatever the number of hosts, of their ranks and of bytes, by as few messages as there are rounds, and each block as often as its distance has bits.
func TestHops(t *testing.T) {
	for n := 2; n <= 19; n++ {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(n), 5))
			hosts := make([]string, n)
			var ranks []string
			for i := range hosts {
				hosts[i] = fmt.Sprintf("h%02d", i)
				ranks = append(ranks, hosts[i])
				if n%3 == 0 && rng.IntN(2) == 0 {
					ranks = append(ranks, hosts[i])
				}
			}
			if n%2 == 0 {
				rng.Shuffle(len(ranks), func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
			}
			f, stop := newFabric(t, hosts...)
			defer stop()
			f.tree = func(hosts []string) Tree { return hopTree(len(hosts)) }
			sizes := []int64{8, 0, 1, 100}
			moved := 0
			for d := 1; d < n; d++ {
				moved += bits.OnesCount(uint(d))
			}
			for rank, err := range f.each("job", ranks, func(r *Rank, rank int) error {
				for op, size := range sizes {
					res, err := r.Alltoall(context.Background(), Bytes(blocksOf(op, rank, len(ranks), size)), nil, Wish{})
					if err != nil {
						return err
					}
					if res.Report.Algorithm != "eager" {
						return fmt.Errorf("operation %d by %s", op, res.Report.Algorithm)
					}
					if err := checkBlocks(res.Data, op, rank, len(ranks), size); err != nil {
						return err
					}
					if want := int64(moved) * size; len(ranks) == n && (res.Report.Sent != want || res.Report.Received != want) {
						return fmt.Errorf("sent %d bytes and got %d, want %d", res.Report.Sent, res.Report.Received, want)
					}
					res.Release()
				}
				far := make(map[int]bool) // hops go to other hosts than rounds where their number is no power of two
				for k, r := range r.m.rounds {
					far[r.distance], far[1<<k] = true, true
				}
				if open := len(r.m.peers); open != len(far) {
					return fmt.Errorf("%d streams, want %d", open, len(far))
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("%d hosts: rank %d of %d: %v", n, rank, len(ranks), err)
				}
			}
		})
	}
}

// TestHopsAmongOthers: operations of all kinds, up to sixteen of a rank under way, while streams lose what they take and then end.
func TestHopsAmongOthers(t *testing.T) {
	for seed := range uint64(12) {
		if gridtest.Race && seed >= 4 {
			break // at ten times the CPU time
		}
		synctest.Test(t, func(t *testing.T) {
			hosts := []string{"a", "b", "c", "d", "e", "f"}
			f, stop := newFabric(t, hosts...)
			defer stop()
			rng := rand.New(rand.NewPCG(seed, 23))
			f.tree = func([]string) Tree { return hopTree(len(hosts)) }
			f.dead = 50 * time.Millisecond
			const ops = 120
			n := len(hosts)
			kinds, sizes := make([]int, ops), make([]int64, ops)
			for i := range ops {
				kinds[i], sizes[i] = rng.IntN(4), int64(rng.IntN(40))
			}
			cuts := make(chan struct{})
			go func() {
				defer close(cuts)
				for range 5 {
					time.Sleep(time.Duration(5+rng.IntN(30)) * time.Millisecond)
					a, b := rng.IntN(5), 1+rng.IntN(4)
					if b = (a + b) % 6; a*b > 0 { // not the coordinator's
						f.sever(hosts[a], hosts[b])
					}
				}
			}()
			errs := f.each("job", hosts, func(r *Rank, rank int) error {
				return manyUnderWay(r, rand.New(rand.NewPCG(seed, uint64(rank))), ops, func(i int) Call {
					c := Call{Collective: plan.Alltoall, In: Bytes(blocksOf(i, rank, n, sizes[i]))}
					switch {
					case kinds[i] == 3:
						c = Call{Collective: plan.Allgather, In: Bytes(fill(i, rank, sizes[i]))}
					case kinds[i] == 2 && rank%2 == 0: // the others go in hops
						c.Sizes = slices.Repeat([]int64{sizes[i]}, n)
					}
					return c
				}, func(i int, got []byte) error {
					if kinds[i] < 3 {
						return checkBlocks(got, i, rank, n, sizes[i])
					}
					for s := range n {
						if want := fill(i, s, sizes[i]); !bytes.Equal(got[s*len(want):][:len(want)], want) {
							return fmt.Errorf("operation %d: the wrong bytes from rank %d", i, s)
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

// TestHopsNotOfAll: where one rank gives the sizes of its blocks, the operation is planned; where ranks give different ones, all are told.
func TestHopsNotOfAll(t *testing.T) {
	for name, last := range map[string]Call{
		"":                    {Collective: plan.Alltoall, In: Bytes(blocksOf(0, 3, 4, 10)), Sizes: []int64{10, 10, 10, 10}},
		"a block of 20 bytes": {Collective: plan.Alltoall, In: Bytes(blocksOf(0, 3, 4, 20))},
		"an allgather":        {Collective: plan.Allgather, In: Bytes("x")},
	} {
		synctest.Test(t, func(t *testing.T) {
			hosts := []string{"a", "b", "c", "d"}
			f, stop := newFabric(t, hosts...)
			defer stop()
			f.tree = func(hosts []string) Tree { return hopTree(len(hosts)) }
			errs := f.each("job", hosts, func(r *Rank, rank int) error {
				c := last
				if rank < 3 {
					c = Call{Collective: plan.Alltoall, In: Bytes(blocksOf(0, rank, 4, 10))}
				}
				res, err := r.Do(context.Background(), c)
				if err != nil {
					return err
				}
				defer res.Release()
				if res.Report.Algorithm == "eager" {
					return errors.New("it was not planned")
				}
				return checkBlocks(res.Data, 0, rank, 4, 10)
			})
			for i, err := range errs {
				var got *Failure
				if failed := errors.As(err, &got) && got.Kind == Mismatch; failed != (name != "") || !failed && err != nil {
					t.Errorf("%s: rank %d: %v", name, i, err)
				}
			}
		})
	}
}

// TestLiesInHops: what no honest member sends ends the group.
func TestLiesInHops(t *testing.T) {
	good := message{Kind: kindItems, Collective: plan.Alltoall, Hop: 1, Size: 8, Part: make([]byte, 4)} // of four hosts from one to the next: distances 1 and 3, 2 bytes each
	lie := func(change func(m *message)) message {
		m := good
		change(&m)
		return m
	}
	for name, msg := range map[string]message{
		"":                          good,
		"which are too few":         lie(func(m *message) { m.Part = m.Part[1:] }),
		"which are too many":        lie(func(m *message) { m.Part = make([]byte, 5) }),
		"hop 2, which are not its":  lie(func(m *message) { m.Hop = 2 }),
		"hop 3, which are not its":  lie(func(m *message) { m.Hop = 3 }),
		"hop -1, which are not its": lie(func(m *message) { m.Hop = -1 }),
		"that do not go so":         lie(func(m *message) { m.Size, m.Part = 4<<20, nil }),
		"not go so":                 lie(func(m *message) { m.Size = 9 }),
		"do not go so":              lie(func(m *message) { m.Collective = plan.Allgather }),
	} {
		synctest.Test(t, func(t *testing.T) {
			hosts := []string{"a", "b", "c", "d"}
			f, stop := newFabric(t, hosts...)
			defer stop()
			f.tree = func(hosts []string) Tree { return hopTree(len(hosts)) }
			errs := f.each("job", hosts, func(r *Rank, rank int) error {
				if rank == 3 {
					if err := f.lie(r.m.id, "d", "a", msg); err != nil {
						return err
					}
				}
				time.Sleep(time.Second)
				_, err := r.Alltoall(context.Background(), Bytes(make([]byte, 8)), nil, Wish{})
				return err
			})
			for i, err := range errs {
				var got *Failure
				if failed := errors.As(err, &got) && got.Kind == Internal && strings.Contains(got.Cause, name); failed != (name != "") || !failed && err != nil {
					t.Errorf("%q: rank %d: %v", name, i, err)
				}
			}
		})
	}
}

// TestPlaces: where a piece is among those of its last round, by counting.
func TestPlaces(t *testing.T) {
	for n := 2; n < 70; n++ {
		m := &member{hosts: make([]string, n), ranksOf: make([][]int, n), roster: make([]string, n)}
		m.arrange(&Tree{})
		for k := range m.rounds {
			for i, p := range m.piecesOf(3%n, k, 0) {
				if round, place := placeOf(p.distance, k+1); round != k || place != i {
					t.Fatalf("%d hosts: distance %d is number %d of round %d, and not %d of %d", n, p.distance, i, k, place, round)
				}
			}
		}
	}
}

// TestHopsLimit: blocks go in hops as long as that is worth it, which is longer where ports are fast.
func TestHopsLimit(t *testing.T) {
	const mbit = 1e6 / 8
	for _, tt := range []struct {
		hosts     int
		rate      float64
		goes, not int64 // bytes a block
	}{
		{2, 1000 * mbit, 0, 1}, {3, 100 * mbit, 0, 1}, {8, 100 * mbit, 1 << 10, 2 << 10}, {24, 5 * mbit, 128, 256}, {24, 100 * mbit, 1 << 10, 2 << 10}, {32, 100 * mbit, 512, 1 << 10},
		{24, 1000 * mbit, hopsBlock, hopsBlock + 1}, {500, 1000 * mbit, 16, 17},
	} {
		limit := HopsLimit(tt.hosts, tt.rate)
		if n := int64(tt.hosts * tt.hosts); limit < tt.goes*n || limit >= tt.not*n {
			t.Errorf("%d hosts at %g bytes a second: %d bytes a block, want %d and not %d", tt.hosts, tt.rate, limit/n, tt.goes, tt.not)
		}
		tree := Tree{Leaders: make([]int, tt.hosts), Rounds: 1, Hops: limit}
		if err := tree.check(tt.hosts); err != nil {
			t.Error(err)
		}
	}
}
