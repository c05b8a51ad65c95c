package pools

import (
	"math"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A pair is what a [Tracker] believes of one ordered pair of hosts. A measurement passes
// three gates before it can reach the tree: readings are averaged, the average must have
// left a dead band around what is held, and what is held is settled with alike pairs (see
// [Tracker.settle]). All rates are bytes a second.
type pair struct {
	last      float64 // the newest reading
	mean      float64 // geometric, of up to window readings since the last jump
	readings  int     // in mean; 0 before the first
	held      float64 // follows mean in steps of the margin or more
	spread    float64 // relative, of what held was taken from, at most 1
	out       float64 // what trees are built from; 0 before the first
	predicted bool    // last was no measurement of this pair
}

const (
	// window is how many readings the average of a pair forgets over: readings that differ
	// by 10 % then move it by about 1 %.
	window = 16
	// jump is the factor beyond which a reading is news and no noise: the average begins
	// anew. Readings that are all within 10 % of the truth are within 1.23 of each other.
	jump = 1.30
)

// see takes in the estimate of the pair at now, and reports whether what is held has
// changed. An estimate that repeats the last one is no new reading. One that is uncertain,
// because its samples lie apart or are old, has to lie further off to count.
func (p *pair) see(e netmap.Estimate, now time.Time, margin float64) bool {
	b := float64(e.Bandwidth)
	predicted := e.Source == netmap.SourcePredicted
	if p.readings > 0 && b == p.last && predicted == p.predicted {
		return false
	}
	doubt := 0.0
	if !predicted { // a prediction is as good as its like, which Predict saw to
		doubt = e.Uncertainty(now)
	}
	switch {
	case p.readings == 0,
		p.predicted && !predicted, // the first of its own
		ratio(b, p.mean) > max(jump, 1+doubt):
		p.mean, p.readings = b, 1
	default:
		p.readings = min(p.readings+1, window)
		p.mean *= math.Exp(math.Log(b/p.mean) / float64(p.readings))
	}
	p.last, p.predicted = b, predicted
	if p.held > 0 && ratio(p.mean, p.held) <= 1+max(margin, min(doubt, 0.5)) {
		return false
	}
	p.held, p.spread = p.mean, min(e.Spread, 1)
	return true
}

// ratio is by what factor two positive numbers differ, 1 or more.
func ratio(a, b float64) float64 { return max(a/b, b/a) }

// remap makes the pairs those of hosts, which are in the order of their names; what was
// believed of pairs that stay is kept. It reports whether anything changed.
func (t *Tracker) remap(hosts []netmap.Host) bool {
	n := len(hosts)
	old := make(map[string]int, len(t.hosts))
	for i, h := range t.hosts {
		old[h.Name] = i
	}
	was := make([]int, n) // where host i stood, -1 if it is new
	same := n == len(t.hosts)
	for i, h := range hosts {
		at, ok := old[h.Name]
		if !ok {
			at = -1
		}
		was[i] = at
		same = same && at == i && t.hosts[i] == h
	}
	if same {
		return false
	}
	pairs := make([]pair, n*n)
	for i, a := range was {
		for j, b := range was {
			if a >= 0 && b >= 0 {
				pairs[i*n+j] = t.pairs[a*len(t.hosts)+b]
			}
		}
	}
	t.hosts, t.pairs = hosts, pairs
	return true
}
