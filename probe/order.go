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
	notBefore time.Time // refused, failed or measured just now: leave it alone until then
	measured  time.Time // of the bandwidth self→peer; zero if it was never measured
	spread    float64   // of the estimate, relative
	important float64   // 1 is ordinary; see [Config.Important]
	suspect   bool      // something says that the estimate is wrong
	outdated  bool      // the link has changed since
}

// worth says how much a train to the candidate is worth: stale × uncertain × important, where
// 1 is due. An estimate with a spread of 5 % that is as old as the interval is worth 1,
// one with 30 % or more three times that. What was never measured is worth more than any other, and
// then what was measured before its link changed.
func (c candidate) worth(now time.Time, interval time.Duration) float64 {
	const never = 1e6
	if c.measured.IsZero() {
		return never * c.weight()
	}
	if c.outdated {
		return never / 10 * c.weight()
	}
	stale := max(now.Sub(c.measured).Seconds(), 0) / interval.Seconds()
	uncertain := 0.5
	if c.spread > 0 { // not NaN
		uncertain = min(0.5+c.spread/0.1, 3)
	}
	return min(stale*uncertain, never/1e3) * c.weight()
}

// weight returns how important the candidate is, within bounds: whatever the caller of
// this package says, no pair is forgotten and none takes all turns.
func (c candidate) weight() float64 {
	if !(c.important > 0) { // NaN, too
		return 0.1
	}
	return min(max(c.important, 0.1), 10)
}

// use says what a train to the candidate is charged to, where u is for one that was measured before.
func (c candidate) use(u use) use {
	switch {
	case c.suspect:
		return urgent
	case c.measured.IsZero():
		return first
	}
	return u
}

// choose returns the candidate that a turn is best spent on: suspects before others, then
// by worth. The one whose turn it is by the tournament goes before others of up to twice
// its worth, so that hosts do not crowd at one. Ties are broken by chance. ok is false if
// none is ready.
func choose(cs []candidate, preferred string, now time.Time, interval time.Duration, rng *rand.Rand) (best candidate, ok bool) {
	ready := slices.DeleteFunc(slices.Clone(cs), func(c candidate) bool { return now.Before(c.notBefore) && !c.suspect })
	if len(ready) == 0 {
		return candidate{}, false
	}
	rng.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	worth := func(c candidate) float64 {
		w := c.worth(now, interval)
		if c.Name == preferred {
			w *= 2
		}
		return w
	}
	return slices.MaxFunc(ready, func(a, b candidate) int {
		if a.suspect != b.suspect {
			if a.suspect {
				return 1
			}
			return -1
		}
		return cmp.Compare(worth(a), worth(b))
	}), true
}
