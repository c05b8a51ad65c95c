package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

func hostNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	return names
}

func (p *Plan) add(src, dst int, blocks []Block, after ...int) int {
	id := len(p.Transfers)
	p.Transfers = append(p.Transfers, Transfer{ID: id, Src: src, Dst: dst, Blocks: blocks, Phase: -1, After: after})
	return id
}

// randomPools partitions n hosts.
func randomPools(rng *rand.Rand, n int) [][]int {
	pools := make([][]int, 1+rng.IntN(n))
	for i, h := range rng.Perm(n) {
		k := i
		if i >= len(pools) {
			k = rng.IntN(len(pools))
		}
		pools[k] = append(pools[k], h)
	}
	return pools
}

// randomAllgather returns a valid plan in which each block enters each pool once and
// then spreads there over a random tree. The blocks interleave at random.
func randomAllgather(rng *rand.Rand, n int, pools [][]int, sizes []int64) *Plan {
	p := &Plan{Collective: Allgather, Algorithm: "random", Hosts: hostNames(n), Sizes: sizes}
	pool, err := poolOf(n, pools)
	if err != nil {
		panic(err)
	}
	type holder struct{ host, by int }
	p.Cuts = randomCuts(rng, p)
	holders := make(map[Block][]holder)
	type want struct {
		Block
		dst int
	}
	var wants []want
	for o := range n {
		b := Block{Origin: o, Dest: All}
		for b.Piece = range p.Pieces(b) {
			holders[b] = []holder{{o, -1}}
			for d := range n {
				if d != o {
					wants = append(wants, want{b, d})
				}
			}
		}
	}
	rng.Shuffle(len(wants), func(i, j int) { wants[i], wants[j] = wants[j], wants[i] })
	for _, w := range wants {
		// The first into a pool may come from any holder, the others from inside.
		var from []holder
		for _, h := range holders[w.Block] {
			if pool[h.host] == pool[w.dst] {
				from = append(from, h)
			}
		}
		if len(from) == 0 {
			from = holders[w.Block]
		}
		h := from[rng.IntN(len(from))]
		var after []int
		if h.by >= 0 {
			after = append(after, h.by)
		}
		if len(p.Transfers) > 0 && rng.IntN(4) == 0 {
			if a := rng.IntN(len(p.Transfers)); !slices.Contains(after, a) {
				after = append(after, a)
			}
		}
		id := p.add(h.host, w.dst, []Block{w.Block}, after...)
		holders[w.Block] = append(holders[w.Block], holder{w.dst, id})
	}
	return p
}

// randomAlltoall sends each block to its end over up to two relays.
func randomAlltoall(rng *rand.Rand, n int) *Plan {
	p := &Plan{Collective: Alltoall, Algorithm: "random", Hosts: hostNames(n), Matrix: make([][]int64, n)}
	for i := range p.Matrix {
		p.Matrix[i] = randomSizes(rng, n)
	}
	p.Cuts = randomCuts(rng, p)
	for s := range n {
		for _, k := range rng.Perm(n * 3) {
			d, b := k%n, Block{Origin: s, Dest: k % n, Piece: k / n}
			if s == d || b.Piece >= p.Pieces(b) {
				continue
			}
			route := []int{s}
			for range rng.IntN(3) {
				if r := rng.IntN(n); r != d && !slices.Contains(route, r) {
					route = append(route, r)
				}
			}
			route = append(route, d)
			var after []int
			for k := range route[1:] {
				after = []int{p.add(route[k], route[k+1], []Block{b}, after...)}
			}
		}
	}
	return p
}

// randomCuts cuts some blocks of half of all plans into two or three pieces.
func randomCuts(rng *rand.Rand, p *Plan) []Cut {
	var cuts []Cut
	if rng.IntN(2) == 0 {
		return nil
	}
	n := len(p.Hosts)
	for o := range n {
		for d := range n {
			c := Cut{Origin: o, Dest: d}
			if p.Collective == Allgather {
				if d > 0 {
					break
				}
				c.Dest = All
			}
			size := p.Whole(Block{Origin: c.Origin, Dest: c.Dest})
			if size < 3 || o == d && p.Collective == Alltoall || rng.IntN(2) == 0 {
				continue
			}
			c.At = []int64{1 + rng.Int64N(size-2)}
			if rng.IntN(2) == 0 {
				c.At = append(c.At, c.At[0]+1+rng.Int64N(size-1-c.At[0]))
			}
			cuts = append(cuts, c)
		}
	}
	return cuts
}

func randomSizes(rng *rand.Rand, n int) []int64 {
	sizes := make([]int64, n)
	for i := range sizes {
		switch rng.IntN(5) {
		case 0:
		case 1:
			sizes[i] = 1
		default:
			sizes[i] = rng.Int64N(1 << 20)
		}
	}
	return sizes
}

// randomSnapshot has sites of unlike speed, and now and then gaps and overheads.
func randomSnapshot(rng *rand.Rand, n int, pools [][]int) *netmap.Snapshot {
	pool, err := poolOf(n, pools)
	if err != nil {
		panic(err)
	}
	hosts := make([]netmap.Host, n)
	for i, name := range hostNames(n) {
		hosts[i].Name = name
	}
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		for j := range n {
			e := netmap.Estimate{Known: netmap.FieldBandwidth | netmap.FieldLatency,
				Bandwidth: netmap.Mbps * netmap.BytesPerSec(50+rng.IntN(200)), Latency: time.Duration(rng.IntN(200)) * time.Microsecond}
			if pool[i] != pool[j] {
				e.Bandwidth = netmap.Mbps * netmap.BytesPerSec(math.Exp(rng.Float64()*3))
				e.Latency = time.Duration(rng.IntN(100)) * time.Millisecond
				if rng.IntN(2) == 0 {
					e.Known |= netmap.FieldCapacity
					e.Capacity = e.Bandwidth * netmap.BytesPerSec(1+rng.Float64()*8)
				}
			}
			if rng.IntN(3) == 0 {
				e.Known |= netmap.FieldGap | netmap.FieldSendOverhead
				e.Gap, e.SendOverhead = time.Duration(rng.IntN(1e7)), time.Duration(rng.IntN(1e6))
			}
			est[i*n+j] = e
		}
	}
	return netmap.NewSnapshot(1, hosts, est)
}

// schedule gives p times by equations 1-3 (with the arrival term), in plan order, which
// must be topological. It is written from the paper, apart from the verifier.
func schedule(p *Plan, s *netmap.Snapshot, duplex Duplex) {
	n := len(p.Hosts)
	send, receive := make([]time.Duration, n), make([]time.Duration, n)
	link := make([]time.Duration, n*n)
	end := make([]time.Duration, len(p.Transfers))
	for i := range p.Transfers {
		t := &p.Transfers[i]
		bytes := p.Bytes(t)
		start := max(link[t.Src*n+t.Dst], send[t.Src], receive[t.Dst])
		if duplex == HalfDuplex {
			start = max(start, receive[t.Src], send[t.Dst])
		}
		for _, a := range t.After {
			start = max(start, end[a])
		}
		lasts, err := s.TransferTime(t.Src, t.Dst, bytes)
		if err != nil {
			panic(err)
		}
		end[i] = start + lasts
		link[t.Src*n+t.Dst] = start + s.Gap(t.Src, t.Dst, bytes)
		send[t.Src] = start + s.SendOverhead(t.Src, t.Dst, bytes)
		receive[t.Dst] = end[i]
		t.Start, t.End = start.Seconds(), end[i].Seconds()
		p.Makespan = max(p.Makespan, t.End)
	}
}
