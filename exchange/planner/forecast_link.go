package planner

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

type forecastJob struct {
	waits  int32   // edges that have not been followed
	blocks int32   // where its blocks begin
	bytes  float64 // header and all
	rate   float64 // at which they arrive
	ready  float64 // no earlier than this
	begin  float64 // its first byte leaves
	left   float64 // its last byte leaves
	end    float64 // all has arrived
}

// A forecastBlock is a block, or a piece of one, on its way from one host to another.
type forecastBlock struct {
	job   int32   // that carries it
	by    int32   // the block that brings it to where it is sent from; -1 at its origin
	size  float64 // bytes
	after float64 // bytes of it and of those behind it in the job
}

// news is what of a job lets another begin.
type news uint8

const (
	ended news = iota // all of it has arrived
	begun             // its first byte has left
	fed               // its first chunk has arrived
)

// An edge leads from a job to one that waits for it.
type edge struct {
	from, to int32
	news     news
	delay    float64
}

// link finds what each transfer waits for.
func (f *forecast) link() error {
	p, n := f.plan, f.n
	brings := &f.brings
	brings.reset(p)
	order, err := p.Order()
	if err != nil {
		return err
	}
	for k, i := range order {
		f.rank[i] = int32(k)
	}
	waits := brings.blocks
	for i := range p.Transfers {
		waits += len(p.Transfers[i].After)
	}
	f.blocks, f.edges = slices.Grow(f.blocks, brings.blocks), slices.Grow(f.edges, waits)
	for i := range p.Transfers {
		t, job := &p.Transfers[i], &f.jobs[i]
		job.blocks = int32(len(f.blocks))
		for _, b := range t.Blocks {
			x := forecastBlock{job: int32(i), by: -1, size: float64(p.Size(b)) * f.share}
			if b.Origin != t.Src {
				by, carrier, ok := brings.of(t.Src, b)
				if !ok {
					return fmt.Errorf("transfer %d: %s never holds a block that it sends: %w", i, p.Hosts[t.Src], plan.ErrStalled)
				}
				x.by = by
				f.brought[carrier] = int32(i) + 1
				switch {
				case !f.stream:
					f.edge(edge{from: carrier, to: int32(i)})
				case len(f.blocks) == int(job.blocks): // its first
					f.edge(edge{from: carrier, to: int32(i), news: fed})
				default:
					f.edge(edge{from: carrier, to: int32(i), news: begun})
				}
			}
			job.bytes += x.size
			f.blocks = append(f.blocks, x)
		}
		after := job.bytes
		for k := int(job.blocks); k < len(f.blocks); k++ {
			f.blocks[k].after = after
			after -= f.blocks[k].size
		}
		job.bytes += f.header
		for _, a := range t.After {
			if f.brought[a] == int32(i)+1 {
				continue // chunk by chunk, or an edge already
			}
			teller, _ := t.Teller(&p.Transfers[a])
			delay := 0.0
			if f.stream && teller != t.Src { // the papers' hosts know at once
				delay = f.latency[teller*n+t.Src]
			}
			f.edge(edge{from: int32(a), to: int32(i), delay: delay})
		}
	}
	if !f.stream { // to the letter, what stands before it to the same host goes first
		last := make([]int32, n*n)
		for _, i := range order {
			t := &p.Transfers[i]
			if k := last[t.Src*n+t.Dst]; k > 0 {
				f.edge(edge{from: k - 1, to: int32(i), news: begun})
			}
			last[t.Src*n+t.Dst] = int32(i) + 1
		}
	}
	f.group()
	return nil
}

func (f *forecast) edge(e edge) {
	f.edges = append(f.edges, e)
	f.jobs[e.to].waits++
}

// group sorts the edges by where they begin: a counting sort, for there are many.
func (f *forecast) group() {
	for i := range f.edges {
		f.nextOf[f.edges[i].from+1]++
	}
	for i := range f.jobs {
		f.nextOf[i+1] += f.nextOf[i]
	}
	f.at = append(f.at[:0], f.nextOf...)
	f.next = slices.Grow(f.next[:0], len(f.edges))[:len(f.edges)]
	for _, e := range f.edges {
		f.next[f.at[e.from]] = e
		f.at[e.from]++
	}
}

// bringers says which transfer brings a block to a host that sends it on. Blocks are counted through
// all transfers.
type bringers struct {
	n, pieces, blocks int
	carrier           []int32 // the transfer of each block
	// dense has 1 + the number of the block at [(host*n+origin)*pieces+piece], of an alltoall at
	// [((host*n+origin)*n+dest)*pieces+piece]. Where that were too much, there is relayed.
	dense   []int32
	relayed map[relay]int32
}

type relay struct {
	host  int
	block plan.Block
}

// maxDense bounds bringers.dense: 16 MiB, an alltoall of 161 hosts.
const maxDense = 1 << 22

// reset makes b that of p, in the memory that it has.
func (b *bringers) reset(p *plan.Plan) {
	b.n, b.pieces, b.blocks, b.relayed = len(p.Hosts), 1, 0, nil
	for i := range p.Transfers {
		b.blocks += len(p.Transfers[i].Blocks)
		for _, block := range p.Transfers[i].Blocks {
			b.pieces = max(b.pieces, block.Piece+1)
		}
	}
	entries := b.n * b.n * b.pieces
	if p.Collective == plan.Alltoall {
		entries *= b.n
	}
	if entries <= maxDense {
		b.dense = zeros(b.dense, entries)
	} else {
		b.dense = nil
		b.relayed = make(map[relay]int32)
	}
	b.carrier = slices.Grow(b.carrier[:0], b.blocks)
	for i := range p.Transfers {
		t := &p.Transfers[i]
		for _, block := range t.Blocks {
			b.carrier = append(b.carrier, int32(i))
			switch {
			case block.Dest == t.Dst: // it has come to its end
			case b.dense != nil:
				b.dense[b.place(t.Dst, block)] = int32(len(b.carrier))
			default:
				b.relayed[relay{t.Dst, block}] = int32(len(b.carrier))
			}
		}
	}
}

func (b *bringers) place(host int, block plan.Block) int {
	at := host*b.n + block.Origin
	if block.Dest != plan.All {
		at = at*b.n + block.Dest
	}
	return at*b.pieces + block.Piece
}

// of returns the number of the block and the transfer that bring block to host.
func (b *bringers) of(host int, block plan.Block) (by, carrier int32, ok bool) {
	if b.dense != nil {
		by = b.dense[b.place(host, block)]
	} else {
		by = b.relayed[relay{host, block}]
	}
	if by == 0 {
		return 0, 0, false
	}
	return by - 1, b.carrier[by-1], true
}
