package grid

import (
	"bytes"
	"context"
	"sync"
	"time"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
)

// A Job is one allgather or alltoall by ranks on the hosts of a grid.
type Job struct {
	Name    string
	Ranks   []int    // the host of each rank, an index into Grid.Hosts
	Blocks  [][]byte // what each rank contributes; in an alltoall its blocks for all ranks, one behind the other
	Options client.Options
	// Alltoall, if not nil, makes the job an alltoall, and returns what a rank asks for.
	// Options does not count then.
	Alltoall func(rank int) client.AlltoallOptions
	// Context returns the context of a rank's client, which dies when it ends. Nil gives
	// every rank the one of the call.
	Context func(rank int) context.Context
	// Ready, if not nil, is called once, in a goroutine of its own, when all ranks have
	// joined: the clock of Outcome.Took starts then.
	Ready func()
	// Together, if not nil, is one barrier for all ranks of several jobs: none of them calls before all have
	// joined, and the clock of Outcome.Took starts then. Ready is not called.
	Together *Barrier
}

// An Outcome is what one rank got from a job.
type Outcome struct {
	Result []byte
	Sizes  []int64 // of the blocks in Result
	Err    error
	At     time.Time     // when the rank's call returned, well or not
	Took   time.Duration // from the moment when the last rank was ready; 0 after an error
	Report *apiv1.Report
}

// Allgather runs one allgather with rank r on host ranks[r], which contributes
// blocks[r], and returns what each rank got.
func (g *Grid) Allgather(ctx context.Context, job string, ranks []int, blocks [][]byte, opts client.Options) []Outcome {
	return g.Run(ctx, Job{Name: job, Ranks: ranks, Blocks: blocks, Options: opts})
}

// Run runs j and returns what each rank got. It returns when all ranks have.
func (g *Grid) Run(ctx context.Context, j Job) []Outcome {
	out := make([]Outcome, len(j.Ranks))
	var wg sync.WaitGroup
	ready := j.Together
	if ready == nil {
		ready = NewBarrier(len(j.Ranks))
		if j.Ready != nil {
			ready.opened = func() { wg.Go(j.Ready) }
		}
	}
	for r := range j.Ranks {
		rankCtx := ctx
		if j.Context != nil {
			rankCtx = j.Context(r)
		}
		wg.Go(func() {
			out[r] = g.rank(rankCtx, &j, r, ready)
			out[r].At = time.Now()
		})
	}
	wg.Wait()
	return out
}

// rank is one client process: it joins, waits until all ranks have, and does its job.
func (g *Grid) rank(ctx context.Context, j *Job, rank int, ready *Barrier) (o Outcome) {
	c := g.Client(j.Ranks[rank])
	defer c.Close()
	r, err := c.Join(ctx, j.Name, rank, len(j.Ranks))
	if err != nil {
		return Outcome{Err: err}
	}
	defer r.Close()
	start, err := ready.Wait(ctx)
	if err != nil {
		return Outcome{Err: err}
	}
	var res *client.Result
	if j.Alltoall != nil {
		res, err = r.Alltoall(ctx, j.Blocks[rank], j.Alltoall(rank))
	} else {
		res, err = r.Allgather(ctx, j.Blocks[rank], j.Options)
	}
	if err != nil {
		return Outcome{Err: err}
	}
	defer res.Close()
	return Outcome{Result: bytes.Clone(res.Data), Sizes: res.Sizes, Took: time.Since(start), Report: res.Report}
}

// A Barrier opens when so many have come.
type Barrier struct {
	mu     sync.Mutex // guards left
	left   int
	open   chan struct{}
	at     time.Time // set before open is closed
	opened func()    // called by the last to come; may be nil
}

// NewBarrier returns a barrier for n ranks.
func NewBarrier(n int) *Barrier { return &Barrier{left: n, open: make(chan struct{})} }

// Opened returns when the last of b's ranks has come, the zero time if b is not open yet.
func (b *Barrier) Opened() time.Time {
	select {
	case <-b.open:
		return b.at
	default:
		return time.Time{}
	}
}

// Wait counts one rank as there, and returns when b has opened, or the cause of ctx.
func (b *Barrier) Wait(ctx context.Context) (time.Time, error) {
	b.mu.Lock()
	b.left--
	last := b.left == 0
	b.mu.Unlock()
	if last {
		b.at = time.Now()
		close(b.open)
		if b.opened != nil {
			b.opened()
		}
	}
	select {
	case <-b.open:
		return b.at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}
