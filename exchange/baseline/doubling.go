package baseline

import "github.com/gridagent/gridagent/exchange/plan"

// RecursiveDoubling returns the recursive-doubling allgather: with N a power of two, log₂ N
// iterations in which ranks at distance 1, 2, 4 … exchange all they hold (Gupta & Vadhiyar §2).
//
// For other N the paper says only that some transfers repeat. This is the usual way
// that repeats none: with M the largest power of two below N, rank M+k first gives
// its block to rank k, ranks 0 … M−1 double, and rank k at last gives rank M+k the rest.
// It costs two iterations more; libraries that let the incomplete halves repeat cost up to log₂ N.
func RecursiveDoubling(hosts []string, sizes []int64) (*plan.Plan, error) {
	b, err := newBuilder("recursive-doubling", hosts, sizes)
	if err != nil {
		return nil, err
	}
	n := b.n
	m := 1
	for 2*m <= n {
		m *= 2
	}
	for r := m; r < n; r++ {
		b.step(r, r-m, r)
	}
	b.endIteration()
	for dist := 1; dist < m; dist *= 2 {
		held := make([][]int, m)
		for p := range m {
			held[p] = b.holds(p)
		}
		for p := range m {
			b.step(p, p^dist, held[p]...)
		}
		b.endIteration()
	}
	for r := m; r < n; r++ {
		b.step(r-m, r, b.missing(r, b.holds(r-m))...)
	}
	return b.plan, nil
}
