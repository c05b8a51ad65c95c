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

// TestLeftBeforeWait: a rank leaves when an operation of it is over and nobody has asked for the result yet, as when a client is interrupted in that
// moment. The memory has gone with the rank, and nobody gets it: reading it ended the whole agent.
func TestLeftBeforeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		for i, err := range f.each("job", []string{"a", "b", "a"}, func(r *Rank, rank int) error {
			op, err := r.Start(Call{Collective: plan.Allgather, In: Bytes("x")})
			if err != nil {
				return err
			}
			time.Sleep(time.Second) // it is over
			if rank == 0 {
				r.Leave("")
			}
			switch res, err := op.Wait(context.Background()); {
			case err != nil && rank == 0 && errors.Is(err, errLeft):
				return nil
			case err != nil:
				return err
			case rank == 0:
				res.Release()
				return errors.New("a rank that has left got a result")
			default:
				res.Release()
				return nil
			}
		}) {
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	})
}

// TestLeftSinceGroupFailed: a rank whose client's connection is ended, as another rank is lost, hears of that where it asks for the result of an operation that was over before.
func TestLeftSinceGroupFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := newFabric(t, "a", "b")
		defer stop()
		for i, err := range f.each("job", []string{"a", "b"}, func(r *Rank, rank int) error {
			op, err := r.Start(Call{Collective: plan.Allgather, In: Bytes("x")})
			if err != nil {
				return err
			}
			time.Sleep(time.Second) // it is over
			if rank == 1 {
				r.Cancel(errors.New("interrupted"))
				return nil
			}
			<-r.Done().Done()
			r.Leave("")
			var failure *Failure
			if res, err := op.Wait(context.Background()); !errors.As(err, &failure) || failure.Rank != 1 {
				return fmt.Errorf("a result %v and %v, want that rank 1 is lost", res != nil, err)
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		}
	})
}
