package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// threeSites returns the grid of a cell: one that is built in, or sites a, b and c of 3 hosts each where a and b
// have four times as much between them as each has to c.
func threeSites(name string) (*gridfile.Grid, error) {
	var mbps float64
	if n, _ := fmt.Sscanf(name, "%gMbps", &mbps); n == 0 {
		return gridfile.Load("../../configs/grids/" + name + ".yaml")
	}
	text := "sites:\n"
	for _, s := range []string{"a", "b", "c"} {
		text += fmt.Sprintf("  - {name: %s, hosts: 3, lan: {bandwidth: 1Gbps, latency: 60us}}\n", s)
	}
	text += fmt.Sprintf("wan:\n  - {from: a, to: b, bandwidth: %gMbps, latency: 10ms, both: true}\n", 4*mbps)
	for _, s := range []string{"a", "b"} {
		text += fmt.Sprintf("  - {from: %s, to: c, bandwidth: %gMbps, latency: 20ms, both: true}\n", s, mbps)
	}
	return gridfile.Parse("grid "+name, []byte(text))
}

// onGrid runs f on the settled agents of c's grid.
func onGrid(t *testing.T, c Cell, cfg grid.Config, f func(ctx context.Context, t *testing.T, g *grid.Grid)) {
	inBubble(t, func(t *testing.T, dir string) {
		file, err := threeSites(c.Grid)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Grid, cfg.Dir, cfg.Seed = file, dir, c.Seed
		g, err := grid.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}()
		settling, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := g.WaitMembers(settling); err != nil {
			t.Fatal(err)
		}
		if err := g.WaitMap(settling); err != nil {
			t.Fatal(err)
		}
		time.Sleep(c.Idle)
		f(t.Context(), t, g)
	})
}

// wholeGrid is an allgather with a rank on every host, blocks of size bytes.
func wholeGrid(g *grid.Grid, c Cell, name string, size int) grid.Job {
	job := grid.Job{Name: name}
	rng := rand.New(rand.NewPCG(c.Seed, 0x6163))
	for i := range g.Hosts {
		block := make([]byte, size)
		for k := range block {
			block[k] = byte(rng.Uint32())
		}
		job.Ranks, job.Blocks = append(job.Ranks, i), append(job.Blocks, block)
	}
	job.Options = client.Options{}
	return job
}

// jobBytes returns the size of blocks with which an allgather over the whole grid takes about so long: all blocks of the other sites have to
// come over the slowest way into a site.
func jobBytes(file *gridfile.Grid, d time.Duration) int {
	slowest := file.WAN[0].Capacity
	for _, l := range file.WAN {
		slowest = min(slowest, l.Capacity)
	}
	return int(goodput * float64(slowest) * d.Seconds() / float64(len(file.Hosts())) * 2)
}
