package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange/plan"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// The three grids of Gupta & Vadhiyar's sites, see configs/grids.
const (
	sharedGrid = "paper-3site"
	heldGrid   = "paper-3site-held"
	lossGrid   = "paper-3site-loss"
)

// settling is how long agents of a cell measure: what many flows get takes longer than what one gets.
const settling = 5 * time.Minute

// baselines is the network and the sizes of [Best].
var baselines = []string{"paper-2site-europe", "paper-1site-nth"}

// allCells are the cells of all rows for the given seeds.
func allCells(seeds int) []Cell {
	var all []Cell
	for _, row := range order {
		for seed := range uint64(seeds) {
			for _, c := range cellsOf[row]() {
				c.Row, c.Seed = row, seed+1
				all = append(all, c)
			}
		}
	}
	return all
}

var cellsOf = map[Row]func() []Cell{
	Shared: func() []Cell { return threeSites(sharedGrid, 2*time.Minute, 1.25, 1.10) },
	Held:   func() []Cell { return threeSites(heldGrid, settling, 0, 1.15) },
	Loss:   func() []Cell { return threeSites(lossGrid, settling, 1.3, 1.3) },
	Totals: func() (cells []Cell) {
		for _, g := range []struct {
			name            string
			direct, relayed float64
		}{{sharedGrid, 1.10, 1.15}, {heldGrid, 1.15, 1.2}, {lossGrid, 1.3, 1.4}} {
			for _, n := range []int64{16 * kib, 64 * kib, 256 * kib} {
				c := Cell{Collective: plan.Alltoall, Network: g.name, Size: n, Settle: settling, Runs: runs(n), Limit: g.direct}
				if n >= 64*kib {
					c.Relayed = g.relayed
				}
				cells = append(cells, c)
			}
		}
		return cells
	},
	Engines: func() (cells []Cell) {
		for _, g := range []string{sharedGrid, heldGrid, lossGrid} {
			for _, n := range []int64{16 * kib, 64 * kib, 256 * kib} {
				if n > 16*kib {
					cells = append(cells, Cell{Collective: plan.Allgather, Network: g, Size: n, Runs: 4})
				}
				if n < 256*kib {
					cells = append(cells, Cell{Collective: plan.Alltoall, Network: g, Size: n, Runs: 4})
				}
			}
		}
		cells = append(cells, unevenCells(0, 4)...)
		return append(cells, drawnEngines(1, 16)...)
	},
	Switches: func() (cells []Cell) {
		for _, network := range []string{oneSwitch, chain, star} {
			for _, rate := range []string{"", gigabit} {
				for _, n := range []int64{16 * kib, 64 * kib, 256 * kib} {
					limit, runs := 1.10, 2
					if n < 64*kib {
						limit = 0
					}
					if rate == gigabit { // the first run's windows begin below a bandwidth-delay product; agents' connections are kept
						runs = 3
					}
					cells = append(cells, Cell{Collective: plan.Allgather, Network: network + rate, Size: n, Runs: runs, Limit: limit})
					if limit > 0 {
						limit = 1 / 0.9
					}
					cells = append(cells, Cell{Collective: plan.Alltoall, Network: network + rate, Size: n, Runs: runs, Limit: limit})
				}
			}
		}
		for _, c := range slices.Clone(cells) { // some beside, of hosts that hold more
			if c.Size == 64*kib && (c.Network == oneSwitch || strings.HasPrefix(c.Network, star)) {
				c.Network, c.Limit = c.Network+deepHosts, 0
				cells = append(cells, c)
			}
		}
		return cells
	},
	Best: func() (cells []Cell) {
		for _, network := range baselines {
			for n := int64(kib); n <= 4*mib; n *= 4 {
				c := Cell{Collective: plan.Allgather, Network: network, Size: n, Settle: time.Minute, Runs: runs(n), Limit: 1}
				if n <= 16*kib {
					c.Runs *= 2 // of a few milliseconds: a packet of gossip in between is 2 %
				}
				cells = append(cells, c)
			}
		}
		return cells
	},
	Fall: func() []Cell {
		return []Cell{
			{Collective: plan.Allgather, Network: sharedGrid, Size: 256 * kib, Settle: 2 * time.Minute, Runs: 1, Limit: 1.3},
			{Collective: plan.Allgather, Network: sharedGrid, Size: mib, Settle: 2 * time.Minute, Runs: 1, Limit: 1.3},
			{Collective: plan.Alltoall, Network: sharedGrid, Size: 64 * kib, Settle: 2 * time.Minute, Runs: 1, Limit: 1.3},
		}
	},
	Pair: func() []Cell {
		return []Cell{
			{Collective: plan.Allgather, Network: "1000Mbps", Size: 1300 * mib, Settle: settling, Runs: 1, Limit: 0.90},
			{Collective: plan.Allgather, Network: "200Mbps-0.1%", Size: 300 * mib, Settle: settling, Runs: 1, Limit: 0.85},
			{Collective: plan.Allgather, Network: "20Mbps-1%", Size: 30 * mib, Settle: settling, Runs: 1, Limit: 0.85},
		}
	},
	Loopback: func() []Cell {
		return []Cell{
			{Collective: plan.Allgather, Network: "quic", Size: 64 * mib, Runs: 8, Limit: 1.3},
			{Collective: plan.Allgather, Network: "tcp", Size: 64 * mib, Runs: 8, Limit: 1.3},
		}
	},
	Idle: func() []Cell {
		return []Cell{
			{Collective: "start", Network: "10-sites-of-2", Runs: 20, Settle: time.Minute},
			{Collective: "start", Network: "10-sites-of-6", Runs: 60, Settle: 10 * time.Second},
		}
	},
	Lanes: func() (cells []Cell) {
		for _, c := range []Cell{
			{Network: "20Mbps-0%", Size: 22 * mib}, {Network: "20Mbps-1%", Size: 22 * mib},
			{Network: "200Mbps-0%", Size: 100 * mib}, {Network: "200Mbps-0.1%", Size: 100 * mib},
		} {
			for _, n := range []int{1, 2, 4, 8, 16} {
				cells = append(cells, Cell{Collective: plan.Allgather, Network: fmt.Sprintf("%s-%dlanes", c.Network, n), Size: c.Size, Runs: 1})
			}
		}
		return cells
	},
	Small: func() (cells []Cell) {
		for _, network := range []string{sharedGrid, "paper-1site-nth", sharedGrid + thinned} {
			for _, op := range []plan.Collective{plan.Allgather, plan.Alltoall, group.Broadcast, group.Barrier} {
				cells = append(cells, Cell{Collective: op, Network: network, Size: 8, Settle: time.Minute, Runs: 5, Limit: 1.2})
			}
		}
		for _, network := range []string{"paper-2site-europe", "modern-4site", sharedGrid, lossGrid} {
			sizes := []int64{256, kib}
			if network == lossGrid {
				sizes = append(sizes, 2*kib, 4*kib)
			}
			if network == sharedGrid { // whose links need so much longer than they are long
				sizes = []int64{256, kib, 4 * kib}
			}
			for _, size := range sizes {
				cells = append(cells, Cell{Collective: plan.Alltoall, Network: network, Size: size, Settle: time.Minute, Runs: 9})
			}
		}
		for _, network := range []string{"paper-2site-europe", "modern-4site"} { // blocks of which some are small
			cells = append(cells, Cell{Collective: plan.Alltoall, Network: network + "-first", Size: 16 * kib, Settle: time.Minute, Runs: 9})
		}
		return cells
	},
	Groups: func() []Cell {
		return []Cell{
			{Collective: plan.Allgather, Network: "paper-2site-europe", Size: 16 * kib, Settle: 2 * time.Minute, Runs: 12, Limit: 1.25},
			{Collective: plan.Allgather, Network: sharedGrid, Size: 16 * kib, Settle: 2 * time.Minute, Runs: 12, Limit: 1.25},
		}
	},
	Young: func() (cells []Cell) {
		for _, network := range []string{heldGrid, lossGrid} {
			for _, age := range []time.Duration{20 * time.Second, 40 * time.Second, time.Minute} {
				cells = append(cells,
					Cell{Collective: plan.Allgather, Network: youngName(network, age), Size: 256 * kib, Settle: age, Runs: 8},
					Cell{Collective: plan.Alltoall, Network: youngName(network, age), Size: 64 * kib, Settle: age, Runs: 8})
			}
		}
		return cells
	},
	Pauses: func() (cells []Cell) {
		for _, network := range []string{heldGrid, lossGrid} {
			cells = append(cells,
				Cell{Collective: plan.Allgather, Network: network, Size: 64 * kib, Settle: settling, Runs: 4},
				Cell{Collective: plan.Alltoall, Network: network, Size: 16 * kib, Settle: settling, Runs: 4})
		}
		return cells
	},
	Uneven: func() []Cell { return unevenCells(settling, 3) },
	Drawn:  func() []Cell { return drawnCells(1, 6) },
}

// unevenCells are those of blocks that differ much.
func unevenCells(settle time.Duration, runs int) (cells []Cell) {
	for _, network := range []string{sharedGrid, heldGrid, lossGrid} {
		for _, c := range []Cell{
			{Collective: plan.Allgather, Network: "first", Size: 5 * mib},
			{Collective: plan.Allgather, Network: "third", Size: 768 * kib},
			{Collective: plan.Allgather, Network: "harmonic", Size: 2 * mib},
			{Collective: plan.Alltoall, Network: "first", Size: 256 * kib},
			{Collective: plan.Alltoall, Network: "pair", Size: 4 * mib},
			{Collective: plan.Alltoall, Network: "square", Size: mib},
		} {
			c.Network, c.Settle, c.Runs = network+"-"+c.Network, settle, runs
			cells = append(cells, c)
		}
	}
	return cells
}

// youngName is the network of agents that are so old.
func youngName(grid string, age time.Duration) string {
	return fmt.Sprintf("%s-%.0fs", grid, age.Seconds())
}

// threeSites are the allgathers of a grid; small is the limit at 64 KiB.
func threeSites(grid string, settle time.Duration, small, limit float64) (cells []Cell) {
	for _, n := range []int64{64 * kib, 256 * kib, mib} {
		c := Cell{Collective: plan.Allgather, Network: grid, Size: n, Settle: settle, Runs: 3, Limit: limit}
		if n < 256*kib {
			c.Limit = small
		}
		cells = append(cells, c)
	}
	return cells
}

// runs is how often an exchange of blocks of n bytes is repeated: short ones vary more, and are cheap.
func runs(n int64) int {
	if n <= 64*kib {
		return 3
	}
	return 1
}
