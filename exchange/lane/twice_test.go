package lane_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// saidWords are how many words came later than a copy does, how many packets the link carried for all, and how many datagrams that were sent
// beside each of them came.
type saidWords struct{ late, packets, datagrams int }

// overPair runs body in a world of two hosts, a0 and b0, between which packets are lost.
func overPair(t *testing.T, loss float64, body func(*testing.T, *gridnet.Network, *cluster)) {
	t.Helper()
	cfg := gridtest.Pair(gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: oneWay, Loss: loss})
	for i := range cfg.Sites {
		cfg.Sites[i].Hosts = gridtest.Hosts(cfg.Sites[i].Name, 1)
	}
	gridtest.Run(t, cfg, func(t *testing.T, network *gridnet.Network) { body(t, network, newCluster(t, network)) })
}

// sentTo returns how many packets the link from a to b has carried.
func sentTo(network *gridnet.Network) (n int) {
	for _, l := range network.Stats().Links {
		if l.From == "a" && l.To == "b" {
			n += int(l.Delivered.Packets)
		}
	}
	return n
}

// sayWords says n words over a stream from a0 to b0, one a second, over a link that loses packets.
func sayWords(t *testing.T, n int, loss float64, twice bool) (got saidWords) {
	t.Helper()
	overPair(t, loss, func(t *testing.T, network *gridnet.Network, c *cluster) {
		a, b := c.start("a0"), c.prepare(c.listen("b0"), "b0")
		came := make(chan uint64, n)
		b.HandleStreams(sink, func(_ context.Context, s *lane.Stream) {
			defer s.Abort()
			for buf := make([]byte, 200); ; {
				if _, err := io.ReadFull(s, buf); err != nil {
					return
				}
				came <- binary.BigEndian.Uint64(buf)
			}
		})
		b.HandlePackets(lane.PacketGossip, func([]byte, net.Addr, time.Time) { got.datagrams++ })
		b.run(t)
		defer a.stop()
		defer b.stop()
		s := a.open(t, "b0", sink)
		defer s.Abort()
		time.Sleep(2 * time.Second)
		before := sentTo(network)
		for i := range uint64(n) {
			if twice {
				a.Twice(s.Peer.Addr, 200)
			}
			began := time.Now()
			if _, err := s.Write(binary.BigEndian.AppendUint64(make([]byte, 0, 200), i)[:200]); err != nil {
				t.Fatal(err)
			}
			if err := a.SendPacket(lane.PacketGossip, []byte("hear"), s.Peer.Addr); err != nil {
				t.Fatal(err)
			}
			if w := <-came; w != i {
				t.Fatalf("word %d came where %d was said", w, i)
			}
			if time.Since(began) > 2*oneWay {
				got.late++
			}
			time.Sleep(time.Second)
		}
		got.packets = sentTo(network) - before
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

// sendParts sends n parts of three packets over a link that loses one packet in ten, one a second, and returns how many took longer than two repairs, and how many packets the link
// carried for all.
func sendParts(t *testing.T, n int, twice bool) (late, packets int) {
	t.Helper()
	const part = 3_000
	overPair(t, 0.1, func(t *testing.T, network *gridnet.Network, c *cluster) {
		a, b := c.start("a0"), c.prepare(c.listen("b0"), "b0")
		came := make(chan struct{}, n)
		b.HandleStreams(sink, func(_ context.Context, s *lane.Stream) {
			defer s.Abort()
			for buf := make([]byte, part); ; {
				if _, err := io.ReadFull(s, buf); err != nil {
					return
				}
				came <- struct{}{}
			}
		})
		b.run(t)
		defer a.stop()
		defer b.stop()
		s := a.open(t, "b0", sink)
		defer s.Abort()
		time.Sleep(2 * time.Second)
		before := sentTo(network)
		for range n {
			began := time.Now()
			if _, err := s.Write(make([]byte, part)); err != nil {
				t.Fatal(err)
			}
			for done := false; !done; { // as the engine does at the end of a run
				if twice {
					s.RepairTwice()
				}
				select {
				case <-came:
					done = true
				case <-time.After(oneWay / 2):
					s.Nudge()
				}
			}
			if time.Since(began) > 6*oneWay {
				late++
			}
			time.Sleep(time.Second)
		}
		packets = sentTo(network) - before
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
