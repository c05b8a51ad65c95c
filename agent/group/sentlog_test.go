package group

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
)

// TestSentLog: what is kept is of the latest operations, however many others are between them.
func TestSentLog(t *testing.T) {
	var l sentLog
	for i := range uint64(logged) {
		l.add(message{Seq: i * 1000})
		l.add(message{Seq: i * 1000})
	}
	if all := l.all(); len(all) != 2*logged || all[0].Seq != 0 {
		t.Fatalf("%d messages are kept, from operation %d", len(all), all[0].Seq)
	}
	l.add(message{Seq: logged * 1000})
	all := l.all()
	if len(all) != 2*logged-1 || all[0].Seq != 1000 || all[len(all)-1].Seq != logged*1000 {
		t.Errorf("%d messages are kept, from operation %d", len(all), all[0].Seq)
	}
	if len(l.of) != logged {
		t.Errorf("%d operations are kept", len(l.of))
	}
	l.forget(61_000)
	if all := l.all(); len(all) != 7 || all[0].Seq != 61_000 {
		t.Errorf("%d messages are kept, from operation %d, of those from 61000 to 64000", len(all), all[0].Seq)
	}
	l.forget(1)
	l.forget(1e6)
	if all := l.all(); len(all) != 0 {
		t.Errorf("%d messages are kept of operations that are over", len(all))
	}
}

// TestPast: hosts learn from contributions how far all of them are, so that of operations that wait for each other no more is kept than the last two.
func TestPast(t *testing.T) {
	for name, tree := range map[string]Tree{
		"by the tree": {Leaders: []int{0, 0, 2, 2, 2}, Limit: 1000},
		"in rounds":   {Leaders: make([]int, 5), Limit: 10, Rounds: 1000},
		"straight":    {Leaders: make([]int, 5), Limit: 10, Straight: 1000},
	} {
		synctest.Test(t, func(t *testing.T) {
			hosts := []string{"a", "b", "c", "d", "e"}
			f, stop := newFabric(t, hosts...)
			defer stop()
			f.tree = func([]string) Tree { return tree }
			const ops = 40
			errs := f.each("job", hosts, func(r *Rank, rank int) error {
				for i := range ops {
					res, err := r.Allgather(context.Background(), Bytes(fill(i, rank, 20)), Wish{})
					if err != nil {
						return err
					}
					if res.Report.Algorithm != "eager" {
						return fmt.Errorf("operation %d by %s", i, res.Report.Algorithm)
					}
					res.Release()
				}
				if got := r.m.overEverywhere(); got != ops-1 {
					return fmt.Errorf("the first operation that may not be over everywhere is %d after %d", got, ops)
				}
				return nil
			})
			for i, err := range errs {
				if err != nil {
					t.Errorf("%s: rank %d: %v", name, i, err)
				}
			}
		})
	}
}
