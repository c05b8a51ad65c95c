package membership

import (
	"fmt"
	mrand "math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// together runs f for all nodes at the same instant, and waits.
func together(nodes []*node, f func(n *node)) {
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() { f(n) })
	}
	wg.Wait()
}

// again starts nodes that have ended, within a second, each with the peers it remembered.
// edit, if not nil, spoils the memory.
func (g *grid) again(rng *mrand.Rand, nodes []*node, edit func(n *node, peers []Peer) []Peer) []*node {
	g.t.Helper()
	out := make([]*node, len(nodes))
	for _, i := range rng.Perm(len(nodes)) {
		time.Sleep(time.Duration(rng.IntN(1000/len(nodes))) * time.Millisecond)
		peers := <-nodes[i].disk
		if edit != nil {
			peers = edit(nodes[i], peers)
		}
		out[i] = g.start(nodes[i].host, func(c *Config) { c.Peers = peers })
	}
	return out
}

// Agents that are stopped, or even told to leave, at one instant are a cluster again once
// they have been started again, with no more than what they remember.
func TestAllEndAtOnce(t *testing.T) {
	for seed := range uint64(20) {
		if gridtest.Race && seed >= 5 {
			break // these are enough, at six times the CPU time
		}
		inBubble(t, func(t *testing.T) {
			rng := mrand.New(mrand.NewPCG(seed, 0))
			sizes := []int{1 + rng.IntN(3), 1 + rng.IntN(3)}
			g := newGrid(t, sizes...)
			defer g.close()
			nodes := g.startAll(sizes...)
			all := names(nodes)
			agree(t, 40*time.Second, nodes, all)
			time.Sleep(time.Duration(rng.IntN(20_000)) * time.Millisecond)
			for _, end := range []func(n *node) error{
				func(n *node) error { return n.Stop(t.Context()) },
				func(n *node) error { return n.Leave(t.Context()) },
			} {
				late := make(map[*node]time.Duration) // one signal is a little later than the other
				for _, n := range nodes {
					late[n] = time.Duration(rng.IntN(2)*rng.IntN(1500)) * time.Millisecond
				}
				together(nodes, func(n *node) {
					time.Sleep(late[n])
					if err := end(n); err != nil {
						t.Errorf("seed %d: %s: %v", seed, n.host, err)
					}
					n.stop()
				})
				nodes = g.again(rng, nodes, nil)
				took := agree(t, 40*time.Second, nodes, all)
				if t.Failed() {
					t.Fatalf("seed %d, %v hosts", seed, sizes)
				}
				t.Logf("seed %d: %d hosts are whole again after %v", seed, len(nodes), took)
			}
			stopAll(nodes)
		})
	}
}

// Whatever peers.json says of who has left, the hosts find each other: also where two that
// believe each other alive are split by it from two others that do.
func TestWrongFarewellsHeal(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, func(t *testing.T) {
			rng := mrand.New(mrand.NewPCG(seed, 1))
			g := newGrid(t, 2, 2)
			defer g.close()
			nodes := g.startAll(2, 2)
			agree(t, 40*time.Second, nodes, "a0 a1 b0 b1")
			time.Sleep(5 * time.Second)
			together(nodes, func(n *node) { n.stop() })
			nodes = g.again(rng, nodes, func(n *node, peers []Peer) []Peer {
				for i, p := range peers {
					if p.Name[0] != n.host[0] || seed%2 == 0 && rng.IntN(2) == 0 {
						peers[i].Left = time.Now().Add(-time.Second)
					}
				}
				return peers
			})
			took := agree(t, time.Minute, nodes, "a0 a1 b0 b1")
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
			t.Logf("seed %d: whole again after %v", seed, took)
			for _, n := range nodes {
				if n.view(Left) != "" {
					t.Errorf("seed %d: %s still takes %q for gone", seed, n.host, n.view(Left))
				}
			}
			stopAll(nodes)
		})
	}
}

// A host that is alone goes on asking those who, it thinks, have left: here one that was not
// there yet when it started.
func TestAloneAsksWhoLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGrid(t, 1, 1)
		defer g.close()
		b, err := g.net.Addr("b0")
		if err != nil {
			t.Fatal(err)
		}
		a0 := g.start("a0", func(c *Config) {
			c.Peers = []Peer{{Name: "b0", Addr: netip.AddrPortFrom(b, addrPort(c.Endpoint.Addr()).Port()), Left: time.Now()}}
		})
		time.Sleep(5 * time.Minute)
		nodes := []*node{a0, g.start("b0")}
		t.Logf("found after %v", agree(t, time.Minute, nodes, "a0 b0"))
		stopAll(nodes)
	})
}

// A host that stops is no death that has to be found, is called back, and is none that has
// left; and it is so in the eyes of those who were down when it stopped.
func TestStopIsNoLeave(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGrid(t, 3)
		defer g.close()
		nodes := g.startAll(3)
		agree(t, 40*time.Second, nodes, "a0 a1 a2")
		time.Sleep(5 * time.Second)
		a0, a1, a2 := nodes[0], nodes[1], nodes[2]
		if err := a2.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		a2.stop()
		agree(t, time.Second, nodes[:2], "a0 a1")
		for _, n := range nodes[:2] {
			if n.view(Stopped) != "a2" || n.view(Failed)+n.view(Left) != "" {
				t.Errorf("%s: stopped %q, failed %q, left %q; want a2 to have stopped", n.host, n.view(Stopped), n.view(Failed), n.view(Left))
			}
		}
		if g.logs.count("on=a0", "INFO member stopped host=a2") != 1 || g.logs.count("member failed") != 0 {
			t.Error("the log does not say once that a2 has stopped, or that it failed")
		}
		time.Sleep(2 * time.Second)
		for _, p := range <-a0.disk {
			if !p.Left.IsZero() {
				t.Errorf("a0 remembers that %s left", p.Name)
			}
		}
		back := g.start("a2") // remembers nobody: the others call it
		agree(t, time.Minute, []*node{a0, a1, back}, "a0 a1 a2")
		stopAll([]*node{a0, a1, back})
	})
}

// A host of another cluster that believes to know ours is told what is wrong, once for each of
// ours, whoever of the two does not know the other's certificate.
func TestStrangerIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ours, theirs := newGrid(t, 2, 2), newGrid(t, 1)
		theirs.close() // only its keys are wanted
		theirs.net = ours.net
		defer ours.close()
		a0, a1 := ours.start("a0"), ours.start("a1")
		a1.join(t, a0)
		known := []Peer{{Name: "a0", Addr: a0.addr, Seen: time.Now()}, {Name: "a1", Addr: a1.addr, Seen: time.Now()}}
		b0 := theirs.start("b0", func(c *Config) { c.Peers = known })
		// One that knows our authority, but holds another's certificate.
		mixed := &grid{t: t, net: ours.net, ca: theirs.ca, key: ours.key, logs: &logBook{}, roots: ours.ca}
		b1 := mixed.start("b1", func(c *Config) { c.Peers = known })
		time.Sleep(5 * time.Minute)
		for _, tt := range []struct {
			logs *logBook
			on   string
			says string
		}{
			{theirs.logs, "on=b0", "shows a certificate that this folder's cluster does not know"},
			{mixed.logs, "on=b1", "does not accept this host's certificate"},
		} {
			for _, n := range []*node{a0, a1} {
				if c := tt.logs.count(tt.on, "WARN a host that should be a member is none", fmt.Sprintf("the host at %v %s", n.addr, tt.says)); c != 1 {
					t.Errorf("%s says %d times that %v %s, want once:\n%s", tt.on, c, n.addr, tt.says, strings.Join(tt.logs.lines, "\n"))
				}
			}
		}
		agree(t, 0, []*node{a0, a1}, "a0 a1")
		stopAll([]*node{a0, a1, b0, b1})
	})
}

// A copy of a host's folder takes the original's address for its own. It ends before any
// member has heard of it. The original, and a host whose address leads nowhere or to
// itself, do not.
func TestCopiedFolder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGrid(t, 4)
		defer g.close()
		a0, a1 := g.start("a0"), g.start("a1")
		a1.join(t, a0)
		agree(t, 10*time.Second, []*node{a0, a1}, "a0 a1")
		before := g.logs.count("")
		conn, err := g.net.Listen("a2")
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		copied := startOn(t, g, conn, "a1", func(c *Config) {
			c.Advertise = a1.addr
			c.Peers = []Peer{{Name: "a0", Addr: a0.addr, Seen: time.Now()}}
		})
		copied.Join(t.Context(), addrs(a0)) // waits for the check
		var taken *NameTakenError
		select {
		case taken = <-copied.ends:
		case <-time.After(20 * time.Second):
			t.Error("the copy lives")
			copied.stop()
			stopAll([]*node{a0, a1})
			return
		}
		took := time.Since(begun)
		if !taken.Live || taken.By != a1.addr || took > 2*time.Second || !strings.Contains(taken.Error(), "copy") {
			t.Errorf("the copy ended after %v with %v", took, taken)
		}
		t.Logf("the copy ended after %v: %v", took, taken)
		copied.stop()
		time.Sleep(30 * time.Second)
		agree(t, 0, []*node{a0, a1}, "a0 a1")
		if now := g.logs.count(""); now != before {
			t.Errorf("the members noticed:\n%s", strings.Join(g.logs.lines[before:], "\n"))
		}

		// Behind a translator that does not lead back: nobody answers at the address it gives.
		ghost, err := g.net.Addr("a3")
		if err != nil {
			t.Fatal(err)
		}
		a2 := g.start("a2", func(c *Config) { c.Advertise = netip.AddrPortFrom(ghost, 1) })
		if _, err := a2.Join(t.Context(), addrs(a0)); err != nil || len(a2.ends) > 0 {
			t.Errorf("a host behind a translator: %v", err)
		}
		stopAll([]*node{a0, a1, a2})
	})
}
