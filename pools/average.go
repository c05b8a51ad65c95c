package pools

import "github.com/gridagent/gridagent/probe/netmap"

// averages groups hosts by the mean bandwidth from each to all others, see [Average].
type averages struct {
	n     int
	width []netmap.BytesPerSec // row-major, n×n, [from*n+to]; 0 on the diagonal
}

func newAverages(s *netmap.Snapshot) *averages {
	a := &averages{n: s.N(), width: make([]netmap.BytesPerSec, s.N()*s.N())}
	for i := range a.n {
		for j := range a.n {
			if i != j {
				a.width[i*a.n+j], _ = s.Bandwidth(i, j)
			}
		}
	}
	return a
}

// split returns the pools of hosts, which are sorted, at the threshold low.
func (a *averages) split(hosts []int, low netmap.BytesPerSec) [][]int {
	var parts [][]int
	for rest := hosts; len(rest) > 0; {
		var stay []int
		stay, rest = a.peel(rest, low)
		parts = append(parts, stay)
	}
	return parts
}

// peel takes hosts away from the pool, lowest average first, until all that stay reach
// low. It returns both groups, sorted. At least one host stays.
func (a *averages) peel(hosts []int, low netmap.BytesPerSec) (stay, left []int) {
	sum := make([]netmap.BytesPerSec, a.n) // by host: bandwidth to those who stay
	for _, h := range hosts {
		for _, o := range hosts {
			sum[h] += a.width[h*a.n+o]
		}
	}
	gone := make([]bool, a.n)
	count := len(hosts) // of those who stay
	for count > 1 {
		lowest := -1
		for _, h := range hosts {
			// Of equals the last: rounding must not decide between equal averages.
			if !gone[h] && (lowest < 0 || sum[h] <= sum[lowest]*(1+slack)) {
				lowest = h
			}
		}
		others := netmap.BytesPerSec(count - 1)
		if sum[lowest] >= low*others*(1-slack) {
			break
		}
		gone[lowest] = true
		count--
		for _, h := range hosts {
			sum[h] -= a.width[h*a.n+lowest]
		}
	}
	for _, h := range hosts {
		if gone[h] {
			left = append(left, h)
		} else {
			stay = append(stay, h)
		}
	}
	return stay, left
}
