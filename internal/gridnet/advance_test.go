package gridnet_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// A driver is a loop of a user's own.
type driver struct{ bell chan struct{} }

func (d *driver) rouse() {
	select {
	case d.bell <- struct{}{}:
	default:
	}
}

// run does all that is due, and what is done with the packets for w, until ctx ends.
func (d *driver) run(ctx context.Context, n *gridnet.Network, w *gridnet.Wire, packet func([]byte)) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	buf := make([]byte, gridnet.MTU)
	for {
		timer.Stop()
		if due, ok := n.Advance(); ok {
			timer.Reset(time.Until(due))
		}
		for k, ok := w.TryRead(buf); ok; k, ok = w.TryRead(buf) {
			packet(buf[:k])
		}
		select {
		case <-timer.C:
		case <-d.bell:
		case <-ctx.Done():
			return
		}
	}
}

// A loop of the user's own hands over each packet at the same time as that of the network, also when what is due becomes due
// earlier, and is late for none.
func TestAdvance(t *testing.T) {
	const ms, bursts, burst = time.Millisecond, 20, 7
	link := gridnet.Link{Rate: 4 * gridnet.Mbps, FlowRate: gridnet.Mbps, Latency: 30 * ms, Jitter: 5 * ms, Queue: 10}
	play := func(driven bool) (got []arrival, stats gridnet.Stats) {
		d := &driver{}
		cfg := gridtest.Pair(link)
		if driven {
			cfg.Rouse = d.rouse
		}
		gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
			d.bell = make(chan struct{}, 1)
			a, b := attach(t, n, "a"), attach(t, n, "b")
			start := time.Now()
			note := func(p []byte) {
				got = append(got, arrival{int(binary.BigEndian.Uint32(p[gridnet.HeaderBytes:])), time.Since(start)})
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if driven {
					d.run(ctx, n, b, note)
					return
				}
				buf := make([]byte, gridnet.MTU)
				for k, err := b.Read(buf); err == nil; k, err = b.Read(buf) {
					note(buf[:k])
				}
			}()
			for i := range bursts * burst {
				p := gridnet.IPv4(addrPort(t, n, "a0", 4000+i%3), addrPort(t, n, "b0", 4000), 1000)
				binary.BigEndian.PutUint32(p[gridnet.HeaderBytes:], uint32(i))
				if err := a.Write(p); err != nil {
					t.Fatal(err)
				}
				if i%burst == burst-1 {
					time.Sleep(13 * ms)
				}
				if i == bursts*burst/2 { // what is on its way comes earlier
					if err := n.SetLink("a", "b", func(l *gridnet.Link) { l.FlowRate, l.Latency = 3*gridnet.Mbps, ms }); err != nil {
						t.Fatal(err)
					}
				}
			}
			time.Sleep(time.Minute)
			stats = n.Stats()
			cancel()
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			<-ended
			if k, ok := b.TryRead(make([]byte, 1)); ok {
				t.Errorf("read %d bytes from a closed wire", k)
			}
			if driven {
				_ = n.Close()
				if at, ok := n.Advance(); ok {
					t.Errorf("a closed network has something to do at %v", at)
				}
			}
		})
		return got, stats
	}
	want, _ := play(false)
	got, stats := play(true)
	if len(want) < bursts || !slices.Equal(got, want) {
		t.Errorf("arrived\n%v, want\n%v", got, want)
	}
	if l := stats.Late; l.Packets != uint64(len(got)) || l.Sum != 0 {
		t.Errorf("late: %+v, want none of %d", l, len(got))
	}
}
