package plan

import (
	"fmt"
	"math"
	"slices"
)

// A simulation is the state of one run.
type simulation struct {
	plan   *Plan
	opts   SimOptions
	now    float64
	jobs   []job   // per transfer
	pairs  []*flow // ordered pairs of hosts with transfers, by first use in queue order
	active []*flow // those that send now: a heap, the one that is done first on top

	share  *fairShare // resources are N ports out, N ports in, P×P pipes, trunks
	struck []*flow    // began or ended since rates were computed
	events eventQueue
	net    *Network
	pools  int
	result *SimResult
}

// A job is the progress of one transfer.
type job struct {
	flow     *flow
	needs    []supply // per block; nil with whole blocks
	waits    int      // After entries (and deliverers, with whole blocks) not complete
	chunks   int
	near     int // chunks after whose arrival others need not wait longer: all, without a lead
	sent     int
	arrived  int
	block    int     // the block that the next chunk belongs to
	ends     []int32 // per block: the chunk after its last; nil with whole blocks
	next     []int32 // jobs that wait for this one to be complete, or as good as that
	nextSent []int32 // jobs that wait for its last byte to leave
	feeds    []int32 // jobs that take chunks from this one
	latency  float64
}

// offset returns the place of the next chunk in its block.
func (j *job) offset() int {
	if j.block == 0 {
		return j.sent
	}
	return j.sent - int(j.ends[j.block-1])
}

// A supply says which job brings a block and at which of its chunks the block begins. by is -1 at the origin.
type supply struct{ by, first int32 }

// A flow is an ordered pair of hosts: a queue of jobs and, while it is active, a rate.
type flow struct {
	src, dst  int
	queue     []int // jobs in sending order
	resources []int
	at        []int // per resource, while active: the place among its flows
	visited   int   // the latest search of fairShare that came by
	rank      int   // by ceiling
	ceiling   float64
	pool      int // index into PoolBytes

	sending bool
	place   int     // in the heap of active flows
	job     int     // whose chunk is under way
	left    float64 // bytes of the chunk under way, when rate was last set
	rate    float64
	share   float64 // what fairShare gives; becomes rate
	done    float64 // when the chunk will have been sent, at rate
}

func (s *simulation) run() {
	for _, f := range s.pairs {
		s.wake(f)
	}
	for {
		s.allot()
		next := s.events.next()
		if len(s.active) > 0 {
			next = min(next, s.active[0].done)
		}
		if math.IsInf(next, 1) {
			return
		}
		s.now = next
		s.finish()
		for s.events.next() <= s.horizon() {
			s.handle(s.events.pop())
		}
	}
}

// horizon is what counts as now: equal instants that were computed along different
// ways differ in the last digits, and each would cost a redivision of all rates.
func (s *simulation) horizon() float64 { return s.now * (1 + 1e-12) }

// allot redivides rates among the flows that are touched by those that began or ended.
func (s *simulation) allot() {
	if len(s.struck) == 0 {
		return
	}
	touched := s.share.touched(s.struck)
	s.struck = s.struck[:0]
	s.share.divide(touched)
	all := len(touched) > len(s.active)/8 // then the heap is made anew
	for _, f := range touched {
		if math.Abs(f.share-f.rate) <= 1e-12*f.rate {
			continue // keep the instant exact
		}
		if f.rate > 0 {
			f.left = max(0, (f.done-s.now)*f.rate)
		}
		f.rate = f.share
		f.done = s.now + f.left/f.rate
		if !all {
			s.fix(f.place)
		}
	}
	if all {
		for i := len(s.active)/2 - 1; i >= 0; i-- {
			s.sink(i)
		}
	}
}

// fix restores the heap of active flows, in which only the one at place i may stand wrong.
func (s *simulation) fix(i int) {
	for i > 0 && s.active[i].done < s.active[(i-1)/2].done {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	s.sink(i)
}

// sink restores the heap of active flows below place i.
func (s *simulation) sink(i int) {
	for {
		first := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(s.active) && s.active[child].done < s.active[first].done {
				first = child
			}
		}
		if first == i {
			return
		}
		s.swap(i, first)
		i = first
	}
}

func (s *simulation) swap(i, j int) {
	s.active[i], s.active[j] = s.active[j], s.active[i]
	s.active[i].place, s.active[j].place = i, j
}

// finish ends the chunks that have been sent by now and lets their flows go on.
func (s *simulation) finish() {
	for len(s.active) > 0 && s.active[0].done <= s.horizon() {
		f := s.active[0]
		rate := f.rate
		f.sending = false
		s.sent(f, f.job)
		if s.begin(f); f.sending { // the same flow goes on: its share is the same
			f.rate = rate
			f.done = s.now + f.left/rate
			s.fix(0)
			continue
		}
		last := len(s.active) - 1
		s.swap(0, last)
		s.active = s.active[:last]
		if last > 0 {
			s.fix(0)
		}
		s.share.remove(f)
		s.struck = append(s.struck, f)
	}
}

// begin lets f send its next chunk if one is ready. Chunks of no bytes are sent at once.
func (s *simulation) begin(f *flow) {
	for !f.sending {
		at := s.ready(f)
		if at < 0 {
			return
		}
		j := f.queue[at]
		job := &s.jobs[j]
		bytes := s.chunkBytes(j)
		if job.sent == 0 {
			s.result.Start[j] = s.now
		}
		s.result.PoolBytes[f.pool] += bytes
		if bytes == 0 {
			s.sent(f, j)
			continue
		}
		f.sending, f.job, f.left, f.rate, f.done = true, j, float64(bytes), 0, math.Inf(1)
	}
}

// wake begins f from outside: because something has arrived.
func (s *simulation) wake(f *flow) {
	if f.sending {
		return
	}
	if s.begin(f); f.sending {
		f.place = len(s.active)
		s.active = append(s.active, f) // at the bottom of the heap: without a rate it is never done
		s.share.add(f)
		s.struck = append(s.struck, f)
	}
}

// ready returns the place in f's queue of the job that sends next, or -1.
func (s *simulation) ready(f *flow) int {
	for at, j := range f.queue {
		if s.jobReady(&s.jobs[j]) {
			return at
		}
		if !s.opts.Overtake {
			break
		}
	}
	return -1
}

func (s *simulation) jobReady(j *job) bool {
	if j.waits > 0 {
		return false
	}
	if j.needs == nil || j.needs[j.block].by < 0 {
		return true
	}
	from := j.needs[j.block]
	return s.jobs[from.by].arrived > int(from.first)+j.offset()
}

// chunkBytes returns the size of the next chunk of job j.
func (s *simulation) chunkBytes(j int) int64 {
	t, job := &s.plan.Transfers[j], &s.jobs[j]
	if job.ends == nil {
		return s.plan.Bytes(t)
	}
	size := s.plan.Size(t.Blocks[job.block])
	return min(s.opts.Chunk, size-int64(job.offset())*s.opts.Chunk)
}

// sent notes that a chunk of job j has left, and takes the job off its queue with the last.
func (s *simulation) sent(f *flow, j int) {
	job := &s.jobs[j]
	job.sent++
	if job.ends != nil && job.sent == int(job.ends[job.block]) {
		job.block++
	}
	if job.sent == job.chunks {
		at := slices.Index(f.queue, j)
		f.queue = slices.Delete(f.queue, at, at+1)
		for _, k := range job.nextSent {
			s.events.push(event{at: s.now + s.notice(f.src, s.jobs[k].flow), job: k, release: true})
		}
	}
	s.events.push(event{at: s.now + job.latency, job: int32(j)})
}

// handle takes the arrival of a chunk, or the news that a synchronisation is over.
func (s *simulation) handle(e event) {
	job := &s.jobs[e.job]
	if e.release {
		if job.waits--; job.waits == 0 {
			s.wake(job.flow)
		}
		return
	}
	job.arrived++
	for _, k := range job.feeds {
		s.wake(s.jobs[k].flow)
	}
	at := max(e.at, s.now)
	if job.arrived == job.near {
		for _, k := range job.next {
			s.events.push(event{at: at + s.notice(job.flow.dst, s.jobs[k].flow), job: k, release: true})
		}
	}
	if job.arrived == job.chunks {
		s.result.End[e.job] = at
		s.result.Makespan = max(s.result.Makespan, at)
	}
}

// stalled reports the jobs at which the run came to rest, if it did before the end.
func (s *simulation) stalled() error {
	for j := range s.jobs {
		if job := &s.jobs[j]; job.arrived < job.chunks {
			t := &s.plan.Transfers[j]
			return fmt.Errorf("transfer %d, %s→%s, waits for ever: %w", j, s.plan.Hosts[t.Src], s.plan.Hosts[t.Dst], ErrStalled)
		}
	}
	return nil
}
