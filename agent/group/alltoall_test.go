package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// cell is the block from rank s to rank d.
func cell(seed uint64, s, d int) []byte {
	rng := rand.New(rand.NewPCG(seed, uint64(s)<<32|uint64(d)))
	b := make([]byte, rng.IntN(3)*rng.IntN(40))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestAlltoallReturnsBlocksInRankOrder runs random alltoalls, several after one another, on
// ranks that share hosts. It also checks what is asked of the planner: one block for each
// pair of hosts.
func TestAlltoallReturnsBlocksInRankOrder(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c", "d")
			rng := rand.New(rand.NewPCG(seed, 98))
			ranks := make([]string, 1+rng.IntN(9))
			for i := range ranks {
				ranks[i] = string(rune('a' + rng.IntN(4)))
			}
			n := len(ranks)
			errs := f.each("job", ranks, func(r *Rank, rank int) error {
				for round := range uint64(3) {
					var in, want []byte
					var sizes, from []int64
					for i := range n {
						out, back := cell(seed+round, rank, i), cell(seed+round, i, rank)
						in, sizes = append(in, out...), append(sizes, int64(len(out)))
						want, from = append(want, back...), append(from, int64(len(back)))
					}
					res, err := r.Alltoall(context.Background(), Bytes(in), sizes, Wish{})
					if err != nil {
						return err
					}
					if !bytes.Equal(res.Data, want) || !slices.Equal(res.Sizes, from) {
						return fmt.Errorf("round %d: wrong bytes, or sizes %v, want %v", round, res.Sizes, from)
					}
					res.Release()
					time.Sleep(time.Second) // the planner is asked also about what goes on by a plan of before
				}
				return nil
			})
			for i, err := range errs {
				if err != nil {
					t.Errorf("seed %d: rank %d of %v: %v", seed, i, ranks, err)
				}
			}
			if len(f.asked) != 3 {
				t.Errorf("seed %d: %d plans for 3 operations", seed, len(f.asked))
			}
			for _, req := range f.asked {
				if req.Collective != plan.Alltoall || req.Sizes != nil {
					t.Errorf("seed %d: asked for %+v", seed, req)
				}
				want := make([][]int64, len(req.Hosts))
				for h := range want {
					want[h] = make([]int64, len(req.Hosts))
				}
				for s, from := range ranks {
					for d, to := range ranks {
						if from != to {
							want[slices.Index(req.Hosts, from)][slices.Index(req.Hosts, to)] += int64(len(cell(seed+req.Seq, s, d)))
						}
					}
				}
				if !slices.EqualFunc(req.Matrix, want, slices.Equal[[]int64]) {
					t.Errorf("seed %d: matrix %v, want %v", seed, req.Matrix, want)
				}
			}
			time.Sleep(time.Second)
			stop()
			if f.live != 0 {
				t.Errorf("seed %d: %d buffers were not released", seed, f.live)
			}
		})
	}
}

// TestAlltoallLostRank: the buffers of an alltoall that fails are released, and all ranks
// are told the same.
func TestAlltoallLostRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		defer stop()
		f.hold = time.Minute
		for _, err := range f.each("job", []string{"a", "b", "c", "b"}, func(r *Rank, rank int) error {
			if rank == 3 {
				time.AfterFunc(time.Second, func() { r.Leave("its client ended") })
			}
			_, err := r.Alltoall(context.Background(), Bytes("12345678"), nil, Wish{})
			return err
		}) {
			wantFailure(t, err, Failure{Kind: RankLost, Rank: 3, Host: "b", Cause: "its client ended"})
		}
		if f.live != 0 {
			t.Errorf("%d buffers were not released", f.live)
		}
	})
}

// TestGivenPlan has some ranks bring a plan: it is fetched once, from a rank at the
// coordinator if one there has it, and handed to the planner.
func TestGivenPlan(t *testing.T) {
	for _, tc := range []struct {
		name  string
		plans []string // by rank; empty brings none
		want  Failure
	}{
		{"from all", []string{"the plan", "the plan", "the plan", "the plan"}, Failure{}},
		{"from one far away", []string{"", "", "the plan", ""}, Failure{}},
		{"from none", []string{"", "", "", ""}, Failure{}},
		{"two plans", []string{"", "the plan", "", "another"}, Failure{Kind: Mismatch, Cause: "brings the plan with SHA-256"}},
		{"a plan that is refused", []string{"", "broken", "", "broken"}, Failure{Kind: RankFailed, Cause: "its plan: no such algorithm"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			errs := f.each("job", []string{"a", "b", "c", "a"}, func(r *Rank, rank int) error {
				var w Wish
				if p := tc.plans[rank]; p != "" {
					w.Plan = []byte(p)
				}
				res, err := r.Allgather(context.Background(), Bytes("x"), w)
				if err == nil {
					if res.Report.Given != strings.Contains(fmt.Sprint(tc.plans), "plan") {
						t.Errorf("%s: report says that a plan was given: %v", tc.name, res.Report.Given)
					}
					res.Release()
				}
				return err
			})
			for rank, err := range errs {
				if tc.want.Kind == "" {
					if err != nil {
						t.Errorf("%s: rank %d: %v", tc.name, rank, err)
					}
					continue
				}
				var got *Failure
				if !errors.As(err, &got) || got.Kind != tc.want.Kind || !strings.Contains(got.Cause, tc.want.Cause) || tc.plans[got.Rank] == "" {
					t.Errorf("%s: rank %d: %v", tc.name, rank, err)
				}
			}
			if tc.want.Kind == "" {
				if want := strings.Join(slices.Compact(slices.Sorted(slices.Values(tc.plans))), ""); string(f.asked[0].Plan) != want {
					t.Errorf("%s: the planner got %q, want %q", tc.name, f.asked[0].Plan, want)
				}
			}
		})
	}
}

// TestLateHostIsTold: a group that fails before a host has attached tells it, when it does,
// what all others are told.
func TestLateHostIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		defer stop()
		dial := f.hosts["c"].cfg.Open
		f.hosts["c"].cfg.Open = func(ctx context.Context, host string) (Stream, error) {
			time.Sleep(time.Second)
			return dial(ctx, host)
		}
		begun := time.Now()
		for _, err := range f.each("job", []string{"a", "b", "c"}, func(r *Rank, rank int) error {
			_, err := r.Alltoall(context.Background(), Bytes("1234567"[:6+rank%2]), nil, Wish{})
			return err
		}) {
			wantFailure(t, err, Failure{Kind: RankFailed, Rank: 1, Host: "b", Cause: "7 bytes is not 3 blocks of one size"})
		}
		if d := time.Since(begun); d > 5*time.Second {
			t.Errorf("the ranks ended after %v", d)
		}
	})
}

func TestTable(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 97))
		n, count := 1+rng.IntN(12), 1+rng.IntN(4)
		hosts := make([]int, n)
		table, rows := make([][]int64, n), make([][]byte, n)
		for s := range table {
			hosts[s] = rng.IntN(count)
			var total int64
			for range n {
				v := int64(rng.IntN(3)) << rng.IntN(40)
				table[s], total = append(table[s], v), total+v
			}
			rows[s] = appendRow(nil, table[s])
			if got, err := checkRow(rows[s], n); err != nil || got != total {
				t.Fatalf("seed %d: row %v: %d, %v", seed, table[s], got, err)
			}
			for _, wrong := range [][]byte{rows[s][1:], rows[s][:len(rows[s])-1], append(slices.Clone(rows[s]), 1, 1)} {
				if _, err := checkRow(wrong, n); err == nil && !bytes.Equal(wrong, rows[s]) {
					if again, err := readRows(wrong, 1, n); err != nil || slices.Equal(again[0], table[s]) {
						t.Fatalf("seed %d: %x passes for %v", seed, wrong, table[s])
					}
				}
			}
		}
		columns, _, err := cross(rows, hosts, count)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for h := range count {
			var want [][]int64
			for d := range n {
				if hosts[d] == h {
					var column []int64
					for s := range n {
						column = append(column, table[s][d])
					}
					want = append(want, column)
				}
			}
			got, err := readRows(columns[h], len(want), n)
			if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]int64]) {
				t.Fatalf("seed %d: host %d: %v, %v, want %v", seed, h, got, err, want)
			}
		}
	}
	// The usual case is small however many ranks there are.
	if b := appendRow(nil, slices.Repeat([]int64{64 << 10}, maxAlltoall)); len(b) > 8 {
		t.Errorf("a row of equal sizes takes %d bytes", len(b))
	}
}

func FuzzRow(f *testing.F) {
	f.Add(appendRow(nil, []int64{1, 1, 5}), uint8(3))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1}, uint8(3))
	f.Add([]byte{2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, uint8(3))
	f.Fuzz(func(t *testing.T, in []byte, n uint8) {
		total, err := checkRow(in, int(n))
		rows, readErr := readRows(in, 1, int(n))
		if (err == nil) != (readErr == nil) {
			t.Fatalf("checkRow says %v, readRows %v", err, readErr)
		}
		if err != nil {
			return
		}
		var sum int64
		for _, v := range rows[0] {
			sum += v
		}
		if sum != total || sum > maxBytes {
			t.Fatalf("%v: sum %d, checkRow says %d", rows[0], sum, total)
		}
	})
}

// TestLateRankIsTold: a rank that enters when its group has failed already, on a host where
// another rank was faster, is told why, and starts no second group of that name.
func TestLateRankIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a")
		g := f.hosts["a"]
		formed := message{Group: ID{9}, Hosts: []string{"a", "a"}}
		enter := func(rank int) (*Rank, error) {
			return g.enter(claim{"j", rank}, &holding{released: make(chan struct{})}, formed)
		}
		first, err := enter(0)
		if err != nil {
			t.Fatal(err)
		}
		why := &Failure{Kind: Mismatch, Rank: 0, Cause: "of something"}
		first.m.fail(why)
		synctest.Wait()
		if _, err := enter(1); err != error(why) {
			t.Errorf("the second rank is told %v, want %v", err, why)
		}
		time.Sleep(attachTimeout + time.Second)
		stop()
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.over)+len(g.members)+len(g.coords) != 0 {
			t.Errorf("left: %v, %v, %v", g.over, g.members, g.coords)
		}
	})
}
