package exchange

import (
	"context"
	"fmt"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridagent/gridagent/exchange/plan"
)

// BenchmarkGiB moves an allgather of 1 GiB, half of it from each of two hosts, over loopback. The buffers are
// mapped outside the heap, as those of agents are in files. peak-MiB is the most memory that the process's
// Go runtime held beside them, of both ends together: it does not grow with the blocks.
func BenchmarkGiB(b *testing.B) {
	for _, kind := range []string{"quic", "tcp"} {
		b.Run(kind, func(b *testing.B) {
			const half = 512 << 20
			g := newLoopbackGrid(b, hostNames(2), kind == "tcp")
			defer g.stop()
			var bufs [2][]byte
			for h := range bufs {
				var err error
				if bufs[h], err = unix.Mmap(-1, 0, 2*half, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
					b.Skip(err)
				}
				defer unix.Munmap(bufs[h])
			}
			pl := newPlanner(plan.Allgather, 2)
			pl.add(0, 1, plan.Block{Origin: 0, Dest: plan.All})
			pl.add(1, 0, plan.Block{Origin: 1, Dest: plan.All})
			pl.p.Sizes = []int64{half, half}
			layout := func(bl Block) []Segment { return []Segment{{int64(bl.Origin) * half, bl.Size}} }
			b.SetBytes(2 * half)
			var peak uint64
			n := byte(0)
			for b.Loop() {
				n++
				parts, err := Split(pl.p, ID{n}, 0, nil)
				if err != nil {
					b.Fatal(err)
				}
				ended, watched := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(watched)
					peak = max(peak, peakMemory(ended))
				}()
				var wg sync.WaitGroup
				for h, part := range parts {
					wg.Go(func() {
						if _, err := g.engines[hostNames(2)[h]].Run(context.Background(), part, Data{Result: bufs[h], Layout: layout}); err != nil {
							b.Error(fmt.Errorf("host %d: %w", h, err))
						}
					})
				}
				wg.Wait()
				close(ended)
				<-watched
			}
			b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
		})
	}
}

// peakMemory returns the most bytes that the Go runtime held until done was closed.
func peakMemory(done <-chan struct{}) (most uint64) {
	held := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		metrics.Read(held)
		most = max(most, held[0].Value.Uint64()-held[1].Value.Uint64())
		select {
		case <-done:
			return most
		case <-tick.C:
		}
	}
}
