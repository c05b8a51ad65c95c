package main

import (
	"slices"
	"time"
)

// The worlds of the one-flow row: from the slowest link of the paper's grid to a fast one.
var (
	rates   = []float64{1.16, 1.25, 4.75, 20, 85, 289, 1000} // Mbit/s
	losses  = []float64{0, 0.001}
	crosses = []float64{0, 0.3}
)

// defaultRTT is the round trip of the one-flow row. NewReno gets about 27 Mbit/s of a path of 20 ms that loses one packet of a
// thousand, and less of a longer one.
const defaultRTT = 20 * time.Millisecond

// paperGrid is the grid of Gupta & Vadhiyar, HPDC 2007: 8 + 4 + 8 hosts.
const paperGrid = "paper-3site"

// fullCells are all cells for the given seeds. What is quick comes first.
func fullCells(rtt time.Duration, seeds int) []Cell {
	var all []Cell
	for seed := range uint64(seeds) {
		seed++
		for _, rate := range rates {
			for _, loss := range losses {
				for _, cross := range crosses {
					all = append(all, flowCell(World{Mbps: rate, RTT: rtt, Loss: loss, Cross: cross, Hosts: 2}, seed))
				}
			}
		}
		for _, w := range []World{
			{Mbps: 100, RTT: 2 * time.Millisecond, Hosts: 2},
			{Mbps: 100, RTT: 200 * time.Millisecond, Hosts: 2},
			{Mbps: 5, RTT: 300 * time.Millisecond, Loss: 0.01, Hosts: 2},
		} {
			all = append(all, Cell{Row: RoundTrip, Seed: seed, World: w, Idle: 2 * time.Minute})
		}
		for _, w := range []World{
			{Mbps: 9.28, FlowMbps: 1.16, RTT: rtt, Hosts: 2},
			{Mbps: 80, FlowMbps: 10, RTT: rtt, Hosts: 2},
			{Mbps: 216, Loss: 0.001, RTT: defaultRTT, Hosts: 2},
			{Mbps: 289, Loss: 0.001, RTT: defaultRTT, Hosts: 2},
		} {
			all = append(all, Cell{Row: Capacity, Seed: seed, World: w, Warm: 4 * time.Second, Truth: 8 * time.Second, Truths: 1, Idle: settling})
		}
		for _, grid := range []string{"5Mbps", paperGrid} {
			all = append(all,
				Cell{Row: FallIdle, Seed: seed, Grid: grid, Idle: 5 * time.Minute, For: 3 * time.Minute},
				Cell{Row: FallBusy, Seed: seed, Grid: grid, Idle: time.Minute, For: time.Minute},
				Cell{Row: Wobble, Seed: seed, Grid: grid, Idle: time.Minute, For: time.Hour})
		}
		all = append(all,
			Cell{Row: Cost, Seed: seed, Grid: "5Mbps", Idle: time.Minute, Runs: 12},
			Cell{Row: Bytes, Seed: seed, Grid: paperGrid, Idle: 10 * time.Minute, For: time.Hour})
	}
	slices.SortStableFunc(all, func(a, b Cell) int { return slices.Index(order, a.Row) - slices.Index(order, b.Row) })
	return all
}

// order is that of the table.
var order = []Row{Flow, RoundTrip, Capacity, Bytes, FallIdle, FallBusy, Wobble, Cost, Random}

// settling is after how long what one flow gets must be right: where losses decide it, it takes that many bytes to know it
// that a link of 85 Mbit/s has to save them up.
const settling = 10 * time.Minute

// flowCell says how long the truth of w takes: fast links are dear, and reach their steady state as soon. By chance some of the
// packets are lost: then it takes many to know the mean.
func flowCell(w World, seed uint64) Cell {
	c := Cell{Row: Flow, Seed: seed, World: w, Warm: 10 * time.Second, Truth: time.Minute, Truths: 1, Idle: settling}
	switch {
	case w.Loss > 0 && w.Mbps > 50: // what a minute of one lane gets has a deviation of 3.5 % over seeds
		c.Truths = 3
	case w.Loss > 0:
		c.Truths = 2
	case w.Mbps > 500:
		c.Warm, c.Truth = 8*time.Second, 4*time.Second
	case w.Mbps > 200:
		c.Warm, c.Truth = 6*time.Second, 6*time.Second
	case w.Mbps > 50:
		c.Truth = 15 * time.Second
	}
	return c
}

// quickCells are a few of each row, small: does all of it still work, within a minute?
func quickCells() []Cell {
	flow := func(w World) Cell {
		w.RTT, w.Hosts = defaultRTT, 2
		c := flowCell(w, 1)
		c.Warm, c.Truth, c.Truths, c.Idle = 5*time.Second, 20*time.Second, 1, 3*time.Minute
		return c
	}
	const small = "5Mbps"
	return []Cell{
		flow(World{Mbps: 1.25}),
		flow(World{Mbps: 20, Loss: 0.001}),
		flow(World{Mbps: 20, Cross: 0.3}),
		flow(World{Mbps: 85, Loss: 0.001}),
		{Row: Capacity, Seed: 1, World: World{Mbps: 9.28, FlowMbps: 1.16, RTT: defaultRTT, Hosts: 2}, Warm: 5 * time.Second, Truth: 15 * time.Second, Truths: 1, Idle: 5 * time.Minute},
		{Row: Bytes, Seed: 1, Grid: small, Idle: 3 * time.Minute, For: 10 * time.Minute},
		{Row: FallIdle, Seed: 1, Grid: small, Idle: 2 * time.Minute, For: time.Minute},
		{Row: FallBusy, Seed: 1, Grid: small, Idle: time.Minute, For: 20 * time.Second},
		{Row: Wobble, Seed: 1, Grid: small, Idle: time.Minute, For: 10 * time.Minute},
		{Row: Cost, Seed: 1, Grid: small, Idle: 30 * time.Second, Runs: 2},
	}
}
