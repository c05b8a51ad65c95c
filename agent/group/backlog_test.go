package group

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// slowly has host say one word in 16 ms to those of other sites.
func (f *fabric) slowly(host string) {
	f.hosts[host].cfg.Way = func(string) Way { return Way{Site: "far", Rate: 12_500, Mates: 1} }
}

// barriers calls so many, one after the other, of which rank 0 comes last each time.
func barriers(r *Rank, rank, n int, pause time.Duration) error {
	for i := range n {
		if rank == 0 {
			time.Sleep(pause)
		}
		if how, err := finish(r.Start(Call{Collective: Barrier})); err != nil || how != "eager" {
			return fmt.Errorf("barrier %d, %q: %w", i, how, err)
		}
	}
	return nil
}

// TestBacklog: small operations end sooner than the coordinator can hear of them. Then ranks wait, and the group goes on: neither does a host
// whose words wait count as one that cannot be reached, nor is one out of order that lags behind others.
func TestBacklog(t *testing.T) {
	for _, ranks := range [][]string{{"a", "b", "c"}, {"a", "b", "b", "b", "b", "c"}} {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			f.tree = func([]string) Tree { return Tree{Leaders: []int{0, 0, 2}, Limit: 1000} }
			f.slowly("b")
			for i, err := range f.each("job", ranks, func(r *Rank, rank int) error {
				if err := barriers(r, rank, 1500, 2*time.Millisecond); err != nil {
					return err
				}
				// A plan that the coordinator asks for, and what is planned.
				c := Call{Collective: plan.Allgather, In: Bytes(make([]byte, 500))}
				if rank == 1 {
					c.Plan = []byte("a plan")
				}
				_, err := finish(r.Start(c))
				return err
			}) {
				if err != nil {
					t.Errorf("rank %d of %v: %v", i, ranks, err)
				}
			}
			time.Sleep(2 * attachTimeout)
			stop()
			f.clean()
		})
	}
}

// TestEndsBeforeBacklog: what ends a group is heard before what waits to be said.
func TestEndsBeforeBacklog(t *testing.T) {
	for name, end := range map[string]struct {
		do   func(f *fabric, r *Rank)
		kind FailureKind
	}{
		"a rank fails":   {func(_ *fabric, r *Rank) { r.Fail("no more") }, RankFailed},
		"an agent stops": {func(f *fabric, _ *Rank) { f.stopHost("b") }, HostLost},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			f.tree = func([]string) Tree { return Tree{Leaders: []int{0, 0, 2}, Limit: 1000} }
			f.slowly("b")
			for i, err := range f.each("job", []string{"a", "b", "c", "b"}, func(r *Rank, rank int) error {
				if err := barriers(r, rank, 600, time.Millisecond); err != nil {
					return err
				}
				begun := time.Now()
				if rank == 1 {
					if _, err := r.Start(Call{Collective: Barrier}); err != nil {
						return err
					}
					end.do(f, r)
				}
				<-r.Done().Done()
				var got *Failure
				if took, err := time.Since(begun), context.Cause(r.Done()); !errors.As(err, &got) || got.Kind != end.kind || took > time.Second {
					return fmt.Errorf("after %v: %w", took, err)
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("%s: rank %d: %v", name, i, err)
				}
			}
		})
	}
}

// TestBacklogOverABrokenWay: where the way to the coordinator breaks, and small operations go on over others, ranks wait before more has been
// said than can be said again.
func TestBacklogOverABrokenWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		f.tree = func([]string) Tree { return Tree{Leaders: []int{0, 1, 1}, Limit: 1000} }
		var straight *half
		f.opened = func(a, b *half) Stream { // c's first stream to its coordinator
			if straight == nil && a.to == "a" && b.to == "c" && !a.aside {
				straight = a
			}
			return a
		}
		for i, err := range f.each("job", []string{"a", "b", "c"}, func(r *Rank, rank int) error {
			if err := barriers(r, rank, 2000, time.Millisecond); err != nil {
				return err
			}
			if rank == 0 {
				straight.severed.Store(true)
			}
			return barriers(r, rank, 2000, time.Millisecond)
		}) {
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
		time.Sleep(2 * attachTimeout)
		stop()
		f.clean()
	})
}
