package client

import (
	"context"
	"fmt"
	"math"
	"time"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// AlltoallOptions are the choices of one alltoall. All ranks give the same, but for Sizes and
// what [Options] says.
type AlltoallOptions struct {
	Options
	// Sizes are the bytes of the block for each rank, in rank order; their sum is the
	// input's length. Nil cuts the input into equal blocks: then it is as long at every
	// rank that gives no sizes.
	Sizes []int64

	// Sync is how the algorithm aapc keeps messages of different phases apart: receiver
	// (the default), sender, barrier, dummy, order or none. SyncBlock, Within and SyncStrict are
	// the flags of gridagent plan alltoall of these names.
	Sync       string
	SyncBlock  int
	Within     string
	SyncStrict bool
	// Fanout is how many partners a host serves at a time in group-shuffle. Zero means 5,
	// or all others where they are fewer.
	Fanout int
}

// Alltoall sends each rank its block of input, which holds one for each rank in rank order,
// and returns the blocks from all ranks.
func (r *Rank) Alltoall(ctx context.Context, input []byte, opts AlltoallOptions) (*Result, error) {
	return r.StartAlltoall(ctx, input, opts).Wait(context.Background())
}

// StartAlltoall is Alltoall that does not wait; see [Rank.StartAllgather].
func (r *Rank) StartAlltoall(ctx context.Context, input []byte, opts AlltoallOptions) *Operation {
	do, err := r.alltoall(&opts)
	return r.start(ctx, &task{opts: opts.Options, wrong: err, size: int64(len(input)), data: input, do: do, take: r.inMemory})
}

// AlltoallFile is Alltoall with the content of the file in as the input, and the file out,
// which must not exist (but see [Options]) and appears only when it is whole, for the result.
// An error names the path that is at fault.
func (r *Rank) AlltoallFile(ctx context.Context, in, out string, opts AlltoallOptions) (*apiv1.Report, error) {
	do, err := r.alltoall(&opts)
	if err != nil {
		return nil, err
	}
	return r.withFiles(ctx, in, out, &opts.Options, do)
}

func (r *Rank) alltoall(opts *AlltoallOptions) (request, error) {
	sizes := make([]uint64, len(opts.Sizes))
	for i, n := range opts.Sizes {
		if n < 0 {
			return nil, fmt.Errorf("block of %d bytes for rank %d", n, i)
		}
		sizes[i] = uint64(n)
	}
	for _, n := range []int{opts.SyncBlock, opts.Fanout} {
		if n < 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("sync block %d, fanout %d: want 0 or more", opts.SyncBlock, opts.Fanout)
		}
	}
	return func(in payload, turn *apiv1.Turn, limit time.Duration) *apiv1.LineRequest {
		m := &apiv1.AlltoallRequest{
			Job: r.job, Rank: r.rank, Sizes: sizes, Turn: turn,
			Algorithm: opts.Algorithm, PlanJson: opts.Plan, TimeoutSeconds: limit.Seconds(),
			Options: &apiv1.AlltoallOptions{
				Sync: opts.Sync, SyncBlock: uint32(opts.SyncBlock), Within: opts.Within,
				SyncStrict: opts.SyncStrict, Fanout: uint32(opts.Fanout),
			},
		}
		if in.spool != "" {
			m.Input = &apiv1.AlltoallRequest_Spool{Spool: in.spool}
		}
		return &apiv1.LineRequest{Call: &apiv1.LineRequest_Alltoall{Alltoall: m}}
	}, nil
}
