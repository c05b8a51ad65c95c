package client

import (
	"context"
	"fmt"
	"time"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// Allgather contributes block and returns the blocks of all ranks.
func (r *Rank) Allgather(ctx context.Context, block []byte, opts Options) (*Result, error) {
	return r.StartAllgather(ctx, block, opts).Wait(context.Background())
}

// StartAllgather is Allgather that does not wait. Operations of one rank are done in the order in
// which they are started, which is the same at all ranks; up to 16 are under way at once, and
// any number wait. block must stay unchanged until the operation is over. The end of ctx is a Cancel.
func (r *Rank) StartAllgather(ctx context.Context, block []byte, opts Options) *Operation {
	return r.start(ctx, &task{opts: opts, size: int64(len(block)), data: block, do: r.allgather(&opts), take: r.inMemory})
}

// AllgatherFile contributes the content of the file in and writes the blocks of all
// ranks to the file out, which must not exist (but see Options) and appears only when it is
// whole. An error names the path that is at fault.
func (r *Rank) AllgatherFile(ctx context.Context, in, out string, opts Options) (*apiv1.Report, error) {
	return r.withFiles(ctx, in, out, &opts, r.allgather(&opts))
}

func (r *Rank) allgather(opts *Options) request {
	return func(in payload, turn *apiv1.Turn, limit time.Duration) *apiv1.LineRequest {
		m := &apiv1.AllgatherRequest{
			Job: r.job, Rank: r.rank, Turn: turn,
			Algorithm: opts.Algorithm, PlanJson: opts.Plan, TimeoutSeconds: limit.Seconds(),
		}
		if in.spool != "" {
			m.Input = &apiv1.AllgatherRequest_Spool{Spool: in.spool}
		}
		return &apiv1.LineRequest{Call: &apiv1.LineRequest_Allgather{Allgather: m}}
	}
}

// Broadcast gives the bytes of data at rank root to every rank, and returns them. data is not
// looked at elsewhere. All ranks name the same root.
func (r *Rank) Broadcast(ctx context.Context, root int, data []byte, opts Options) (*Result, error) {
	return r.StartBroadcast(ctx, root, data, opts).Wait(context.Background())
}

// StartBroadcast is Broadcast that does not wait; see [Rank.StartAllgather].
func (r *Rank) StartBroadcast(ctx context.Context, root int, data []byte, opts Options) *Operation {
	if root != int(r.rank) {
		data = nil
	}
	return r.start(ctx, &task{opts: opts, size: int64(len(data)), data: data, wrong: r.wrongRoot(root), do: r.broadcast(root, &opts), take: r.inMemory})
}

// BroadcastFile gives the content of the file at rank root to every rank. At the root file is
// read, elsewhere it is written: then it must not exist (but see [Options]), and appears only
// when it is whole. An error names the path that is at fault.
func (r *Rank) BroadcastFile(ctx context.Context, root int, file string, opts Options) (*apiv1.Report, error) {
	if root != int(r.rank) {
		return r.toFile(ctx, file, &task{opts: opts, wrong: r.wrongRoot(root), do: r.broadcast(root, &opts)})
	}
	t := &task{opts: opts, do: r.broadcast(root, &opts), take: func(resp *response) (*Result, error) {
		return &Result{Report: resp.report}, nil
	}}
	return r.fromFile(ctx, file, t)
}

func (r *Rank) wrongRoot(root int) error {
	if root < 0 || root >= len(r.hosts) {
		return fmt.Errorf("root %d of %d ranks", root, len(r.hosts))
	}
	return nil
}

func (r *Rank) broadcast(root int, opts *Options) request {
	return func(in payload, turn *apiv1.Turn, limit time.Duration) *apiv1.LineRequest {
		m := &apiv1.BroadcastRequest{
			Job: r.job, Rank: r.rank, Root: uint32(root), Turn: turn,
			Algorithm: opts.Algorithm, PlanJson: opts.Plan, TimeoutSeconds: limit.Seconds(),
		}
		if in.spool != "" {
			m.Input = &apiv1.BroadcastRequest_Spool{Spool: in.spool}
		}
		return &apiv1.LineRequest{Call: &apiv1.LineRequest_Broadcast{Broadcast: m}}
	}
}

// Barrier returns when all ranks have called it. Of opts only Timeout and Together count.
func (r *Rank) Barrier(ctx context.Context, opts Options) (*apiv1.Report, error) {
	res, err := r.StartBarrier(ctx, opts).Wait(context.Background())
	if err != nil {
		return nil, err
	}
	return res.Report, nil
}

// StartBarrier is Barrier that does not wait; see [Rank.StartAllgather].
func (r *Rank) StartBarrier(ctx context.Context, opts Options) *Operation {
	do := func(_ payload, turn *apiv1.Turn, limit time.Duration) *apiv1.LineRequest {
		return &apiv1.LineRequest{Call: &apiv1.LineRequest_Barrier{Barrier: &apiv1.BarrierRequest{
			Job: r.job, Rank: r.rank, Turn: turn, TimeoutSeconds: limit.Seconds(), Together: opts.Together,
		}}}
	}
	return r.start(ctx, &task{opts: Options{Timeout: opts.Timeout}, do: do, take: r.inMemory})
}
