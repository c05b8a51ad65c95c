package main

import (
	"fmt"
	"math"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/accuracy/random"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// drawing is from what the grids of [Drawn] are drawn. What is on them beside what the table's grids have, a tenth of the links with jitter and a
// tenth with a short or a long queue, real links have as well.
var drawing = random.Limits{
	Sites: 5, Hosts: 8, All: 24,
	LAN: random.Range{Least: 50, Most: 1000}, Rate: random.Range{Least: 1, Most: 1000}, Lag: random.Range{Least: 0.5, Most: 75}, Loss: random.Range{Least: 0.0002, Most: 0.005},
	Lossy: 0.25, Odd: 1, Held: 0.25, Jitter: 0.1, Queues: 0.1,
}

// drawnAllowance is how many of the longest round trips an operation on a drawn grid may take beside its bound, which knows of bytes only: sizes go to
// the coordinator and the plan comes back, and data need a way for themselves and another where they are relayed.
const drawnAllowance = 2

// drawnLimit is that of the ratio.
const drawnLimit = 1.5

// drawnCells are those of the grids with the seeds from first to last.
func drawnCells(first, last uint64) (cells []Cell) {
	for seed := first; seed <= last; seed++ {
		for _, op := range []plan.Collective{plan.Allgather, plan.Alltoall} {
			cells = append(cells, Cell{Collective: op, Network: drawnName(seed), Size: 64 * kib, Settle: settling, Runs: 3, Limit: drawnLimit})
		}
	}
	return cells
}

// drawnEngines are the same for engines alone.
func drawnEngines(first, last uint64) []Cell {
	cells := drawnCells(first, last)
	for i := range cells {
		cells[i].Settle, cells[i].Limit = 0, 0
	}
	return cells
}

// limits are the names of what --random draws from, each with that of the network of a seed: what a lab takes, as scripts/peers --drawn draws it, or
// what the page's row of drawn grids is of.
var limits = map[string]func(seed uint64) string{"lab": labName, "page": drawnName}

// seedCells are those of the grids that are drawn from the seeds from first to last, whose names name gives: of agents that have measured for as long as
// settle, or of engines alone if that is 0. The page has none of them: they are for looking at what a change does to many grids.
func seedCells(name func(seed uint64) string, first, last uint64, settle time.Duration, seeds int) (cells []Cell) {
	cell := Cell{Row: Engines, Runs: 4}
	if settle > 0 {
		cell = Cell{Row: Drawn, Settle: settle, Runs: 3}
	}
	for grid := first; grid <= last; grid++ {
		for _, cell.Collective = range []plan.Collective{plan.Allgather, plan.Alltoall} {
			for _, cell.Size = range []int64{64 * kib, 256 * kib} {
				for seed := range uint64(seeds) {
					cell.Network, cell.Seed = name(grid), seed+1
					cells = append(cells, cell)
				}
			}
		}
	}
	return cells
}

// drawnName is the network drawn from seed, labName that of a lab.
func drawnName(seed uint64) string { return fmt.Sprintf("drawn-%d", seed) }
func labName(seed uint64) string   { return fmt.Sprintf("lab-%d", seed) }

// drawn returns the grid of a network of [drawnName] or [labName].
func drawn(name string) (*random.Grid, error) {
	var seed uint64
	from := drawing
	if _, err := fmt.Sscanf(name, "lab-%d", &seed); err == nil && labName(seed) == name {
		from = random.Lab
	} else if _, err := fmt.Sscanf(name, "drawn-%d", &seed); err != nil || drawnName(seed) != name {
		return nil, fmt.Errorf("network %q: want drawn- or lab- and a seed", name)
	}
	g := random.Draw(seed, from)
	for i := range g.File.WAN {
		k := &g.File.WAN[i]
		if k.Loss == 0 {
			continue
		}
		// What a flow then gets: configs/grids/paper-3site-loss.yaml. Nothing else holds it.
		flow := netmap.BytesPerSec(2500 / (g.RoundTrip(i).Seconds() * math.Sqrt(k.Loss)))
		if k.Bandwidth = min(k.Capacity, flow); k.Bandwidth < k.Capacity {
			k.HeldBy = gridfile.HeldByLoss
		}
	}
	return g, nil
}
