package wan

import "slices"

// restParts is into how many parts of what the fullest link takes rests are divided. Within a part pieces go in the order of their parts: in that of rests alone a link that has a little less to
// do than another starts when the other has come down to that, and on random grids a few plans took up to a fifth longer.
const restParts = 4

// rests sets for each of steps how long the fullest bridge after it has still to do when it has been carried, in parts of what the fullest link takes: with what goes over that bridge
// behind it, in the order of steps. A link passes first what has the longest rest (Jackson's rule, for machines behind which jobs have further to go). Of what a fast link brings a slow one gets its first bytes soon then, and is never without; in the order of their
// parts alone the last piece for a bridge of 1 Mbit/s left a relay as late as the last one for another of 100.
func (c *crossings) rests(streams []stream, steps []step) {
	busy := make(map[[2]int]float64) // seconds of a bridge, from the last step on
	tail := make(map[[2]int]float64) // of a stream's leg: those of its bridge
	for _, x := range slices.Backward(steps) {
		st := &streams[x.stream]
		if seconds := c.seconds(st, x.leg); seconds > 0 {
			at := [2]int{st.hosts[x.leg], st.hosts[x.leg+1]}
			busy[at] += seconds
			tail[[2]int{x.stream, x.leg}] = busy[at]
		}
	}
	longest := c.longest()
	if longest == 0 {
		return
	}
	for i := range steps {
		x := &steps[i]
		st := &streams[x.stream]
		rest := 0.
		for k := len(st.hosts) - 2; k > x.leg; k-- {
			rest = max(rest, tail[[2]int{x.stream, k}]) // chunks of a piece follow each other: its own time is in that
		}
		x.rest = int(restParts * rest / longest)
	}
}

// crossings are the bytes that links and their bridges carry.
type crossings struct {
	s       *scheduler
	links   []float64
	bridges map[[2]int]float64
}

func (s *scheduler) crossingsOf(streams []stream, steps []step) *crossings {
	c := &crossings{s, make([]float64, len(s.links)), make(map[[2]int]float64)}
	for _, x := range steps {
		st := &streams[x.stream]
		a, b := st.hosts[x.leg], st.hosts[x.leg+1]
		if k, ok := s.between(a, b); ok {
			c.links[k] += float64(st.bytes)
			c.bridges[[2]int{a, b}] += float64(st.bytes)
		}
	}
	return c
}

// seconds returns how long st is on its leg if the link's bridges end together, 0 inside a pool.
func (c *crossings) seconds(st *stream, leg int) float64 {
	a, b := st.hosts[leg], st.hosts[leg+1]
	k, ok := c.s.between(a, b)
	if !ok || st.bytes == 0 || c.s.links[k].rate <= 0 {
		return 0
	}
	return float64(st.bytes) / (c.s.links[k].rate * c.bridges[[2]int{a, b}] / c.links[k])
}

// longest returns how long the fullest link takes, in seconds.
func (c *crossings) longest() (seconds float64) {
	for k, bytes := range c.links {
		if bytes > 0 && c.s.links[k].rate > 0 {
			seconds = max(seconds, bytes/c.s.links[k].rate)
		}
	}
	return seconds
}

// between returns the link that two hosts are ends of; ok is false where they are of one pool.
func (s *scheduler) between(a, b int) (link int, ok bool) {
	return s.net.Pool[a]*len(s.pools) + s.net.Pool[b], s.net.Pool[a] != s.net.Pool[b]
}
