package planner

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// What measured rates say of whether two hosts are on one switch.
const (
	// alone is the part of what the slower port has from which on a reading was of a pair whose way nobody else used.
	alone = 0.85
	// A reading of a pair of one switch is below that once in 30 times or so, and one of others every third time: the logarithms of
	// how much more likely either makes one switch are as 1 to 7.
	forOne, forOthers = 1. / 7, -1
	// leastOnSwitch is how many hosts have to be on each of two switches at least: of fewer, chance could part them.
	leastOnSwitch = 3
	// byChance is how many times as much as readings that are dealt out anew the groups have to explain.
	byChance = 1.35
	// surer is by how much the logarithm of the likelihood has to grow for other groups.
	surer = 2
	// mostGuessed bounds the hosts of which anything is guessed: it takes the cube of their number.
	mostGuessed = 128
)

// GuessSwitches returns the switch tree that measurements suggest for the hosts of s, all of one LAN, in their order and whatever has been declared; nil where they suggest no more
// than one switch.
func GuessSwitches(s *netmap.Snapshot) *plan.Topology {
	hosts := make([]int, s.N())
	for i := range hosts {
		hosts[i] = i
	}
	return guess(s, hosts)
}

// guess returns the switch tree that measurements suggest for hosts of one LAN of which nobody has declared any, or nil
// where they suggest none. Hosts are ranks of s, and stand in the tree in their order.
//
// A pair of hosts is measured while others are, and while exchanges run. On one switch that takes nothing from
// it; where the way leads over a cable between switches, it is found to have a half or a third every now and then. So hosts are
// grouped such that few of the low readings are inside groups (average linkage, then each host goes where it fits best), and
// each group hangs from a switch in the middle, in the order in which a ring should pass them.
//
// It is for orders, and for telling plans that cross such cables often from those that do not. It does not say what the cables
// carry, and may be wrong: no plan that waits for what is not there may be made of it. (A ring in the order of ranks over four
// switches with every fourth host each takes nine times the bound, and 1.1 times in this order; where all are on one switch any order
// is as good.)
//
// None of the papers has it: theirs are given the tree. Average linkage is that of Sokal & Michener (1958), and what is looked for
// is the clustering of Bansal, Blum & Chawla, "Correlation Clustering" (Machine Learning 56, 2004), with unlike weights.
func guess(s *netmap.Snapshot, hosts []int) *plan.Topology {
	if len(hosts) < 2*leastOnSwitch || len(hosts) > mostGuessed {
		return nil
	}
	k := newKinship(s, hosts)
	groups := k.groups()
	if !k.convincing(groups) {
		return nil
	}
	groups = k.revised(groups)
	switches, home := make([]string, 1+len(groups)), make([]int, len(hosts))
	var cables [][2]int
	switches[0] = "core"
	for g, group := range k.tour(groups) {
		switches[1+g] = fmt.Sprintf("group %d", 1+g)
		cables = append(cables, [2]int{0, 1 + g})
		for _, h := range group {
			home[h] = 1 + g
		}
	}
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = s.Host(h).Name
	}
	t, err := plan.NewTopology(switches, cables, names, home, 0)
	if err != nil {
		return nil // names of hosts that no file could have
	}
	return t
}

// A kinship holds for each two hosts how much more likely what they get of each other makes it that they are on one
// switch than that they are not.
type kinship struct {
	n         int
	like      []float64 // n×n, symmetrical, the sum of both directions; 0 where nothing is known
	high, low []int     // n×n, of each direction: 1 where it was measured so
}

func newKinship(s *netmap.Snapshot, hosts []int) *kinship {
	n := len(hosts)
	k := &kinship{n: n, like: make([]float64, n*n), high: make([]int, n*n), low: make([]int, n*n)}
	port := make([]netmap.BytesPerSec, n)
	for i, a := range hosts {
		for _, b := range hosts {
			port[i] = max(port[i], width(s, a, b))
		}
	}
	for i, a := range hosts {
		for j, b := range hosts {
			rate, ok := s.Bandwidth(a, b)
			most := min(port[i], port[j])
			if i == j || !ok || !(most > 0) {
				continue
			}
			if rate < alone*most {
				k.low[i*n+j] = 1
			} else {
				k.high[i*n+j] = 1
			}
		}
	}
	k.weigh(forOne, forOthers)
	return k
}

// weigh gives each reading its weight, of those that are high and of those that are low.
func (k *kinship) weigh(high, low float64) {
	for i := range k.n {
		for j := range k.n {
			ij, ji := i*k.n+j, j*k.n+i
			k.like[ij] = high*float64(k.high[ij]+k.high[ji]) + low*float64(k.low[ij]+k.low[ji])
		}
	}
}

// revised returns groups, or others that explain the readings better once these have shown how often one is low inside groups and between them: the
// logarithms of how much more likely one switch makes a high one, and a low one, are what they weigh. On busy cables three of four are low, and then two low ones among fourteen part no
// host from its switch.
func (k *kinship) revised(groups [][]int) [][]int {
	best, inside, between := k.chance(groups)
	for range 2 {
		if between <= 2*inside {
			break
		}
		k.weigh(math.Log((1-inside)/(1-between)), math.Log(inside/between))
		other := k.groups()
		chance, in, out := k.chance(other)
		if chance <= best+surer {
			break
		}
		groups, best, inside, between = other, chance, in, out
	}
	return groups
}

// chance returns how often readings are low inside groups and between them, and the logarithm of how likely all readings are then.
func (k *kinship) chance(groups [][]int) (log, inside, between float64) {
	group := make([]int, k.n)
	for g, hosts := range groups {
		for _, h := range hosts {
			group[h] = g
		}
	}
	low, high := [2]float64{1, 1}, [2]float64{19, 3} // inside, between: as if so many had been seen before
	for i := range k.n {
		for j := range k.n {
			at := 0
			if group[i] != group[j] {
				at = 1
			}
			low[at] += float64(k.low[i*k.n+j])
			high[at] += float64(k.high[i*k.n+j])
		}
	}
	for at := range low {
		rate := low[at] / (low[at] + high[at])
		log += low[at]*math.Log(rate) + high[at]*math.Log(1-rate)
	}
	return log, low[0] / (low[0] + high[0]), low[1] / (low[1] + high[1])
}

// dealt returns a kinship of the same readings, each of another pair.
func (k *kinship) dealt() *kinship {
	d := &kinship{n: k.n, like: make([]float64, k.n*k.n)}
	var all []float64
	for i := range k.n {
		all = append(all, k.like[i*k.n:i*k.n+i]...)
	}
	rng := rand.New(rand.NewPCG(uint64(k.n), 0)) // the same map gives the same guess
	rng.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	for i := range k.n {
		for j := range i {
			d.like[i*k.n+j], d.like[j*k.n+i] = all[0], all[0]
			all = all[1:]
		}
	}
	return d
}

// between returns the kinship of two groups of hosts in the mean.
func (k *kinship) between(a, b []int) (mean float64) {
	for _, i := range a {
		for _, j := range b {
			mean += k.like[i*k.n+j]
		}
	}
	return mean / float64(len(a)*len(b))
}

// worth returns how much groups explain: the kinship inside them, of each pair once.
func (k *kinship) worth(of [][]int) (sum float64) {
	for _, hosts := range of {
		for at, i := range hosts {
			for _, j := range hosts[:at] {
				sum += k.like[i*k.n+j]
			}
		}
	}
	return sum
}

// groups parts the hosts such that the groups are worth as much as can be, as far as that is found: no host, nor all of a group,
// would be better elsewhere.
func (k *kinship) groups() [][]int {
	of := make([][]int, k.n)
	for i := range of {
		of[i] = []int{i}
	}
	of = k.settle(k.join(of))
	best := k.worth(of)
	for try, left := 0, len(of); left > 0; try, left = try+1, left-1 {
		other := slices.Clone(of)
		at := try % len(of)
		for _, h := range of[at] { // each on its own, and from there where it fits best
			other = append(other, []int{h})
		}
		other = k.settle(k.join(k.settle(slices.Delete(other, at, at+1))))
		if worth := k.worth(other); worth > best {
			of, best, left = other, worth, len(other)+1
		}
	}
	return of
}

// join joins the two groups of the greatest kinship until there is none that is above 0.
func (k *kinship) join(of [][]int) [][]int {
	n := len(of)
	mean := make([]float64, n*n)
	for a := range n {
		for b := a + 1; b < n; b++ {
			mean[a*n+b] = k.between(of[a], of[b])
		}
	}
	for {
		to, gone, most := -1, -1, 0.
		for a := range n {
			for b := a + 1; b < n; b++ {
				if of[a] != nil && of[b] != nil && mean[a*n+b] > most {
					to, gone, most = a, b, mean[a*n+b]
				}
			}
		}
		if to < 0 {
			return slices.DeleteFunc(of, func(g []int) bool { return g == nil })
		}
		of[to], of[gone] = slices.Concat(of[to], of[gone]), nil
		for a := range n {
			if of[a] != nil && a != to {
				mean[min(a, to)*n+max(a, to)] = k.between(of[a], of[to])
			}
		}
	}
}

// settle moves hosts to the group that they are most like until all are where they fit best.
func (k *kinship) settle(of [][]int) [][]int {
	group := make([]int, k.n)
	for g, hosts := range of {
		for _, h := range hosts {
			group[h] = g
		}
	}
	fit := make([]float64, len(of))
	for moved, sweep := true, 0; moved && sweep < 16; sweep++ {
		moved = false
		for h := range k.n {
			clear(fit)
			for j := range k.n {
				fit[group[j]] += k.like[h*k.n+j]
			}
			for g := range fit {
				if fit[g] > fit[group[h]]+1e-9 {
					group[h], moved = g, true
				}
			}
		}
	}
	settled := make([][]int, len(of))
	for h, g := range group {
		settled[g] = append(settled[g], h)
	}
	settled = slices.DeleteFunc(settled, func(g []int) bool { return g == nil })
	slices.SortFunc(settled, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return settled
}

// convincing reports whether groups are more than what chance makes of readings: two at least are of some hosts, and
// of the same readings, each of another pair, groups would explain far less.
func (k *kinship) convincing(groups [][]int) bool {
	large := 0
	for _, hosts := range groups {
		if len(hosts) >= leastOnSwitch {
			large++
		}
	}
	if large < 2 {
		return false
	}
	d := k.dealt()
	return k.worth(groups) > byChance*d.worth(d.groups())
}

// tour returns groups in the order in which a ring should visit them: that of a walk over the tree of those that are most like each
// other, which passes no cable of a chain of switches more than once each way.
func (k *kinship) tour(groups [][]int) [][]int {
	near, by := make([]float64, len(groups)), make([]int, len(groups))
	below := make([][]int, len(groups)) // in the tree, which is hung from the first
	for g := range groups {
		near[g], by[g] = k.between(groups[0], groups[g]), 0
	}
	joined := make([]bool, len(groups))
	joined[0] = true
	for range len(groups) - 1 {
		next := -1
		for g := range groups {
			if !joined[g] && (next < 0 || near[g] > near[next]) {
				next = g
			}
		}
		joined[next] = true
		below[by[next]] = append(below[by[next]], next)
		for g := range groups {
			if mean := k.between(groups[next], groups[g]); !joined[g] && mean > near[g] {
				near[g], by[g] = mean, next
			}
		}
	}
	var order [][]int
	var walk func(g int)
	walk = func(g int) {
		order = append(order, groups[g])
		for _, next := range below[g] {
			walk(next)
		}
	}
	walk(0)
	return order
}
