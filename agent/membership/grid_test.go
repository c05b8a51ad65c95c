package membership

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

func TestOneView(t *testing.T) {
	for _, hosts := range [][]int{{1, 2}, {3, 2}, {4, 1, 2}, {8, 4, 8}} {
		inBubble(t, func(t *testing.T) {
			g := newGrid(t, hosts...)
			defer g.close()
			var nodes []*node
			for i, k := range hosts {
				for j := range k {
					nodes = append(nodes, g.start(string(rune('a'+i))+string(rune('0'+j))))
				}
			}
			defer stopAll(nodes)
			for _, n := range nodes[1:] {
				n.join(t, nodes[0])
			}
			took := agree(t, 40*time.Second, nodes, names(nodes))
			t.Logf("%d hosts agree after %v", len(nodes), took)
			time.Sleep(time.Minute)
			agree(t, 0, nodes, names(nodes)) // and stay so
			for _, n := range nodes {
				for _, m := range n.Members() {
					if m.Site != m.Name[:1] || m.Started.IsZero() {
						t.Errorf("%s: metadata of %s: %+v", n.host, m.Name, m.Meta)
					}
					if m.Name == n.host {
						continue
					}
					if a, ok := n.Resolve(m.Name); !ok || addrPort(a) != m.Addr {
						t.Errorf("%s: resolve %s: %v", n.host, m.Name, a)
					}
				}
				if s := n.Stats(); s.Dropped+s.DroppedStreams+s.Refused > 0 || s.Received == 0 {
					t.Errorf("%s: %+v", n.host, s)
				}
			}
			a0 := nodes[0]
			for _, n := range nodes[1:] { // 40 ms and a little between sites, 200 µs within
				d, ok := a0.rtts.Load(n.host)
				if !ok {
					continue // not every pair is probed in a minute
				}
				rtt := d.(time.Duration)
				if far := n.host[0] != 'a'; far && (rtt < 40*time.Millisecond || rtt > 60*time.Millisecond) || !far && (rtt < 200*time.Microsecond || rtt > 10*time.Millisecond) {
					t.Errorf("round trip a0 to %s: %v", n.host, rtt)
				}
			}
		})
	}
}

// The bounds, of the second of three deaths, are a little more than the slowest of most runs, see
// profile.go; the issue wants about 15 s in small clusters. One of 120 deaths of six hosts took
// 15.1 s, so a single one may take a third more.
func TestDeathIsNoticed(t *testing.T) {
	if gridtest.Race {
		t.Skip("compares times: scripts/test runs it without the race detector, which has a death in TestLeaveIsRemembered")
	}
	tests := []struct {
		hosts  []int
		within time.Duration
	}{
		{[]int{1, 1}, 15 * time.Second}, {[]int{2, 1}, 15 * time.Second}, {[]int{3, 3}, 15 * time.Second},
		{[]int{8, 4, 8}, 25 * time.Second},
	}
	for _, tc := range tests {
		took := make([]time.Duration, 3)
		for round := range took {
			inBubble(t, func(t *testing.T) {
				g := newGrid(t, tc.hosts...)
				defer g.close()
				nodes := g.startAll(tc.hosts...)
				agree(t, 40*time.Second, nodes, names(nodes))
				time.Sleep(20*time.Second + time.Duration(round)*700*time.Millisecond)
				dead, rest := nodes[len(nodes)-1], nodes[:len(nodes)-1]
				dead.kill()
				defer stopAll(rest)
				took[round] = agree(t, tc.within*4/3, rest, names(rest))
				t.Logf("%d hosts: noticed by all after %v", len(nodes), took[round])
				for _, n := range rest {
					if got := n.view(Failed); got != dead.host {
						t.Errorf("%s: failed %q, want %q", n.host, got, dead.host)
					}
				}
			})
		}
		if slices.Sort(took); took[1] > tc.within {
			t.Errorf("sites of %v hosts notice deaths after %v: want %v for two of three", tc.hosts, took, tc.within)
		}
	}
}

func TestLeaveIsPrompt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGrid(t, 3, 3)
		defer g.close()
		nodes := g.startAll(3, 3)
		agree(t, 40*time.Second, nodes, names(nodes))
		time.Sleep(10 * time.Second)
		gone, rest := nodes[2], nodes
		rest = append(append([]*node{}, nodes[:2]...), nodes[3:]...)
		defer stopAll(rest)
		begin := time.Now()
		if err := gone.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		took := time.Since(begin)
		gone.stop()
		if took > goodbyeTimeout+time.Second/2 {
			t.Errorf("leaving took %v", took)
		}
		t.Logf("leaving took %v, all knew %v later", took, agree(t, 2*time.Second, rest, names(rest)))
		time.Sleep(time.Minute) // and nobody calls it back, or finds it dead
		for _, n := range rest {
			if n.view(Left) != gone.host || n.view(Failed) != "" {
				t.Errorf("%s: left %q, failed %q, want %s to have left", n.host, n.view(Left), n.view(Failed), gone.host)
			}
		}
		back := g.start(gone.host, func(c *Config) { c.Peers = <-gone.disk }) // and it may return
		defer back.stop()
		agree(t, 20*time.Second, append(rest, back), names(nodes))
		if _, err := New(Config{Endpoint: back.ep, Name: "x", Advertise: back.addr}); err == nil {
			t.Error("a membership without a key")
		}
	})
}

// memberlist#222: after a long split both sides have marked each other dead and
// memberlist alone never merges them again.
func TestSplitHeals(t *testing.T) {
	if gridtest.Race {
		t.Skip("hours of gossip: run without the race detector, which multiplies its CPU time by ten")
	}
	for _, cut := range []time.Duration{20 * time.Second, 3 * time.Minute, time.Hour} {
		inBubble(t, func(t *testing.T) {
			g := newGrid(t, 3, 3)
			defer g.close()
			nodes := g.startAll(3, 3)
			defer stopAll(nodes)
			agree(t, 40*time.Second, nodes, names(nodes))
			time.Sleep(30 * time.Second)
			if err := g.net.Cut("a", "b"); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			a, b := nodes[:3], nodes[3:]
			agree(t, 40*time.Second, a, "a0 a1 a2")
			agree(t, 40*time.Second, b, "b0 b1 b2")
			t.Logf("sides apart after %v", time.Since(begin))
			time.Sleep(cut)
			if err := g.net.Heal("a", "b"); err != nil {
				t.Fatal(err)
			}
			// A try that began just before the heal ends after 10 s; the next comes within
			// 22.5 s of it; a second exchange follows within 4.5 s, and gossip.
			took := agree(t, 50*time.Second, nodes, names(nodes))
			t.Logf("cut for %v: one view %v after the heal", cut, took)
		})
	}
}

// The control of TestSplitHeals: without our re-joins the sides stay apart, so that
// it is these that the test above tests.
func TestSplitStaysWithoutRejoin(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGrid(t, 2, 2)
		defer g.close()
		var nodes []*node
		for _, h := range []string{"a0", "a1", "b0", "b1"} {
			nodes = append(nodes, g.start(h, func(c *Config) { c.Rejoin = 10000 * time.Hour }))
		}
		defer stopAll(nodes)
		for _, n := range nodes[1:] {
			n.join(t, nodes[0])
		}
		agree(t, 40*time.Second, nodes, names(nodes))
		if err := g.net.Cut("a", "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		if err := g.net.Heal("a", "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		agree(t, 0, nodes[:2], "a0 a1")
		agree(t, 0, nodes[2:], "b0 b1")
	})
}

// 2 % of all packets are lost, and nobody is found dead for it.
func TestLossKillsNobody(t *testing.T) {
	if gridtest.Race {
		t.Skip("hours of gossip: run without the race detector, which multiplies its CPU time by ten")
	}
	inBubble(t, func(t *testing.T) {
		g := newGrid(t, 5, 5)
		defer g.close()
		for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
			if err := g.net.SetLink(way[0], way[1], func(l *gridnet.Link) { l.Loss = 0.02 }); err != nil {
				t.Fatal(err)
			}
		}
		nodes := g.startAll(5, 5)
		defer stopAll(nodes)
		agree(t, 40*time.Second, nodes, names(nodes))
		time.Sleep(20 * time.Minute)
		if n := g.logs.count("member failed"); n > 0 {
			t.Errorf("%d times a host was found dead", n)
		}
		agree(t, 0, nodes, names(nodes))
	})
}

// A host alone, whose seeds are not there yet, and an agent that restarts with
// nothing but what it remembered, must both come in without help.
func TestComesInLater(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGrid(t, 2, 1)
		defer g.close()
		a0 := g.start("a0")
		ghost, err := g.net.Addr("b0")
		if err != nil {
			t.Fatal(err)
		}
		seed := addrAt(ghost, a0.addr.Port())
		if n, err := a0.Join(t.Context(), seed); n != 0 || err == nil {
			t.Errorf("joined a host that is not there: %d, %v", n, err)
		}
		b0 := g.start("b0")
		took := agree(t, time.Minute, []*node{a0, b0}, "a0 b0")
		t.Logf("the seed was found %v after it came", took)
		time.Sleep(2 * time.Second)
		a0.stop()
		agree(t, 20*time.Second, []*node{b0}, "b0")
		a0 = g.start("a0", func(c *Config) { c.Peers = <-a0.disk })
		if got := a0.view(Unseen); got != "b0" {
			t.Errorf("remembers %q, want b0", got)
		}
		agree(t, 10*time.Second, []*node{a0, b0}, "a0 b0")
		a0.stop()
		b0.stop()
	})
}

// A second cluster on the same wire: its gossip is counted and logged once, its
// streams are refused by TLS, and nobody changes his mind.
func TestForeignGossipIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ours, theirs := newGrid(t, 2, 1), newGrid(t, 1)
		theirs.close() // only its keys are wanted
		theirs.net = ours.net
		defer ours.close()
		a0, a1 := ours.start("a0"), ours.start("a1")
		a1.join(t, a0)
		agree(t, 10*time.Second, []*node{a0, a1}, "a0 a1")
		b0 := theirs.start("b0")
		defer stopAll([]*node{a0, a1, b0})
		if _, err := b0.Join(t.Context(), addrs(a0)); err == nil {
			t.Error("a member of another cluster joined")
		} else if !contains(err, "certificate") {
			t.Errorf("join of another cluster: %v", err)
		}
		for range 50 { // gossip proper
			b0.transport.WriteTo(sealed(t, theirs.key), a0.addr.String())
			b0.transport.WriteTo([]byte("hello"), a0.addr.String())
			time.Sleep(10 * time.Millisecond) // quic-go keeps 32 of a burst
		}
		time.Sleep(30 * time.Second)
		got := a0.Refused()
		if len(got) != 1 || got[0].From != b0.addr || got[0].Packets != 100 || a0.Stats().Refused != 100 {
			t.Errorf("refused: %+v, want 100 packets from %v", got, b0.addr)
		}
		if n := ours.logs.count("on=a0", "gossip refused", b0.addr.String()); n != 1 {
			t.Errorf("logged %d times, want once", n)
		}
		agree(t, 0, []*node{a0, a1}, "a0 a1")
		agree(t, 0, []*node{b0}, "b0")
		if s := a1.Stats(); s.Refused != 0 {
			t.Errorf("a1 refused %d packets", s.Refused)
		}
	})
}

// The keys of all hosts change one after the other, and nobody is lost.
func TestKeysRotate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGrid(t, 3, 2)
		defer g.close()
		nodes := g.startAll(3, 2)
		defer stopAll(nodes)
		agree(t, 40*time.Second, nodes, names(nodes))
		old, fresh := g.key, make([]byte, 32)
		fresh[0] = 1
		for _, keys := range [][][]byte{{old, fresh}, {fresh, old}, {fresh}} {
			for _, n := range nodes {
				if err := n.SetKeys(keys); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				agree(t, 0, nodes, names(nodes))
			}
		}
		for _, n := range nodes {
			if r := n.Refused(); len(r) > 0 {
				t.Errorf("%s refused %+v", n.host, r)
			}
			if why, _ := foreign(sealed(t, old), n.keys.GetKeys()); why == "" {
				t.Errorf("%s still takes the old key", n.host)
			}
			if err := n.SetKeys([][]byte{make([]byte, 16)}); err == nil {
				t.Errorf("%s took a key of 16 bytes", n.host)
			}
		}
	})
}

// two are two hosts that have met, on a grid with two more.
func two(t *testing.T) (g *grid, a0, a1 *node) {
	t.Helper()
	g = newGrid(t, 4)
	t.Cleanup(g.close)
	a0, a1 = g.start("a0"), g.start("a1")
	t.Cleanup(func() { stopAll([]*node{a0, a1}) })
	a1.join(t, a0)
	agree(t, 10*time.Second, []*node{a0, a1}, "a0 a1")
	return g, a0, a1
}

// Two hosts under one name: the second ends, the first is not evicted.
func TestNameConflict(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, a0, a1 := two(t)
		for i, ask := range []func(twin *node){
			func(twin *node) { twin.Join(t.Context(), addrs(a0)) },
			func(twin *node) { twin.Join(t.Context(), addrs(a1)) },
			func(*node) {}, // it remembers the others
		} {
			conn, err := g.net.Listen("a2")
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			twin := startOn(t, g, conn, "a1", func(c *Config) {
				if i == 2 {
					c.Peers = []Peer{{Name: "a0", Addr: a0.addr, Seen: time.Now()}}
				}
			})
			ask(twin)
			taken := <-twin.ends
			if !taken.Live || taken.By != a1.addr || taken.Ours != twin.addr || !strings.Contains(taken.Error(), "belongs to a live host at "+a1.addr.String()) {
				t.Errorf("the twin ended with %v, want the name to be taken by %v", taken, a1.addr)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("the twin ended after %v", took)
			}
			twin.stop()
		}
		time.Sleep(30 * time.Second)
		if a, ok := a0.Resolve("a1"); !ok || addrPort(a) != a1.addr {
			t.Errorf("a1 is thought to be at %v, want %v", a, a1.addr)
		}
		agree(t, 0, []*node{a0, a1}, "a0 a1")
		if len(a0.ends)+len(a1.ends) > 0 {
			t.Error("one of those who were there first has ended")
		}
	})
}

// The connection of a host that has another one's name is the newest under that name, so what members say to the other one may come to it, before it has asked to
// join. What it learns so makes it no member, and it ends like any other twin.
func TestNameConflictAfterGossip(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, a0, a1 := two(t)
		conn, err := g.net.Listen("a2")
		if err != nil {
			t.Fatal(err)
		}
		twin := startOn(t, g, conn, "a1")
		defer twin.stop()
		c, err := twin.transport.DialAddressTimeout(memberlist.Address{Addr: a0.addr.String()}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		time.Sleep(3 * time.Minute) // with exchanges of states
		if twin.delegate.once("conflict a1 " + a1.addr.String()) {
			t.Error("nothing of what is meant for a1 has come to its twin: want another way to bring that about")
		}
		twin.Join(t.Context(), addrs(a0))
		select {
		case taken := <-twin.ends:
			if !taken.Live || taken.By != a1.addr {
				t.Errorf("the twin ended with %v, want the name to be taken by %v", taken, a1.addr)
			}
		case <-time.After(time.Minute):
			t.Errorf("the twin goes on, and takes for alive: %s", twin.view(Alive))
		}
		agree(t, time.Minute, []*node{a0, a1}, "a0 a1")
		if len(a0.ends)+len(a1.ends) > 0 {
			t.Error("one of those who were there first has ended")
		}
	})
}

// A host that comes back at another address, before it has been found dead at the former
// one, is no twin: it is let in by itself.
func TestHostMoves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGrid(t, 3)
		defer g.close()
		a0, a1 := g.start("a0"), g.start("a1")
		a1.join(t, a0)
		agree(t, 10*time.Second, []*node{a0, a1}, "a0 a1")
		a1.kill()
		conn, err := g.net.Listen("a2")
		if err != nil {
			t.Fatal(err)
		}
		moved := startOn(t, g, conn, "a1")
		defer stopAll([]*node{a0, moved})
		var taken *NameTakenError
		if _, err := moved.Join(t.Context(), addrs(a0)); !asError(err, &taken) || taken.Live || taken.By != a1.addr {
			t.Errorf("join before a1 has been found dead: %v", err)
		}
		begin := time.Now()
		agree(t, 90*time.Second, []*node{a0, moved}, "a0 a1")
		for a, _ := a0.Resolve("a1"); addrPort(a) != moved.addr; a, _ = a0.Resolve("a1") {
			if time.Since(begin) > 90*time.Second {
				t.Fatalf("a1 is still thought to be at %v", a)
			}
			time.Sleep(time.Second)
		}
		t.Logf("it had its name after %v", time.Since(begin))
		if len(moved.ends) > 0 {
			t.Errorf("it ended: %v", <-moved.ends)
		}
	})
}

// Who has left in good order is not called back: not by those who restart, nor by one that
// was down at the time. When it comes back, all is forgotten.
func TestLeaveIsRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGrid(t, 2, 2)
		defer g.close()
		nodes := g.startAll(2, 2)
		agree(t, 40*time.Second, nodes, "a0 a1 b0 b1")
		a0, a1, b0, b1 := nodes[0], nodes[1], nodes[2], nodes[3]
		time.Sleep(5 * time.Second)
		b1.stop() // a power cut would do as well
		agree(t, 40*time.Second, []*node{a0, a1, b0}, "a0 a1 b0")
		if err := a1.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		a1.stop()
		agree(t, 2*time.Second, []*node{a0, b0}, "a0 b0")
		time.Sleep(time.Hour)
		a0.stop()
		b0.stop()

		remembering := func(n *node) *node { return g.start(n.host, func(c *Config) { c.Peers = <-n.disk }) }
		a0, b0, b1 = remembering(a0), remembering(b0), remembering(b1)
		rest := []*node{a0, b0, b1}
		for _, n := range rest[:2] {
			if n.view(Left) != "a1" || strings.Contains(n.view(Unseen), "a1") {
				t.Errorf("%s remembers %q as left and %q as unseen", n.host, n.view(Left), n.view(Unseen))
			}
		}
		agree(t, 40*time.Second, rest, "a0 b0 b1")
		time.Sleep(20 * time.Second) // a state exchange
		for _, n := range rest {
			if n.view(Left) != "a1" || n.view(Unseen)+n.view(Failed) != "" {
				t.Errorf("%s: %q left, %q unseen, %q failed; want a1 to have left", n.host, n.view(Left), n.view(Unseen), n.view(Failed))
			}
		}
		a1 = remembering(a1)
		all := []*node{a0, a1, b0, b1}
		agree(t, 40*time.Second, all, "a0 a1 b0 b1")
		time.Sleep(time.Minute) // exchanges of what was
		agree(t, 0, all, "a0 a1 b0 b1")
		stopAll(all)
		for _, n := range all {
			for _, p := range <-n.disk {
				if !p.Left.IsZero() {
					t.Errorf("%s still remembers that %s left", n.host, p.Name)
				}
			}
		}
	})
}

// The way out is mostly free: only a probe in flight is waited for.
func TestStopIsPrompt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGrid(t, 2, 1)
		defer g.close()
		a0, b0 := g.start("a0"), g.start("b0")
		defer b0.stop()
		quick := 0
		for round := range 20 {
			a0.join(t, b0)
			agree(t, 20*time.Second, []*node{a0, b0}, "a0 b0")
			time.Sleep(10*time.Second + time.Duration(round)*170*time.Millisecond)
			begin := time.Now()
			if err := a0.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			left := time.Since(begin)
			a0.stop()
			took := time.Since(begin)
			if left > goodbyeTimeout+time.Second/2 {
				t.Errorf("round %d: leaving took %v", round, left)
			}
			if took-left < 100*time.Millisecond {
				quick++
			}
			agree(t, time.Second, []*node{b0}, "b0")
			if b0.view(Left) != "a0" {
				t.Errorf("round %d: b0 thinks that %q left and %q failed", round, b0.view(Left), b0.view(Failed))
			}
			a0 = g.start("a0")
		}
		a0.stop()
		t.Logf("%d of 20 ends were at once", quick)
		if quick < 2 { // about half: with two hosts every other tick is passed over
			t.Errorf("%d of 20 ends were at once", quick)
		}
	})
}

// When Run returns, a stream or packet that comes late must not be kept, and calls
// must not hang.
func TestAfterTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGrid(t, 2)
		defer g.close()
		a0, a1 := g.start("a0"), g.start("a1")
		a1.join(t, a0)
		agree(t, 10*time.Second, []*node{a0, a1}, "a0 a1")
		a1.stop()
		if err := a1.Leave(t.Context()); err != ErrClosed {
			t.Errorf("leave: %v", err)
		}
		if _, err := a1.Join(t.Context(), addrs(a0)); err != ErrClosed {
			t.Errorf("join: %v", err)
		}
		a1.transport.handlePacket(sealed(t, g.key), a0.ep.Addr(), time.Now())
		if n := len(a1.transport.packets) + len(a1.transport.streams) + len(a1.transport.conns); n != 0 {
			t.Errorf("%d packets and streams are kept", n)
		}
		if _, err := a1.transport.DialTimeout(a0.addr.String(), time.Second); err == nil {
			t.Error("dialed after the end")
		}
		if got := a1.view(Alive); got != "a0 a1" {
			t.Errorf("the last view was lost: %q", got)
		}
		a0.stop()
	})
}

// Cancelling everything in the middle of joins must end everything.
func TestStopWhileJoining(t *testing.T) {
	for delay := range 12 {
		inBubble(t, func(t *testing.T) {
			g := newGrid(t, 2, 1)
			defer g.close()
			a0, b0 := g.start("a0"), g.start("b0")
			done := make(chan struct{})
			go func() {
				defer close(done)
				b0.Join(t.Context(), append(addrs(a0), addrs(a0)...)) // fails or not, but ends
			}()
			time.Sleep(time.Duration(delay) * 15 * time.Millisecond)
			b0.stop()
			<-done
			a0.stop()
		})
	}
}
