package bench

import (
	"context"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
)

// A Rank is a place in a group that has formed, such as a [client.Rank]. Its operations run one
// after the other.
type Rank interface {
	Hosts() []string // of each rank
	Allgather(ctx context.Context, block []byte, opts client.Options) (*client.Result, error)
	Alltoall(ctx context.Context, input []byte, opts client.AlltoallOptions) (*client.Result, error)
	Barrier(ctx context.Context, opts client.Options) (*apiv1.Report, error)
}

var _ Rank = (*client.Rank)(nil)
