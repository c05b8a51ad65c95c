package main

import "fmt"

// min3Fig8 is figure 8 of Gupta & Vadhiyar (§6.3): allgathers on the complete 3-site grid, planned for
// half- and full-duplex hosts.
var min3Fig8 = experiment{
	id: "min3-fig8", paper: min3Paper, where: "§6.3, figure 8",
	title: "Allgather on three sites, by block size",
	about: `Min3 against what the paper compares it with: its authors' clustered broadcast trees, Mateescu's trees, MagPIe and
MPICH-G2, 20 hosts on the grid of its Tables 1 and 2. The *models* are the paper's own (equations 1 to 3): every pair of
hosts has a link to itself, whatever others send. *Simulated* and *emulated* have links between sites: either each link
holds every flow to the rate of Table 2 and has room for eight of them, as the paper assumes, or it is one pipe of that
rate for all. Half duplex exists in the model only. Bounds are those of each network; in the models, what
the hosts' ports must at least be busy with.`,
	sweeps: []sweep{
		allgatherSweep("paper-3site", halfContenders, ModelHalf, gridSizes, nil),
		allgatherSweep("paper-3site", fullContenders, ModelFull, gridSizes, nil),
		allgatherSweep("paper-3site-held", append([]string{"min3 shared links"}, fullContenders...), Simulated, gridSizes, gridEmulatedSizes),
		allgatherSweep("paper-3site", append([]string{"min3 shared links"}, fullContenders...), Simulated, gridSizes, gridEmulatedSizes),
	},
	report: func(raw *Raw, p *page) {
		for _, c := range []struct {
			source Source
			arena  string
			names  []string
			title  string
			paper  float64 // §6.3: average improvement over all others
		}{
			{ModelHalf, "paper-3site", halfContenders, "a link for each pair of hosts", 0.42},
			{ModelFull, "paper-3site", fullContenders, "a link for each pair of hosts", 0.52},
			{Simulated, "paper-3site-held", fullContenders, "links hold each flow", 0.52},
			{Emulated, "paper-3site-held", fullContenders, "links hold each flow", 0.52},
			{Simulated, "paper-3site", fullContenders, "links are pipes for all", 0.52},
			{Emulated, "paper-3site", fullContenders, "links are pipes for all", 0.52},
		} {
			also := []string{"min3 shared links"}
			draw := c.names
			if c.source == Simulated || c.source == Emulated {
				draw, also = append(append([]string{}, c.names...), also...), nil
			}
			p.compare(raw, comparison{arena: c.arena, source: c.source, draw: draw, also: also, metric: seconds, title: c.title})
			own := c.names[0]
			mean, n, of := improvement(raw, c.source, c.arena, own, others(c.names, own))
			if of == 0 {
				continue
			}
			size, ok := firstWin(raw, c.source, c.arena, own, others(c.names, own))
			p.add(c.source, judge(mean > c.paper/2 && winsBetween(size, ok, 0, smallSize) == agrees, mean > 0),
				fmt.Sprintf("Min3 takes %s less time than the others on average, and is the fastest at all but small sizes", percent(c.paper)),
				"%s: %s less on average (faster in %d of %d comparisons); %s", c.title, percent(mean), n, of, winsFrom(size, ok))
		}
		for _, arena := range []string{"paper-3site-held", "paper-3site"} {
			for _, s := range []Source{ModelFull, Emulated} {
				sizes := sizesOf(raw, s, arena, fullContenders...)
				if len(sizes) == 0 {
					continue
				}
				n := sizes[len(sizes)-1]
				trees, magpie, g2 := raw.mean(s, arena, "clustered", n), raw.mean(s, arena, "magpie", n), raw.mean(s, arena, "mpich-g2", n)
				p.add(s, judge(trees < magpie && trees < g2, trees < magpie || trees < g2),
					"MagPIe and MPICH-G2 take longer than the authors' clustered broadcasts",
					"%s, %s: the trees are %s MagPIe and %s MPICH-G2", networkOf(s, arena), inBytes(n), faster(trees, magpie), faster(trees, g2))
			}
		}
	},
}

// smallSize is the largest block that is still small. The paper's figure is lost, and its text says no more than "small".
const smallSize = 16 << 10

// networkOf names the network of a source: the model looks at the rates of a grid only.
func networkOf(s Source, arena string) string {
	if s == ModelFull || s == ModelHalf {
		return "a link for each pair of hosts"
	}
	return titleOf(arena)
}
