package exchange

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// BenchmarkSmall gathers small blocks of eight engines around a ring over TCP lanes of the kernel, one operation behind the other. Reported is the CPU
// time of all eight for one.
func BenchmarkSmall(b *testing.B) {
	for _, c := range []struct{ size, chunk int }{{1 << 10, 1 << 10}, {16 << 10, 1 << 10}, {16 << 10, 4 << 10}, {64 << 10, 5560}, {256 << 10, 16 << 10}} {
		b.Run(fmt.Sprintf("block=%dKiB,chunk=%d", c.size>>10, c.chunk), func(b *testing.B) {
			const hosts = 8
			g := newLoopbackGrid(b, hostNames(hosts), true)
			defer g.stop()
			p := ringPlan(hosts)
			p.MessageBytes = int64(c.size)
			j := newJob(b, rand.New(rand.NewPCG(1, 80)), p, c.chunk)
			n := uint64(0)
			once := func() {
				n++
				var id ID
				binary.LittleEndian.PutUint64(id[:], n)
				parts, err := Split(p, id, c.chunk, nil)
				if err != nil {
					b.Fatal(err)
				}
				var wg sync.WaitGroup
				for h, part := range parts {
					wg.Go(func() {
						if _, err := g.engines[part.Hosts[h]].Run(context.Background(), part, j.data[h]); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
			}
			once() // connections are made
			before := cpu()
			for b.Loop() {
				once()
			}
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
			for h := range hosts {
				if err := j.check(h); err != nil {
					b.Error(err)
				}
			}
		})
	}
}
