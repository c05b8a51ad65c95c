package agent

import (
	"sync"
	"time"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/probe/netmap"
)

// checkEvery bounds what testing predictions costs: each measured pair is predicted anew.
const checkEvery = 10 * time.Second

// A predictionCheck holds the last answer of [netmap.PredictionError] for a while.
type predictionCheck struct {
	mu   sync.Mutex // guards the fields below; held while the errors are computed, so that two callers share them
	at   time.Time
	of   *knownMap
	last *apiv1.PredictionCheck
}

// test returns how far predictions of k are off, as of now or a few seconds ago. The caller must not
// modify it.
func (c *predictionCheck) test(k *knownMap, now time.Time) *apiv1.PredictionCheck {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.at); c.last != nil && (c.of == k || age >= 0 && age < checkEvery) {
		return c.last
	}
	median, p90, n := netmap.PredictionError(k.snap)
	c.at, c.of = now, k
	c.last = &apiv1.PredictionCheck{PairsTested: uint32(n), ErrorMedian: median, ErrorP90: p90}
	return c.last
}
