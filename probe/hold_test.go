package probe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// fours is two sites of four hosts.
func fours(rate gridnet.Rate) gridnet.Config {
	link := gridnet.Link{Rate: rate, Latency: 20 * time.Millisecond}
	cfg := gridnet.Config{Sites: []gridnet.Site{
		{Name: "a", Hosts: []string{"a0", "a1", "a2", "a3"}},
		{Name: "b", Hosts: []string{"b0", "b1", "b2", "b3"}},
	}}
	for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
		l := link
		l.From, l.To = way[0], way[1]
		cfg.Links = append(cfg.Links, l)
	}
	return cfg
}

// While two hosts of each site exchange data, the others leave the link between the sites alone,
// a second after it began at the latest; and after it they measure again.
func TestNeighboursKeepQuiet(t *testing.T) {
	cfg := fours(5 * gridnet.Mbps)
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		var ms []*member
		var busy atomic.Bool
		for _, site := range cfg.Sites {
			for i, h := range site.Hosts {
				ms = append(ms, w.join(gridtest.Listen(t, n, h), Peer{h, site.Name}, func(c *Config) {
					if i >= 2 { // a0 and b0 keep the links and take no part
						c.Busy = busy.Load
					}
				}))
			}
		}
		w.run(ms, true, func(context.Context) {
			time.Sleep(40 * time.Second)
			carried := func() (trains int64) {
				for k, b := range w.bytes() {
					if k.from != k.to {
						trains += b
					}
				}
				return trains
			}
			idle := carried()
			time.Sleep(20 * time.Second)
			if idle = carried() - idle; idle == 0 {
				t.Fatal("nothing is measured while nobody exchanges data")
			}
			var over []func()
			busy.Store(true)
			for _, i := range []int{2, 3, 6, 7} {
				over = append(over, ms[i].prober.Crosses())
			}
			time.Sleep(time.Second)
			before := carried()
			time.Sleep(20 * time.Second)
			if got := carried() - before; got > 0 {
				t.Errorf("%d bytes of trains beside an exchange in 20 s, %d without", got, idle)
			}
			// Second opinions go on.
			ms[1].prober.Suspect("b1")
			time.Sleep(2 * time.Second)
			if got := carried() - before; got == 0 || got > watchTrain*trainPayload {
				t.Errorf("a suspect is measured with %d bytes during an exchange, want %d", got, watchTrain*trainPayload)
			}
			busy.Store(false)
			for _, f := range over {
				f()
			}
			time.Sleep(holdLinger + holdCheck)
			before = carried()
			time.Sleep(20 * time.Second)
			if got := carried() - before; got < idle/8 { // of a new grid more is measured
				t.Errorf("%d bytes of trains in 20 s after the exchange, %d before it", got, idle)
			}
		})
	})
}

// A bulk probe of a neighbour ends when an exchange begins, of a host that keeps the link
// and of one that asked for it.
func TestHoldEndsBulk(t *testing.T) {
	for _, prober := range []int{0, 1} {
		cfg := fours(5 * gridnet.Mbps)
		gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
			w := newWorld(t)
			ms := w.joinAll(n, cfg, nil)
			w.run(ms, false, func(ctx context.Context) {
				ctx, cancel := context.WithCancel(ctx)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					ms[3].prober.holds(ctx)
				}()
				p := ms[prober].prober
				errs := make(chan error, 1)
				go func() {
					_, err := p.train(ctx, Peer{"b1", "b"})
					if err == nil {
						give, e := p.lease(ctx, "b", request{use: first, cost: firstCost})
						if e == nil {
							_, _, e = p.long(ctx, longProbe{kind: KindCapacity, peer: Peer{"b1", "b"}, rate: 600e3, rtt: 40 * time.Millisecond}, 32<<20, nil)
							give(1, 0)
						}
						err = e
					}
					errs <- err
				}()
				time.Sleep(time.Second) // into the middle of it
				if len(errs) > 0 {
					t.Errorf("a%d: the bulk probe ended before the exchange began", prober)
				}
				over := ms[3].prober.Crosses()
				time.Sleep(300 * time.Millisecond)
				select {
				case err := <-errs:
					// What it has read by then may be enough.
					if err != nil && !errors.As(err, new(*BusyError)) {
						t.Errorf("a%d: bulk probe ends with %v, want busy", prober, err)
					}
				default:
					t.Errorf("a%d: a bulk probe goes on beside an exchange", prober)
				}
				if p.curbed() {
					t.Errorf("a%d is curbed without a lease", prober)
				}
				over()
				cancel()
				<-ended
			})
		})
	}
}

// The hold of a host is bounded in time, whatever it does, and a new one takes over from an old.
func TestHoldsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(terms{share: 0.01, burst: 1 << 20})
		var busy *BusyError
		old, left, err := k.hold("a")
		if err != nil || left != holdMost {
			t.Fatal(left, err)
		}
		time.Sleep(holdMost / 2)
		fresh, left, err := k.hold("a")
		if err != nil || left != holdMost/2 {
			t.Fatal(left, err)
		}
		old()
		if !k.isHeld() {
			t.Error("the end of an old stream ends the hold of the new one")
		}
		fresh()
		if k.isHeld() {
			t.Error("held after its end")
		}
		begun := time.Now()
		for time.Since(begun) < holdMost/2-time.Minute { // many short ones, with pauses
			release, _, err := k.hold("a")
			if err != nil {
				t.Fatalf("after %v: %v", time.Since(begun), err)
			}
			time.Sleep(30 * time.Second)
			release()
			time.Sleep(30 * time.Second)
		}
		time.Sleep(time.Minute)
		if _, _, err := k.hold("a"); !errors.As(err, &busy) || busy.Retry <= 0 {
			t.Errorf("more than an hour: %v, want busy", err)
		}
		if release, _, err := k.hold("b"); err != nil {
			t.Errorf("another host: %v", err)
		} else {
			release()
		}
		time.Sleep(holdRest)
		if _, left, err := k.hold("a"); err != nil || left != holdMost {
			t.Errorf("after a rest: %v, %v left", err, left)
		}
		if len(k.holds) > 1 {
			t.Errorf("%d hosts are remembered, of one", len(k.holds))
		}
	})
}

// A lease that is held when a hold begins is wanted back, but not one for a second opinion.
func TestHoldRecallsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(terms{share: 0.01, burst: 1 << 20})
		l := siteLink{"a", "b"}
		recalled := func() bool {
			select {
			case <-k.recalls(l):
				return true
			default:
				return false
			}
		}
		give, err := k.acquire(t.Context(), l, request{use: first, cost: firstCost})
		if err != nil || recalled() {
			t.Fatal(err, recalled())
		}
		release, _, err := k.hold("a1")
		if err != nil || !recalled() {
			t.Errorf("%v, recalled %v", err, recalled())
		}
		give(firstCost, netmap.BytesPerSec(1e6))
		if _, err := k.acquire(t.Context(), l, request{use: first, cost: firstCost}); !errors.As(err, new(*BusyError)) {
			t.Errorf("a held link is leased: %v", err)
		}
		give, err = k.acquire(t.Context(), l, request{use: urgent, cost: watchCost})
		if err != nil {
			t.Fatal(err)
		}
		give(watchCost, netmap.BytesPerSec(1e6))
		release()
		time.Sleep(time.Minute)
		give, err = k.acquire(t.Context(), l, request{use: watch, cost: watchCost})
		if err != nil || recalled() {
			t.Fatal(err)
		}
		give(watchCost, netmap.BytesPerSec(1e6))
	})
}
