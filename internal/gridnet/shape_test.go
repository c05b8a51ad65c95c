package gridnet_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// number sends the numbers 0 … n-1 from a to b, gap apart, and returns them in the order
// of their arrival, and how long after its sending each arrived.
func number(t *testing.T, a, b *gridnet.Conn, n int, gap time.Duration) (order []int, took []time.Duration) {
	t.Helper()
	start := time.Now()
	go func() {
		buf := make([]byte, 100)
		for i := range n {
			binary.BigEndian.PutUint32(buf, uint32(i))
			if _, err := a.WriteTo(buf, b.LocalAddr()); err != nil {
				t.Error(err)
			}
			time.Sleep(gap)
		}
	}()
	buf := make([]byte, 100)
	if err := b.SetReadDeadline(start.Add(time.Duration(n)*gap + time.Minute)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, _, err := b.ReadFrom(buf); err != nil {
			return order, took
		}
		i := int(binary.BigEndian.Uint32(buf))
		order = append(order, i)
		took = append(took, time.Since(start)-time.Duration(i)*gap)
	}
}

// The losses of a seed are always the same, those of another seed are others, and their
// number is within five standard deviations of the binomial distribution.
func TestLoss(t *testing.T) {
	const n, p = 8_000, 0.01
	run := func(seed uint64, jitter time.Duration) (arrived []int) {
		cfg := gridtest.Pair(gridnet.Link{Loss: p, Latency: time.Millisecond, Jitter: jitter})
		cfg.Seed = seed
		gridtest.Run(t, cfg, func(t *testing.T, net *gridnet.Network) {
			arrived, _ = number(t, gridtest.Listen(t, net, "a0"), gridtest.Listen(t, net, "b0"), n, time.Millisecond)
			s := net.Stats()
			if l, _ := s.Link("a", "b"); l.Dropped[gridnet.Lost].Packets != uint64(n-len(arrived)) || l.Lost() != l.Dropped[gridnet.Lost] {
				t.Errorf("seed %d: %d of %d arrived, counters %+v", seed, len(arrived), n, l)
			}
		})
		return arrived
	}
	first := run(1, 0)
	for _, seed := range []uint64{2, 3} {
		got := run(seed, 0)
		lost := float64(n - len(got))
		if sigma := math.Sqrt(n * p * (1 - p)); math.Abs(lost-n*p) > 5*sigma {
			t.Errorf("seed %d: %v lost, want %v ± %.0f", seed, lost, n*p, 5*sigma)
		}
		if slices.Equal(got, first) {
			t.Errorf("seed %d loses the same packets as seed 1", seed)
		}
	}
	if !slices.Equal(run(1, 0), first) {
		t.Error("seed 1 loses other packets when run again")
	}
	if !slices.Equal(run(1, 10*time.Microsecond), first) {
		t.Error("jitter moves the losses")
	}
}

// Jitter is uniform on top of the latency and keeps the order unless told otherwise.
func TestJitter(t *testing.T) {
	const n, latency, jitter = 5000, 20 * time.Millisecond, 10 * time.Millisecond
	for _, tc := range []struct {
		name    string
		gap     time.Duration
		reorder bool
	}{
		{"far apart", 20 * time.Millisecond, false},
		{"close", time.Millisecond, false},
		{"reordered", time.Millisecond, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			link := gridnet.Link{Latency: latency, Jitter: jitter, Reorder: tc.reorder}
			gridtest.Run(t, gridtest.Pair(link), func(t *testing.T, net *gridnet.Network) {
				order, took := number(t, gridtest.Listen(t, net, "a0"), gridtest.Listen(t, net, "b0"), n, tc.gap)
				if len(order) != n {
					t.Fatalf("%d of %d arrived", len(order), n)
				}
				if slices.IsSorted(order) == tc.reorder {
					t.Errorf("in order: %v, want %v", !tc.reorder, tc.reorder)
				}
				var sum time.Duration
				for _, d := range took {
					sum += d
				}
				low, high := slices.Min(took), slices.Max(took)
				// 3 ns: the ports without limit, and the other port's.
				if low < latency || high > latency+jitter+3 {
					t.Errorf("%v to %v, want %v to %v", low, high, latency, latency+jitter)
				}
				if low > latency+jitter/10 && tc.gap > jitter || high < latency+jitter*9/10 {
					t.Errorf("%v to %v does not use the range %v to %v", low, high, latency, latency+jitter)
				}
				if mean := sum / n; tc.gap > jitter && (mean-latency-jitter/2).Abs() > jitter/20 {
					t.Errorf("mean %v, want %v", mean, latency+jitter/2)
				}
			})
		})
	}
}

// A receiver's jitter delays after the port and keeps the order.
func TestReceiveJitter(t *testing.T) {
	cfg := gridnet.Config{Sites: []gridnet.Site{{Name: "a", Hosts: []string{"a0", "a1"},
		Latency: time.Millisecond, ReceiveJitter: time.Millisecond}}}
	gridtest.Run(t, cfg, func(t *testing.T, net *gridnet.Network) {
		order, took := number(t, gridtest.Listen(t, net, "a0"), gridtest.Listen(t, net, "a1"), 1000, 100*time.Microsecond)
		if len(order) != 1000 || !slices.IsSorted(order) {
			t.Errorf("%d arrived, in order %v", len(order), slices.IsSorted(order))
		}
		if low, high := slices.Min(took), slices.Max(took); low < time.Millisecond || high > 2*time.Millisecond+2 || high < 1900*time.Microsecond {
			t.Errorf("%v to %v, want 1 to 2 ms", low, high)
		}
	})
}

// A token bucket lets its burst pass at the rate of the link and the rest at its own:
// transmission k begins when the one before has ended and burst + rate·t covers k packets.
func TestTokenBucket(t *testing.T) {
	const rate, shape = 10 * gridnet.Mbps, 1 * gridnet.Mbps
	const size, burst, n = 1000, 15_000, 60
	link := gridnet.Link{Rate: rate, ShapeRate: shape, ShapeBurst: burst}
	gridtest.Run(t, gridtest.Pair(link), func(t *testing.T, net *gridnet.Network) {
		a, b := gridtest.Listen(t, net, "a0"), gridtest.Listen(t, net, "b0")
		for round := range 2 { // the second one finds the bucket full again
			start := time.Now()
			for range n {
				send(t, a, b, size-gridnet.HeaderBytes)
			}
			got := arrivals(t, b, start)
			if len(got) != n {
				t.Fatalf("%d arrived, want %d", len(got), n)
			}
			var end time.Duration
			for k := range n {
				tokens := time.Duration((float64(k+1)*size - burst) / float64(shape) * 1e9)
				end = max(end, tokens) + tx(size-gridnet.HeaderBytes, rate)
				if (got[k] - end).Abs() > time.Microsecond {
					t.Errorf("round %d: packet %d arrived after %v, want %v", round, k, got[k], end)
				}
			}
		}
	})
}

// flood sends n packets of 1000 IP bytes in each of the flows at once and returns
// the rate at which they arrived, over the whole burst.
func flood(t *testing.T, link gridnet.Link, flows, n int) gridnet.Rate {
	t.Helper()
	link.Queue = flows * n
	var rate gridnet.Rate
	gridtest.Run(t, gridtest.Pair(link), func(t *testing.T, net *gridnet.Network) {
		b := gridtest.Listen(t, net, "b0")
		start := time.Now()
		for range flows { // a socket is a flow
			a := gridtest.Listen(t, net, "a0")
			for range n {
				send(t, a, b, 972)
			}
		}
		at := arrivals(t, b, start)
		if len(at) != flows*n {
			t.Fatalf("%d of %d arrived", len(at), flows*n)
		}
		rate = gridnet.Rate(float64(1000*flows*n) / (at[len(at)-1] - link.Latency).Seconds())
	})
	return rate
}

// One flow gets FlowRate, many get Rate together: the reason for parallel transfers.
func TestFlowCeiling(t *testing.T) {
	link := gridnet.Link{Rate: 10 * gridnet.Mbps, FlowRate: 1.25 * gridnet.Mbps, Latency: 50 * time.Millisecond}
	for flows, want := range map[int]gridnet.Rate{1: 1.25, 2: 2.5, 7: 8.75, 8: 10, 20: 10} {
		t.Run(fmt.Sprint(flows), func(t *testing.T) {
			got := flood(t, link, flows, 200) / gridnet.Mbps
			// The first packet of a flow does not wait: 200 take the time of 199.
			if got < want*0.995 || got > want*1.01 {
				t.Errorf("%d flows get %.3f Mbit/s, want %.3f", flows, got, want)
			}
		})
	}
}
