package gridnet

// findWays sets the trunks between every two sites that have no link of their own: the
// fewest, by a search from each site that takes trunks in the order of the configuration.
func (w *world) findWays(sites int) {
	w.ways = make([][][]*pipe, sites)
	trunks := w.pipes[w.links:]
	for from := range w.ways {
		way := make([][]*pipe, sites)
		w.ways[from] = way
		for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
			at := queue[0]
			for _, p := range trunks {
				to := w.index[p.link.To]
				if w.index[p.link.From] != at || to == from || way[to] != nil {
					continue
				}
				// Cut to its length: ways that fork must not write over each other.
				way[to] = append(way[at][:len(way[at]):len(way[at])], p)
				queue = append(queue, to)
			}
		}
		for to := range way {
			if w.routes[from][to] != nil {
				way[to] = nil
			}
		}
	}
}
