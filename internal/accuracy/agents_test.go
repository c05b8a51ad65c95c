package main

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/probe/netmap"
)

// idle runs the agents of w without a job and calls look at each of the times after the start.
func idle(t *testing.T, dir string, w World, seed uint64, at []time.Duration, look func(g *grid.Grid, after time.Duration)) {
	t.Helper()
	file, err := w.grid()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	g, err := grid.Start(t.Context(), grid.Config{Grid: file, Dir: dir, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := w.strangers(g.Net); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := g.WaitMembers(ctx); err != nil {
		t.Fatal(err)
	}
	for _, d := range at {
		time.Sleep(time.Until(begin.Add(d)))
		look(g, d)
	}
}

// believed returns the map of host i as its users see it: gridagent map --predict prints it.
func believed(t *testing.T, g *grid.Grid, i int) *netmap.Snapshot {
	t.Helper()
	c := g.Client(i)
	defer c.Close()
	res, err := c.API().Map(t.Context(), connect.NewRequest(&apiv1.MapRequest{Predict: true}))
	if err != nil {
		t.Fatal(err)
	}
	s, err := netmap.ParseMatrix(res.Msg.MatrixJson, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// estimate returns what s says of a pair of hosts, nothing where it lacks one of them.
func estimate(s *netmap.Snapshot, from, to string) netmap.Estimate {
	i, j := s.Index(from), s.Index(to)
	if i < 0 || j < 0 {
		return netmap.Estimate{}
	}
	return s.Estimate(i, j)
}

// across returns the estimates of all ordered pairs of hosts at two sites, those from the first site first, each as a
// third host has them in its map: what a measuring host knows has to travel.
func across(t *testing.T, g *grid.Grid) []netmap.Estimate {
	maps := make([]*netmap.Snapshot, len(g.Hosts))
	for i := range g.Hosts {
		maps[i] = believed(t, g, i)
	}
	var out []netmap.Estimate
	for i, from := range g.Hosts {
		for j, to := range g.Hosts {
			if from.Site == to.Site {
				continue
			}
			third := 0
			for third == i || third == j {
				third++
			}
			out = append(out, estimate(maps[third], from.Name, to.Name))
		}
	}
	return out
}
