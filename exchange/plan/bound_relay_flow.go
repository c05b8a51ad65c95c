package plan

import (
	"math"
	"slices"
)

// A relaying is the linear program of the relayed bound over P pools: the least T in which
// flows along paths bring every pool's bytes to every other,
//
//	Σ bytes of the paths of a demand = the demand
//	Σ bytes over a link + answers to those over the link back ≤ T · its capacity
//	Σ bytes through a pool ≤ T · the ports of its hosts − what its hosts send (receive) themselves
//
// Paths are columns, made by shortest paths under the duals of links and ports (Ford &
// Fulkerson, Management Science 5, 1958; the program is the maximum concurrent flow of Shahrokhi &
// Matula, Journal of the ACM 37, 1990, seen from its time). Duals are lengths, and any
// lengths prove a bound: that is what certify keeps, whatever the arithmetic did before.
type relaying struct {
	pools    int
	answers  []float64 // P×P: bytes that go back for each byte over a link; 0 for what bounds every schedule
	between  []float64 // P×P: bytes from pool to pool
	capacity []float64 // P×P: 0 = no link
	// Ports of all hosts of a pool together, and the bytes that they carry in any case.
	out, in         []float64
	ownOut, ownIn   []float64
	bytes           float64 // the unit of bytes inside the program
	seconds         float64 // the unit of time
	demands         []int   // [from*P+to] of each demand row
	rowOf           []int   // [from*P+to]: demand row, or -1
	linkRow         []int   // [from*P+to]: row of the link, or -1
	outRow, inRow   []int   // per pool: row of its ports, or -1
	rows            int
	paths           [][]int // by number of the variable; nil: T, or what is left over of a row
	s               *simplex
	duals           []float64 // P×P: of links, in the latest pricing
	lengthOf        []float64 // P×P: the lengths by them: of a byte over the link, and of the answers to it
	through         []float64 // per pool: the length of a way through it
	dist            []float64 // P×P
	before          []int     // P×P: [from*P+to]: the pool before to on the shortest path
	bestLower       float64   // the best certificate so far, in seconds
	binding         []float64 // its lengths
	weighed, rating float64   // its bytes, and its rate in bytes/s
}

// extraHop is what a relay costs in the program, for each byte of all: a relay that gains
// nothing is not used. It moves the optimum by less than what is told of it.
const extraHop = 1e-6

// maxRelayRows bounds the program: 200 rows are 10 pools and take some ms, 512 are 16 pools.
const maxRelayRows = 600

// maxRelayWork bounds the pivots: rows² times their number. What has been reached by then is a
// routing and a bound, but not the best of either.
const maxRelayWork = 400e6

// solve returns the routing and leaves the proven bound in bestLower, at least least seconds. It
// returns false where some pool's bytes have no way.
func (r *relaying) solve(least float64) (routing *Routing, ok bool) {
	initial, ok := r.initial()
	if !ok {
		return nil, false
	}
	r.bestLower = least
	if !r.begin(initial) {
		return r.routing(initial), true
	}
	d := make([]float64, r.rows)
	improve := int(maxRelayWork / float64(r.rows*r.rows))
	for ; improve > 0; improve-- {
		v := r.price()
		if v < 0 || r.time() <= r.bestLower*(1+1e-6) {
			break
		}
		r.s.direction(&r.s.columns[v], d)
		row := r.s.leaving(d)
		if row < 0 {
			break // rounding: an objective that is a time has a least value
		}
		r.s.pivot(v, row, d)
	}
	return r.routing(r.basicPaths()), true
}

// back returns the link back.
func (r *relaying) back(link int) int { return link%r.pools*r.pools + link/r.pools }

// time returns T of the basis, in seconds.
func (r *relaying) time() float64 {
	for i, v := range r.s.basis {
		if v == 0 {
			return r.s.x[i] * r.seconds
		}
	}
	return math.Inf(1)
}

// initial returns for every demand its path of fewest links.
func (r *relaying) initial() (map[int][]Path, bool) {
	p := r.pools
	r.rowOf = slices.Repeat([]int{-1}, p*p)
	r.lengthOf, r.duals, r.through = make([]float64, p*p), make([]float64, p*p), make([]float64, p)
	r.dist, r.before = make([]float64, p*p), make([]int, p*p)
	r.shortest()
	paths := make(map[int][]Path)
	for pair, bytes := range r.between {
		if bytes == 0 || pair/p == pair%p {
			continue
		}
		if math.IsInf(r.dist[pair], 1) {
			return nil, false
		}
		r.rowOf[pair] = len(r.demands)
		r.demands = append(r.demands, pair)
		r.bytes += bytes
		paths[pair] = []Path{{Pools: r.path(pair/p, pair%p), Bytes: bytes}}
	}
	return paths, true
}

// begin sets up the program with the initial paths as its basis, or returns false where it is too large.
func (r *relaying) begin(initial map[int][]Path) bool {
	p := r.pools
	r.rows = len(r.demands)
	r.linkRow = slices.Repeat([]int{-1}, p*p)
	r.outRow, r.inRow = slices.Repeat([]int{-1}, p), slices.Repeat([]int{-1}, p)
	for pair, c := range r.capacity {
		if c > 0 && pair/p != pair%p {
			r.linkRow[pair] = r.rows
			r.rows++
		}
	}
	for k := range p {
		r.outRow[k], r.inRow[k] = r.rows, r.rows+1
		r.rows += 2
	}
	if r.rows > maxRelayRows {
		return false
	}
	r.seconds = r.routing(initial).Seconds
	rate := r.seconds / r.bytes // of a capacity in units
	b := make([]float64, r.rows)
	for i, pair := range r.demands {
		b[i] = r.between[pair] / r.bytes
	}
	t := column{cost: 1}
	limit := func(row int, capacity, own float64) {
		// Rows that are full alike would let the method turn in circles: each is a bit wider
		// than it is, by a bit of its own. The certificate does not look at b.
		b[row] = 1e-10*(1+math.Mod(float64(row)*math.Phi, 1)) - own/r.bytes
		t.rows, t.values = append(t.rows, row), append(t.values, -capacity*rate)
	}
	for pair, row := range r.linkRow {
		if row >= 0 {
			limit(row, r.capacity[pair], 0)
		}
	}
	for k := range p {
		limit(r.outRow[k], r.out[k], r.ownOut[k])
		limit(r.inRow[k], r.in[k], r.ownIn[k])
	}
	r.s = newSimplex(b)
	r.s.add(t)
	r.paths = [][]int{nil}
	for row := len(r.demands); row < r.rows; row++ {
		r.s.basis[row] = r.s.add(column{rows: []int{row}, values: []float64{1}})
		r.paths = append(r.paths, nil)
	}
	d := make([]float64, r.rows)
	for i, pair := range r.demands {
		v := r.addPath(initial[pair][0].Pools)
		r.s.pivot(v, i, r.s.direction(&r.s.columns[v], d))
	}
	r.s.direction(&r.s.columns[0], d)
	full, most := -1, 0.0
	for row := len(r.demands); row < r.rows; row++ {
		if d[row] < 0 && r.s.x[row]/d[row] > most {
			full, most = row, r.s.x[row]/d[row]
		}
	}
	if full < 0 {
		return false // all bytes are lost in rounding
	}
	r.s.pivot(0, full, d)
	return true
}

// addPath makes a variable of the bytes along a path.
func (r *relaying) addPath(path []int) int {
	p := r.pools
	c := column{cost: extraHop * float64(len(path)-2)}
	use := func(row int, share float64) { c.rows, c.values = append(c.rows, row), append(c.values, share) }
	use(r.rowOf[path[0]*p+path[len(path)-1]], 1)
	for k := 1; k < len(path); k++ {
		link := path[k-1]*p + path[k]
		use(r.linkRow[link], 1)
		if back := r.linkRow[r.back(link)]; back >= 0 && r.answers[link] > 0 {
			use(back, r.answers[link])
		}
	}
	for _, relay := range path[1 : len(path)-1] {
		use(r.outRow[relay], 1)
		use(r.inRow[relay], 1)
	}
	r.paths = append(r.paths, path)
	return r.s.add(c)
}

// price returns the variable that gains most, which it makes if it is a path, or -1.
func (r *relaying) price() int {
	const tolerance = 1e-9
	p := r.pools
	best, gain := -1, -tolerance
	for v := 1; v <= r.rows-len(r.demands); v++ { // what is left over of each row
		if g := r.s.reduced(&r.s.columns[v]); g < gain {
			best, gain = v, g
		}
	}
	for pair, row := range r.linkRow {
		r.duals[pair] = 0
		if row >= 0 {
			r.duals[pair] = max(0, -r.s.duals[row])
		}
	}
	for pair := range r.lengthOf {
		r.lengthOf[pair] = r.duals[pair] + r.answers[pair]*r.duals[r.back(pair)]
	}
	for k := range p {
		r.through[k] = max(0, -r.s.duals[r.outRow[k]]) + max(0, -r.s.duals[r.inRow[k]])
	}
	r.certify()
	path := -1
	for i, pair := range r.demands {
		g := r.dist[pair] + extraHop*float64(r.links(pair)-1) - r.s.duals[i]
		if g < gain {
			path, gain = pair, g
		}
	}
	if path >= 0 {
		return r.addPath(r.path(path/p, path%p))
	}
	return best
}

// certify proves a bound by the present lengths: whatever way the bytes take, their lengths add
// up to no less than those of shortest paths, and to no more than what links and ports have room for.
func (r *relaying) certify() {
	r.shortest()
	var bytes, rate float64
	for _, pair := range r.demands {
		bytes += r.between[pair] * r.dist[pair]
	}
	for pair, c := range r.capacity {
		rate += c * r.duals[pair]
	}
	for k := range r.pools {
		u, w := max(0, -r.s.duals[r.outRow[k]]), max(0, -r.s.duals[r.inRow[k]])
		bytes += r.ownOut[k]*u + r.ownIn[k]*w
		rate += r.out[k]*u + r.in[k]*w
	}
	if rate > 0 && bytes/rate > r.bestLower {
		r.bestLower = bytes / rate
		r.binding = slices.Clone(r.duals)
		r.weighed, r.rating = bytes, rate
	}
}
