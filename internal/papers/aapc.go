package main

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Faraj, Yuan & Patarasuk, TPDS 2007, §6. The text names sizes from 2 to 512 KB.
var (
	aapcSizes    = []int64{1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10}
	aapcEmulated = aapcSizes[:len(aapcSizes)-1] // all schemes at 256 KiB would take as long again; figure 13 has the best
	largeSizes   = []int64{128 << 10, 256 << 10, 512 << 10, 1 << 20}

	aapcPeers = []string{"mpich", "lam"}
)

var aapcExperiments = []experiment{aapcFig7, aapcFig8, aapcFig9, aapcFig10, aapcFig11, aapcFig12, aapcFig13}

// schemes are the names of all schemes of table 5.
func schemes() []string {
	var names []string
	for _, c := range aapcSchemes() {
		names = append(names, c.name())
	}
	return names
}

func topology(number int) string { return fmt.Sprintf("aapc-journal-%d", number) }

func aapcSweep(number int, contenders []string, predicted, emulated []int64) sweep {
	return sweep{arena: topology(number), collective: plan.Alltoall, contenders: contenders, predicted: predicted, emulated: emulated}
}

// aapcAbout is what all pages of this paper have in common.
var aapcAbout = `Aggregate throughput, |M|·(|M|−1)·msize over the completion time, as in the paper; the bound is the peak of its section 3. All
contenders are run by our engine, on links of 100 Mbit/s. The topologies are our reading of the text, see
configs/grids/README.md. The simulator shares links ideally, so that contention costs nothing in it but its share; the emulated
network has queues that overflow. ` + portsText + ` A machine sends one message after the other, as in the paper, in all schemes but *receiver
partial (8)*: there it sends all messages of a block at once, since a plan has one kind of order before a message, and
that one's is by the receiver. No figure of the paper shows that scheme, and *tuned* does not take it.`

// schemesFigure is a figure that compares schemes on some topologies. It shows names; MPICH
// and LAM/MPI stand in the tables.
func schemesFigure(id, figure, title, about string, topologies []int, names []string, predicted, emulated []int64,
	find func(raw *Raw, p *page, s Source, arena string)) experiment {
	e := experiment{id: id, paper: aapcPaper, where: "§6, " + figure, title: title, about: about + "\n\n" + aapcAbout}
	for _, t := range topologies {
		e.sweeps = append(e.sweeps, aapcSweep(t, slices.Concat(names, aapcPeers), predicted, emulated))
	}
	e.report = func(raw *Raw, p *page) {
		for _, t := range topologies {
			for _, s := range []Source{Simulated, Emulated} {
				p.compare(raw, comparison{arena: topology(t), source: s, draw: names, also: aapcPeers, metric: throughput})
				if len(sizesOf(raw, s, topology(t), names...)) > 0 {
					find(raw, p, s, topology(t))
				}
			}
		}
	}
	return e
}

// unordered is the scheme of table 5 in which our machines do not send one message after the other, so that it is
// not the paper's: see package phase.
const unordered = "aapc receiver partial (8)"

// tuned returns the fastest of the schemes at a size, as the paper's automatic tuning would take it.
func tuned(raw *Raw, s Source, arena string, size int64) (Record, bool) {
	var best Record
	for _, name := range schemes() {
		if name == unordered {
			continue
		}
		if r, ok := raw.find(s, arena, name, size); ok && (best.Mean == 0 || r.Mean < best.Mean) {
			best = r
		}
	}
	return best, best.Mean > 0
}

// withTuned returns raw with the tuned routine as one more line.
func withTuned(raw *Raw) *Raw {
	out := &Raw{Records: slices.Clone(raw.Records)}
	for _, r := range raw.Records {
		if r.name() != "aapc sender all" {
			continue
		}
		if best, ok := tuned(raw, r.Source, r.Grid, r.SizeBytes); ok {
			best.Variant = "tuned"
			out.Records = append(out.Records, best)
		}
	}
	return out
}

// short names a topology in a finding.
func short(arena string) string { return titleOf(arena)[len("topology "):][:3] }

// share is how many of sizes, from least on, satisfy holds.
func share(sizes []int64, least int64, holds func(int64) bool) (n, of int) {
	for _, z := range sizes {
		if z < least {
			continue
		}
		of++
		if holds(z) {
			n++
		}
	}
	return n, of
}
