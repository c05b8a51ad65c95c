package wan

import (
	"cmp"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// An estimate is how long streams take if nothing that they need is ever idle, in seconds.
type estimate struct {
	links, ports float64 // what the fullest of them needs
	way          float64 // the longest latency
	last         float64 // when the last byte is there by what links need and how far it is
	fits         bool    // no host forwards more than it may
	held         bool    // ports need longer than links, or would with relays
	full         []bool  // per pool: some port of its hosts does
}

func (e estimate) seconds() float64 { return max(e.last, e.ports+e.way) }

// clearer reports whether e is so much shorter than o, which is simpler, that it is to be taken instead.
func (e estimate) clearer(o estimate) bool {
	return e.fits && (!o.fits || gain*e.seconds() < o.seconds())
}

// straight reports whether every block is to take the link of its own two pools.
func (s *scheduler) straight(bounds *plan.AlltoallBounds) bool {
	return bounds.Direct.Bytes > 0 && (s.opts.Direct || bounds.Direct.Seconds <= gain*bounds.Relayed.Seconds)
}

// bridged returns the streams of all blocks between pools over bridges by routing, and how long they take.
func (s *scheduler) bridged(bounds *plan.AlltoallBounds, routing *plan.Routing) ([]stream, estimate) {
	straight := s.straight(bounds)
	streams := s.pour(routing, straight)
	when := s.estimate(streams)
	if straight && !s.opts.Direct { // by their bytes; of short blocks some may still have a nearer way
		if near := s.nearerThanStraight(routing); near != nil {
			others := s.pour(near, false)
			if w := s.estimate(others); w.clearer(when) {
				return others, w
			}
		}
	}
	if straight || bounds.Direct.Bytes == 0 {
		return streams, when
	}
	// The longer way can cost more than relays gain.
	direct := s.pour(routing, true)
	if w := s.estimate(direct); w.fits && !when.clearer(w) {
		if when.held {
			w.held, w.full = true, when.full
		}
		return direct, w
	}
	return streams, when
}

// estimate returns how long streams take, beside what stays in a pool.
func (s *scheduler) estimate(streams []stream) (e estimate) {
	n := len(s.net.Hosts)
	load, early, through := make([]float64, len(s.links)), make([]float64, len(s.links)), make([]int64, n)
	out, in := make([]float64, n), make([]float64, n)
	for a := range n {
		for b := range n {
			if a != b && s.net.Pool[a] == s.net.Pool[b] {
				out[a] += float64(s.sizes.Of(a, b))
				in[b] += float64(s.sizes.Of(a, b))
			}
		}
	}
	for _, st := range streams {
		crosses := 0
		for k := 1; k < len(st.hosts); k++ {
			if _, ok := s.between(st.hosts[k-1], st.hosts[k]); ok {
				crosses++
			}
		}
		for k := 1; k < len(st.hosts); k++ {
			a, b := st.hosts[k-1], st.hosts[k]
			if link, ok := s.between(a, b); ok {
				load[link] += float64(st.bytes)
				load[s.back(link)] += s.links[link].answers * float64(st.bytes)
				if crosses > 1 {
					early[link] += float64(st.bytes)
				}
			}
			out[a] += float64(st.bytes)
			in[b] += float64(st.bytes)
			if k < len(st.hosts)-1 {
				through[b] += st.bytes
			}
		}
	}
	for k := range load {
		if rate := s.links[k].rate; load[k] > 0 && rate > 0 {
			load[k] /= rate
			early[k] /= rate
			e.links = max(e.links, load[k])
		}
	}
	for _, st := range streams { // as [hastening.reaches] has it
		way, first := 0., 0.
		for k := 1; k < len(st.hosts); k++ {
			a, b := st.hosts[k-1], st.hosts[k]
			latency := s.net.Latency[a*n+b].Seconds()
			way += latency
			if link, ok := s.between(a, b); ok && s.links[link].rate > 0 {
				first = max(first, early[link])
				e.last = max(e.last, load[link]+latency)
			}
		}
		e.way, e.last = max(e.way, way), max(e.last, first+way)
	}
	e.fits, e.full = true, make([]bool, len(s.pools))
	for h, k := range s.net.Pool {
		if through[h] > s.opts.Transit {
			e.fits = false
		}
		port := max(out[h]/max(float64(s.net.Egress[h]), 1), in[h]/max(float64(s.net.Ingress[h]), 1))
		e.ports, e.full[k] = max(e.ports, port), e.full[k] || port > e.links
	}
	e.held = e.ports > e.links
	return e
}

// A step is one leg of a stream.
type step struct {
	stream, leg int
	links       int     // between pools that are left, this one included
	rest        int     // see [crossings.rests]
	need        float64 // seconds after which the first bridge on the way would have nothing else to do
}

// streamed makes the plan's transfers of streams. A piece follows chunk by chunk. Each link takes what has the longest way to
// go first, by links between pools and then by how long those that are left will take; origins give their mates first what these need first.
func (s *scheduler) streamed(p *plan.Plan, streams []stream) {
	var feeds, steps []step
	for i, st := range streams {
		links := 0
		for k := len(st.hosts) - 2; k >= 0; k-- {
			inside := s.net.Pool[st.hosts[k]] == s.net.Pool[st.hosts[k+1]]
			if !inside {
				links++
			}
			x := step{stream: i, leg: k, links: links}
			if inside && k == 0 {
				feeds = append(feeds, x)
			} else {
				steps = append(steps, x)
			}
		}
	}
	order := func(a, b step) int {
		return cmp.Or(cmp.Compare(min(b.links, 2), min(a.links, 2)), cmp.Compare(b.rest, a.rest), cmp.Compare(streams[a.stream].part, streams[b.stream].part))
	}
	over := s.crossingsOf(streams, steps)
	slices.SortStableFunc(steps, order)
	over.rests(streams, steps)
	slices.SortStableFunc(steps, order)
	need := over.needs(streams, steps)
	for i := range feeds {
		feeds[i].need = need[feeds[i].stream]
	}
	slices.SortStableFunc(feeds, func(a, b step) int { return cmp.Compare(a.need, b.need) })
	steps = append(feeds, steps...)
	p.Transfers = together(streams, steps)
	p.Cuts = cutsOf(streams)
}

// together returns the transfers of steps: one for those that follow one another between two hosts, as long as they come to no more than a piece and what one transfer brings. Each is answered by itself, which of
// blocks of 256 bytes is as much as they are, and chunks go on as they come in any case.
func together(streams []stream, steps []step) []plan.Transfer {
	out := make([]plan.Transfer, 0, len(steps))
	number := make(map[[2]int]int, len(steps)) // of a stream's leg
	by := make([]int, 0, len(steps))           // which transfer brings the first block of each; -1: its source has it; -2: another one, not known yet
	bytes := make([]int64, 0, len(steps))
	var first []step               // of each
	latest := make(map[[2]int]int) // by source and destination
	for _, x := range steps {
		st := &streams[x.stream]
		brought := -1
		if x.leg > 0 {
			var known bool
			if brought, known = number[[2]int{x.stream, x.leg - 1}]; !known { // it comes later in steps
				brought = -2
			}
		}
		pair := [2]int{st.hosts[x.leg], st.hosts[x.leg+1]}
		i, ok := latest[pair]
		if !ok || brought < -1 || by[i] != brought || bytes[i]+st.bytes > piece {
			i = len(out)
			out = append(out, plan.Transfer{ID: i, Src: pair[0], Dst: pair[1], Phase: -1, After: []int{}})
			by, bytes, first = append(by, brought), append(bytes, 0), append(first, x)
			latest[pair] = i
		}
		out[i].Blocks = append(out[i].Blocks, st.block)
		bytes[i] += st.bytes
		number[[2]int{x.stream, x.leg}] = i
	}
	for i, x := range first {
		if x.leg > 0 { // by[i], where that was known
			out[i].After = append(out[i].After, number[[2]int{x.stream, x.leg - 1}])
		}
	}
	return out
}

// needs returns when each of the streams is the first to cross its first bridge, in seconds, if that bridge is never idle and takes them in the order of
// steps.
func (c *crossings) needs(streams []stream, steps []step) []float64 {
	need := make([]float64, len(streams))
	seen := make([]bool, len(streams))
	carried := make(map[[2]int]float64)   // bytes of a bridge so far
	first := make([][2]int, len(streams)) // the bridge of a stream
	for _, x := range steps {
		st := &streams[x.stream]
		a, b := st.hosts[x.leg], st.hosts[x.leg+1]
		if _, ok := c.s.between(a, b); !ok {
			continue
		}
		if !seen[x.stream] {
			seen[x.stream], first[x.stream], need[x.stream] = true, [2]int{a, b}, carried[[2]int{a, b}]
		}
		carried[[2]int{a, b}] += float64(st.bytes)
	}
	for i, at := range first {
		k, _ := c.s.between(at[0], at[1])
		if all := carried[at]; all > 0 {
			need[i] *= c.links[k] / c.s.links[k].rate / all
		}
	}
	return need
}

// cutsOf returns where streams cut blocks.
func cutsOf(streams []stream) (cuts []plan.Cut) {
	at := make(map[[2]int][]int64) // ends of pieces
	for _, st := range streams {
		key := [2]int{st.block.Origin, st.block.Dest}
		var end int64
		if e := at[key]; len(e) > 0 {
			end = e[len(e)-1]
		}
		at[key] = append(at[key], end+st.bytes)
	}
	for key, e := range at {
		if len(e) > 1 {
			cuts = append(cuts, plan.Cut{Origin: key[0], Dest: key[1], At: e[:len(e)-1]})
		}
	}
	slices.SortFunc(cuts, func(a, b plan.Cut) int {
		return cmp.Or(cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Dest, b.Dest))
	})
	return cuts
}
