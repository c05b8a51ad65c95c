package probe

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// A candidate is a peer as the choice of the next probe sees it.
type candidate struct {
	Peer
	notBefore time.Time // refused, failed or measured: leave it alone until then
	measured  time.Time // of the bandwidth self→peer; zero if it was never measured
	siblings  int       // measured pairs between the same two sites
}

// use says which budget a train to the candidate draws on.
func (c candidate) use() use {
	if c.measured.IsZero() {
		return first
	}
	return again
}

// rank returns the candidates that are due, the most valuable first:
//
//  1. never measured before measured;
//  2. among the first, those of the site pair of which fewest pairs are measured, so
//     that after a few probes something is known between every two sites and the map
//     can predict the rest;
//  3. among the second, the oldest.
//
// Ties are broken by chance, or all hosts of a site would choose the same peer.
// With nobody due, wait is how long until the first is, at most most.
func rank(cs []candidate, now time.Time, most time.Duration, rng *rand.Rand) (due []candidate, wait time.Duration) {
	wait = most
	for _, c := range cs {
		if d := c.notBefore.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		due = append(due, c)
	}
	rng.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	slices.SortStableFunc(due, func(a, b candidate) int {
		an, bn := a.measured.IsZero(), b.measured.IsZero()
		switch {
		case an && bn:
			return cmp.Compare(a.siblings, b.siblings)
		case an != bn:
			if an {
				return -1
			}
			return 1
		}
		return a.measured.Compare(b.measured)
	})
	return due, wait
}
