package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// maxPlan bounds Options.Plan, as the agent does.
const maxPlan = 16 << 20

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
	// Overwrite lets AllgatherFile and AlltoallFile replace an output that exists.
	Overwrite bool
	// Progress, if not nil, is told from time to time how many bytes of the result have
	// arrived at this host, and how many will.
	Progress func(done, total uint64)
}

// A Result holds the blocks from all ranks in rank order.
type Result struct {
	Data   []byte  // mapped, read-only; valid until Close
	Sizes  []int64 // of the blocks, by the rank that they are from
	Report *apiv1.Report
}

// Close unmaps Data.
func (r *Result) Close() error {
	if r.Data == nil {
		return nil
	}
	err := unix.Munmap(r.Data)
	r.Data = nil
	return err
}

// A response is what those of all collectives have in common.
type response interface {
	GetSpool() string
	GetSizes() []uint64
	GetReport() *apiv1.Report
}

// An operation calls one collective with the input in the spool file at path.
type operation func(ctx context.Context, path string) (response, error)

// inMemory runs do over input and maps the result.
func (r *Rank) inMemory(ctx context.Context, input []byte, opts *Options, do operation) (*Result, error) {
	resp, err := r.operate(ctx, int64(len(input)), func(f *os.File) error {
		_, err := f.WriteAt(input, 0)
		return err
	}, opts, do)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(resp.GetSpool())
	if err != nil {
		return nil, r.unopened("result", err)
	}
	defer f.Close()
	out := &Result{Report: resp.GetReport(), Sizes: make([]int64, len(resp.GetSizes()))}
	for i, n := range resp.GetSizes() {
		out.Sizes[i] = int64(n)
	}
	total := sum(resp.GetSizes())
	if info, err := f.Stat(); err != nil || info.Size() != total {
		// To map more than there is would end this process at the first touch.
		return nil, fmt.Errorf("result %s is not the %d bytes that it should be: %v", resp.GetSpool(), total, err)
	}
	if total == 0 {
		return out, nil
	}
	out.Data, err = unix.Mmap(int(f.Fd()), 0, int(total), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map result %s: %w", resp.GetSpool(), err)
	}
	return out, nil
}

func sum(sizes []uint64) (total int64) {
	for _, n := range sizes {
		total += int64(n)
	}
	return total
}

// withFiles runs do over the content of the file in and writes the result to the file out.
// An error names the path that is at fault.
func (r *Rank) withFiles(ctx context.Context, in, out string, opts *Options, do operation) (*apiv1.Report, error) {
	if err := CheckFiles(in, out, opts.Overwrite); err != nil {
		return nil, err
	}
	src, err := os.Open(in)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	// Made before anything is moved: that the place cannot be written is better known now.
	dst, err := createPart(out)
	if err != nil {
		return nil, err
	}
	defer dst.remove()
	resp, err := r.operate(ctx, info.Size(), func(f *os.File) error {
		n, err := io.Copy(f, io.LimitReader(src, info.Size()))
		if err == nil && n < info.Size() {
			err = fmt.Errorf("input %s shrank from %d to %d bytes", in, info.Size(), n)
		}
		return err
	}, opts, do)
	if err != nil {
		return nil, err
	}
	result, err := os.Open(resp.GetSpool())
	if err != nil {
		return nil, r.unopened("result", err)
	}
	defer result.Close()
	if err := publish(dst, result, sum(resp.GetSizes()), out, opts.Overwrite); err != nil {
		return nil, err
	}
	return resp.GetReport(), nil
}

// operate hands the payload over by a spool file that fill writes, and runs the operation.
func (r *Rank) operate(ctx context.Context, size int64, fill func(*os.File) error, opts *Options, do operation) (response, error) {
	switch {
	case len(opts.Plan) > maxPlan:
		return nil, fmt.Errorf("plan of %d bytes: at most %d", len(opts.Plan), maxPlan)
	case opts.Plan != nil && len(opts.Plan) == 0:
		return nil, errors.New("plan of no bytes: leave it away, or give one")
	}
	room, err := r.c.api.Spool(ctx, connect.NewRequest(&apiv1.SpoolRequest{Job: r.job, Rank: r.rank, Bytes: uint64(size)}))
	if err != nil {
		return nil, r.lost(err)
	}
	f, err := os.OpenFile(room.Msg.Path, os.O_WRONLY, 0)
	if err != nil {
		return nil, r.unopened("hand over the input", err)
	}
	err = fill(f)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("hand over the input: %w", err)
	}
	defer r.reportProgress(ctx, opts.Progress)()
	resp, err := do(ctx, room.Msg.Path)
	if err != nil {
		return nil, r.lost(err)
	}
	return resp, nil
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
