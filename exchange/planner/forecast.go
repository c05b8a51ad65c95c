package planner

import (
	"fmt"
	"math"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A model is what forecasts know of the hosts: the network of the flow simulator, and what
// messages cost beside their bytes. All is in seconds and bytes a second. It is made once for
// a problem, serves all its plans, and is for one goroutine.
type model struct {
	net   *plan.Network
	n     int // hosts
	pools int
	// latency, ceiling: n×n, [from*n+to].
	latency, ceiling []float64
	// send, receive: n×n, LogP's os(1) and or(1): a message keeps its sender and its receiver busy
	// for so long, whatever its size.
	send, receive []float64
	// header is what a message adds to its bytes on every link.
	header float64
	// crossed: n×n, the trunks on the way from one host to another; nil without trunks.
	crossed [][]int32

	late bool     // synchronisations have no lead
	last forecast // whose memory the next one uses
}

// What a message costs where it is not measured: a write, a packet and two wake-ups at either
// end, and what is in the packet beside payload (IP, UDP, QUIC, the engine's own header, and an
// acknowledgement for every other one). They need not be exact: they tell one message of all bytes from a
// hundred of a few.
const (
	messageTime   = 10e-6 // seconds, each at the sender and the receiver
	messageHeader = 96    // bytes
)

// newModel returns the model of hosts on net. With a nil snap messages cost nothing, as in the simulator.
func newModel(net *plan.Network, snap *netmap.Snapshot) *model {
	n := len(net.Hosts)
	m := &model{
		net: net, n: n, pools: net.Pools(),
		latency: make([]float64, n*n), ceiling: make([]float64, n*n),
		send: make([]float64, n*n), receive: make([]float64, n*n),
	}
	for i := range m.latency {
		m.latency[i], m.ceiling[i] = net.Latency[i].Seconds(), float64(net.Ceiling[i])
	}
	if snap != nil {
		m.header = messageHeader
		m.messages(snap)
	}
	if len(net.Trunks) > 0 {
		m.crossed = make([][]int32, n*n)
		for k := range net.Trunks {
			behind := make([]bool, n)
			for _, h := range net.Trunks[k].Behind {
				behind[h] = true
			}
			for a := range n {
				for b := range n {
					if behind[b] && !behind[a] {
						m.crossed[a*n+b] = append(m.crossed[a*n+b], int32(k))
					}
				}
			}
		}
	}
	return m
}

// messages fills in what a message of a byte costs the processors at its ends. A model of LogP
// holds for all hosts of a site, so that it is looked up once for each host and site.
func (m *model) messages(snap *netmap.Snapshot) {
	type cost struct{ send, receive float64 }
	for i := range m.n {
		of := make(map[string]cost)
		for j := range m.n {
			if i == j {
				continue
			}
			site := snap.Host(j).Site
			c, ok := of[site]
			if !ok {
				c = cost{messageTime, messageTime}
				if l, known := snap.LogP(i, j); known {
					p := l.At(1)
					c = cost{p.Send.Seconds(), p.Receive.Seconds()}
				}
				of[site] = c
			}
			if e := snap.Estimate(i, j); e.Has(netmap.FieldSendOverhead) {
				c.send = e.SendOverhead.Seconds()
			}
			m.send[i*m.n+j], m.receive[i*m.n+j] = c.send, c.receive
		}
	}
}

// A span is when the first byte of a transfer leaves and its last arrives, in seconds from the start.
type span struct{ start, end float64 }

// spans predicts how the engine runs p, in one pass over its transfers: a span for each. It is for the choice among many plans, where the simulator is
// too slow: 64 hosts of three sites take it a second for one plan of Min3, this a few milliseconds.
//
// Ports, pipes and trunks serve transfers in the order in which they become ready, and lose no time
// while they have work; the simulator shares them fairly instead, and both end a backlog at the
// same instant. A transfer is ready when the first chunk of its first block is there, goes no
// faster than what brings its blocks, and ends one latency after its last byte has left. Beside
// bytes, a message keeps its sender's and its receiver's processor busy (LogP; Kielmann, Bal &
// Verstoep, IPDPS 2000 workshops), which is what makes many small messages slower than few, and a
// synchronisation takes the way of its news. chunk is that of [Schedule].
//
// The error is [plan.ErrStalled], wrapped, for a plan that waits for itself, and
// [netmap.ErrNotMeasured] for a pair of hosts that net does not know. p has passed plan.Verify, or its
// Check at least.
func (m *model) spans(p *plan.Plan, chunk int64) ([]span, error) {
	f := m.reset(p, chunk)
	if len(p.Hosts) != m.n {
		return nil, fmt.Errorf("forecast: a plan of %d hosts on a network of %d", len(p.Hosts), m.n)
	}
	if err := f.link(); err != nil {
		return nil, fmt.Errorf("forecast: %w", err)
	}
	return f.run()
}

// load returns how long the busiest port, pipe, trunk or pair is at work for p, in seconds: spans end
// no earlier. Errors are those of spans.
func (m *model) load(p *plan.Plan) (float64, error) {
	out, in := make([]float64, m.n), make([]float64, m.n)
	pipe, trunk := make([]float64, m.pools*m.pools), make([]float64, len(m.net.Trunks))
	most := 0.0
	if len(p.Hosts) != m.n {
		return 0, fmt.Errorf("forecast: a plan of %d hosts on a network of %d", len(p.Hosts), m.n)
	}
	pair := make([]float64, m.n*m.n)
	for i := range p.Transfers {
		t := &p.Transfers[i]
		bytes := float64(p.Bytes(t)) + m.header
		out[t.Src] += bytes
		in[t.Dst] += bytes
		pair[t.Src*m.n+t.Dst] += bytes
	}
	for way, bytes := range pair {
		if bytes == 0 {
			continue
		}
		a, b := way/m.n, way%m.n
		if !m.known(a, b) {
			return 0, fmt.Errorf("forecast: %s→%s: %w", p.Hosts[a], p.Hosts[b], netmap.ErrNotMeasured)
		}
		most = max(most, bytes/m.ceiling[way])
		if from, to := m.net.Pool[a], m.net.Pool[b]; from != to {
			pipe[from*m.pools+to] += bytes
		}
		if m.crossed != nil {
			for _, k := range m.crossed[way] {
				trunk[k] += bytes
			}
		}
	}
	busiest := func(bytes []float64, rates []netmap.BytesPerSec) {
		for i, b := range bytes {
			if b > 0 {
				most = max(most, b/float64(rates[i]))
			}
		}
	}
	busiest(out, m.net.Egress)
	busiest(in, m.net.Ingress)
	busiest(pipe, m.net.Pipe)
	for k, b := range trunk {
		most = max(most, b/float64(m.net.Trunks[k].Rate))
	}
	return most, nil
}

// known reports whether bytes can get from host a to b at a rate that is known.
func (m *model) known(a, b int) bool {
	from, to := m.net.Pool[a], m.net.Pool[b]
	return m.ceiling[a*m.n+b] > 0 && m.net.Egress[a] > 0 && m.net.Ingress[b] > 0 && (from == to || m.net.Pipe[from*m.pools+to] > 0)
}

// reset returns the state in which a pass over p begins. It uses the memory of the last one.
func (m *model) reset(p *plan.Plan, chunk int64) *forecast {
	f := &m.last
	f.model, f.plan, f.chunk, f.stream = m, p, float64(chunk), chunk > 0
	for _, s := range []struct {
		free *[]float64
		n    int
	}{{&f.out, m.n}, {&f.in, m.n}, {&f.sends, m.n}, {&f.takes, m.n}, {&f.pipe, m.pools * m.pools}, {&f.trunk, len(m.net.Trunks)}, {&f.pair, m.n * m.n}} {
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

	// When each is done with what it has been given: ports, pipes, trunks, processors, pairs.
	out, in, pipe, trunk, sends, takes, pair []float64

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

type forecastJob struct {
	waits  int32   // edges that have not been followed
	blocks int32   // where its blocks begin
	bytes  float64 // header and all
	rate   float64 // at which they arrive
	ready  float64 // no earlier than this
	begin  float64 // its first byte leaves
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
	f.blocks = slices.Grow(f.blocks, brings.blocks)
	for i := range p.Transfers {
		t, job := &p.Transfers[i], &f.jobs[i]
		job.blocks = int32(len(f.blocks))
		for _, b := range t.Blocks {
			x := forecastBlock{job: int32(i), by: -1, size: float64(p.Size(b))}
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
		left := &f.plan.Transfers[i]
		for _, e := range f.next[f.nextOf[i]:f.nextOf[i+1]] {
			to := &f.jobs[e.to]
			switch t := &f.plan.Transfers[e.to]; {
			case e.news == begun:
				to.ready = max(to.ready, job.begin)
			case e.news == fed:
				first, _ := f.arrival(f.blocks[to.blocks].by)
				to.ready = max(to.ready, first)
			case f.stream && t.Sync == plan.SyncSender && left.Dst != t.Src: // its data have left
				to.ready = max(to.ready, job.end-f.latency[left.Src*f.n+left.Dst]+e.delay)
			case f.lead > 0 && left.Src == t.Src: // the same host, which needs no news
				to.ready = max(to.ready, job.end-f.latency[left.Src*f.n+left.Dst])
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
	for i := range f.jobs {
		out[i] = span{f.jobs[i].begin, f.jobs[i].end}
	}
	return out, nil
}

// serve gives job i its place at every resource on its way.
func (f *forecast) serve(i int32) error {
	t, job, n := &f.plan.Transfers[i], &f.jobs[i], f.n
	way := t.Src*n + t.Dst
	start := max(job.ready, f.sends[t.Src]) + f.send[way]
	f.sends[t.Src] = start
	begin, end, rate := start, start, f.ceiling[way]
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
	use(&f.in[t.Dst], float64(f.net.Ingress[t.Dst]))
	if a, b := f.net.Pool[t.Src], f.net.Pool[t.Dst]; a != b {
		use(&f.pipe[a*f.pools+b], float64(f.net.Pipe[a*f.pools+b]))
	}
	if f.crossed != nil {
		for _, k := range f.crossed[way] {
			use(&f.trunk[k], float64(f.net.Trunks[k].Rate))
		}
	}
	if f.stream {
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
	if job.rate = math.Inf(1); end > begin && job.bytes > 0 {
		job.rate = job.bytes / (end - begin)
	}
	arrived := max(end+f.latency[way], f.takes[t.Dst]) + f.receive[way]
	f.takes[t.Dst] = arrived
	job.begin, job.end = begin, arrived
	return nil
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

// A jobQueue is a heap of jobs that wait for nothing but resources, the first to be ready on top.
type jobQueue struct {
	at   []int32
	jobs []forecastJob
	rank []int32
}

func (q *jobQueue) less(a, b int32) bool {
	if x, y := q.jobs[a].ready, q.jobs[b].ready; x != y {
		return x < y
	}
	return q.rank[a] < q.rank[b]
}

func (q *jobQueue) push(j int32) {
	q.at = append(q.at, j)
	i := len(q.at) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !q.less(j, q.at[up]) {
			break
		}
		q.at[i] = q.at[up]
		i = up
	}
	q.at[i] = j
}

func (q *jobQueue) pop() int32 {
	top, last := q.at[0], len(q.at)-1
	j := q.at[last]
	q.at = q.at[:last]
	i := 0
	for {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && q.less(q.at[down+1], q.at[down]) {
			down++
		}
		if !q.less(q.at[down], j) {
			break
		}
		q.at[i] = q.at[down]
		i = down
	}
	if last > 0 {
		q.at[i] = j
	}
	return top
}
