package gridnet_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// traffic lets every host of the three sites send at random, from a goroutine of its own
// and often at the same instants as others, while links change, and returns all events.
func traffic(t *testing.T, seed uint64) (trace []gridnet.Event, stats gridnet.Stats) {
	cfg := gridtest.ThreeSites()
	cfg.Seed = seed
	cfg.OnPacket = func(e gridnet.Event) { trace = append(trace, e) }
	for i := range cfg.Links {
		cfg.Links[i].Loss, cfg.Links[i].Jitter = 0.05, 3*time.Millisecond
		cfg.Links[i].FlowRate = gridnet.Mbps
		cfg.Links[i].Reorder = i%2 == 0
		cfg.Links[i].Queue = 10
	}
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		var socks []*gridnet.Conn
		for _, s := range cfg.Sites {
			for _, h := range s.Hosts {
				socks = append(socks, gridtest.Listen(t, n, h))
			}
		}
		var wg sync.WaitGroup
		for i, c := range socks {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				buf := make([]byte, gridnet.MaxPayload)
				for range 100 {
					// Whole milliseconds make the hosts meet.
					time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
					for range rng.IntN(4) {
						to := socks[rng.IntN(len(socks))]
						if _, err := c.WriteTo(buf[:rng.IntN(len(buf))], to.LocalAddr()); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Go(func() {
			for i := range 20 {
				time.Sleep(20 * time.Millisecond)
				err := n.SetLink("UT", "UK", func(l *gridnet.Link) { l.Rate = gridnet.Rate(1+i%3) * gridnet.Mbps })
				if err != nil {
					t.Error(err)
				}
			}
		})
		wg.Wait()
		time.Sleep(time.Minute)
		stats = n.Stats()
	})
	return trace, stats
}

// A seed gives one trace, to the nanosecond and in its order, whatever the goroutines'
// scheduling; another seed gives another.
func TestTraceIsExact(t *testing.T) {
	first, stats := traffic(t, 11)
	for range 3 {
		again, _ := traffic(t, 11)
		if len(first) != len(again) {
			t.Fatalf("seed 11: %d events, then %d", len(first), len(again))
		}
		// Events of one instant are in their total order, except that hosts hand in what they
		// send at that instant as they come. So compare as sets within an instant.
		for i := range first {
			if first[i].At != again[i].At {
				t.Fatalf("seed 11: event %d is %v, then %v", i, first[i], again[i])
			}
		}
		if a, b := sorted(first), sorted(again); !slices.Equal(a, b) {
			t.Fatal("seed 11: the same instants, but other events")
		}
	}
	if other, _ := traffic(t, 12); slices.Equal(sorted(first), sorted(other)) {
		t.Error("seeds 11 and 12 give the same trace")
	}

	var sent, delivered, dropped uint64
	for i, e := range first {
		if i > 0 && e.At < first[i-1].At {
			t.Errorf("%v happens after %v", e, first[i-1])
		}
		switch e.Kind {
		case gridnet.Sent:
			sent++
		case gridnet.Delivered:
			delivered++
		case gridnet.Dropped:
			dropped++
		}
	}
	if sent == 0 || dropped == 0 || sent != delivered+dropped {
		t.Errorf("%d sent, %d delivered, %d dropped", sent, delivered, dropped)
	}
	var counted uint64
	for _, h := range stats.Hosts {
		for _, c := range []gridnet.Traffic{h.Egress, h.Ingress, h.Loopback} {
			if c.Inside.Packets != 0 {
				t.Errorf("host %s: %+v still inside", h.Host, c.Inside)
			}
		}
		counted += h.Ingress.Delivered.Packets + h.Loopback.Delivered.Packets
	}
	if counted != delivered {
		t.Errorf("%d delivered by the counters, %d by the trace", counted, delivered)
	}
}

// sorted orders the events of each instant.
func sorted(trace []gridnet.Event) []gridnet.Event {
	out := slices.Clone(trace)
	slices.SortStableFunc(out, func(a, b gridnet.Event) int {
		if a.At != b.At {
			return int(a.At - b.At)
		}
		if c := a.Src.Compare(b.Src); c != 0 {
			return c
		}
		if c := a.Dst.Compare(b.Dst); c != 0 {
			return c
		}
		if a.Seq != b.Seq {
			return int(a.Seq) - int(b.Seq)
		}
		return int(a.Kind) - int(b.Kind)
	})
	return out
}
