package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// errLate is that a plan takes longer than anyone wants to know.
var errLate = errors.New("forecast: it takes longer than that")

// A span is when the first byte of a transfer leaves and its last arrives, in seconds from the start.
type span struct{ start, end float64 }

// spans predicts how the engine runs p, in one pass over its transfers: a span for each. It is for the choice
// among many plans, where the simulator is too slow: 64 hosts of three sites take it a second for one plan of
// Min3, this a millisecond.
//
// Ports, pipes and trunks serve transfers in the order in which they become ready, and lose no time
// while they have work; the simulator shares them fairly instead, and both end a backlog at the
// same instant. A transfer is ready when the first chunk of its first block is there, goes no
// faster than what brings its blocks, and ends one latency after its last byte has left. Beside
// bytes, a message keeps its sender's and its receiver's processor busy (LogP; Kielmann, Bal &
// Verstoep, IPDPS 2000 workshops), which is what makes many small messages slower than few, and a
// synchronisation takes the way of its news. Where packets are lost a transfer ends later by what the repair of its last ones
// takes, which many short steps pay each. Hosts begin when they have their parts, and windows
// on long paths have to open. chunk is that of [Schedule].
//
// The error is [plan.ErrStalled], wrapped, for a plan that waits for itself, and
// [netmap.ErrNotMeasured] for a pair of hosts that net does not know, and errLate for a plan that takes longer
// than until, in seconds. p has passed plan.Verify, or its Check at least.
func (m *model) spans(p *plan.Plan, chunk int64, until float64) ([]span, error) {
	f := m.reset(p, chunk)
	f.until = until
	if len(p.Hosts) != m.n {
		return nil, fmt.Errorf("forecast: a plan of %d hosts on a network of %d", len(p.Hosts), m.n)
	}
	m.open(p)
	f.handOut()
	if err := f.link(); err != nil {
		return nil, fmt.Errorf("forecast: %w", err)
	}
	return f.run()
}

// reset returns the state in which a pass over p begins. It uses the memory of the last one.
func (m *model) reset(p *plan.Plan, chunk int64) *forecast {
	f := &m.last
	f.model, f.plan, f.chunk, f.stream = m, p, float64(chunk), chunk > 0
	for _, s := range []struct {
		free *[]float64
		n    int
	}{{&f.out, m.n}, {&f.in, m.n}, {&f.sends, m.n}, {&f.takes, m.n}, {&f.pipe, m.pools * m.pools}, {&f.trunk, len(m.net.Trunks)}, {&f.pair, m.n * m.n}, {&f.first, m.n * m.n}, {&f.sent, m.n * m.n}} {
		*s.free = zeros(*s.free, s.n)
	}
	if f.lead = 0; f.stream && !m.late {
		f.lead = float64(p.Ahead())
	}
	f.jobs = zeros(f.jobs, len(p.Transfers))
	f.brought = zeros(f.brought, len(p.Transfers))
	f.nextOf = zeros(f.nextOf, len(p.Transfers)+1)
	f.rank = zeros(f.rank, len(p.Transfers))
	f.blocks, f.edges = f.blocks[:0], f.edges[:0]
	return f
}

// zeros returns n zeros, in s if it is large enough.
func zeros[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// A forecast is the state of one pass. Times are in seconds.
type forecast struct {
	*model
	plan   *plan.Plan
	chunk  float64
	stream bool    // blocks are forwarded chunk by chunk
	lead   float64 // bytes, of the plan's synchronisations
	until  float64 // no more is asked for

	// When each is done with what it has been given: ports, pipes, trunks, processors, pairs.
	out, in, pipe, trunk, sends, takes, pair []float64
	// By pair: when the first byte could leave, and how many have been given to it.
	first, sent []float64

	jobs   []forecastJob
	blocks []forecastBlock // of all jobs, in their order
	edges  []edge
	next   []edge  // edges by where they begin
	nextOf []int32 // where those of a job begin
	at     []int32
	queue  jobQueue
	rank   []int32
	// brought[a] is 1 + the last job that transfer a brings data for.
	brought []int32
	brings  bringers
}

// handOut has every host begin when the coordinator, host 0, has sent it its part: a plan of many transfers takes longer to
// begin, unless they have it already. Latencies do not count: the coordinator has all begin at once.
func (f *forecast) handOut() {
	if f.ahead || f.capacity == nil || !f.stream || f.net.Egress[0] <= 0 {
		return
	}
	part := make([]float64, f.n)
	for i := range f.plan.Transfers {
		t := &f.plan.Transfers[i]
		part[t.Src] += partTransfer
		part[t.Dst] += partTransfer
	}
	port, from := 0., f.net.Pool[0]
	pipe := make([]float64, f.pools) // to each pool
	for h := 1; h < f.n; h++ {
		bytes, to := part[h]+partHead, f.net.Pool[h]
		port += bytes / float64(f.net.Egress[0])
		f.sends[h] = port
		if rate := f.net.Pipe[from*f.pools+to]; to != from && rate > 0 {
			pipe[to] += bytes / float64(rate)
			f.sends[h] = max(port, pipe[to])
		}
		f.takes[h] = f.sends[h]
	}
}

func (f *forecast) run() ([]span, error) {
	f.queue = jobQueue{at: f.queue.at[:0], jobs: f.jobs, rank: f.rank}
	for i := range f.jobs {
		if f.jobs[i].waits == 0 {
			f.queue.push(int32(i))
		}
	}
	done := 0
	for ; len(f.queue.at) > 0; done++ {
		i := f.queue.pop()
		if err := f.serve(i); err != nil {
			return nil, err
		}
		job := &f.jobs[i]
		if job.end > f.until {
			return nil, errLate
		}
		left := &f.plan.Transfers[i]
		for _, e := range f.next[f.nextOf[i]:f.nextOf[i+1]] {
			to := &f.jobs[e.to]
			switch t := &f.plan.Transfers[e.to]; {
			case e.news == begun:
				to.ready = max(to.ready, job.begin)
			case e.news == fed:
				first, _ := f.arrival(f.blocks[to.blocks].by)
				to.ready = max(to.ready, first)
			case f.stream && departs(t, left):
				to.ready = max(to.ready, job.left+e.delay)
			case f.lead > 0 && left.Src == t.Src: // the same host, which needs no news
				to.ready = max(to.ready, job.left)
			default: // news are sent when so many bytes are still to come
				to.ready = max(to.ready, job.begin, job.end-min(f.lead, job.bytes)/job.rate+e.delay)
			}
			if to.waits--; to.waits == 0 {
				f.queue.push(e.to)
			}
		}
	}
	if done < len(f.jobs) {
		i := slices.IndexFunc(f.jobs, func(j forecastJob) bool { return j.waits > 0 })
		return nil, fmt.Errorf("forecast: transfer %d waits for ever: %w", i, plan.ErrStalled)
	}
	out := make([]span, len(f.jobs))
	last := make([]int, f.n) // by host: 1 + the job that ends there last
	for i := range f.jobs {
		out[i] = span{f.jobs[i].begin, f.jobs[i].end}
		if at := &last[f.plan.Transfers[i].Dst]; *at == 0 || out[*at-1].end < out[i].end {
			*at = i + 1
		}
	}
	for host, i := range last { // a port that has let short messages by is busy for as much longer
		if i > 0 {
			out[i-1].end = max(out[i-1].end, f.in[host])
		}
	}
	return out, nil
}

// departs reports whether t may start when the data of a have left.
func departs(t, a *plan.Transfer) bool {
	_, left := t.Teller(a)
	return left
}

// serve gives job i its place at every resource on its way.
func (f *forecast) serve(i int32) error {
	t, job, n := &f.plan.Transfers[i], &f.jobs[i], f.n
	way := t.Src*n + t.Dst
	start := max(job.ready, f.sends[t.Src]) + f.send[way]
	f.sends[t.Src] = start
	begin, end, rate := start, start, f.rates[way]
	if !f.known(t.Src, t.Dst) {
		return fmt.Errorf("forecast: transfer %d, %s→%s: %w", i, f.plan.Hosts[t.Src], f.plan.Hosts[t.Dst], netmap.ErrNotMeasured)
	}
	use := func(free *float64, capacity float64) {
		from := max(*free, start)
		*free = from + job.bytes/capacity
		begin, end, rate = max(begin, from), max(end, *free), min(rate, capacity)
	}
	use(&f.pair[way], rate)
	use(&f.out[t.Src], float64(f.net.Egress[t.Src]))
	near := f.stream && f.capacity != nil && f.net.Pool[t.Src] == f.net.Pool[t.Dst]
	if near {
		start = min(begin, start+f.turns(t.Src))
	}
	if port := float64(f.net.Ingress[t.Dst]); near && f.beside(&f.in[t.Dst], start, job.bytes, port) {
		end, rate = max(end, start+2*job.bytes/port), min(rate, port)
	} else {
		use(&f.in[t.Dst], port)
	}
	if a, b := f.net.Pool[t.Src], f.net.Pool[t.Dst]; a != b {
		use(&f.pipe[a*f.pools+b], float64(f.net.Pipe[a*f.pools+b]))
	}
	if f.crossed != nil {
		for _, k := range f.crossed[way] {
			use(&f.trunk[k], float64(f.net.Trunks[k].Rate))
		}
	}
	if f.stream {
		if f.sent[way] == 0 {
			f.first[way] = start // not begin: what shares a port or a pipe shares it from the start
		}
		f.sent[way] += job.bytes
		end = max(end, f.first[way]+f.opening(way, f.sent[way]))
		for _, b := range f.blocks[job.blocks:f.stop(i)] {
			if b.by < 0 {
				continue
			}
			// From its first chunk on, the block and those behind it take their time; and its
			// last chunk is sent on when it is here.
			first, last := f.arrival(b.by)
			end = max(end, first+b.after/rate, last+(min(f.chunk, b.size)+b.after-b.size)/rate)
		}
	}
	job.left = end
	if job.rate = math.Inf(1); end > begin && job.bytes > 0 {
		job.rate = job.bytes / (end - begin)
	}
	// As ports do, the receiver's processor takes messages in the order in which they become ready; what
	// takes long to arrive does not keep it from those that arrive before.
	f.takes[t.Dst] = max(f.takes[t.Dst], start+f.latency[way]) + f.receive[way]
	if near {
		end += f.stored(way, t.Dst, job.bytes)
	}
	end += f.repair(way, job.bytes, job.rate)
	job.begin, job.end = begin, max(end+f.latency[way]+f.receive[way], f.takes[t.Dst])
	return nil
}

// beside reports whether a message of no more than two packets from start on goes through a port beside what that is busy with, each packet behind one of the other, and
// if so gives the port its bytes to do.
func (f *forecast) beside(port *float64, start, bytes, capacity float64) bool {
	short := bytes <= min(2*packetBytes, (*port-start)*capacity/2)
	if short {
		*port += bytes / capacity
	}
	return short
}

// turns returns how long the first packet of a message waits in the port of host at most: the port sends
// packets to all others in turns, however long their messages are.
func (f *forecast) turns(host int) float64 {
	return float64(f.n-1) * packetBytes / float64(f.net.Egress[host])
}

// stored returns how long the last packet of a message of so many bytes takes on a way inside a pool beside its time in the port of
// its source: a switch sends a packet when it has all of it. A short message takes as long again as in that port.
func (f *forecast) stored(way, dst int, bytes float64) float64 {
	last := min(bytes, packetBytes)
	time := last / float64(f.net.Ingress[dst])
	if f.crossed != nil {
		for _, k := range f.crossed[way] {
			time += last / float64(f.net.Trunks[k].Rate)
		}
	}
	return time
}

// stop returns where the blocks of job i end.
func (f *forecast) stop(i int32) int32 {
	if int(i)+1 < len(f.jobs) {
		return f.jobs[i+1].blocks
	}
	return int32(len(f.blocks))
}

// arrival returns when the first chunk of a block has arrived, and its last, where its job has been served.
func (f *forecast) arrival(block int32) (first, last float64) {
	b := &f.blocks[block]
	from := &f.jobs[b.job]
	last = from.end - (b.after-b.size)/from.rate
	return last - (b.size-min(f.chunk, b.size))/from.rate, last
}
