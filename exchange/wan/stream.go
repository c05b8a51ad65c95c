package wan

import (
	"cmp"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// bridged returns the streams of all blocks between pools over bridges, and when the last byte comes by the estimate of
// ends. ok is false where hosts would have to forward more than they may, ports would hold up links, or links need more
// flows than they have bridges.
func (s *scheduler) bridged(bounds *plan.AlltoallBounds) (streams []stream, ok bool) {
	if s.crowded() {
		return nil, false
	}
	straight := bounds.Direct.Bytes > 0 && (s.opts.Direct || bounds.Direct.Seconds <= gain*bounds.Relayed.Seconds)
	streams = s.pour(bounds.Routing, straight)
	when, ok := s.estimate(streams)
	if straight || bounds.Direct.Bytes == 0 {
		return streams, ok
	}
	// The longer way can cost more than relays gain.
	direct := s.pour(bounds.Routing, true)
	if w, fits := s.estimate(direct); fits && (!ok || w <= gain*when) {
		return direct, true
	}
	return streams, ok
}

// estimate returns when the last byte comes if no link is ever idle, in seconds, and whether forwarding
// is within bounds.
func (s *scheduler) estimate(streams []stream) (when float64, ok bool) {
	n := len(s.net.Hosts)
	load, through := make([]float64, len(s.links)), make([]int64, n)
	out, in := make([]float64, n), make([]float64, n)
	for a := range n {
		for b := range n {
			if a != b && s.net.Pool[a] == s.net.Pool[b] {
				out[a] += float64(s.sizes.Of(a, b))
				in[b] += float64(s.sizes.Of(a, b))
			}
		}
	}
	var longest float64
	for _, st := range streams {
		way := 0.0
		for k := 1; k < len(st.hosts); k++ {
			a, b := st.hosts[k-1], st.hosts[k]
			if s.net.Pool[a] != s.net.Pool[b] {
				load[s.net.Pool[a]*len(s.pools)+s.net.Pool[b]] += float64(st.bytes)
			}
			out[a] += float64(st.bytes)
			in[b] += float64(st.bytes)
			way += s.net.Latency[a*n+b].Seconds()
			if k < len(st.hosts)-1 {
				through[b] += st.bytes
			}
		}
		longest = max(longest, way)
	}
	for k, bytes := range load {
		if bytes > 0 {
			when = max(when, bytes/s.links[k].rate)
		}
	}
	for h := range n {
		if through[h] > s.opts.Transit || through[h] > 0 && max(out[h]/float64(s.net.Egress[h]), in[h]/float64(s.net.Ingress[h])) > when {
			return when + longest, false
		}
	}
	return when + longest, true
}

// streamed makes the plan's transfers of streams: each link takes what has the longest way to
// go first. A piece follows chunk by chunk.
func (s *scheduler) streamed(p *plan.Plan, streams []stream) {
	type step struct{ stream, leg, hops, order int }
	var steps []step
	for i, st := range streams {
		for k := range len(st.hosts) - 1 {
			steps = append(steps, step{i, k, len(st.hosts) - 1 - k, i})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(b.hops, a.hops) })
	last := make([]int, len(streams))
	for _, x := range steps {
		st := &streams[x.stream]
		t := plan.Transfer{ID: len(p.Transfers), Src: st.hosts[x.leg], Dst: st.hosts[x.leg+1], Blocks: []plan.Block{st.block}, Phase: -1, After: []int{}}
		if x.leg > 0 {
			t.After = append(t.After, last[x.stream])
		}
		last[x.stream] = t.ID
		p.Transfers = append(p.Transfers, t)
	}
	p.Cuts = cutsOf(streams)
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
