package group

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// finish waits for an operation that is to be over within a minute, and drops it.
func finish(o *Operation, err error) (algorithm string, _ error) {
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := o.Wait(ctx)
	if err != nil {
		return "", err
	}
	res.Release()
	o.Drop()
	return res.Report.Algorithm, nil
}

// clean reports what hosts keep of groups that are over.
func (f *fabric) clean() {
	for _, g := range f.hosts {
		if len(g.members)+len(g.coords)+len(g.claimed)+len(g.dir.jobs) != 0 {
			f.t.Errorf("%s keeps state of a group that is over", g.cfg.Self)
		}
	}
}

// TestManyBesideOne: any number of small operations pass by a large one whose planning takes long.
func TestManyBesideOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		f.ponders = 5 * time.Second
		f.tree = func([]string) Tree { return Tree{Leaders: []int{0, 0, 2}, Limit: 1000} }
		for i, err := range f.each("job", []string{"a", "b", "c", "b"}, func(r *Rank, rank int) error {
			large, err := r.Start(Call{Collective: plan.Allgather, In: Bytes(make([]byte, 5000))})
			if err != nil {
				return err
			}
			for i := range 100 {
				if i == 90 { // the others after the large one
					if _, err := finish(large, nil); err != nil {
						return fmt.Errorf("the large one: %w", err)
					}
				}
				how, err := finish(r.Start(Call{Collective: Barrier}))
				if err != nil || how != "eager" {
					return fmt.Errorf("barrier %d, %q: %w", i, how, err)
				}
			}
			r.m.mu.Lock()
			defer r.m.mu.Unlock()
			if len(r.m.behind) != 0 || len(r.m.eagers) > 1 { // another rank may have begun the next
				return fmt.Errorf("kept: %d small operations, %d that are not over", len(r.m.eagers), len(r.m.behind))
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
	})
}

// A lateStream reads each message late.
type lateStream struct {
	Stream
	by time.Duration
}

func (s *lateStream) Read(b []byte) (int, error) {
	time.Sleep(s.by)
	return s.Stream.Read(b)
}

// TestLateStart: a host hears of small operations from the others long before it hears that a large one starts which all had begun a hundred
// operations ago.
func TestLateStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b", "c")
		f.ponders = 10 * time.Second
		f.tree = func([]string) Tree { return Tree{Leaders: []int{0, 1, 2}, Limit: 1000} }
		f.opened = func(a, b *half) Stream {
			if b.to == "c" {
				return &lateStream{a, 20 * time.Millisecond}
			}
			return a
		}
		for i, err := range f.each("job", []string{"a", "b", "c"}, func(r *Rank, rank int) error {
			begun := time.Now()
			large, err := r.Start(Call{Collective: plan.Allgather, In: Bytes(make([]byte, 5000))})
			if err != nil {
				return err
			}
			for i := range 100 {
				if how, err := finish(r.Start(Call{Collective: Barrier, Wish: Wish{Algorithm: "none"}})); err != nil || how == "eager" {
					return fmt.Errorf("barrier %d, %q: %w", i, how, err)
				}
			}
			time.Sleep(f.ponders + 10*time.Millisecond - time.Since(begun)) // c alone has not heard of the start
			for i := range 100 {
				if how, err := finish(r.Start(Call{Collective: Barrier})); err != nil || how != "eager" {
					return fmt.Errorf("small barrier %d, %q: %w", i, how, err)
				}
			}
			if _, err := finish(large, nil); err != nil {
				return fmt.Errorf("the large one: %w", err)
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
	})
}
