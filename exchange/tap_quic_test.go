package exchange

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
)

// TestRoomForChunksUnderWay: a lane that is not to begin a chunk before others to its peer have gone on with theirs keeps no room from them, be it
// that it was given room before or that it stands in line.
func TestRoomForChunksUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTapBench(rand.New(rand.NewPCG(1, 101)), 2)
		ctx, cancel := context.WithCancel(t.Context())
		b.x.ctx = ctx
		p := &peer{cond: sync.NewCond(&b.x.mu), open: 1, lanes: 9}
		var lanes [9]*outLane
		for n := range lanes {
			lanes[n] = &outLane{n: 1 + n, win: b.lanes[0].win, cond: p.cond}
		}
		begins, midway := lanes[1:], lanes[0]
		b.x.mu.Lock()
		b.w.limit = leastSlices * b.w.slice // as after a long queue
		for _, l := range begins {
			l.win.begin(l, true)
		}
		if midway.win.take(midway, b.w.slice) {
			t.Error("there was room: the test shows nothing")
		}
		p.midway++
		b.x.mu.Unlock()
		var wg sync.WaitGroup
		for _, l := range begins {
			wg.Go(func() { b.x.next(p, l) })
		}
		synctest.Wait()
		b.x.mu.Lock()
		if midway.turn.reserved == 0 {
			t.Errorf("a chunk waits for ever while %d of %d bytes are given to lanes that wait for it", b.w.reserved, b.w.limit)
		}
		b.x.mu.Unlock()
		cancel()
		b.x.mu.Lock()
		p.cond.Broadcast()
		b.x.mu.Unlock()
		wg.Wait()
	})
}

// TestIdleLanesSleep: of two exchanges over several lanes to one host the lanes that have nothing to send sleep: at the end of the blocks, and
// while both wait until they are sure. They woke each other without an end, and virtual time stood still.
func TestIdleLanesSleep(t *testing.T) {
	trip := 100 * time.Millisecond
	cfg := star(2, gridnet.Link{Rate: 8 * gridnet.Mbps, Latency: trip / 2})
	for _, unsure := range []bool{false, true} {
		overGridnet(t, cfg, 0, func(t *testing.T, _ *gridnet.Network, g *quicGrid) {
			size := int64(100 << 10)
			if unsure {
				size = 2 * maxUnsure
			}
			p := chain(2, size)
			sure := make(chan struct{})
			var wg sync.WaitGroup
			for _, j := range jobsOf(t, 6, p, 2) {
				if unsure {
					j.data[0].Sure = sure
				}
				wg.Go(func() { g.must(t, j) })
			}
			time.Sleep(20 * time.Second)
			close(sure)
			wg.Wait()
		}, func(c *Config, _ *lane.Config) {
			c.Lanes = func(string) int { return 4 }
			c.Path = func(string) Path { return Path{RTT: trip, Rate: 2e5} }
		})
	}
}
