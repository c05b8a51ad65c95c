package logp

import "time"

// isotonic returns the values that never fall and have the least sum of squared
// differences from v: wherever neighbours are in the wrong order, their mean stands for
// them (pool adjacent violators). Each result is rounded down to a nanosecond. The sums
// fit: v holds at most [MaxPoints] times of at most [MaxTime].
func isotonic(v []time.Duration) []time.Duration {
	type block struct{ sum, n int64 }
	var blocks []block
	for _, d := range v {
		b := block{int64(d), 1}
		// Means are compared as fractions, so that rounding decides nothing.
		for len(blocks) > 0 {
			last := blocks[len(blocks)-1]
			if last.sum*b.n <= b.sum*last.n {
				break
			}
			b = block{last.sum + b.sum, last.n + b.n}
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, b)
	}
	out := make([]time.Duration, 0, len(v))
	for _, b := range blocks {
		for range b.n {
			out = append(out, time.Duration(b.sum/b.n))
		}
	}
	return out
}
