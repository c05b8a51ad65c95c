package group

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// twoSites is a tree of four hosts, two at a site.
func twoSites([]string) Tree { return Tree{Leaders: []int{0, 0, 2, 2}, Limit: 1000} }

// smallCall is what a rank of four gives in a step, to an alltoall a few bytes more to each than to the one before, and what it gets. Rank q gives size(q) bytes to an
// allgather, or to rank 0.
func smallCall(c plan.Collective, step, rank int, size func(rank int) int64) (call Call, want []byte) {
	const ranks = 4
	row := func(q int) (row []int64, total int64) {
		for d := range int64(ranks) {
			n := size(q)
			if n > 0 {
				n += 3 * d
			}
			row, total = append(row, n), total+n
		}
		return row, total
	}
	call.Collective = c
	for q := range ranks {
		if c == plan.Allgather {
			want = append(want, fill(step, q, size(q))...)
			continue
		}
		sizes, total := row(q)
		all := fill(step, q, total)
		for d, n := range sizes {
			if d == rank {
				want = append(want, all[:n]...)
			}
			all = all[n:]
		}
	}
	if c == plan.Allgather {
		call.In = Bytes(fill(step, rank, size(rank)))
		return call, want
	}
	sizes, total := row(rank)
	call.In, call.Sizes = Bytes(fill(step, rank, total)), sizes
	return call, want
}

// smallOnes has ranks on four hosts of two sites, 40 ms apart, do steps such calls with a barrier before each. It returns by what each went at each rank.
func smallOnes(t *testing.T, c plan.Collective, setup func(f *fabric), steps int, before func(f *fabric, step int), size func(step, rank int) int64) (how [][]string, f *fabric) {
	t.Helper()
	hosts := []string{"a", "b", "c", "d"}
	f, stop := newFabric(t, hosts...)
	f.tree, f.late, f.hold, f.predicts = twoSites, 40*time.Millisecond, 45*time.Millisecond, 50*time.Millisecond
	setup(f)
	if g := f.hosts[f.ancient]; g != nil {
		g.cfg.Restamp = nil
	}
	how = make([][]string, len(hosts))
	for i, err := range f.each("job", hosts, func(r *Rank, rank int) error {
		for i := range steps {
			if rank == 0 {
				before(f, i)
			}
			if _, err := finish(r.Start(Call{Collective: Barrier})); err != nil {
				return fmt.Errorf("barrier %d: %w", i, err)
			}
			call, want := smallCall(c, i, rank, func(q int) int64 { return size(i, q) })
			res, err := r.Do(context.Background(), call)
			if err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
			if !bytes.Equal(res.Data, want) {
				return fmt.Errorf("step %d: wrong bytes", i)
			}
			how[rank] = append(how[rank], res.Report.Algorithm)
			res.Release()
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
	time.Sleep(2 * attachTimeout)
	stop()
	f.clean()
	return how, f
}

// TestOffers: small allgathers and alltoalls between sites that come again go by a plan, from the same one on at all hosts, as long as that is faster.
func TestOffers(t *testing.T) {
	even := func(int, int) int64 { return 30 }
	nothing := func(*fabric, int) {}
	const steps = 20
	all := func(what string) []string { return slices.Repeat([]string{what}, steps) }
	for name, tc := range map[string]struct {
		setup  func(f *fabric)
		before func(f *fabric, step int)
		size   func(step, rank int) int64
		check  func(t *testing.T, how []string, f *fabric)
	}{
		"again": {check: func(t *testing.T, how []string, f *fabric) {
			first := slices.Index(how, "test")
			if first < 1 || first > 4 || slices.Contains(how[first:], "eager") || f.refused > 0 || f.foreseen != steps-first {
				t.Errorf("they went by %q; %d were begun in vain, and %d as they ended", how, f.refused, f.foreseen)
			}
		}},
		"a plan would be slower": {
			setup: func(f *fabric) { f.predicts = 200 * time.Millisecond },
			check: func(t *testing.T, how []string, f *fabric) {
				if !slices.Equal(how, all("eager")) || len(f.asked) > 3 { // the planner is not asked each time
					t.Errorf("they went by %q, %d plans were asked for", how, len(f.asked))
				}
			},
		},
		"a plan is slower": {
			setup: func(f *fabric) { f.hold = 400 * time.Millisecond },
			check: func(t *testing.T, how []string, f *fabric) {
				if n := len(slices.DeleteFunc(slices.Clone(how), func(s string) bool { return s == "eager" })); n < offerTries || n > offerTries+2 || how[steps-1] != "eager" {
					t.Errorf("they went by %q", how)
				}
			},
		},
		"one knows no offers": {
			setup: func(f *fabric) { f.ancient = "c" },
			check: func(t *testing.T, how []string, f *fabric) {
				if !slices.Equal(how, all("eager")) || len(f.asked) > 0 {
					t.Errorf("they went by %q, %d plans were asked for", how, len(f.asked))
				}
			},
		},
		"never the same": {
			size: func(step, rank int) int64 { return int64(1 + step + rank) },
			check: func(t *testing.T, how []string, f *fabric) {
				if !slices.Equal(how, all("eager")) || f.refused > 0 || len(f.asked) != 1 {
					t.Errorf("they went by %q, %d were begun in vain; %d plans were asked for", how, f.refused, len(f.asked))
				}
			},
		},
		"one gives more each time": {
			size: func(step, rank int) int64 {
				if rank == 2 {
					return int64(30 + step)
				}
				return 30
			},
			check: func(t *testing.T, how []string, f *fabric) {
				if planned := len(slices.DeleteFunc(slices.Clone(how), func(s string) bool { return s == "eager" })); planned > 2 {
					t.Errorf("they went by %q", how)
				}
			},
		},
		"two by turns": {
			size: func(step, rank int) int64 { return int64(30 + step%2) },
			check: func(t *testing.T, how []string, f *fabric) {
				if slices.Contains(how[8:], "eager") || f.refused > 0 {
					t.Errorf("they went by %q, %d were begun in vain", how, f.refused)
				}
			},
		},
		"the map changes": {
			before: func(f *fabric, step int) {
				if step == steps/2 {
					f.mu.Lock()
					defer f.mu.Unlock()
					f.age, f.stands = 1, 1
				}
			},
			check: func(t *testing.T, how []string, f *fabric) {
				f.mu.Lock()
				defer f.mu.Unlock()
				byNew := 0
				for part := range f.begun {
					if part[24] == 1 {
						byNew++
					}
				}
				if how[steps/2-1] != "test" || how[steps-1] != "test" || byNew < 2 {
					t.Errorf("they went by %q, %d by the new map", how, byNew)
				}
			},
		},
		"straight": {
			setup: func(f *fabric) {
				f.tree = func([]string) Tree {
					t := twoSites(nil)
					t.Across = 4000
					return t
				}
			},
			size: func(int, int) int64 { return 200 },
			check: func(t *testing.T, how []string, f *fabric) {
				if first := slices.Index(how, "test"); first < 1 || first > 4 || slices.Contains(how[first:], "eager") || f.refused > 0 {
					t.Errorf("they went by %q; %d were begun in vain", how, f.refused)
				}
			},
		},
		"one gives nothing": {
			size: func(_, rank int) int64 { return int64(30 * min(rank, 1)) },
			check: func(t *testing.T, how []string, f *fabric) {
				if !slices.Equal(how, all("eager")) || len(f.asked) > 0 {
					t.Errorf("they went by %q, %d plans were asked for", how, len(f.asked))
				}
			},
		},
		"one gives too much": {
			size: func(_, rank int) int64 {
				if rank == 1 {
					return 5000
				}
				return 30
			},
			check: func(t *testing.T, how []string, f *fabric) {
				if !slices.Equal(how, all("test")) || f.foreseen != steps-1 {
					t.Errorf("they went by %q, %d as they had begun", how, f.foreseen)
				}
			},
		},
	} {
		if tc.setup == nil {
			tc.setup = func(*fabric) {}
		}
		if tc.before == nil {
			tc.before = nothing
		}
		if tc.size == nil {
			tc.size = even
		}
		for _, c := range []plan.Collective{plan.Allgather, plan.Alltoall} {
			t.Run(fmt.Sprintf("%s/%s", c, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					how, f := smallOnes(t, c, tc.setup, steps, tc.before, tc.size)
					if t.Failed() {
						return
					}
					for rank := range how {
						if !slices.Equal(how[rank], how[0]) {
							t.Errorf("rank %d went by %q, and rank 0 by %q", rank, how[rank], how[0])
						}
					}
					tc.check(t, how[0], f)
				})
			})
		}
	}
}

// TestOfferOfLateRank: where the coordinator's rank calls last, and has all a moment later, operations are not taken to be moments apart: the first one by the offer is near.
func TestOfferOfLateRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := []string{"a", "b", "c", "d"}
		f, stop := newFabric(t, hosts...)
		f.late, f.hold, f.predicts = 40*time.Millisecond, 5*time.Millisecond, 5*time.Millisecond
		f.tree = func([]string) Tree {
			t := twoSites(nil)
			t.Bound = f.late
			return t
		}
		for _, g := range f.hosts { // without a plan it takes two ways, whatever the coordinator sees
			g.cfg.Small = func(Request, []int, bool) time.Duration { return 2 * f.late }
		}
		f.eachWell("job", hosts, func(r *Rank, rank int) error {
			if rank == 0 {
				time.Sleep(500 * time.Millisecond)
			}
			for i := range 10 {
				how, err := finish(r.Start(Call{Collective: plan.Allgather, In: Bytes(make([]byte, 30))}))
				if err != nil || i == 9 && how != "test" {
					return fmt.Errorf("step %d by %q: %v", i, how, err)
				}
			}
			return nil
		})
		time.Sleep(time.Second)
		stop()
	})
}

// TestOfferBeforeAttach: what is offered before a host has attached to its coordinator comes to it when it has, and nobody waits for the coordinator's word then.
func TestOfferBeforeAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := []string{"a", "b", "c", "d"}
		f, stop := newFabric(t, hosts...)
		f.tree, f.late, f.hold, f.predicts = twoSites, 40*time.Millisecond, 45*time.Millisecond, 50*time.Millisecond
		open := f.hosts["d"].cfg.Open
		f.hosts["d"].cfg.Open = func(ctx context.Context, host string) (Stream, error) {
			if host == "a" {
				time.Sleep(500 * time.Millisecond)
			}
			return open(ctx, host)
		}
		f.eachWell("job", hosts, func(r *Rank, rank int) error {
			for i := range 10 {
				begun := time.Now()
				how, err := finish(r.Start(Call{Collective: plan.Allgather, In: Bytes(make([]byte, 30))}))
				if err != nil || i == 9 && how != "test" {
					return fmt.Errorf("step %d by %q: %v", i, how, err)
				}
				if took := time.Since(begun); i == 9 && took > f.hold+10*time.Millisecond {
					return fmt.Errorf("step %d took %v", i, took)
				}
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		})
		time.Sleep(time.Second)
		stop()
		f.noneInVain()
	})
}

// TestOffersStay: another group of the same ranks begins by what was offered to the one before.
func TestOffersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c", "d")
		f.tree, f.late, f.hold, f.predicts = twoSites, 40*time.Millisecond, 45*time.Millisecond, 50*time.Millisecond
		for group, steps := range []int{8, 1} {
			f.eachWell(fmt.Sprint("job", group), []string{"a", "b", "c", "d"}, func(r *Rank, rank int) error {
				for i := range steps {
					how, err := finish(r.Start(Call{Collective: plan.Allgather, In: Bytes(make([]byte, 30))}))
					if err != nil || group == 1 && how != "test" {
						return fmt.Errorf("step %d by %q: %v", i, how, err)
					}
				}
				return nil
			})
			time.Sleep(time.Second)
		}
		stop()
	})
}

// TestOfferSooner: the first operations of a group are taken to follow one another at once, and when they are seen not to, what was offered for a much later one is for the next but one.
func TestOfferSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := []string{"a", "b", "c", "d"}
		f, stop := newFabric(t, hosts...)
		f.tree, f.late, f.hold, f.predicts = twoSites, time.Millisecond, time.Millisecond, time.Millisecond
		f.eachWell("job", hosts, func(r *Rank, rank int) error {
			for i := range 8 {
				how, err := finish(r.Start(Call{Collective: plan.Allgather, In: Bytes(make([]byte, 30))}))
				if want := []string{"eager", "test"}[min(i/3, 1)]; err != nil || how != want {
					return fmt.Errorf("step %d by %q, want %q: %v", i, how, want, err)
				}
				time.Sleep(time.Second)
			}
			return nil
		})
		time.Sleep(time.Second)
		stop()
		f.noneInVain()
	})
}

// eachWell is each, whose errors fail the test.
func (f *fabric) eachWell(job string, ranks []string, do func(r *Rank, rank int) error) {
	f.t.Helper()
	for i, err := range f.each(job, ranks, do) {
		if err != nil {
			f.t.Errorf("%s, rank %d: %v", job, i, err)
		}
	}
}

// noneInVain fails the test where hosts have begun something in vain.
func (f *fabric) noneInVain() {
	f.t.Helper()
	if f.refused > 0 {
		f.t.Errorf("%d were begun in vain", f.refused)
	}
}
