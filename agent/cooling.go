package agent

import (
	"context"
	"time"
)

const (
	// laneQuiet is how long a lane above 0 is kept for the next exchange. quic-go keeps its congestion
	// window over a pause, so a warm lane saves slow start beside the handshake. It is what a pause in a workflow may take.
	laneQuiet = 15 * time.Minute
	// maxWarmLanes bounds those that nobody uses: each costs a socket, two goroutines, and a ping every 25 s.
	maxWarmLanes = 256
	// lastDataLane is the last lane that exchanges use; those of probes come behind it.
	lastDataLane = 63
)

// coolLanes closes lanes that exchanges have left behind until ctx ends.
func (a *Agent) coolLanes(ctx context.Context) {
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.endpoint.CloseWarm(lastDataLane, laneQuiet, maxWarmLanes)
		case <-ctx.Done():
			return
		}
	}
}
