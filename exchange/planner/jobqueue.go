package planner

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
