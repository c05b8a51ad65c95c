package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/exchange/plan"
)

// A run is a benchmark at one rank.
type run struct {
	Config
	rank   Rank
	hosts  []string // of each rank
	sites  []string // of each rank
	siteOf map[string]string
	sent   []int64 // bytes of the blocks that this rank has for an operation: one, or one for each rank
	got    []int64 // and of those that it gets, by rank
	input  []byte
	op     uint64 // number of the next operation
}

// Run runs the benchmark as one rank of the group; every rank does, and gets the same report.
// It holds the sizes that were measured to the end, also when there is an error; it is nil if
// the ranks never agreed to begin. After a [*WrongDataError] or a [*MismatchError], which all
// ranks get, the group is as good as before.
func Run(ctx context.Context, r Rank, cfg Config) (*Report, error) {
	b := &run{Config: cfg, rank: r, hosts: r.Hosts()}
	if err := b.check(len(b.hosts)); err != nil {
		return nil, err
	}
	if err := b.agree(ctx); err != nil {
		return nil, err
	}
	report := &Report{
		Collective: string(b.Collective), Algorithm: b.algorithm(), Ranks: len(b.hosts),
		Hosts: b.hosts, Sites: b.sites, Warmup: b.Warmup, Apart: b.Apart, Sizes: []Size{},
	}
	if !b.Shape.Even() {
		report.Shape = b.Shape
	}
	for _, size := range b.Sizes {
		s, err := b.measure(ctx, size)
		if err != nil {
			return report, err
		}
		report.Sizes = append(report.Sizes, *s)
	}
	return report, nil
}

// meet returns when all ranks have called it, at the same moment at all of them unless they are to begin apart.
func (b *run) meet(ctx context.Context) error {
	_, err := b.rank.Barrier(ctx, client.Options{Timeout: b.Options.Timeout, Together: !b.Apart})
	return err
}

// measure measures one size. What the ranks saw they tell each other in the end: between two operations it would be in the next one's way.
func (b *run) measure(ctx context.Context, size int64) (*Size, error) {
	s := &Size{Bytes: size}
	moved := b.lay(size)
	total := b.Warmup + b.Iterations
	own := make([]observation, total)
	for k := range own {
		if b.Progress != nil {
			b.Progress(size, k, total)
		}
		var err error
		if own[k], err = b.once(ctx); err != nil {
			return nil, err
		}
	}
	all, err := share(ctx, b, own)
	if err != nil {
		return nil, err
	}
	for r, o := range all {
		if len(o) != total {
			return nil, &MismatchError{Rank: r, Host: b.hosts[r], Cause: notBench(r)}
		}
	}
	seen := make([]observation, b.n())
	for k := range total {
		for r := range seen {
			seen[r] = all[r][k]
		}
		if err := b.wrong(seen, size, k); err != nil {
			return nil, err
		}
		if k >= b.Warmup {
			s.Iterations = append(s.Iterations, b.iteration(seen))
		}
	}
	s.summarise(float64(moved) / float64(b.n()))
	return s, nil
}

// lay sets what this rank sends and gets in operations of a size. It returns the bytes that all ranks get from others, together.
func (b *run) lay(size int64) (moved int64) {
	n := b.n()
	if b.Collective == plan.Allgather {
		b.got = b.Shape.Blocks(size, n)
		b.sent = b.got[b.Rank : b.Rank+1]
		for _, bytes := range b.got {
			moved += bytes * int64(n-1)
		}
		return moved
	}
	rows := b.Shape.Matrix(size, n)
	b.sent, b.got = rows[b.Rank], make([]int64, n)
	for from, row := range rows {
		b.got[from] = row[b.Rank]
		for to, bytes := range row {
			if to != from {
				moved += bytes
			}
		}
	}
	return moved
}

// n is how many ranks the group has.
func (b *run) n() int { return len(b.hosts) }

// once runs one operation and returns what this rank saw of it.
func (b *run) once(ctx context.Context) (o observation, err error) {
	defer func() { b.op++ }()
	b.prepare()
	if err := b.meet(ctx); err != nil {
		return o, err
	}
	begun := time.Now()
	res, err := b.operate(ctx)
	took := time.Since(begun)
	if err != nil {
		return o, err
	}
	o = b.observe(res.Report, took)
	o.Wrong = b.verify(res)
	return o, res.Close()
}

// prepare fills the input of the next operation.
func (b *run) prepare() {
	var all int64
	for _, n := range b.sent {
		all += n
	}
	b.input = slices.Grow(b.input[:0], int(all))[:all]
	rest := b.input
	for to, n := range b.sent {
		fill(rest[:n], b.block(b.Rank, to))
		rest = rest[n:]
	}
}

// block names the block from one rank to another in the next operation.
func (b *run) block(from, to int) blockID {
	if b.Collective == plan.Allgather {
		to = toAll
	}
	return blockID{b.op, from, to}
}

func (b *run) operate(ctx context.Context) (*client.Result, error) {
	opts := b.Options
	opts.Sizes, opts.Progress = nil, nil
	if b.Collective == plan.Alltoall {
		if !b.Shape.Even() {
			opts.Sizes = b.sent
		}
		return b.rank.Alltoall(ctx, b.input, opts)
	}
	return b.rank.Allgather(ctx, b.input, opts.Options)
}

// verify returns what is wrong with a result, nil if nothing is.
func (b *run) verify(res *client.Result) *wrongBlock {
	var all int64
	for _, n := range b.got {
		all += n
	}
	if len(res.Sizes) != b.n() || int64(len(res.Data)) != all {
		return &wrongBlock{From: -1, Says: fmt.Sprintf("%d bytes in %d blocks, want %d in %d", len(res.Data), len(res.Sizes), all, b.n())}
	}
	rest := res.Data
	for from, n := range res.Sizes {
		if n != b.got[from] {
			return &wrongBlock{From: from, Says: fmt.Sprintf("it has %d bytes, want %d", n, b.got[from])}
		}
		want := b.block(from, b.Rank)
		if at := differs(rest[:n], want); at >= 0 {
			return &wrongBlock{From: from, Says: fmt.Sprintf("byte %d of %d is wrong: %s", at, n, trace(rest[:n], at, want, b.n()))}
		}
		rest = rest[n:]
	}
	return nil
}

// observe returns what this rank has to say of an operation. What its host moved is told by
// the first of its ranks.
func (b *run) observe(r *apiv1.Report, took time.Duration) observation {
	o := observation{
		Seconds: took.Seconds(), Agent: r.GetSeconds(), Algorithm: r.GetAlgorithm(),
		Bound: r.GetBoundSeconds(), Direct: r.GetDirectBoundSeconds(), Predicted: r.GetPredictedSeconds(),
	}
	if slices.Index(b.hosts, b.hosts[b.Rank]) != b.Rank {
		return o
	}
	for _, p := range r.GetPeers() {
		if to := b.siteOf[p.GetHost()]; to != b.Site {
			if o.Sent == nil {
				o.Sent = make(map[string]int64)
			}
			o.Sent[to] += int64(p.GetBytesSent() + p.GetBytesResent())
		}
	}
	return o
}
