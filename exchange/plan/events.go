package plan

import "math"

// An event is something that happens at an instant known in advance.
type event struct {
	at      float64
	seq     int // first made, first handled, among equals
	job     int32
	release bool // one of the After of job is complete; else a chunk of job arrives
}

// An eventQueue is a binary heap of events by (at, seq).
type eventQueue struct {
	heap []event
	made int
}

// next returns the instant of the first event, +Inf if there is none.
func (q *eventQueue) next() float64 {
	if len(q.heap) == 0 {
		return math.Inf(1)
	}
	return q.heap[0].at
}

func (q *eventQueue) before(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.at < b.at || (a.at == b.at && a.seq < b.seq)
}

func (q *eventQueue) push(e event) {
	e.seq = q.made
	q.made++
	q.heap = append(q.heap, e)
	for i := len(q.heap) - 1; i > 0 && q.before(i, (i-1)/2); i = (i - 1) / 2 {
		q.heap[i], q.heap[(i-1)/2] = q.heap[(i-1)/2], q.heap[i]
	}
}

func (q *eventQueue) pop() event {
	first, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	for i := 0; ; {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < last && q.before(child, least) {
				least = child
			}
		}
		if least == i {
			return first
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}
