package group

import (
	"bytes"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// What a member does with plans that are offered, and what a host knows of those (see offers.go).

// tell has the coordinator told of a small operation that is over, if it is at this host.
func (m *member) tell(seq uint64, e *eager) {
	if !m.tree.offersFor(e.terms.Collective) || m.roster[0] != m.g.cfg.Self {
		return
	}
	now := time.Now()
	s := &smallOver{seq: seq, collective: e.terms.Collective, took: now.Sub(e.begun), at: now}
	if s.collective == plan.Allgather {
		s.sizes = make([]int64, len(m.roster))
	}
	for r, it := range e.items {
		s.straight = s.straight || it.straight
		if s.sizes != nil {
			s.sizes[r] = int64(len(it.data))
		}
	}
	m.g.mu.Lock()
	c := m.g.coords[m.id]
	m.g.mu.Unlock()
	if c != nil {
		c.post(coordEvent{small: s})
	}
}

// offer keeps a plan that the coordinator offers.
func (m *member) offer(msg message) {
	calls, ok := m.offeredFor(&msg)
	if m.g.cfg.Restamp == nil || msg.Standing == 0 || msg.Info == nil || !ok {
		return
	}
	kind := kindOf(m.names, m.own, func(r int) *message { return calls[r] })
	start := message{
		Kind: kindStart, Collective: msg.Collective, Sizes: msg.Sizes, Info: msg.Info, Part: msg.Part, Rows: msg.Rows, Given: msg.Given,
		Standing: msg.Standing, Shown: msg.Shown,
	}
	k := kept{kind: kind, names: m.names, number: msg.Standing, from: m.roster[0], start: start, borne: time.Now(), took: msg.Info.Predicted}
	if k.bytes() > maxKeptPart {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offers = slices.DeleteFunc(m.offers, func(o offer) bool { return o.kept.kind == kind })
	if len(m.offers) < maxKept {
		m.offers = append(m.offers, offer{msg.Seq, k})
	}
}

// offeredFor returns the calls of this host's ranks for which an offer is, by rank.
func (m *member) offeredFor(msg *message) (map[int]*message, bool) {
	calls := make(map[int]*message)
	switch n := len(m.roster); {
	case msg.Collective == plan.Allgather && len(msg.Sizes) == n:
		for _, r := range m.own {
			calls[r] = &message{Collective: msg.Collective, Size: msg.Sizes[r]}
		}
	case msg.Collective == plan.Alltoall && len(msg.Given) == len(m.own):
		for i, r := range m.own {
			total, err := checkRow(msg.Given[i], n)
			if err != nil {
				return nil, false
			}
			calls[r] = &message{Collective: msg.Collective, Size: total, Rows: msg.Given[i]}
		}
	default:
		return nil, false
	}
	return calls, true
}

// recalled forgets a plan that the coordinator takes back.
func (m *member) recalled(number uint64) {
	m.g.shelf.recall(m.roster[0], number)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offers = slices.DeleteFunc(m.offers, func(o offer) bool { return o.kept.number == number })
}

// offered reports whether the rank's next call, which is small, goes by a plan that stands.
func (r *Rank) offered(ready *message) bool {
	m := r.m
	if !m.tree.offersFor(ready.Collective) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offers = slices.DeleteFunc(m.offers, func(o offer) bool {
		if r.next < o.from {
			return false
		}
		m.g.shelf.put(o.kept)
		return true
	})
	place := slices.Index(m.own, r.rank)
	return m.g.shelf.serves(time.Now(), func(k *kept) bool {
		return k.names == m.names && k.from == m.roster[0] && k.isFor(r.rank, place, ready)
	})
}

// isFor reports whether k is for the call that a rank makes, which is its host's rank number place.
func (k *kept) isFor(rank, place int, ready *message) bool {
	switch start := &k.start; {
	case start.Collective != ready.Collective:
		return false
	case start.Collective == plan.Alltoall:
		return place < len(start.Given) && bytes.Equal(start.Given[place], ready.Rows)
	default:
		return rank < len(start.Sizes) && start.Sizes[rank] == ready.Size
	}
}

// hurries has probes stand back for an operation that begins or ends by a plan, if it is small.
func (m *member) hurries(start *message) {
	if m.tree.offersFor(start.Collective) && m.isSmall(start) {
		m.g.hurry.note(time.Now())
	}
}

// isSmall reports whether an allgather or alltoall by a kept plan would be small without.
func (m *member) isSmall(start *message) bool {
	if start.Collective == plan.Alltoall {
		for i, row := range start.Given {
			if size, err := checkRow(row, len(m.roster)); err != nil || !m.eligible(&message{Collective: plan.Alltoall, Rank: m.own[i], Size: size, Rows: row}) {
				return false
			}
		}
		return len(start.Given) > 0
	}
	total := int64(0)
	for _, n := range start.Sizes {
		total += n
	}
	return total <= m.tree.Limit
}

// serves reports whether a plan is kept that is the one wanted. Ranks of one host ask for themselves: if they give what is of two plans, theirs is planned.
func (s *shelf) serves(now time.Time, wanted func(k *kept) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.kept, func(k kept) bool { return now.Sub(k.borne) <= standingTime && wanted(&k) })
}

// wantsOffer notes that a call was small, and reports whether a plan of its kind is to be made, to be offered. Each one that nobody has begun by
// doubles how often the next call must have been the same.
func (s *shelf) wantsOffer(of, kind callKind, now time.Time) bool {
	keep, _ := s.planned(of, kind, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.moodOf(of)
	h := m.habitOf(kind)
	if !keep || !h.right && h.planned < 1<<m.unused || now.Before(h.rest) {
		return false
	}
	m.unused = min(m.unused+1, maxMistrust)
	return true
}

// atLeast notes what a small call takes at least, in which its coordinator is not the last to have all.
func (s *shelf) atLeast(of, kind callKind, without time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moodOf(of).habitOf(kind).least = without
}

// took notes how long a call took that was small, at its coordinator's host.
func (s *shelf) took(of, kind callKind, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moodOf(of).habitOf(kind).small.add(took)
}

// pass has no plan offered for calls of a kind until then.
func (s *shelf) pass(of, kind callKind, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moodOf(of).habitOf(kind).rest = until
}

// tried notes that an operation of a kind took so long by a plan, and reports whether that is worse than without.
func (s *shelf) tried(of, kind callKind, took time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.moodOf(of).habitOf(kind)
	if h.small.n == 0 {
		return false
	}
	h.large.add(took)
	if h.large.n < offerTries || h.large.mean <= slowerWorth*max(h.small.mean, float64(h.least)) {
		return false
	}
	h.rest, h.large = now.Add(standingTime), times{}
	return true
}

// times are how long operations took, the latest of which count most.
type times struct {
	n    int     // up to timesKept
	mean float64 // nanoseconds
}

// timesKept is how many of them count.
const timesKept = 8

func (t *times) add(took time.Duration) {
	t.n = min(t.n+1, timesKept)
	t.mean += (float64(took) - t.mean) / float64(t.n)
}
