package ring

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A table is A.optimal of §4.2.2: the least maximum path length of an array whose first host
// stands at height i and whose last at height j, [i*size+j].
type table []int

const never = math.MaxInt32

// algorithm3 is Algorithm 3 (§4.2.2) to the letter, for the length of the ring: tables over all
// pairs of heights, and for every switch all sequences of its subtrees that differ.
func algorithm3(t *plan.Topology) int {
	if len(t.Hosts()) == 1 {
		return 0
	}
	k := newTree(t).trim()
	r := k.hang(slices.Index(k.gone, false))
	size := len(t.Switches()) + 1
	host := slices.Repeat(table{never}, size*size)
	host[0] = 0
	tables := make([]table, len(k.hosts))
	for _, s := range slices.Backward(r.preorder) {
		var below []table
		for _, child := range r.children[s] {
			below = append(below, tables[child])
		}
		a := slices.Repeat(table{never}, size*size)
		sequences(below, len(k.hosts[s]), host, size, nil, func(seq table) {
			for i := range size - 1 {
				for j := range size - 1 {
					a[(i+1)*size+j+1] = min(a[(i+1)*size+j+1], seq[i*size+j])
				}
			}
		})
		tables[s] = a
	}
	best := never
	for i := range size {
		for j := range size {
			best = min(best, max(tables[r.preorder[0]][i*size+j], i+j-1))
		}
	}
	return best
}

// sequences calls each for every sequence of the tables below and a number of hosts, which are all alike.
func sequences(below []table, hosts int, host table, size int, seq table, each func(table)) {
	if len(below) == 0 && hosts == 0 {
		each(seq)
		return
	}
	if hosts > 0 {
		sequences(below, hosts-1, host, size, concatenate(seq, host, size), each)
	}
	for i, b := range below {
		rest := append(slices.Clone(below[:i]), below[i+1:]...)
		sequences(rest, hosts, host, size, concatenate(seq, b, size), each)
	}
}

func concatenate(x, y table, size int) table {
	if x == nil {
		return y
	}
	z := slices.Repeat(table{never}, size*size)
	for i := range size {
		for k := range size {
			if x[i*size+k] == never {
				continue
			}
			for l := range size {
				for j := range size {
					z[i*size+j] = min(z[i*size+j], max(x[i*size+k], y[l*size+j], k+l+1))
				}
			}
		}
	}
	return z
}

// TestAlgorithm3 compares with the paper's own procedure, on trees too large for brute force.
func TestAlgorithm3(t *testing.T) {
	compared := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		topo := randomTree(rng, 14, 16)
		most := 0
		k := newTree(topo)
		for s := range k.hosts {
			most = max(most, len(k.hosts[s])+2*k.degree[s])
		}
		if most > 12 {
			continue // 12!/6! sequences and more
		}
		compared++
		want := algorithm3(topo)
		order, path := LR3(topo)
		check(t, topo, order, path)
		if path != want {
			t.Fatalf("seed %d: lr3 has path length %d, Algorithm 3 says %d, on %s", seed, path, want, describe(topo))
		}
	}
	if compared < 500 {
		t.Errorf("%d trees compared: most were too large", compared)
	}
}
