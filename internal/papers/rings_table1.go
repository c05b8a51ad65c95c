package main

import (
	"fmt"
)

// ringsTable1 is table 1 of Faraj, Patarasuk & Yuan: what a shorter path saves.
var ringsTable1 = experiment{
	id: "rings-table1", paper: ringsPaper, where: "§5, table 1",
	title: "Allgather of 16 hosts: what a ring with shorter paths saves",
	about: `On topology (d) LR1's ring has a message over four switches and LR2's none over more than two; on topology (a) all
paths are one switch long. Every switch stores a packet before it sends it on. ` + portsText,
	sweeps: []sweep{
		ringSweep("allgather-d", []string{"lr1", "lr2", "lr3"}, table1Sizes), ringSweep("allgather-a", []string{"lr1"}, table1Sizes),
	},
	report: func(raw *Raw, p *page) {
		for _, s := range []Source{Simulated, Emulated} {
			t := table{title: fmt.Sprintf("Times, %s and in the paper", s), head: []string{"block", "bound"}}
			for _, c := range table1Columns {
				t.head = append(t.head, "paper: "+c.title, string(s)+": "+c.title)
			}
			t.head = append(t.head, "paper: 4 hops / 2", "here: 4 hops / 2", "paper: 2 hops / 1", "here: 2 hops / 1")
			d := panel{title: string(s), x: axis{label: "block size", sizes: true}, y: overBound.axis}
			lines := make([]series, 2*len(table1Columns))
			var shorter, one hops // two hops beside four, and one beside two
			for i, n := range table1Sizes {
				r, ok := raw.find(s, "allgather-a", "lr1", n)
				if !ok {
					continue
				}
				row := []string{inBytes(n), duration(r.Bound)}
				for k, c := range table1Columns {
					x, _ := raw.find(s, c.arena, c.name, n)
					row = append(row, duration(c.ms[i]/1e3)+" "+times(c.ms[i]/1e3/r.Bound), duration(x.Mean)+" "+times(x.ratio()))
					lines[2*k].name, lines[2*k+1].name = "paper, "+c.title, c.title
					lines[2*k].xy = append(lines[2*k].xy, point(float64(n), c.ms[i]/1e3/r.Bound))
					lines[2*k+1].xy = append(lines[2*k+1].xy, point(float64(n), x.ratio()))
				}
				gain := func(slow, fast int) (theirs, ours float64) {
					a, b := table1Columns[slow], table1Columns[fast]
					return a.ms[i] / b.ms[i], raw.mean(s, a.arena, a.name, n) / raw.mean(s, b.arena, b.name, n)
				}
				theirs, ours := gain(0, 1)
				shorter.add(theirs, ours)
				row = append(row, digits(theirs, 3), digits(ours, 3))
				theirs, ours = gain(1, 2)
				one.add(theirs, ours)
				t.rows = append(t.rows, append(row, digits(theirs, 3), digits(ours, 3)))
			}
			if len(t.rows) == 0 {
				continue
			}
			d.series = lines
			p.panels = append(p.panels, d)
			p.tables = append(p.tables, t)
			p.add(s, shorter.verdict(), "a ring of two hops is somewhat faster than one of four", "%s", shorter.String())
			p.add(s, one.verdict(), "a ring of one hop is faster still", "%s", one.String())
		}
	},
}

// hops compares a ring of shorter paths with one of longer ones, over the sizes.
type hops struct {
	sizes, faster int     // all, and those at which it is faster here
	wanted, clear int     // those at which it is clearly faster in the paper, and of these here as well
	least, most   float64 // the longer ring's time over the shorter one's, here
}

// add takes the ratios of one size. What is less than a tie is not clear.
func (h *hops) add(theirs, ours float64) {
	if h.sizes == 0 || ours < h.least {
		h.least = ours
	}
	h.most = max(h.most, ours)
	h.sizes++
	if ours > 1 {
		h.faster++
	}
	if theirs > 1+tie {
		h.wanted++
		if ours > 1+tie {
			h.clear++
		}
	}
}

// verdict is partly where the order alone is the paper's, at most sizes.
func (h *hops) verdict() verdict {
	return judge(h.wanted > 0 && h.clear == h.wanted && h.faster == h.sizes, 2*h.faster > h.sizes)
}

func (h *hops) String() string {
	return fmt.Sprintf("the longer one takes %s to %s times as long: it is slower at %d of %d sizes, and by over %s at %d of the %d where it is that in the paper",
		digits(h.least, 4), digits(h.most, 4), h.faster, h.sizes, percent(tie), h.clear, h.wanted)
}

var table1Sizes = []int64{32 << 10, 48 << 10, 64 << 10, 96 << 10, 128 << 10}

// table1Columns are the columns of table 1, in ms for table1Sizes.
var table1Columns = []struct {
	title, arena, name string
	ms                 [5]float64
}{
	{"LR1 (d), 4 hops", "allgather-d", "lr1", [5]float64{50.9, 72.9, 116.9, 180.0, 236.8}},
	{"LR2 (d), 2 hops", "allgather-d", "lr2", [5]float64{48.0, 68.4, 95.7, 172.7, 233.7}},
	{"LR1 (a), 1 hop", "allgather-a", "lr1", [5]float64{47.0, 67.2, 90.8, 162.6, 220.6}},
}
