package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// The bound of a row is of bandwidth alone, as everywhere in this project. The floor counts what packets cannot do without as well, so that a reader
// sees which ratios nobody can reach: of 64 KiB a rank on the 3-site grid with losses the last bytes are 50 to 76 ms under way behind 210 ms of them.

const (
	// packetShare is what a byte of payload becomes on a link at least: IP's and UDP's headers in packets of 1,500 bytes.
	packetShare = 1500. / 1472
	// maxFloorSites bounds the sets of sites that are looked at: all of so many, of more only each site and each one's complement.
	maxFloorSites = 12
)

// floorOf returns the least time, in seconds, in which packets could do what c does, and false where c's network is none of sites.
func floorOf(c Cell) (float64, bool) {
	switch c.Row {
	case Shared, Held, Loss, Totals, Engines, Pauses, Drawn:
	default:
		return 0, false
	}
	file, err := gridOf(c.Network)
	if err != nil {
		return 0, false
	}
	t, err := floor(file, c.Collective, c.Size)
	return t, err == nil
}

// gridOf is a drawn grid or a file of configs/grids, which lies under the working directory.
func gridOf(name string) (*gridfile.Grid, error) {
	if g, err := drawn(name); err == nil {
		return g.File, nil
	}
	data, err := os.ReadFile(filepath.Join("configs", "grids", name+".yaml"))
	if err != nil {
		return nil, err
	}
	return gridfile.Parse(name, data)
}

// floor is the least time, in seconds, of an allgather of blocks of size bytes, or of an alltoall of as many a pair, over a rank on each host of g: over every set X
// of sites, the time T in which the links into X can deliver what must get there. A link delivers nothing before its latency L has passed, and of what it sends
// it loses a share p, so that with capacity C it has delivered C·(1−p)·(T−L) at most. Ports of hosts and ways inside a site do not count. The error is that
// a set cannot be reached.
func floor(g *gridfile.Grid, op plan.Collective, size int64) (float64, error) {
	n := len(g.Sites)
	most := 0.
	look := func(inside func(site int) bool) error {
		into, outside := 0, 0
		for i, s := range g.Sites {
			if inside(i) {
				into += s.Hosts
			} else {
				outside += s.Hosts
			}
		}
		blocks := outside // each enters once at least
		if op == plan.Alltoall {
			blocks = outside * into
		}
		if into == 0 || blocks == 0 || size == 0 {
			return nil
		}
		t, err := deliver(g.WAN, inside, float64(blocks)*float64(size)*packetShare)
		most = max(most, t)
		return err
	}
	if n > maxFloorSites {
		for k := range n {
			for _, is := range []bool{true, false} {
				if err := look(func(i int) bool { return (i == k) == is }); err != nil {
					return 0, err
				}
			}
		}
		return most, nil
	}
	for set := 1; set < 1<<n-1; set++ {
		if err := look(func(i int) bool { return set>>i&1 == 1 }); err != nil {
			return 0, err
		}
	}
	return most, nil
}

// deliver returns when the links into a set have delivered so many bytes, all of them busy from the start.
func deliver(links []gridfile.Link, inside func(site int) bool, bytes float64) (float64, error) {
	var in []gridfile.Link
	for _, l := range links {
		if inside(l.To) && !inside(l.From) && l.Capacity > 0 && l.Loss < 1 {
			in = append(in, l)
		}
	}
	if len(in) == 0 {
		return math.Inf(1), fmt.Errorf("no link leads into a set of sites: %w", plan.ErrUnreachable)
	}
	slices.SortStableFunc(in, func(a, b gridfile.Link) int { return int(a.Latency - b.Latency) })
	// With the first k links the bytes are there at t; later ones help if theirs could have begun to arrive by then.
	rate, ahead := 0., 0.
	for k, l := range in {
		c := float64(l.Capacity) * (1 - l.Loss)
		rate, ahead = rate+c, ahead+c*l.Latency.Seconds()
		t := (bytes + ahead) / rate
		if k+1 == len(in) || t <= in[k+1].Latency.Seconds() {
			return t, nil
		}
	}
	return 0, nil // not reached: the last link returns
}
