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
	all := make([]int, b.n)
	for r := range all {
		all[r] = r
	}
	double(b, all)
	return b.plan, nil
}

// double runs recursive doubling among ranks, which hold different blocks, one or
// several: at its end each holds the blocks of all.
func double(b *builder, ranks []int) {
	n := len(ranks)
	m := 1
	for 2*m <= n {
		m *= 2
	}
	for k := m; k < n; k++ {
		b.step(ranks[k], ranks[k-m], b.holds(ranks[k])...)
	}
	b.endIteration()
	for dist := 1; dist < m; dist *= 2 {
		held := make([][]int, m)
		for k := range m {
			held[k] = b.holds(ranks[k])
		}
		for k := range m {
			b.step(ranks[k], ranks[k^dist], held[k]...)
		}
		b.endIteration()
	}
	for k := m; k < n; k++ {
		b.step(ranks[k-m], ranks[k], b.missing(ranks[k], b.holds(ranks[k-m]))...)
	}
	b.endIteration()
}
