package plan

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/probe/netmap"
)

// newSimulation lays out jobs, flows and what waits for what.
func newSimulation(p *Plan, net *Network, opts SimOptions) (*simulation, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if opts.Chunk < 0 {
		return nil, fmt.Errorf("chunk of %d bytes", opts.Chunk)
	}
	if err := net.check(p.Hosts); err != nil {
		return nil, err
	}
	order, err := p.Order()
	if err != nil {
		return nil, err
	}
	if lead := p.Ahead(); opts.Notice && lead > 0 {
		opts.Chunk = min(opts.Chunk, lead) // who runs the plan counts the lead in bytes
	}
	pools := net.Pools()
	s := &simulation{
		plan: p, net: net, opts: opts, pools: pools,
		jobs: make([]job, len(p.Transfers)),
		result: &SimResult{
			Start:     make([]float64, len(p.Transfers)),
			End:       make([]float64, len(p.Transfers)),
			PoolBytes: make([]int64, pools*pools),
		},
	}
	if err := s.layQueues(order); err != nil {
		return nil, err
	}
	var capacity []float64
	for _, rates := range [][]netmap.BytesPerSec{net.Egress, net.Ingress, net.Pipe} {
		for _, r := range rates {
			capacity = append(capacity, float64(r))
		}
	}
	for _, t := range net.Trunks {
		capacity = append(capacity, float64(t.Rate))
	}
	s.share = newFairShare(capacity, s.pairs)
	if err := s.countChunks(); err != nil {
		return nil, err
	}
	return s, s.link()
}

// check reports the first value of n that does not fit hosts or the other values.
func (n *Network) check(hosts []string) error {
	h := len(hosts)
	if !slices.Equal(n.Hosts, hosts) {
		return fmt.Errorf("network of %d hosts %.3q does not fit the plan's %d hosts %.3q, which must come in the same order", len(n.Hosts), head(n.Hosts), h, head(hosts))
	}
	for i, k := range n.Pool {
		if k < 0 || k >= h {
			return fmt.Errorf("network: host %d in pool %d of at most %d", i, k, h)
		}
	}
	pools := n.Pools()
	if len(n.Pool) != h || len(n.Egress) != h || len(n.Ingress) != h || len(n.Ceiling) != h*h || len(n.Latency) != h*h || len(n.Pipe) != pools*pools {
		return fmt.Errorf("network of %d hosts: %d pools of hosts, %d+%d ports, %d ceilings, %d latencies, %d pipes between %d pools",
			h, len(n.Pool), len(n.Egress), len(n.Ingress), len(n.Ceiling), len(n.Latency), len(n.Pipe), pools)
	}
	for _, rates := range [][]netmap.BytesPerSec{n.Egress, n.Ingress, n.Pipe, n.Ceiling} {
		for _, r := range rates {
			if !isRate(r) {
				return fmt.Errorf("network: a rate of %v B/s", float64(r))
			}
		}
	}
	for _, t := range n.Trunks {
		if err := t.check(h); err != nil {
			return fmt.Errorf("network: %w", err)
		}
	}
	for _, l := range n.Latency {
		if l < 0 {
			return fmt.Errorf("network: a latency of %v", l)
		}
	}
	return nil
}

func (t *Trunk) check(hosts int) error {
	if !isRate(t.Rate) || t.Rate == 0 {
		return fmt.Errorf("trunk %s→%s at %v B/s", t.From, t.To, float64(t.Rate))
	}
	last := -1
	for _, h := range t.Behind {
		if h <= last || h >= hosts {
			return fmt.Errorf("trunk %s→%s has host %d of %d behind it, after host %d", t.From, t.To, h, hosts, last)
		}
		last = h
	}
	return nil
}

// crossed reports whether the way from host a to host b leads over t.
func (t *Trunk) crossed(a, b int) bool {
	_, from := slices.BinarySearch(t.Behind, a)
	_, to := slices.BinarySearch(t.Behind, b)
	return to && !from
}

func head(names []string) []string { return names[:min(len(names), 3)] }

// layQueues puts every transfer into the queue of its pair of hosts.
func (s *simulation) layQueues(order []int) error {
	n, pools := len(s.plan.Hosts), s.pools
	pairs := make(map[int]*flow)
	for _, i := range order {
		t := &s.plan.Transfers[i]
		f := pairs[t.Src*n+t.Dst]
		if f == nil {
			if !s.measured(t.Src, t.Dst) {
				return fmt.Errorf("transfer %d, %s→%s: %w", i, s.plan.Hosts[t.Src], s.plan.Hosts[t.Dst], netmap.ErrNotMeasured)
			}
			from, to := s.net.Pool[t.Src], s.net.Pool[t.Dst]
			f = &flow{src: t.Src, dst: t.Dst, pool: from*pools + to,
				ceiling:   float64(s.net.Ceiling[t.Src*n+t.Dst]),
				resources: []int{t.Src, n + t.Dst}}
			if from != to {
				f.resources = append(f.resources, 2*n+f.pool)
			}
			for k, trunk := range s.net.Trunks {
				if trunk.crossed(t.Src, t.Dst) {
					f.resources = append(f.resources, 2*n+pools*pools+k)
				}
			}
			pairs[t.Src*n+t.Dst] = f
			s.pairs = append(s.pairs, f)
		}
		f.queue = append(f.queue, i)
		s.jobs[i].flow = f
		s.jobs[i].latency = s.net.Latency[t.Src*n+t.Dst].Seconds()
	}
	return nil
}

// measured reports whether bytes can get from host a to b at a rate that is known.
func (s *simulation) measured(a, b int) bool {
	n, from, to := s.net, s.net.Pool[a], s.net.Pool[b]
	return n.Ceiling[a*len(n.Pool)+b] > 0 && n.Egress[a] > 0 && n.Ingress[b] > 0 &&
		(from == to || n.Pipe[from*s.pools+to] > 0)
}

// countChunks cuts the transfers up. A chunk belongs to one block; a block of no bytes is one empty chunk.
func (s *simulation) countChunks() error {
	total := 0
	for i := range s.jobs {
		job := &s.jobs[i]
		if s.opts.Chunk == 0 {
			job.chunks, job.near = 1, 1
			continue
		}
		for _, b := range s.plan.Transfers[i].Blocks {
			k := max(1, (s.plan.Size(b)+s.opts.Chunk-1)/s.opts.Chunk)
			if k > maxChunks || total+int(k) > maxChunks {
				return fmt.Errorf("chunks of %d bytes make more than %d of them; choose larger ones", s.opts.Chunk, maxChunks)
			}
			total += int(k)
			job.chunks += int(k)
			job.ends = append(job.ends, int32(job.chunks))
		}
		job.near = job.chunks
		if s.opts.Notice {
			job.near = max(1, job.chunks-int(s.plan.Ahead()/s.opts.Chunk))
		}
	}
	return nil
}

// link notes for every job what it waits for: After entries and the bringers of its
// blocks. With chunks, the bringers feed it chunk by chunk instead of holding it back.
func (s *simulation) link() error {
	held, err := deliver(s.plan)
	if err != nil {
		return err
	}
	seen := make([]int, len(s.jobs)) // seen[a] == i+1: job i has to do with a already
	wait := func(i, a int) {
		if seen[a] != i+1 {
			seen[a] = i + 1
			s.jobs[i].waits++
			s.jobs[a].next = append(s.jobs[a].next, int32(i))
		}
	}
	for i := range s.jobs {
		t := &s.plan.Transfers[i]
		for _, b := range t.Blocks {
			from := supply{by: -1}
			if !starts(b, t.Src) {
				by, ok := held[holdKey(b, t.Src)]
				d := int(by.transfer)
				if !ok {
					return fmt.Errorf("transfer %d: %s never holds block %s: %w", i, s.plan.Hosts[t.Src], s.plan.name(b), ErrStalled)
				}
				if s.opts.Chunk == 0 {
					wait(i, d)
				} else {
					from.by = by.transfer
					if by.place > 0 {
						from.first = s.jobs[d].ends[by.place-1]
					}
					if seen[d] != i+1 {
						seen[d] = i + 1
						s.jobs[d].feeds = append(s.jobs[d].feeds, int32(i))
					}
				}
			}
			if s.opts.Chunk > 0 {
				s.jobs[i].needs = append(s.jobs[i].needs, from)
			}
		}
		for _, a := range t.After {
			teller, early := s.plan.Teller(t, &s.plan.Transfers[a])
			if seen[a] == i+1 || !s.opts.Notice { // it brings data, or all hosts know at once
				teller, early = s.plan.Transfers[a].Dst, false
			}
			if s.opts.Notice && teller != t.Src && !s.measured(teller, t.Src) {
				return fmt.Errorf("news for transfer %d of %d, %s→%s: %w", i, a, s.plan.Hosts[teller], s.plan.Hosts[t.Src], netmap.ErrNotMeasured)
			}
			if early {
				seen[a] = i + 1
				s.jobs[i].waits++
				s.jobs[a].nextSent = append(s.jobs[a].nextSent, int32(i))
			} else {
				wait(i, a)
			}
		}
	}
	return nil
}

// notice returns how long news take from host teller to the host that begins a transfer on f.
func (s *simulation) notice(teller int, f *flow) float64 {
	if !s.opts.Notice || teller == f.src {
		return 0
	}
	return s.net.Latency[teller*len(s.plan.Hosts)+f.src].Seconds()
}
