package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// measureWobble: "shapes" is how often the pool tree of one host changed its shape while every link and port varied by a tenth each way,
// "epochs" by how much its number rose.
func measureWobble(t *testing.T, c Cell, r *Reading) {
	file, err := threeSites(c.Grid)
	if err != nil {
		t.Fatal(err)
	}
	onGrid(t, c, grid.Config{}, func(ctx context.Context, t *testing.T, g *grid.Grid) {
		rng := rand.New(rand.NewPCG(c.Seed, 0x776f))
		factor := func() gridnet.Rate { return gridnet.Rate(0.9 + 0.2*rng.Float64()) }
		first, err := poolTree(ctx, g, 0)
		if err != nil {
			t.Fatal(err)
		}
		last, shapes := first, 0
		for begin := time.Now(); time.Since(begin) < c.For; time.Sleep(10 * time.Second) {
			for _, l := range file.WAN {
				rate := gridnet.Rate(l.Capacity) * factor()
				if err := g.Net.SetLink(file.Sites[l.From].Name, file.Sites[l.To].Name, func(x *gridnet.Link) { x.Rate = rate }); err != nil {
					t.Fatal(err)
				}
			}
			for i, h := range file.Hosts() {
				lan := file.Sites[slices.IndexFunc(file.Sites, func(s gridfile.Site) bool { return s.Name == h.Site })].LAN
				if err := g.Net.SetHostRate(g.Hosts[i].Name, gridnet.Rate(lan.Bandwidth)*factor()); err != nil {
					t.Fatal(err)
				}
			}
			now, err := poolTree(ctx, g, 0)
			if err != nil {
				t.Fatal(err)
			}
			if now.shape != last.shape {
				shapes++
				t.Logf("after %v: %s", time.Since(begin).Round(time.Second), now.shape)
			}
			last = now
		}
		r.add("shapes", float64(shapes))
		r.add("epochs", float64(last.epoch-first.epoch))
	})
}
