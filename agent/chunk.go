package agent

import (
	"math"
	"slices"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/packed"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/wan"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	minCrowdChunk = 1 << 10  // about one packet: smaller ones only add headers
	farChunk      = 16 << 10 // of an alltoall across sites, if its blocks are that large
	relayedChunk  = 5560     // of an allgather across sites, at least: four packets of 1,390
	leastFarChunk = 4 << 10  // of an alltoall across sites over links that hold each flow
	chunkBytes    = 273      // what a chunk of such an alltoall costs beside its bytes, as below
)

// ChunkOf returns the bytes of a chunk for the plan p over the hosts of snap.
//
// It is what [exchange.ChunkOf] says but for an alltoall in which nothing holds a
// host back, and what is below. There every host of a site sends to every host of another at once, and each of
// those flows has at least a chunk under way: together more than the link and its queue
// can hold. Then the flows share what the path holds, its rate times its round trip. On the
// grid of Gupta & Vadhiyar (64 flows over 1.25 Mbit/s, 64 KiB blocks) that is 1 KiB instead
// of 4 KiB: 3,300 packets lost instead of 12,000, and no host that is taken for dead because
// nothing else gets through (TestAlltoallPaperGrid).
//
// Across sites few blocks of an alltoall are forwarded, and a chunk that waits for an answer is
// dear: on the same grid chunks of 4 KiB put 15 % more on the links than the blocks have, those of
// 16 KiB 10 %. Where links hold each flow the last ones take long: see endsSoonest.
//
// An allgather in pieces is relayed over links where a chunk takes long, and yet headers and answers are dear. So a chunk is
// whole packets, of which four are written in two slices and answered once. On that grid 64 KiB take 1.14 times the bound in chunks of 5,560
// and 1.18 in chunks of 8,192, which are seven packets and two answers; 256 KiB 1.10 and 1.13; 1 MiB 1.08 in chunks of
// 11,120 and 1.09 in 27,800 (engines alone).
//
// Blocks of other allgathers are relayed as well, over ways that may be far slower than those inside a site: so it is their rates by which it is
// reckoned what a chunk's wait costs ([exchange.ChunkOver]). Blocks of 16 KiB that came over a flow of 1.9 Mbit/s, and had 15 ms before them, waited until they were there in whole, 75 ms.
//
// Of other plans none takes a flow longer than half a round trip, from farChunk on: what is late for longer than a round trip is written again on another lane. Chunks of 64 KiB, of an alltoall whose
// largest blocks had 1 MiB, were always late on lanes that losses held to 1.2 Mbit/s, and all of them crossed the links twice.
func ChunkOf(p *plan.Plan, snap *netmap.Snapshot) int {
	block := largest(p)
	far := func(t plan.Transfer) bool { return !near(snap.Estimate(t.Src, t.Dst)) }
	across := slices.ContainsFunc(p.Transfers, far)
	var chunk int
	if p.Collective == plan.Allgather && p.Algorithm != packed.Name && across {
		chunk = exchange.ChunkOver(p, slow(p, snap))
	} else {
		chunk = exchange.ChunkOf(p)
	}
	if p.Algorithm == packed.Name && across {
		chunk = max(chunk, exchange.DefaultChunk(block)) // the rings of its sites are quick beside the links
		return max(chunk/4/relayedChunk, 1) * relayedChunk
	}
	chunk = min(chunk, soonThere(p, snap))
	if p.Algorithm == wan.Name {
		most := endsSoonest(p, snap)
		for chunk < most && int64(chunk) < block {
			chunk *= 2
		}
		return chunk
	}
	waits := func(t plan.Transfer) bool { return len(t.After) > 0 }
	if p.Collective != plan.Alltoall || slices.ContainsFunc(p.Transfers, waits) {
		return chunk
	}
	flows := make(map[[2]string]float64) // between sites
	hosts := snap.Hosts()
	for i := range p.Transfers {
		t := &p.Transfers[i]
		flows[[2]string{hosts[t.Src].Site, hosts[t.Dst].Site}]++
	}
	for i := range p.Transfers {
		t := &p.Transfers[i]
		e := snap.Estimate(t.Src, t.Dst)
		if !e.Has(netmap.FieldLatency|netmap.FieldBandwidth) || near(e) {
			continue
		}
		rate := e.Bandwidth
		if e.Has(netmap.FieldCapacity) {
			rate = max(rate, e.Capacity, e.Carried)
		}
		share := float64(rate) * 2 * e.Latency.Seconds() / flows[[2]string{hosts[t.Src].Site, hosts[t.Dst].Site}]
		for chunk > minCrowdChunk && float64(chunk) > share {
			chunk /= 2
		}
	}
	return chunk
}

// slow returns how long a byte takes from one host to another, in seconds, where the pairs that p sends over share what their sites get together; 0 where that is not known.
func slow(p *plan.Plan, snap *netmap.Snapshot) func(src, dst int) float64 {
	hosts := snap.Hosts()
	between := func(src, dst int) [2]string { return [2]string{hosts[src].Site, hosts[dst].Site} }
	pairs, seen := make(map[[2]string]int), make(map[[2]int]bool)
	for i := range p.Transfers {
		if t := &p.Transfers[i]; !seen[[2]int{t.Src, t.Dst}] {
			seen[[2]int{t.Src, t.Dst}] = true
			pairs[between(t.Src, t.Dst)]++
		}
	}
	return func(src, dst int) float64 {
		e := snap.Estimate(src, dst)
		if !e.Has(netmap.FieldBandwidth) || e.Bandwidth <= 0 {
			return 0
		}
		rate := float64(e.Bandwidth)
		if all, ok := snap.Link(src, dst); ok && !near(e) {
			rate = min(rate, float64(all)/float64(pairs[between(src, dst)]))
		}
		return 1 / rate
	}
}

// endsSoonest returns the chunk, in bytes, with which an alltoall across sites ends soonest: farChunk, or less where the network or losses hold each flow. The last chunk of such a link
// crosses it at one flow's rate, while nothing else is left to send; smaller ones cost more headers and answers. Of 64 KiB blocks of four and two hosts over 10 Mbit/s that holds flows to 1,
// which takes 0.42 s at best, a chunk of 16 KiB takes a third of that.
func endsSoonest(p *plan.Plan, snap *netmap.Snapshot) int {
	type link struct{ bytes, rate, capacity float64 }
	links := make(map[[2]string]*link)
	hosts := snap.Hosts()
	for i := range p.Transfers {
		t := &p.Transfers[i]
		e := snap.Estimate(t.Src, t.Dst)
		if !e.Has(netmap.FieldLatency|netmap.FieldBandwidth) || near(e) {
			continue
		}
		between := [2]string{hosts[t.Src].Site, hosts[t.Dst].Site}
		l := links[between]
		if l == nil {
			l = &link{}
			links[between] = l
		}
		for _, b := range t.Blocks {
			l.bytes += float64(p.Size(b))
		}
		all, _ := snap.Link(t.Src, t.Dst)
		l.rate = max(l.rate, float64(e.Bandwidth))
		l.capacity = max(l.capacity, l.rate, float64(all))
	}
	best, soonest := farChunk, math.Inf(1)
	for chunk := farChunk; chunk >= leastFarChunk; chunk /= 2 {
		last := 0.
		for _, l := range links {
			took := l.bytes * (1 + chunkBytes/float64(chunk)) / l.capacity
			if l.capacity >= heldTimes*l.rate {
				took += float64(chunk) / l.rate
			}
			last = max(last, took)
		}
		if last < soonest {
			best, soonest = chunk, last
		}
	}
	return best
}

// soonThere returns the largest chunk, in bytes, that takes no flow of p longer than half a round trip, farChunk at least.
func soonThere(p *plan.Plan, snap *netmap.Snapshot) int {
	most := math.Inf(1)
	for i := range p.Transfers {
		e := snap.Estimate(p.Transfers[i].Src, p.Transfers[i].Dst)
		if e.Has(netmap.FieldLatency|netmap.FieldBandwidth) && !near(e) {
			most = min(most, float64(e.Bandwidth)*e.Latency.Seconds())
		}
	}
	chunk := farChunk
	for float64(2*chunk) <= min(most, 1<<30) {
		chunk *= 2
	}
	return chunk
}

// largest returns the bytes of the largest block that p moves.
func largest(p *plan.Plan) (n int64) {
	for i := range p.Transfers {
		for _, b := range p.Transfers[i].Blocks {
			n = max(n, p.Size(b))
		}
	}
	return n
}
