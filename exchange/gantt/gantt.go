package gantt

import "slices"

// gantt draws [GanttView]. Where the file gets too large, short transfers that follow
// each other closely are drawn together, in bars of twice the length each time.
func (f *figure) gantt() []byte {
	hosts, links := f.rows()
	most, height := lanes(slices.Concat(hosts, links))
	notes := len(f.notes)
	for pixels := 0.0; ; pixels = max(1, 2*pixels) {
		f.notes = f.notes[:notes]
		picture := f.drawGantt(hosts, links, most, height, pixels)
		if len(picture) <= maxBytes || pixels > pictureWidth {
			return picture
		}
	}
}

// drawGantt draws one picture, in which bars of less than grain pixels may be joined.
func (f *figure) drawGantt(hosts, links []row, most int, lane, grain float64) []byte {
	var labels []string
	for _, r := range slices.Concat(hosts, links) {
		labels = append(labels, r.label)
	}
	label := labelWidth(append(labels, "time (min)"), 200)
	seconds, _ := f.horizon()
	grain *= seconds / (pictureWidth - 2*margin - label)
	hosts, links = f.limited(hosts, most, grain), f.limited(links, most, grain)

	d := &drawing{f: f, most: most, lane: lane, label: label}
	blocks := [][2]float64{{0, d.height(hosts)}}
	if len(links) > 0 {
		top := blocks[0][1] + sectionSpace
		blocks = append(blocks, [2]float64{top, top + d.height(links)})
	}
	used := f.tally(slices.Concat(hosts, links))
	r := f.frame(label, blocks, f.barKeys(used))
	d.c, d.axis = &canvas{}, r.axis
	r.begin(d.c, f.title)
	d.c.text("section", "start", margin, r.top-38, "hosts: sends above the line, receives below", "")
	d.rows(hosts, r.top)
	if len(links) > 0 {
		d.c.text("section", "start", margin, r.top+blocks[1][0]-8, "WAN links: transfers from pool to pool", "")
		d.rows(links, r.top+blocks[1][0])
	}
	r.end(d.c)
	return d.c.Bytes()
}

// tally returns the classes that rows use, and notes what they do not draw one by one.
func (f *figure) tally(rows []row) (used map[string]bool) {
	used = make(map[string]bool)
	joined, bars, crowded := 0, 0, 0
	for _, r := range rows {
		if slices.ContainsFunc(r.bands, func(b *band) bool { return b.crowded }) {
			crowded++
		}
		for _, b := range r.bands {
			if b.crowded {
				for _, i := range b.transfers {
					used[f.class(i)] = true
				}
			}
			for _, one := range slices.Concat(b.lanes...) {
				used[one.class] = true
				if one.count > 1 {
					joined, bars = joined+one.count, bars+1
				}
			}
		}
	}
	if crowded > 0 {
		f.note("In %s the transfers are too many at a time for a bar each: the height of the area says how many there are, its tooltip how many at most.", count(crowded, "row"))
	}
	if joined > 0 {
		f.note("Short transfers that follow each other share a bar: %d of them in %s (counted at sender, receiver and link each).", joined, count(bars, "bar"))
	}
	return used
}

// barKeys returns the legend.
func (f *figure) barKeys(used map[string]bool) []key {
	keys := f.poolKeys(used)
	if len(f.pools) > 1 {
		for i := range keys {
			keys[i].text = "blocks from " + keys[i].text
		}
	}
	if used[classMany] {
		keys = append(keys, key{class: classMany, text: "blocks from several pools"})
	}
	if used[classJoined] {
		keys = append(keys, key{class: classJoined, text: "several transfers in a bar"})
	}
	return keys
}

// limited returns rows as they are drawn: see [band.limit].
func (f *figure) limited(rows []row, most int, grain float64) []row {
	out := slices.Clone(rows)
	for i := range out {
		bands := make([]*band, len(out[i].bands))
		for k, b := range out[i].bands {
			bands[k] = b.limit(most, grain, f.class)
		}
		out[i].bands = bands
	}
	return out
}
