package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

const (
	// maxPlan bounds Options.Plan, as the agent does.
	maxPlan = 16 << 20
	// maxInline is up to how many bytes results travel inside the call, and maxInlineInput the same of inputs. A file takes three calls of the system more at each end, and an input's one of
	// the agent besides.
	maxInline, maxInlineInput = 256 << 10, 1 << 20
)

// Options are the choices of one operation. All ranks give the same Algorithm.
type Options struct {
	// Algorithm names the schedule; empty leaves the choice to the agent.
	Algorithm string
	// Plan is a plan made elsewhere, in its JSON form (docs/formats.md), at most 16 MiB, to
	// be run in place of an algorithm's: over the hosts of this group, in any order, with
	// the sizes that their blocks have here. The ranks that give one give the same bytes.
	Plan []byte
	// Timeout ends the operation, and with it the group, if it takes longer. Zero means none.
	Timeout time.Duration
	// Together, of a barrier, has it return at the same moment at all ranks, as far as latencies are known, and so later than it could: what is
	// timed from then on begins everywhere at once.
	Together bool
	// Overwrite lets the calls that write a file replace an output that exists.
	Overwrite bool
	// Progress, if not nil, is told from time to time how many bytes of the result have
	// arrived at this host, and how many will, of the first operation that is not over.
	Progress func(done, total uint64)
}

func (o *Options) check() error {
	switch {
	case len(o.Plan) > maxPlan:
		return fmt.Errorf("plan of %d bytes: at most %d", len(o.Plan), maxPlan)
	case o.Plan != nil && len(o.Plan) == 0:
		return errors.New("plan of no bytes: leave it away, or give one")
	}
	return nil
}

// A Result holds the blocks from all ranks in rank order.
type Result struct {
	Data   []byte  // read-only; valid until Close
	Sizes  []int64 // of the blocks, by the rank that they are from
	Report *apiv1.Report

	mapped []byte // Data where it is a file's
}

// Close lets go of Data.
func (r *Result) Close() error {
	mapped := r.mapped
	r.Data, r.mapped = nil, nil
	if mapped == nil {
		return nil
	}
	return unix.Munmap(mapped)
}

// A payload is what a request contributes: a spool file, or data.
type payload struct {
	data  []byte
	spool string
}

// A response is what those of all collectives have in common.
type response struct {
	data   []byte
	spool  string // in place of data; empty where there is nothing
	sizes  []uint64
	report *apiv1.Report
}

func (r *response) total() (n int64) {
	for _, size := range r.sizes {
		n += int64(size)
	}
	return n
}

// A request makes the message that asks for one collective, which may take so long; 0: as long as it wants.
type request func(in payload, turn *apiv1.Turn, limit time.Duration) *apiv1.LineRequest

// A task is one operation from a rank's side.
type task struct {
	opts  Options
	wrong error // what is wrong with the arguments; nil for nothing
	// The input has size bytes: data, or what fill writes.
	size int64
	data []byte
	fill func(*os.File) error
	do   request
	// take makes what the caller gets of the response: after it the spool file can go.
	take func(*response) (*Result, error)
}

// run carries out a task in the turn of number n.
func (r *Rank) run(ctx context.Context, n uint64, t *task) (*Result, error) {
	spooled, many := t.size > maxInlineInput || t.data == nil && t.size > 0, uint64(maxAhead)
	if spooled {
		many = maxHandedOver
	}
	limit, roomErr := r.numbers.room(ctx, n, many, t.opts.Timeout)
	if err := context.Cause(r.numbers.ctx); err != nil {
		r.taken(n, false)
		if ge := r.failure(endGrace); ge != nil {
			return nil, ge
		}
		return nil, err
	}
	if roomErr != nil {
		r.taken(n, false)
		r.broken(roomErr) // also where it was the last: other ranks may be at it
		return nil, roomErr
	}
	in := payload{data: t.data}
	if spooled {
		path, err := r.handOver(ctx, t)
		if err != nil {
			r.missed(n, err)
			return nil, err
		}
		in = payload{spool: path}
	}
	file := false
	defer func() { r.taken(n, file) }()
	defer r.reportProgress(ctx, t.opts.Progress)()
	resp, err := r.call(ctx, t.do(in, r.turn(n), limit), in)
	if err != nil {
		if !connect.IsWireError(err) {
			r.broken(err)
		}
		return nil, r.lost(err)
	}
	file = resp.spool != ""
	return t.take(resp)
}

// handOver writes the input to a spool file, and returns its path.
func (r *Rank) handOver(ctx context.Context, t *task) (string, error) {
	room, err := r.c.api.Spool(ctx, connect.NewRequest(&apiv1.SpoolRequest{Job: r.job, Rank: r.rank, Bytes: uint64(t.size)}))
	if err != nil {
		return "", r.lost(err)
	}
	f, err := os.OpenFile(room.Msg.Path, os.O_WRONLY, 0)
	if err != nil {
		return "", r.unopened("hand over the input", err)
	}
	if t.fill != nil {
		err = t.fill(f)
	} else {
		_, err = f.WriteAt(t.data, 0)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", fmt.Errorf("hand over the input: %w", err)
	}
	return room.Msg.Path, nil
}

// inMemory makes a result of a response: inline data as they are, a file mapped.
func (r *Rank) inMemory(resp *response) (*Result, error) {
	out := &Result{Report: resp.report, Sizes: make([]int64, len(resp.sizes)), Data: resp.data}
	for i, n := range resp.sizes {
		out.Sizes[i] = int64(n)
	}
	total := resp.total()
	if resp.spool == "" {
		if int64(len(resp.data)) != total {
			return nil, fmt.Errorf("result of %d bytes, not the %d that it should be", len(resp.data), total)
		}
		return out, nil
	}
	f, err := os.Open(resp.spool)
	if err != nil {
		return nil, r.unopened("result", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != total {
		// To map more than there is would end this process at the first touch.
		return nil, fmt.Errorf("result %s is not the %d bytes that it should be: %v", resp.spool, total, err)
	}
	if total == 0 {
		return out, nil
	}
	out.mapped, err = unix.Mmap(int(f.Fd()), 0, int(total), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map result %s: %w", resp.spool, err)
	}
	out.Data = out.mapped
	return out, nil
}

// reportProgress asks the agent now and then how far it is, until stop is called.
func (r *Rank) reportProgress(ctx context.Context, report func(done, total uint64)) (stop func()) {
	if report == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			p, err := r.c.api.Progress(ctx, connect.NewRequest(&apiv1.ProgressRequest{Job: r.job, Rank: r.rank}))
			if err == nil && p.Msg.BytesTotal > 0 {
				report(p.Msg.BytesDone, p.Msg.BytesTotal)
			}
		}
	}()
	return func() { cancel(); <-ended }
}
