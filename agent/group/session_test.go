package group

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// sever loses what is written from now on, on the streams that are open between two hosts, in the given direction. Their connection
// is found dead, at both ends, after a time.
func (f *fabric) sever(from, to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.open[from] {
		if s.to == to && !s.severed.Swap(true) {
			time.AfterFunc(6*time.Second, s.abort)
		}
	}
}

// A deadConn is the error of a stream whose connection was found dead.
type deadConn struct{ error }

func (deadConn) Timeout() bool   { return true }
func (deadConn) Temporary() bool { return true }

// TestSessionMoves: the streams between the coordinator and a host break again and again, in one direction or both, at any moment of a run of
// operations, while further ones can be opened. The group goes on, with the right results.
func TestSessionMoves(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			f, stop := newFabric(t, "a", "b", "c")
			defer stop()
			rng := rand.New(rand.NewPCG(seed, 17))
			f.hold = time.Duration(rng.IntN(300)) * time.Millisecond
			if rng.IntN(2) == 0 {
				f.tree = func(hosts []string) Tree { return Tree{Limit: 1 << 10, Leaders: []int{0, 1, 2}} }
			}
			ranks := []string{"a", "b", "c", "b"}
			ends := make(chan struct{})
			go func() {
				time.Sleep(3*time.Second + time.Duration(rng.IntN(3000))*time.Millisecond)
				for range 3 {
					way := rng.IntN(3)
					if way != 1 {
						f.sever("a", "b")
					}
					if way != 2 {
						f.sever("b", "a")
					}
					time.Sleep(8*time.Second + time.Duration(rng.IntN(3000))*time.Millisecond)
				}
				close(ends)
			}()
			errs := f.each("job", ranks, func(r *Rank, rank int) error {
				rng := rand.New(rand.NewPCG(seed, uint64(rank)))
				for round := range uint64(300) {
					time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
					var want []byte
					for i := range ranks {
						want = append(want, block(seed+round, i)...)
					}
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					res, err := r.Allgather(ctx, Bytes(block(seed+round, rank)), Wish{})
					cancel()
					if err != nil {
						return fmt.Errorf("round %d: %w", round, err)
					}
					if !bytes.Equal(res.Data, want) {
						return fmt.Errorf("round %d: wrong bytes", round)
					}
					res.Release()
				}
				return nil
			})
			<-ends
			for rank, err := range errs {
				if err != nil {
					t.Errorf("seed %d: rank %d: %v", seed, rank, err)
				}
			}
		})
	}
}
