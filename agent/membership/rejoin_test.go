package membership

import (
	mrand "math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// A host that comes back and remembers dead members beside one that lives is back at once: the dead, of which each is silent
// for 10 s, are called together with the one that answers.
func TestDeadMembersHoldNobodyUp(t *testing.T) {
	for seed := range uint64(6) { // it is drawn who is called first
		inBubble(t, func(t *testing.T) {
			g := newGrid(t, 2, 2)
			defer g.close()
			a0 := g.start("a0") // knows of no other, so that it calls nobody
			peers := []Peer{{Name: "a0", Addr: a0.addr, Seen: time.Now()}}
			for _, dead := range []string{"b0", "b1"} {
				at, err := g.net.Addr(dead)
				if err != nil {
					t.Fatal(err)
				}
				peers = append(peers, Peer{Name: dead, Addr: netip.AddrPortFrom(at, a0.addr.Port()), Seen: time.Now()})
				if err := g.net.Kill(dead); err != nil {
					t.Fatal(err)
				}
			}
			back := g.start("a1", func(c *Config) {
				c.Peers = peers
				c.Rand = mrand.New(mrand.NewPCG(seed, 2))
			})
			if took := agree(t, time.Minute, []*node{a0, back}, "a0 a1"); took > 5*time.Second {
				t.Errorf("seed %d: back after %v", seed, took)
			}
			stopAll([]*node{a0, back})
		})
	}
}
