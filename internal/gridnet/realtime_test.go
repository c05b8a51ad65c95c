package gridnet_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

func realTime(t testing.TB, cfg gridnet.Config) *gridnet.Network {
	t.Helper()
	cfg.RealTime = true
	n, err := gridnet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// In real time the rates hold as well. The bands are wide downwards: the machine is not ours alone.
func TestRealTimeGoodput(t *testing.T) {
	if gridtest.Race {
		t.Skip("with the race detector 20 Mbit/s are more than a busy machine does in real time")
	}
	if testing.Short() {
		t.Skip("takes 2 s of wall time")
	}
	const rate, size = 20 * gridnet.Mbps, 4 << 20
	n := realTime(t, gridtest.Pair(gridnet.Link{Rate: rate, Latency: 10 * time.Millisecond}))
	conf := mutualTLS(t)
	a, b := newNode(t, n, "a0", conf), newNode(t, n, "b0", conf)
	defer b.close()
	defer a.close()
	var goodput float64
	g, ctx := errgroup.WithContext(t.Context())
	g.Go(func() (err error) { _, goodput, err = b.collect(ctx, size); return err })
	g.Go(func() error { return a.deliver(ctx, b, conf, size) })
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	share := goodput / float64(rate)
	t.Logf("%.1f %% of the rate", 100*share)
	if share < 0.70 || share > 1 {
		t.Errorf("%.1f %% of the rate, want 70 to 100 %%", 100*share)
	}
}

// A thousand packets through a link take as long as they should: late wakes do not add up.
func TestRealTimeDoesNotDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 1 s of wall time")
	}
	const rate, count = 8 * gridnet.Mbps, 1000 // 1 ms a packet of 1000 bytes
	n := realTime(t, gridtest.Pair(gridnet.Link{Rate: rate, Latency: 5 * time.Millisecond, Queue: count}))
	a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "b0")
	start := time.Now()
	for range count {
		send(t, a, b, 972)
	}
	buf := make([]byte, 2000)
	var late []time.Duration
	for i := range count {
		if err := b.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.ReadFrom(buf); err != nil {
			t.Fatal(err)
		}
		late = append(late, time.Since(start)-5*time.Millisecond-time.Duration(i+1)*time.Millisecond)
	}
	early, last := slices.Min(late), late[count-1]
	var sum time.Duration
	for _, d := range late {
		sum += d
	}
	// The reader comes after the hand-over.
	if l := n.Stats().Late; l.Packets != count || l.Sum <= 0 || l.Sum > sum || l.Worst > slices.Max(late) {
		t.Errorf("%d packets, late by %v together as the reader sees it; the network counts %+v", count, sum, l)
	}
	slices.Sort(late)
	t.Logf("late by %v in the middle, %v at 95 %%, %v for the last", late[count/2], late[count*95/100], last)
	if early < 0 {
		t.Errorf("a packet is %v early", -early)
	}
	if late[count/2] > 20*time.Millisecond {
		t.Errorf("the middle packet is late by %v", late[count/2])
	}
}

// BenchmarkWire carries full packets from Write on one wire to Read on another, over links
// that are not the limit, in one direction and in both. It keeps 2000 packets on the way, a
// link of 2.4 Gbit/s and 10 ms.
func BenchmarkWire(b *testing.B) {
	for _, both := range []bool{false, true} {
		b.Run(fmt.Sprintf("both=%v", both), func(b *testing.B) {
			n := realTime(b, gridtest.Pair(gridnet.Link{Latency: time.Millisecond, Queue: 1 << 16}))
			left, right := attach(b, n, "a"), attach(b, n, "b")
			there := gridnet.IPv4(addrPort(b, n, "a0", 1), addrPort(b, n, "b0", 1), gridnet.MTU)
			back := gridnet.IPv4(addrPort(b, n, "b0", 1), addrPort(b, n, "a0", 1), gridnet.MTU)
			b.SetBytes(gridnet.MTU)
			b.ReportAllocs()
			b.ResetTimer()
			var g errgroup.Group
			half := b.N
			if both {
				half = b.N - b.N/2
				g.Go(func() error { return carry(right, left, back, b.N/2) })
			}
			g.Go(func() error { return carry(left, right, there, half) })
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)*gridnet.MTU*8/1e6/b.Elapsed().Seconds(), "Mbit/s")
			l := n.Stats().Late
			b.ReportMetric(100*float64(l.Over)/float64(max(1, l.Packets)), "%late")
			b.ReportMetric(float64(l.Sum.Microseconds())/float64(max(1, l.Packets)), "µs-late/op")
		})
	}
}

// carry writes a packet n times to a wire and reads as many from another.
func carry(from, to *gridnet.Wire, packet []byte, n int) error {
	window := make(chan struct{}, 2000)
	var g errgroup.Group
	g.Go(func() error {
		for range n {
			window <- struct{}{}
			if err := from.Write(packet); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() error {
		buf := make([]byte, gridnet.MTU)
		for range n {
			if _, err := to.Read(buf); err != nil {
				return err
			}
			<-window
		}
		return nil
	})
	return g.Wait()
}

// BenchmarkRealTime sends 1000-byte packets at 100 Mbit/s over a WAN pipe; the user time that
// the shell reports beside the wall time is the cost.
func BenchmarkRealTime(b *testing.B) {
	cfg := gridtest.Pair(gridnet.Link{Rate: 100 * gridnet.Mbps, Latency: 20 * time.Millisecond, Queue: 1000})
	cfg.Sites[0].Rate = 100 * gridnet.Mbps
	n := realTime(b, cfg)
	src, dst := gridtest.Listen(b, n, "a0"), gridtest.Listen(b, n, "b0")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 2000)
		for {
			if _, _, err := dst.ReadFrom(buf); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 972)
	b.SetBytes(1000)
	for b.Loop() {
		if _, err := src.WriteTo(buf, dst.LocalAddr()); err != nil {
			b.Fatal(err)
		}
	}
	_ = dst.Close()
	<-ended
}
