package gantt

import (
	"cmp"
	"fmt"
	"slices"
)

// Limits of a picture. Whatever is behind them is stated in it.
const (
	maxHostRows  = 256
	maxLinkRows  = 64
	maxBytes     = 4 << 20 // of the file
	inkHeight    = 2400.0  // pixels that all lanes together may take, where lanes can be left out
	leastLane    = 3.0     // pixels
	largestLane  = 9.0
	fewLanes     = 4  // always drawn
	rowGap       = 4  // pixels between rows
	leastRow     = 14 // a row holds its label
	sectionSpace = 26 // above links
)

// A row is a host (bands out and in) or a link (one band).
type row struct {
	label, tip string
	group      int // rows of one group stand together: the pool of a host, the origin of a link
	bands      []*band
}

// rows returns the rows of hosts, by pool and rank, and of links. What exceeds the
// limits is left out with a note.
func (f *figure) rows() (hosts, links []row) {
	order := make([]int, len(f.plan.Hosts))
	for h := range order {
		order[h] = h
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(f.pool[a], f.pool[b]) })
	if len(order) > maxHostRows {
		f.note("Of %d hosts the first %d are shown.", len(order), maxHostRows)
		order = order[:maxHostRows]
	}
	out, in := make([][]int, len(f.pool)), make([][]int, len(f.pool))
	for i := range f.plan.Transfers {
		t := &f.plan.Transfers[i]
		out[t.Src], in[t.Dst] = append(out[t.Src], i), append(in[t.Dst], i)
	}
	for _, h := range order {
		hosts = append(hosts, row{
			label: f.hostTags[h],
			tip: fmt.Sprintf("%s in %s\nsends %s\nreceives %s", full(f.plan.Hosts[h]), full(f.pools[f.pool[h]]),
				f.traffic(out[h]), f.traffic(in[h])),
			group: f.pool[h],
			bands: []*band{pack(f.spans, out[h]), pack(f.spans, in[h])},
		})
	}
	for _, l := range f.shownLinks() {
		links = append(links, row{
			label: f.linkName(l),
			tip:   full(f.pools[l.from]) + " → " + full(f.pools[l.to]) + "\n" + f.traffic(l.transfers),
			group: l.from,
			bands: []*band{pack(f.spans, l.transfers)},
		})
	}
	return hosts, links
}

// shownLinks returns the links with the most bytes, ascending by from and to.
func (f *figure) shownLinks() []wanLink {
	if len(f.links) <= maxLinkRows {
		return f.links
	}
	f.note("Of %d links between pools the %d with the most bytes are shown.", len(f.links), maxLinkRows)
	shown := slices.Clone(f.links)
	slices.SortStableFunc(shown, func(a, b wanLink) int { return cmp.Compare(b.bytes, a.bytes) })
	shown = shown[:maxLinkRows]
	sortLinks(shown)
	return shown
}

// linkName returns the label of a link.
func (f *figure) linkName(l wanLink) string { return f.poolTags[l.from] + " → " + f.poolTags[l.to] }

// traffic sums up transfers in words.
func (f *figure) traffic(transfers []int) string {
	var bytes int64
	for _, i := range transfers {
		bytes += f.plan.Bytes(&f.plan.Transfers[i])
	}
	return count(len(transfers), "transfer") + ", " + formatBytes(bytes)
}

// lanes chooses how many lanes a band may have and how high they are.
func lanes(rows []row) (most int, height float64) {
	total := func(most int) float64 {
		n := 0
		for _, r := range rows {
			for _, b := range r.bands {
				n += b.height(most)
			}
		}
		return float64(n)
	}
	most = maxLanes
	for most > fewLanes && total(most)*leastLane > inkHeight {
		most--
	}
	return most, min(max(inkHeight/2/total(most), leastLane), largestLane)
}

// height returns the pixels that r takes with at most so many lanes of lane pixels,
// without the gap to the next row.
func (r *row) height(most int, lane float64) float64 {
	return max(r.bandsHeight(most, lane), leastRow)
}

// bandsHeight is the part of the height that bands and the line between them take.
func (r *row) bandsHeight(most int, lane float64) float64 {
	n := 0
	for _, b := range r.bands {
		n += b.height(most)
	}
	return float64(float64(n)*lane) + float64(len(r.bands)-1)
}
