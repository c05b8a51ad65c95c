package group

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Ranks get their results before the others have confirmed theirs. What is left of the run has the buffers until it
// ends; a host whose ranks have left stays in the group so long, and one that stops waits for it, but not for ever.
func TestRestOfARun(t *testing.T) {
	const rest = 300 * time.Millisecond
	gather := func(r *Rank) error {
		res, err := r.Allgather(context.Background(), Bytes("x"), Wish{})
		if err == nil {
			res.Release()
		}
		return err
	}
	live := func(f *fabric) int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.live
	}
	ranks := []string{"a", "b", "a"}
	t.Run("results come first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b")
			defer stop()
			f.rest = func(context.Context, string) error { time.Sleep(rest); return nil }
			begun := time.Now()
			for i, err := range f.each("job", ranks, func(r *Rank, _ int) error {
				err := gather(r)
				if err == nil {
					err = gather(r) // while the first is not over
				}
				return err
			}) {
				if err != nil {
					t.Errorf("rank %d: %v", i, err)
				}
			}
			if took := time.Since(begun); took >= rest {
				t.Errorf("two operations took %v: their ranks waited for the others' confirmations", took)
			}
			if live(f) == 0 || !f.hosts["a"].Busy() || len(f.hosts["a"].Status()) != 1 {
				t.Errorf("%d buffers left, busy %t, groups %+v while a run reads its buffers", live(f), f.hosts["a"].Busy(), f.hosts["a"].Status())
			}
			time.Sleep(rest + time.Second)
			if live(f) != 0 || f.hosts["a"].Busy() || len(f.hosts["a"].Status()) != 0 {
				t.Errorf("%d buffers left, busy %t, groups %+v when all is over", live(f), f.hosts["a"].Busy(), f.hosts["a"].Status())
			}
		})
	})
	t.Run("it fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b")
			f.rest = func(_ context.Context, host string) error {
				if time.Sleep(rest); host == "b" {
					return errors.New("nobody has confirmed")
				}
				return nil
			}
			for i, err := range f.each("job", ranks, func(r *Rank, _ int) error {
				if err := gather(r); err != nil {
					return err
				}
				time.Sleep(2 * rest)
				if err := gather(r); err == nil {
					return errors.New("the group goes on")
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("rank %d: %v", i, err)
				}
			}
			stop()
			if live(f) != 0 {
				t.Errorf("%d buffers left", live(f))
			}
		})
	})
	for _, tt := range []struct {
		name       string
		rest, want time.Duration
	}{{"the host stops", rest, rest}, {"the host stops, and nobody confirms", time.Hour, LastWords}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, stop := newFabric(t, "a", "b")
				f.rest = func(ctx context.Context, _ string) error {
					select {
					case <-time.After(tt.rest):
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
				for i, err := range f.each("job", ranks, func(r *Rank, _ int) error { return gather(r) }) {
					if err != nil {
						t.Errorf("rank %d: %v", i, err)
					}
				}
				begun := time.Now()
				stop()
				if took := time.Since(begun); took < tt.want-100*time.Millisecond || took > tt.want+100*time.Millisecond {
					t.Errorf("stopped after %v, want %v", took, tt.want)
				}
				if live(f) != 0 {
					t.Errorf("%d buffers left", live(f))
				}
			})
		})
	}
}
