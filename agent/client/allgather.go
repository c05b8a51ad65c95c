package client

import (
	"context"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// Allgather contributes block and returns the blocks of all ranks.
func (r *Rank) Allgather(ctx context.Context, block []byte, opts Options) (*Result, error) {
	return r.inMemory(ctx, block, &opts, r.allgather(&opts))
}

// AllgatherFile contributes the content of the file in and writes the blocks of all
// ranks to the file out, which must not exist (but see Options) and appears only when it is
// whole. An error names the path that is at fault.
func (r *Rank) AllgatherFile(ctx context.Context, in, out string, opts Options) (*apiv1.Report, error) {
	return r.withFiles(ctx, in, out, &opts, r.allgather(&opts))
}

func (r *Rank) allgather(opts *Options) operation {
	return func(ctx context.Context, path string) (response, error) {
		resp, err := r.c.api.Allgather(ctx, connect.NewRequest(&apiv1.AllgatherRequest{
			Job: r.job, Rank: r.rank, Input: &apiv1.AllgatherRequest_Spool{Spool: path},
			Algorithm: opts.Algorithm, PlanJson: opts.Plan, TimeoutSeconds: opts.Timeout.Seconds(),
		}))
		if err != nil {
			return nil, err
		}
		return resp.Msg, nil
	}
}
