package exchange

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A keptStream takes all that is written at once, and sends it at a rate: what its kernel keeps. Its peer has it earlier than that.
type keptStream struct {
	Stream
	rate float64 // bytes a second

	mu   sync.Mutex
	kept float64
	at   time.Time
}

func (s *keptStream) drain() {
	now := time.Now()
	s.kept = max(0, s.kept-s.rate*now.Sub(s.at).Seconds())
	s.at = now
}

func (s *keptStream) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.drain()
	s.kept += float64(len(p))
	s.mu.Unlock()
	return s.Stream.Write(p)
}

func (s *keptStream) Kept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain()
	return int(s.kept)
}

// keptGrid is a fakeGrid of such streams, with what agents believe of them.
func keptGrid(t *testing.T, hosts []string, believed, rate float64) *fakeGrid {
	g := newFakeGrid(t, hosts, nil)
	g.limit = 1 << 20
	for _, e := range g.engines {
		open := e.cfg.Open
		e.cfg.Open = func(ctx context.Context, to string, n int) (Stream, error) {
			s, err := open(ctx, to, n)
			return &keptStream{Stream: s, rate: rate, at: time.Now()}, err
		}
		e.cfg.Path = func(string) Path { return Path{Drain: netmap.BytesPerSec(believed)} }
	}
	return g
}

// TestTransfersLeaveSockets: a transfer that follows another of its host starts when the socket keeps nothing of that, and no later than the port should have been through with it. Where it leaves
// within a timer's time, nothing waits for it, or the path does not say how fast sockets drain, it starts at once.
func TestTransfersLeaveSockets(t *testing.T) {
	const size = 100_000
	for _, tt := range []struct {
		name           string
		believed, rate float64
		after          bool
		want           time.Duration // from the start of the first to that of the second
	}{
		{"as believed", 1e6, 1e6, true, 100 * time.Millisecond},
		{"slower", 1e6, 5e5, true, 100 * time.Millisecond},
		{"faster", 1e6, 2e6, true, 50 * time.Millisecond},
		{"at once", 1e9, 1e9, true, 0},
		{"not known", 0, 1e6, true, 0},
		{"nothing waits", 1e6, 1e6, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newPlanner(plan.Alltoall, 3)
				b.p.MessageBytes = size
				for src := range 3 {
					for _, dst := range []int{(src + 1) % 3, (src + 2) % 3} {
						b.add(src, dst, plan.Block{Origin: src, Dest: dst})
						if id := len(b.p.Transfers) - 1; id%2 == 1 && tt.after {
							b.p.Transfers[id].After, b.p.Transfers[id].Sync = []int{id - 1}, plan.SyncSender
						}
					}
				}
				g := keptGrid(t, b.p.Hosts, tt.believed, tt.rate)
				g.lag = func() { time.Sleep(time.Second) } // or what has arrived has left
				stats, errs := g.run(t.Context(), newJob(t, rand.New(rand.NewPCG(1, 1)), b.p, 16<<10))
				g.accepts.Wait()
				for h, err := range errs {
					if err != nil {
						t.Fatalf("host %d: %v", h, err)
					}
					first, second := stats[h].Transfers[0], stats[h].Transfers[1]
					if got := second.Start - first.Start; got < tt.want-leastDrain*2 || got > tt.want+mostDrain {
						t.Errorf("host %d: the second transfer starts %v after the first, want %v", h, got, tt.want)
					}
				}
			})
		})
	}
}

// TestHeldBackTransfers: of transfers that take ten times as long as the port should, each starts when the port should be through with those before, and the fourth of them when the first is
// through.
func TestHeldBackTransfers(t *testing.T) {
	const size = 100_000
	synctest.Test(t, func(t *testing.T) {
		b := newPlanner(plan.Alltoall, 6)
		b.p.MessageBytes = size
		for src := range 6 {
			for d := 1; d < 6; d++ {
				b.add(src, (src+d)%6, plan.Block{Origin: src, Dest: (src + d) % 6})
				if id := len(b.p.Transfers) - 1; d > 1 {
					b.p.Transfers[id].After, b.p.Transfers[id].Sync = []int{id - 1}, plan.SyncSender
				}
			}
		}
		g := keptGrid(t, b.p.Hosts, 1e6, 1e5)
		g.lag = func() { time.Sleep(5 * time.Second) } // or what has arrived has left
		stats, errs := g.run(t.Context(), newJob(t, rand.New(rand.NewPCG(1, 1)), b.p, 16<<10))
		g.accepts.Wait()
		for h, err := range errs {
			if err != nil {
				t.Fatalf("host %d: %v", h, err)
			}
			for i, want := range []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, time.Second, 1100 * time.Millisecond} {
				if got := stats[h].Transfers[i].Start - stats[h].Transfers[0].Start; got < want-2*leastDrain || got > want+2*mostDrain {
					t.Errorf("host %d: transfer %d starts %v after the first, want %v", h, i, got, want)
				}
			}
		}
	})
}

// TestLeaveEnds: what waits for a socket to drain that never does ends with the run.
func TestLeaveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPlanner(plan.Alltoall, 2)
		b.p.MessageBytes = 1 << 10
		b.add(0, 1, plan.Block{Origin: 0, Dest: 1})
		b.add(1, 0, plan.Block{Origin: 1, Dest: 0})
		b.p.Transfers[1].After, b.p.Transfers[1].Sync = []int{0}, plan.SyncSender
		g := keptGrid(t, b.p.Hosts, 1e4, 0)
		g.lag = func() { time.Sleep(time.Hour) }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, errs := g.run(ctx, newJob(t, rand.New(rand.NewPCG(1, 1)), b.p, 16<<10))
		if got := time.Since(began); got < time.Minute || got > 2*time.Minute || errs[0] == nil {
			t.Errorf("the run ended after %v with %v", got, errs[0])
		}
		g.accepts.Wait()
	})
}
