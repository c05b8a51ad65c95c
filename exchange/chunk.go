package exchange

import "github.com/gridagent/gridagent/exchange/plan"

// Where forwarding in other chunks than [DefaultChunk]'s saves time. Chunks are halved as long as that saves the share halving of the time, down to
// leastChunk, and doubled, up to four times, as long as that costs no more than the share doubling.
const (
	halving    = 0.04
	doubling   = 0.01
	leastChunk = minDefaultChunk
)

// ChunkOf returns the chunk size, in bytes, for p, which must have passed [plan.Plan.Check]: that of
// [DefaultChunk] for its largest block, more where forwarding in larger chunks costs next to nothing, and less where blocks go from host to
// host and wait at each for a chunk.
//
// What larger chunks save: a chunk ends in a packet that is not full, and each packet has its
// headers and its share of an acknowledgement. At 100 Mbit/s a ring of 24 hosts with
// blocks of 64 KiB takes 1.109 times its bound in chunks of 4 KiB, 1.080 in 8, 1.076 in 16 KiB (virtual time).
// What they cost depends on the plan. In a pipeline every hop adds the time of a chunk: 1 MiB of one host go round a ring of eight in 1.46 times
// the bound in chunks of 64 KiB, a sixteenth, and in 1.13 in 8 KiB. In a ring of equal blocks
// a block is due at the next hop a whole block's time after its first chunk, and nothing is lost. An
// alltoall without relays forwards nothing.
//
// The estimate gives every pair of hosts a link of its own, and all links one rate. Links that
// are shared make a chunk's wait matter less.
func ChunkOf(p *plan.Plan) int {
	return ChunkOver(p, alike)
}

func alike(int, int) float64 { return 1 }

// ChunkOver is [ChunkOf] where a byte takes slow(src, dst), in any unit, from one host of p to another.
func ChunkOver(p *plan.Plan, slow func(src, dst int) float64) int {
	f := newForwarding(p, slow)
	base := DefaultChunk(f.largest)
	best, took := base, f.time(base)
	if took == 0 {
		return base
	}
	for c := 2 * base; c <= min(4*base, maxDefaultChunk) && f.time(c) <= took*(1+doubling); c *= 2 {
		best = c
	}
	for best <= base && best/2 >= leastChunk {
		less := f.time(best / 2)
		if less > took*(1-halving) {
			break
		}
		best, took = best/2, less
	}
	return best
}

// ForecastChunk returns the chunk size, in bytes, with which plans for blocks of up to size bytes are compared before one is chosen, of which [ChunkOf] then says more: that of
// [DefaultChunk], but no more than what large blocks that go from host to host have in the end.
func ForecastChunk(size int64) int { return min(DefaultChunk(size), maxForecastChunk) }

const maxForecastChunk = 16 << 10

const (
	simulatedChunks = 1 << 20 // take the simulator a second or two
	chunksOfBlock   = 16      // fewer, and a pipeline is not seen
)

// SimulationChunk returns the chunk size, in bytes, for the simulation of p: chunk, doubled until the blocks on all their hops
// make no more than simulatedChunks, or chunksOfBlock each.
func SimulationChunk(p *plan.Plan, chunk int64) int64 {
	var largest, blocks int64
	for i := range p.Transfers {
		blocks += int64(len(p.Transfers[i].Blocks))
		for _, b := range p.Transfers[i].Blocks {
			largest = max(largest, p.Size(b))
		}
	}
	most := max(simulatedChunks, chunksOfBlock*blocks)
	for chunk > 0 && chunk < largest && chunksBeyond(p, chunk, most) {
		chunk *= 2
	}
	return chunk
}

// chunksBeyond reports whether p has more than most chunks.
func chunksBeyond(p *plan.Plan, chunk, most int64) bool {
	for i := range p.Transfers {
		for _, b := range p.Transfers[i].Blocks {
			if most -= max(1, (p.Size(b)-1)/chunk+1); most < 0 {
				return true
			}
		}
	}
	return false
}

// A forwarding is what of a plan matters for its chunks: the blocks on their ways, in the order in which a
// queue for each pair of hosts serves them.
type forwarding struct {
	slow    []float64 // by pair: the time of a byte
	hops    []hop
	largest int64 // bytes of a block

	free       []float64 // by pair: when it has sent what it was given
	begin, end []float64 // by hop
}

// hopBytes is what a chunk takes longer than its bytes to be at the next hop, in bytes: the last packet stands in the port of
// a switch as well. In a ring whose blocks are one chunk each that is idle time in every step: of blocks of 8 KiB an eighth.
const hopBytes = 1308

// A hop is a block on its way from one host to another.
type hop struct {
	size int64
	pair int32
	by   int32 // the hop that brings it to where it is sent from, -1 at its origin
}

func newForwarding(p *plan.Plan, slow func(src, dst int) float64) *forwarding {
	f := &forwarding{}
	order, err := p.Order()
	if err != nil {
		return f // Split will say so
	}
	n, blocks := len(p.Hosts), 0
	for i := range p.Transfers {
		blocks += len(p.Transfers[i].Blocks)
	}
	pairs := make(map[int]int32, min(blocks, n*n))
	var brought plan.Table // the hop that brings a block to a host
	brought.Reset(p, blocks)
	f.hops = make([]hop, 0, blocks)
	for _, i := range order {
		t := &p.Transfers[i]
		pair, ok := pairs[t.Src*n+t.Dst]
		if !ok {
			pair = int32(len(pairs))
			pairs[t.Src*n+t.Dst] = pair
			f.slow = append(f.slow, slow(t.Src, t.Dst))
		}
		for _, b := range t.Blocks {
			h := hop{size: p.Size(b), pair: pair, by: -1}
			f.largest = max(f.largest, h.size)
			if t.Src != b.Origin {
				if by, ok := brought.At(t.Src, b); ok {
					h.by = int32(by)
				}
			}
			if b.Dest != t.Dst {
				brought.Set(t.Dst, b, len(f.hops))
			}
			f.hops = append(f.hops, h)
		}
	}
	f.free, f.begin, f.end = make([]float64, len(pairs)), make([]float64, len(f.hops)), make([]float64, len(f.hops))
	return f
}

// time returns how long the plan takes in chunks of so many bytes.
func (f *forwarding) time(chunk int) (last float64) {
	clear(f.free)
	for i, h := range f.hops {
		slow := f.slow[h.pair]
		start := f.free[h.pair]
		size := float64(h.size)
		end := start + size*slow
		if h.by >= 0 {
			part := min(float64(chunk), size) + hopBytes
			start = max(start, f.begin[h.by]+part*f.slow[f.hops[h.by].pair])
			end = max(start+size*slow, f.end[h.by]+part*slow)
		}
		f.begin[i], f.end[i], f.free[h.pair] = start, end, end
		last = max(last, end)
	}
	return last
}
