package main

import (
	"context"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/gridnet"
)

// measureBytes: for each WAN link by "A→B", in shares of what it can carry in Cell.For: probe datagrams, gossip datagrams,
// QUIC on the agents' sockets, QUIC on other sockets, and all.
func measureBytes(t *testing.T, c Cell, r *Reading) {
	file, err := threeSites(c.Grid)
	if err != nil {
		t.Fatal(err)
	}
	var counting bool // by the network's loop, under its lock
	sent := make(map[[2]byte]*[4]uint64)
	tap := func(e gridnet.Event) {
		if e.Kind != gridnet.Crossed || !counting {
			return
		}
		k := [2]byte{e.Src.Addr().As4()[1], e.Dst.Addr().As4()[1]}
		n := sent[k]
		if n == nil {
			n = new([4]uint64)
			sent[k] = n
		}
		switch {
		case e.Head == 2:
			n[0] += uint64(e.Size)
		case e.Head == 1:
			n[1] += uint64(e.Size)
		case e.Src.Port() == 4000 && e.Dst.Port() == 4000:
			n[2] += uint64(e.Size)
		default:
			n[3] += uint64(e.Size)
		}
	}
	onGrid(t, c, grid.Config{Network: func(n *gridnet.Config) { n.OnPacket = tap }}, func(_ context.Context, t *testing.T, g *grid.Grid) {
		// SetLink without a change takes the network's lock, under which the tap runs.
		toggle := func(l *gridnet.Link) { counting = !counting }
		first := file.WAN[0]
		if err := g.Net.SetLink(file.Sites[first.From].Name, file.Sites[first.To].Name, toggle); err != nil {
			t.Fatal(err)
		}
		time.Sleep(c.For)
		if err := g.Net.SetLink(file.Sites[first.From].Name, file.Sites[first.To].Name, toggle); err != nil {
			t.Fatal(err)
		}
		for _, l := range file.WAN {
			n := sent[[2]byte{byte(l.From + 1), byte(l.To + 1)}]
			if n == nil {
				n = new([4]uint64)
			}
			could := float64(l.Capacity) * c.For.Seconds()
			all := 0.0
			for k, what := range []string{"probe", "gossip", "quic", "other sockets"} {
				r.add(what, float64(n[k])/could)
				all += float64(n[k]) / could
			}
			r.add("all", all)
		}
	})
}
