package wan

import (
	"cmp"
	"math"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A stream is a piece of a block and the hosts on its way.
type stream struct {
	block plan.Block
	bytes int64
	hosts []int   // from the origin to the destination
	part  float64 // of what its origin sends along its path, what goes before it
}

// pour deals the blocks between pools to paths and bridges: each source its part of each path, and each bridge
// its part of each link, to within a piece.
func (s *scheduler) pour(routing *plan.Routing, straight bool) []stream {
	groups := s.pathsOf(routing, straight)
	load := make([]float64, len(s.links))
	for _, paths := range groups {
		for _, path := range paths {
			for k := 1; k < len(path.Pools); k++ {
				load[path.Pools[k-1]*len(s.pools)+path.Pools[k]] += path.Bytes
			}
		}
	}
	p := pouring{s: s, bridges: s.bridgesOf(load), pieces: make(map[[2]int]int)}
	for _, paths := range groups {
		for _, path := range paths {
			for k := 1; k < len(path.Pools); k++ {
				s.shareOut(p.bridges[path.Pools[k-1]*len(s.pools)+path.Pools[k]], &path)
			}
		}
	}
	for _, paths := range groups {
		p.pair(paths)
	}
	return p.out
}

// shareOut gives each bridge of a link its part of what crosses it on path: the same to all, or to a pair of hosts what they have for each other where
// all pairs have one.
func (s *scheduler) shareOut(link []bridge, path *plan.Path) {
	total := 0.
	if len(path.Pools) == 2 && len(link) > 0 && link[0].own {
		for _, g := range link {
			total += float64(s.sizes.Of(g.near, g.far))
		}
	}
	for i := range link {
		part := 1 / float64(len(link))
		if total > 0 {
			part = float64(s.sizes.Of(link[i].near, link[i].far)) / total
		}
		link[i].left += path.Bytes * part
		link[i].share = link[i].left
	}
}

// pathsOf returns the paths of each ordered pair of pools, longest first; only the link of the two where straight.
func (s *scheduler) pathsOf(routing *plan.Routing, straight bool) (groups [][]plan.Path) {
	if routing == nil {
		return nil
	}
	for paths := routing.Paths; len(paths) > 0; {
		from, to := ends(paths[0])
		n := 1
		for ; n < len(paths); n++ {
			if f, t := ends(paths[n]); f != from || t != to {
				break
			}
		}
		of := slices.Clone(paths[:n])
		paths = paths[n:]
		if straight {
			total := 0.0
			for _, p := range of {
				total += p.Bytes
			}
			of = []plan.Path{{Pools: []int{from, to}, Bytes: total}}
		}
		slices.SortStableFunc(of, func(a, b plan.Path) int { return cmp.Compare(len(b.Pools), len(a.Pools)) })
		groups = append(groups, of)
	}
	return groups
}

type pouring struct {
	s       *scheduler
	bridges [][]bridge
	pieces  map[[2]int]int // by origin and dest
	out     []stream
}

// pair deals the blocks of one ordered pair of pools.
func (p *pouring) pair(paths []plan.Path) {
	from, to := ends(paths[0])
	total, blocks := 0.0, 0.0
	sum := make(map[int]float64) // by source
	for _, o := range p.s.pools[from] {
		for _, d := range p.s.pools[to] {
			size := p.s.sizes.Of(o, d)
			sum[o] += float64(size)
			blocks += float64(min(size, 1))
		}
		total += sum[o]
	}
	if total == 0 {
		return
	}
	// Of each source, bytes that each path is still to get.
	left := make(map[int][]float64)
	for o, n := range sum {
		left[o] = make([]float64, len(paths))
		for i, path := range paths {
			left[o][i] = path.Bytes * n / total
		}
	}
	unshared := make([]float64, len(paths)) // bytes that each path is still to get, of all sources
	for i, path := range paths {
		unshared[i] = path.Bytes
	}
	for _, b := range p.s.turns(from, to) {
		size := p.s.sizes.Of(b.Origin, b.Dest)
		rest, small, large := size, leastPiece(size), mostPiece(size)
		for rest > 0 {
			at, quota, least := 0, left[b.Origin], float64(small)/2
			if size <= small { // a source has no part of a path that is less than a block: sources take turns
				quota, least = unshared, float64(size)/2
			}
			for at < len(paths)-1 && quota[at] < least {
				at++
			}
			n := min(rest, large)
			if at < len(paths)-1 {
				n = min(n, max(int64(quota[at]), small))
			}
			if rest-n < small {
				n = rest
			}
			n = p.stream(b, n, rest, small, float64(size) > unlike*total/blocks, paths[at].Pools)
			own := left[b.Origin]
			p.out[len(p.out)-1].part = 1 - own[at]/(paths[at].Bytes*sum[b.Origin]/total)
			own[at] -= float64(n)
			unshared[at] -= float64(n)
			rest -= n
		}
	}
}

// leastPiece is the least piece of a block of size bytes: a sixteenth of it, two packets at least and 8 KiB at most.
func leastPiece(size int64) int64 { return max(2<<10, min(size/16, 8<<10)) }

// mostPiece is the largest piece: of one block that is as large as all others together each bridge gets its first bytes
// soon, and links end together.
func mostPiece(size int64) int64 { return max(256<<10, size/64) }

// Of a block that is unlike times as large as others between the same pools, what its origin gives a mate to send is cut smaller: into fedParts of what the mate's bridge carries, of fedPiece
// at least. All that the mate is to send over one link would else come before the first of what it is to send over another, and a relay behind the bridge would get the first of what it waits for as late.
const (
	unlike   = 2
	fedPiece = 16 << 10
	fedParts = 8
)

// stream sends up to n bytes of the rest of b along pools, and returns how many: less where a bridge
// has got its share, or where b is large and not its origin sends it.
func (p *pouring) stream(b plan.Block, n, rest, small int64, large bool, pools []int) int64 {
	way, most := []int{b.Origin}, math.Inf(1)
	var used []*bridge
	for k := 1; k < len(pools); k++ {
		dest := -1
		if k == len(pools)-1 {
			dest = b.Dest
		}
		g := choose(p.bridges[pools[k-1]*len(p.s.pools)+pools[k]], way[len(way)-1], dest, float64(small)/2)
		if g.near != way[len(way)-1] {
			way = append(way, g.near)
		}
		way = append(way, g.far)
		used = append(used, g)
		if !g.own || g.near != b.Origin || g.far != b.Dest {
			most = min(most, g.left)
		}
	}
	if way[len(way)-1] != b.Dest {
		way = append(way, b.Dest)
	}
	if float64(n) > most {
		n = max(int64(most), small)
	}
	if large && used[0].near != b.Origin {
		n = min(n, max(fedPiece, int64(used[0].share/fedParts)))
	}
	if rest-n < small {
		n = rest
	}
	for _, g := range used {
		g.left -= float64(n)
	}
	b.Piece = p.pieces[[2]int{b.Origin, b.Dest}]
	p.pieces[[2]int{b.Origin, b.Dest}]++
	p.out = append(p.out, stream{block: b, bytes: n, hosts: way})
	return n
}

// choose returns the bridge of a link that bytes at host take: the one that is of the two hosts alone; of its own the one that goes to dest
// or has most left; where these have got their share, the one of all that has most left.
func choose(link []bridge, host, dest int, least float64) *bridge {
	var own, any *bridge
	for i := range link {
		g := &link[i]
		if any == nil || g.left > any.left {
			any = g
		}
		if g.near != host {
			continue
		}
		if g.far == dest && (g.own || g.left >= least) {
			return g
		}
		if own == nil || g.left > own.left {
			own = g
		}
	}
	if own != nil && (own.left >= least || any.left < least) {
		return own
	}
	return any
}
