package exchange

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestHostileOffers: a member of the exchange offers, asks for and claims what there is not. Where it breaks the protocol the run
// ends with an error that names it, and else nothing comes of it.
func TestHostileOffers(t *testing.T) {
	say := func(f frame) string { return string(f.appendTo(nil)) }
	for _, tc := range []struct{ name, wire, want string }{
		{"offer for a host that is not there", say(frame{kind: frameOffer, host: 3, number: 0, n: 1}), "host 3 of 3"},
		{"offer for itself", say(frame{kind: frameOffer, host: 0, number: 0, n: 1}), "host 0 of 3"},
		{"entries out of range", say(frame{kind: frameOffer, host: 2, number: 1, index: 10, n: 1}), "10+1 of block 1"},
		{"entries beyond all numbers", say(frame{kind: frameOffer, host: 2, number: 1, index: maxNumber, n: maxNumber}), "of block 1"},
		{"way to a host that is not there", say(frame{kind: frameStanding, host: 99}), "host 99 of 3"},
		{"way of a site to the asked one", say(frame{kind: frameTogether, host: 1}), "host 1 of 3"},
		{"taken by the opener", say(frame{kind: frameTaken}), "kind 0x19"},
		{"done with what it does not get", say(frame{kind: frameToken, number: 0}), "token of transfer 0"},
		{"block that is not there", say(frame{kind: frameOffer, host: 2, number: 77, n: 1}), ""},
		{"to the block's origin", say(frame{kind: frameOffer, host: 2, number: 2, n: 1}), ""},
		{"no entries", say(frame{kind: frameOffer, host: 2, number: 1}), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := ringPlan(3)
				p.MessageBytes = 100
				g := newFakeGrid(t, p.Hosts, func(c *Config) {
					c.Path = func(string) Path { return Path{RTT: 10 * time.Millisecond, Rate: 1e6, Flows: 1} }
				})
				j := newJob(t, rand.New(rand.NewPCG(1, 40)), p, 10)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				// host0 runs no part: the test speaks for it.
				s, err := g.open(ctx, "host0", "host1")
				if err != nil {
					t.Fatal(err)
				}
				go io.Copy(io.Discard, s)
				s.Write(append(header{id: j.parts[1].ID, lane: newsLane}.appendTo(nil), tc.wire...))
				_, err = g.engines["host1"].Run(ctx, j.parts[1], j.data[1])
				var pe *ProtocolError
				switch {
				case tc.want == "":
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v, want the run to go on", err)
					}
				case !errors.As(err, &pe) || pe.Peer != "host0" || !strings.Contains(pe.Reason, tc.want):
					t.Errorf("got %v, want a protocol error by host0 with %q", err, tc.want)
				}
				s.Abort()
				g.accepts.Wait()
				cancel()
				time.Sleep(time.Minute)
				g.accepts.Wait()
			})
		})
	}
}

// loneRun returns a run of the first of three hosts of a ring, which nobody has started.
func loneRun(t *testing.T) *run {
	t.Helper()
	p := ringPlan(3)
	p.MessageBytes = 100
	g := newFakeGrid(t, p.Hosts, nil)
	j := newJob(t, rand.New(rand.NewPCG(1, 41)), p, 10)
	x, err := newRun(t.Context(), g.engines["host0"], j.parts[0], j.data[0])
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestHostileTaken: what was not offered cannot be taken.
func TestHostileTaken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		x := loneRun(t)
		defer x.cancel(nil)
		offered := []frame{{kind: frameOffer, host: 1, number: 0, index: 1, n: 3}, {kind: frameOffer, host: 1, number: 0, index: 4, n: 6}}
		for _, f := range []frame{
			{kind: frameTaken, host: 9, number: 0, n: 1},
			{kind: frameTaken, host: 0, number: 0, n: 1},
			{kind: frameTaken, host: 2, number: 0, n: 1}, // host 0 sends to host 1
			{kind: frameTaken, host: 1, number: 50, n: 1},
			{kind: frameTaken, host: 1, number: 0, index: 9, n: 2},
			{kind: frameTaken, host: 1, number: 0, index: 0, n: 2}, // 1 to 9 were offered
			{kind: frameTaken, host: 1, number: 0, index: 3, n: 2}, // not in one offer
			{kind: frameTaken, host: 1, number: 0, index: maxNumber, n: maxNumber},
		} {
			if n, err := x.gave([]frame{f}, offered, 0); !errors.Is(err, errMalformed) || n != 0 {
				t.Errorf("%+v: %d bytes, %v", f, n, err)
			}
		}
		if n, err := x.gave([]frame{{kind: frameTaken, host: 1, number: 0, index: 2, n: 2}, {kind: frameTaken, host: 1, number: 0, index: 4, n: 2}, {kind: frameTaken, host: 1, number: 0, index: 5, n: 1}}, offered, 0); n != 40 || err != nil {
			t.Errorf("entries 2 to 5 of 10 bytes: %d bytes, %v", n, err)
		}
		if sb := x.sends[0].blocks[0]; sb.ready != 6 || x.sends[0].unsent != 7 { // 4 are given away; the checksum is not known yet
			t.Errorf("%d entries are ready and %d not sent", sb.ready, x.sends[0].unsent)
		}
	})
}

// TestTakenTooLate: what is through by the time that the answer to an offer comes was offered all the same, also where the send, made to help others, is forgotten.
func TestTakenTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		x := loneRun(t)
		defer x.cancel(nil)
		offered := []frame{{kind: frameOffer, host: 2, number: 0, index: 0, n: 4}}
		if n, err := x.gave([]frame{{kind: frameTaken, host: 2, number: 0, index: 1, n: 1}}, offered, 0); n != 0 || err != nil {
			t.Errorf("of a send that is gone: %d bytes, %v", n, err)
		}
		offered[0].host = 1
		x.mu.Lock()
		x.sends[0].confirmed = true
		x.mu.Unlock()
		if n, err := x.gave([]frame{{kind: frameTaken, host: 1, number: 0, index: 1, n: 1}}, offered, 0); n != 0 || err != nil {
			t.Errorf("of a send that is through: %d bytes, %v", n, err)
		}
	})
}

// TestReliefDelivers gives parts of what a slow stream still has to another host, at random times and over streams that break:
// everything arrives, everybody ends, and what was given comes from the one that took it.
func TestReliefDelivers(t *testing.T) {
	helped := 0
	var broken atomic.Int64
	for seed := range uint64(30) {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 96))
			b := newPlanner(plan.Allgather, 3)
			for o := range 3 {
				for h := range 3 {
					if h != o {
						b.add(o, h, plan.Block{Origin: o, Dest: plan.All})
					}
				}
			}
			b.p.Sizes = []int64{int64(briefBytes + 1 + rng.IntN(40000)), int64(briefBytes + 1 + rng.IntN(10000)), int64(rng.IntN(3000))}
			g := newFakeGrid(t, b.p.Hosts, func(c *Config) {
				c.Path = func(string) Path { return Path{RTT: 10 * time.Millisecond, Rate: 1e6, Flows: 1} }
			})
			breaks := rng.IntN(6) // of ten
			g.stream = func(from, to string, s *fakeStream) {
				d := time.Millisecond
				switch from + to {
				case "host0host2":
					d = 300 * time.Millisecond
				case "host1host2":
					d = 100 * time.Millisecond // or it would be through, and help nobody
				}
				left := -1
				if rng.IntN(10) < breaks {
					left = rng.IntN(60)
				}
				s.pause = func() {
					time.Sleep(d)
					if left--; left == 0 {
						broken.Add(1)
						s.Abort()
					}
				}
			}
			j := newJob(t, rng, b.p, 500)
			gifts := rng.IntN(4)
			var given int64
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				rng := rand.New(rand.NewPCG(seed, 97)) // streams draw from the other one
				for range gifts {
					time.Sleep(time.Duration(100+rng.IntN(3000)) * time.Millisecond)
					e := g.engines["host0"]
					e.mu.Lock()
					x := e.runs[j.parts[0].ID]
					e.mu.Unlock()
					if x == nil {
						return
					}
					x.mu.Lock()
					w := &route{site: "host2", host: 2, peers: []*peer{x.peers["host2"]}}
					x.mu.Unlock()
					given += x.give(w, []int{1}, int64(rng.IntN(60000)), false, 0)
				}
			}()
			stats, errs := g.run(t.Context(), j)
			<-gone
			for h, err := range errs {
				if err == nil {
					err = j.check(h)
				}
				if err != nil {
					t.Fatalf("seed %d: host %d: %v", seed, h, err)
				}
			}
			g.accepts.Wait()
			if given > 0 {
				helped++
			}
			byItself := stats[0].Replanned > 0 // host 0 has found its way slow, one world in a thousand, and given away more
			if stats[0].Given < given || stats[0].Given > given && !byItself || stats[1].Helping < given {
				t.Errorf("seed %d: %d bytes were given, host 0 says %d, host 1 helped with %d", seed, given, stats[0].Given, stats[1].Helping)
			}
			if all := stats[2].Peers["host0"].Received + stats[2].Peers["host1"].Received; all != b.p.Sizes[0]+b.p.Sizes[1] {
				t.Errorf("seed %d: host 2 got %d bytes, want %d", seed, all, b.p.Sizes[0]+b.p.Sizes[1])
			}
		})
	}
	if helped < 10 || broken.Load() < 10 {
		t.Errorf("something was given in %d of 30 worlds, %d streams broke: the test tests little", helped, broken.Load())
	}
}

// TestAsideBreaks: two hosts send each other a part of what they have by way of a third one, over streams that break with answers on their way. What has
// arrived then counts as any other: both end.
func TestAsideBreaks(t *testing.T) {
	var broken atomic.Int64
	for seed := range uint64(30) {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 98))
			b := newPlanner(plan.Alltoall, 3)
			b.add(0, 1, plan.Block{Origin: 0, Dest: 1})
			b.add(1, 0, plan.Block{Origin: 1, Dest: 0})
			b.p.Matrix = [][]int64{{0, 60000, 0}, {60000, 0, 0}, {0, 0, 0}}
			g := newFakeGrid(t, b.p.Hosts, func(c *Config) {
				c.Path = func(string) Path { return Path{RTT: 10 * time.Millisecond, Rate: 1e6, Flows: 1} }
			})
			g.stream = func(from, to string, s *fakeStream) {
				if from == "host2" {
					return // it passes on what comes
				}
				d := 200 * time.Millisecond
				left := -1
				if to == "host2" {
					d = 10 * time.Millisecond
					s.lag = func() { time.Sleep(50 * time.Millisecond) }
					left = 5 + rng.IntN(60)
				}
				s.pause = func() {
					time.Sleep(d)
					if left--; left == 0 {
						broken.Add(1)
						s.Abort()
					}
				}
			}
			j := newJob(t, rng, b.p, 500)
			var wg sync.WaitGroup
			for h := range 2 {
				wg.Go(func() {
					time.Sleep(time.Second)
					e := g.engines[b.p.Hosts[h]]
					e.mu.Lock()
					x := e.runs[j.parts[h].ID]
					e.mu.Unlock()
					x.mu.Lock()
					to := b.p.Hosts[1-h]
					w := &route{site: to, host: 1 - h, peers: []*peer{x.peers[to]}}
					x.mu.Unlock()
					if x.divert(w, []string{"host2"}, 20000) == 0 {
						t.Error("nothing goes by way of host 2: the test tests nothing")
					}
				})
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, errs := g.run(ctx, j)
			wg.Wait()
			for h, err := range errs {
				if err == nil {
					err = j.check(h)
				}
				if err != nil {
					t.Errorf("seed %d: host %d: %v", seed, h, err)
				}
			}
			g.accepts.Wait()
		})
	}
	if broken.Load() < 10 {
		t.Errorf("%d streams broke: the test tests little", broken.Load())
	}
}

// TestLeafHelps: a host that has nothing to send by the plan, and delivers for another, looks after the lanes that it does that over like any
// other: they count as active no longer than they are.
func TestLeafHelps(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newPlanner(plan.Allgather, 3)
		b.add(0, 1, plan.Block{Origin: 0, Dest: plan.All})
		b.add(0, 2, plan.Block{Origin: 0, Dest: plan.All})
		b.p.Sizes = []int64{60000, 0, 0}
		var samples []Sample // of host 1
		g := newFakeGrid(t, b.p.Hosts, func(c *Config) {
			c.Path = func(string) Path { return Path{RTT: 10 * time.Millisecond, Rate: 1e6, Flows: 1} }
			c.Observe = func(s Sample) {
				if c.Self == "host1" {
					samples = append(samples, s)
				}
			}
		})
		g.stream = func(from, to string, s *fakeStream) {
			d := 20 * time.Millisecond // or host 1 would be through, and help nobody
			if from+to == "host0host2" {
				d = 500 * time.Millisecond
			}
			s.pause = func() { time.Sleep(d) }
		}
		j := newJob(t, rand.New(rand.NewPCG(1, 111)), b.p, 500)
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(time.Second)
			e := g.engines["host0"]
			e.mu.Lock()
			x := e.runs[j.parts[0].ID]
			e.mu.Unlock()
			x.mu.Lock()
			w := &route{site: "host2", host: 2, peers: []*peer{x.peers["host2"]}}
			x.mu.Unlock()
			if x.give(w, []int{1}, 40000, false, 0) == 0 {
				t.Error("host 1 has taken nothing: the test tests nothing")
			}
		})
		_, errs := g.run(t.Context(), j)
		wg.Wait()
		for h, err := range errs {
			if err == nil {
				err = j.check(h)
			}
			if err != nil {
				t.Errorf("host %d: %v", h, err)
			}
		}
		g.accepts.Wait()
		for host, e := range g.engines {
			if n := len(e.flows.sites); n > 0 {
				t.Errorf("%s: lanes to %d sites count as active after all has ended", host, n)
			}
		}
		if len(samples) == 0 {
			t.Error("nothing is told of what host 1 has sent")
		}
	})
}

// TestReclaim: what another host has taken and does not deliver is asked about when it is due, and sent after all.
func TestReclaim(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		x := loneRun(t)
		defer x.cancel(nil)
		if _, err := x.gave([]frame{{kind: frameTaken, host: 1, number: 0, index: 2, n: 4}}, []frame{{kind: frameTaken, host: 1, number: 0, index: 2, n: 4}}, 0); err != nil {
			t.Fatal(err)
		}
		s, to := x.sends[0], x.peers["host1"]
		to.reclaim(time.Now().Add(leastGiven / 2))
		if to.needAsk {
			t.Error("asked before it was due")
		}
		to.reclaim(time.Now().Add(leastGiven))
		if !to.needAsk {
			t.Fatal("not asked when it was due")
		}
		if err := x.had(to, &frame{kind: frameHave, number: 0, index: 2, n: 1}); err != nil {
			t.Fatal(err)
		}
		x.resend(to)
		if s.ready != 9 || s.unsent != 10 { // all but the one that has arrived; and the checksum is not sent
			t.Errorf("%d entries are ready and %d not sent", s.ready, s.unsent)
		}
		// Of a block that is to be passed on, and is not here yet.
		if _, err := x.gave([]frame{{kind: frameTaken, host: 1, number: 2, index: 2, n: 4}}, []frame{{kind: frameTaken, host: 1, number: 2, index: 2, n: 4}}, 0); err != nil {
			t.Fatal(err)
		}
		to.reclaim(time.Now().Add(leastGiven))
		x.resend(to)
		if s := x.sends[1]; s.ready != 0 || s.unsent != 11 {
			t.Errorf("%d entries that are not here are ready, %d not sent", s.ready, s.unsent)
		}
	})
}

// TestSecondCopyIsAnswered: what is read of a chunk that is here already is answered as well, before its end. A sender
// whose window holds less than a chunk would otherwise wait for ever in the middle of it.
func TestSecondCopyIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const chunk = 10000
		p := ringPlan(2)
		p.MessageBytes = 3 * chunk
		g := newFakeGrid(t, p.Hosts, nil)
		j := newJob(t, rand.New(rand.NewPCG(1, 42)), p, chunk)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		// host0 runs no part: the test speaks for it.
		s, err := g.open(ctx, "host0", "host1")
		if err != nil {
			t.Fatal(err)
		}
		answered := 0
		read := make(chan struct{})
		go func() {
			defer close(read)
			r := newFrameReader(s)
			for f := (frame{}); r.next(&f) == nil; {
				if f.kind == frameGot {
					answered = f.number
				}
			}
		}()
		copies := header{id: j.parts[1].ID}.appendTo(nil)
		copies = (&frame{kind: frameTell, number: chunk / 4}).appendTo(copies)
		for _, n := range []int{chunk, chunk / 2} {
			copies = (&frame{kind: frameChunk, number: 0, index: 1, n: chunk}).appendTo(copies)
			copies = append(copies, make([]byte, n)...)
		}
		go s.Write(copies)
		g.engines["host1"].Run(ctx, j.parts[1], j.data[1])
		s.Abort()
		<-read
		if want := chunk + chunk/2 - chunk/4; answered <= want {
			t.Errorf("%d bytes of a chunk and the half of its second copy are answered, want more than %d", answered, want)
		}
		g.accepts.Wait()
		cancel()
		time.Sleep(time.Minute) // what waits for host0's part gives up
		g.accepts.Wait()
	})
}

// TestComesBack: a host whose way has fallen as well takes back what it gave away, and what others lent is given back before
// anything else.
func TestComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := ringPlan(3)
		p.MessageBytes = 100
		g := newFakeGrid(t, p.Hosts, func(c *Config) {
			c.Path = func(string) Path { return Path{RTT: 10 * time.Millisecond, Rate: 1e6, Flows: 1} }
			c.Site = func(h string) string { return h }
		})
		j := newJob(t, rand.New(rand.NewPCG(1, 43)), p, 10)
		x, err := newRun(t.Context(), g.engines["host0"], j.parts[0], j.data[0])
		if err != nil {
			t.Fatal(err)
		}
		defer x.cancel(nil)
		if _, err := x.gave([]frame{{kind: frameTaken, host: 1, number: 0, index: 2, n: 4}}, []frame{{kind: frameTaken, host: 1, number: 0, index: 2, n: 4}}, 0); err != nil {
			t.Fatal(err)
		}
		w := &route{site: "host1", host: 1, theirs: make(map[string]float64), peers: []*peer{x.peers["host1"]}}
		for got := int64(0); !w.pace.fell(); got++ {
			if w.pace.looks < 100 {
				got += 1000
			}
			w.pace.look(got, true)
		}
		x.ways = map[string]*route{w.site: w}
		out, err := x.offered(x.peers["host2"], &frame{kind: frameOffer, host: 1, number: 0, index: 2, n: 4}, nil)
		if err != nil || len(out) == 0 || x.sends[0].unsent != 11 {
			t.Errorf("answers %x, %v; %d entries not sent, want 11", out, err, x.sends[0].unsent)
		}
		// The other one: a lent entry among its own.
		own := x.sends[0].blocks[0]
		s := &send{Send: &Send{ID: -1, Dst: 1}, to: own.s.to, extra: true, unsent: 1}
		lent := &sendBlock{b: x.blocks[own.b.index], s: s, sent: newBitmap(11), once: newBitmap(11), by: make([]uint8, 11), awaited: 1}
		lent.sent.setAll(11)
		lent.sent.clear(7)
		s.blocks = []*sendBlock{lent}
		own.s.to.sends = append(own.s.to.sends, s)
		for _, only := range []bool{true, false} {
			lots := x.lots(w, 10, only, func(*block) bool { return true })
			if len(lots) != 1 || lots[0].frame.index != 7 || lots[0].frame.n != 1 {
				t.Errorf("only lent %v: offers %+v, want entry 7", only, lots)
			}
		}
	})
}
