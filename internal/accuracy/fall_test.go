package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// A fall is a link between two sites that loses three quarters of its rate, and a host at a third site from which it is watched.
type fall struct {
	g        *grid.Grid
	from, to string
	third    int
	before   tree
	begin    time.Time
}

// measureFall: "map" is after how many seconds the map of a host at the third site is within 15 % of the new truth for all pairs of
// hosts over the fallen link, "median" for half of them, "first" for one; "tree" after how many its pool tree has another
// shape. What does not happen within Cell.For is Cell.For. "exchange" is when the exchange ended.
func measureFall(t *testing.T, c Cell, r *Reading) {
	file, err := threeSites(c.Grid)
	if err != nil {
		t.Fatal(err)
	}
	onGrid(t, c, grid.Config{}, func(ctx context.Context, t *testing.T, g *grid.Grid) {
		f := &fall{g: g}
		f.from, f.to, f.third = fastest(g, file)
		if f.before, err = poolTree(ctx, g, f.third); err != nil {
			t.Fatal(err)
		}
		var ended chan time.Time
		if c.Row == FallBusy {
			ended = exchangeFor(ctx, t, g, c, jobBytes(file, time.Minute))
			time.Sleep(10 * time.Second)
		}
		for _, l := range [][2]string{{f.from, f.to}, {f.to, f.from}} {
			if err := g.Net.SetLink(l[0], l[1], func(l *gridnet.Link) { l.Rate /= 4 }); err != nil {
				t.Fatal(err)
			}
		}
		f.begin = time.Now()
		took := f.watch(ctx, t, c.For)
		for _, name := range []string{"first", "median", "map", "tree"} {
			v, ok := took[name]
			if !ok {
				v = c.For.Seconds()
			}
			r.add(name, v)
		}
		if ended != nil {
			r.add("exchange", (<-ended).Sub(f.begin).Seconds())
		}
	})
}

// exchangeFor starts an allgather and waits until all ranks are ready. The channel tells when it ended.
func exchangeFor(ctx context.Context, t *testing.T, g *grid.Grid, c Cell, size int) chan time.Time {
	ended, ready := make(chan time.Time, 1), make(chan struct{})
	job := wholeGrid(g, c, "fall", size)
	job.Ready = func() { close(ready) }
	go func() {
		for _, o := range g.Run(ctx, job) {
			if o.Err != nil {
				t.Error(o.Err)
				break
			}
		}
		ended <- time.Now()
	}()
	select {
	case <-ready:
	case at := <-ended: // without all ranks: the errors are reported
		ended <- at
	}
	return ended
}

// watch returns after how many seconds what happened, until all has or d is over.
func (f *fall) watch(ctx context.Context, t *testing.T, d time.Duration) map[string]float64 {
	took := make(map[string]float64)
	mark := func(name string, is bool) {
		if _, ok := took[name]; !ok && is {
			took[name] = time.Since(f.begin).Seconds()
		}
	}
	for time.Since(f.begin) < d && len(took) < 4 {
		time.Sleep(250 * time.Millisecond)
		right, all := f.right(t)
		mark("first", right > 0)
		mark("median", 2*right >= all)
		mark("map", right == all)
		now, err := poolTree(ctx, f.g, f.third)
		if err != nil {
			t.Fatal(err)
		}
		mark("tree", now.shape != f.before.shape)
	}
	return took
}

// right counts the pairs of hosts over the link that the third host's map has within 15 % of the truth, and all.
func (f *fall) right(t *testing.T) (right, all int) {
	s := believed(t, f.g, f.third)
	for _, a := range f.g.Hosts {
		for _, b := range f.g.Hosts {
			if !(a.Site == f.from && b.Site == f.to || a.Site == f.to && b.Site == f.from) {
				continue
			}
			l, err := f.g.Net.Link(a.Site, b.Site)
			if err != nil {
				t.Fatal(err)
			}
			all++
			// Nothing is lost and nobody else is there: one flow gets all of the link.
			if want := goodput * float64(l.Rate); near(float64(estimate(s, a.Name, b.Name).Bandwidth), want, 0.15) {
				right++
			}
		}
	}
	return right, all
}

// near reports whether got is within a share of want.
func near(got, want, share float64) bool { return got >= want*(1-share) && got <= want*(1+share) }

// fastest returns the two sites that the fastest link joins, and a host of a third.
func fastest(g *grid.Grid, file *gridfile.Grid) (from, to string, third int) {
	best := file.WAN[0]
	for _, l := range file.WAN {
		if l.Capacity > best.Capacity {
			best = l
		}
	}
	from, to = file.Sites[best.From].Name, file.Sites[best.To].Name
	third = slices.IndexFunc(g.Hosts, func(h grid.Host) bool { return h.Site != from && h.Site != to })
	return from, to, third
}
