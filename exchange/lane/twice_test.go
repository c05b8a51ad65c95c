package lane_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// saidWords are how many words came later than a copy does, how many packets the link carried for all, and how many datagrams that were sent
// beside each of them came.
type saidWords struct{ late, packets, datagrams int }

// A lossyPair is a stream from a to a host that reads it in parts of one size, over a link that loses packets.
type lossyPair struct {
	a         *node
	s         *lane.Stream
	came      chan uint64  // the first eight bytes of each part
	datagrams atomic.Int64 // that came
	network   *gridnet.Network
}

// overPair runs body with a pair that reads at most n parts of size bytes.
func overPair(t *testing.T, loss float64, n, size int, body func(*testing.T, *lossyPair)) {
	t.Helper()
	cfg := gridtest.Pair(gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: oneWay, Loss: loss})
	for i := range cfg.Sites {
		cfg.Sites[i].Hosts = gridtest.Hosts(cfg.Sites[i].Name, 1)
	}
	gridtest.Run(t, cfg, func(t *testing.T, network *gridnet.Network) {
		c := newCluster(t, network)
		b := c.prepare(c.listen("b0"), "b0")
		p := &lossyPair{a: c.start("a0"), came: make(chan uint64, n), network: network}
		b.HandleStreams(sink, func(_ context.Context, s *lane.Stream) {
			defer s.Abort()
			for buf := make([]byte, size); ; {
				if _, err := io.ReadFull(s, buf); err != nil {
					return
				}
				p.came <- binary.BigEndian.Uint64(buf)
			}
		})
		b.HandlePackets(lane.PacketGossip, func([]byte, net.Addr, time.Time) { p.datagrams.Add(1) })
		b.run(t)
		defer p.a.stop()
		defer b.stop()
		p.s = p.a.open(t, "b0", sink)
		defer p.s.Abort()
		time.Sleep(2 * time.Second)
		body(t, p)
	})
}

// carried returns how many packets the link from a has carried.
func (p *lossyPair) carried() (n int) {
	for _, l := range p.network.Stats().Links {
		if l.From == "a" && l.To == "b" {
			n += int(l.Delivered.Packets)
		}
	}
	return n
}

// sayWords says n words over a stream from a0 to b0, one a second, over a link that loses packets.
func sayWords(t *testing.T, n int, loss float64, twice bool) (got saidWords) {
	t.Helper()
	overPair(t, loss, n, 200, func(t *testing.T, p *lossyPair) {
		before := p.carried()
		for i := range uint64(n) {
			if twice {
				p.a.Twice(p.s.Peer.Addr, 200)
			}
			began := time.Now()
			if _, err := p.s.Write(binary.BigEndian.AppendUint64(make([]byte, 0, 200), i)[:200]); err != nil {
				t.Fatal(err)
			}
			if err := p.a.SendPacket(lane.PacketGossip, []byte("hear"), p.s.Peer.Addr); err != nil {
				t.Fatal(err)
			}
			if w := <-p.came; w != i {
				t.Fatalf("word %d came where %d was said", w, i)
			}
			if time.Since(began) > 2*oneWay {
				got.late++
			}
			time.Sleep(time.Second)
		}
		got.packets, got.datagrams = p.carried()-before, int(p.datagrams.Load())
	})
	return got
}

// TestTwice: words that are said twice are late where both copies are lost, and not wherever one is; each comes once, and nothing else is copied.
func TestTwice(t *testing.T) {
	const n = 300
	once, twice := sayWords(t, n, 0.1, false), sayWords(t, n, 0.1, true)
	t.Logf("of %d words at 10 %% loss %d were late, said twice %d", n, once.late, twice.late)
	if once.late < n/25 || twice.late > n/33 {
		t.Errorf("late: %d of %d, said twice %d; want some 30 and 3", once.late, n, twice.late)
	}
	once, twice = sayWords(t, n, 0, false), sayWords(t, n, 0, true)
	t.Logf("without losses %d words take %d packets, said twice %d", n, once.packets, twice.packets)
	if once.late+twice.late > 0 {
		t.Errorf("%d and %d words were late although none was lost", once.late, twice.late)
	}
	if more := twice.packets - once.packets; more < n-n/20 || more > n+n/10 {
		t.Errorf("%d packets more for %d words that were said twice", more, n)
	}
	if once.datagrams != n || twice.datagrams != n {
		t.Errorf("%d and %d datagrams of %d came: they are no words", once.datagrams, twice.datagrams, n)
	}
}

// sendParts sends n parts of three packets over a link that loses one packet in ten, one a second, and returns how many took three round trips or
// more, which one repair does not, and how many packets the link carried for all.
func sendParts(t *testing.T, n int, twice bool) (late, packets int) {
	t.Helper()
	const part = 3_000
	overPair(t, 0.1, n, part, func(t *testing.T, p *lossyPair) {
		before := p.carried()
		for range n {
			began := time.Now()
			if _, err := p.s.Write(make([]byte, part)); err != nil {
				t.Fatal(err)
			}
			for done := false; !done; { // as the engine does at the end of a run
				if twice {
					p.s.RepairTwice()
				}
				select {
				case <-p.came:
					done = true
				case <-time.After(oneWay / 2):
					p.s.Nudge()
				}
			}
			if time.Since(began) > 6*oneWay {
				late++
			}
			time.Sleep(time.Second)
		}
		packets = p.carried() - before
	})
	return late, packets
}

// TestRepairTwice: where repairs go twice few of them are repaired again, and only they do.
func TestRepairTwice(t *testing.T) {
	n := 2000
	if gridtest.Race {
		n = 200 // of its counters and copies; too few to tell how many are repaired again
	}
	once, packets := sendParts(t, n, false)
	twice, more := sendParts(t, n, true)
	t.Logf("of %d parts %d waited for a second repair, with repairs that go twice %d; %d and %d packets", n, once, twice, packets, more)
	if !gridtest.Race && (once < n/100 || twice > once/2) {
		t.Errorf("%d of %d waited, and %d where repairs go twice", once, n, twice)
	}
	if more > packets+packets/3 {
		t.Errorf("%d packets where there were %d", more, packets)
	}
}
