package group

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Standing plans. An operation that was planned and has ended well is often asked for again, by the same ranks and with the same
// sizes. So each host keeps its part, and a number that names the whole plan. When all of its ranks have made the same call
// again, it begins at once and tells the coordinator with which plan (ahead.go). If all have begun with one plan, and what all ranks
// ask for is what that was made for, the coordinator only says so; else it plans as ever, and who had begun begins anew.
//
// The number is a digest of all parts and of what they were made for, so no two plans have the same, and whoever says it means
// this plan.

const (
	// maxKept bounds the plans that a host keeps, and those whose numbers it knows as a coordinator.
	maxKept = 32
	// maxKeptPart bounds what is kept of one plan, and maxKeptBytes of all, in bytes.
	maxKeptPart  = 1 << 20
	maxKeptBytes = 16 << 20
	// standingTime is how long a plan is good for after it was last borne out. Its coordinator takes it back as soon as
	// it would plan anew; this is for hosts that are not told, and it is what a pause in a workflow may take.
	standingTime = 15 * time.Minute
	// maxMistrust bounds the power of two of how often an operation must be the same before it is kept.
	maxMistrust = 6
)

// A callKind names what some ranks ask for: a digest.
type callKind [sha256.Size]byte

// namesOf is a digest of a roster.
func namesOf(roster []string) [sha256.Size]byte {
	h := sha256.New()
	for _, name := range roster {
		h.Write(binary.AppendUvarint(nil, uint64(len(name))))
		h.Write([]byte(name))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// kindOf names what ranks of a roster with the digest names ask for by their ready messages.
func kindOf(names [sha256.Size]byte, ranks []int, call func(rank int) *message) (k callKind) {
	h := sha256.New()
	h.Write(names[:])
	for i, r := range ranks {
		m := call(r)
		var b []byte
		if i == 0 {
			b = binary.AppendUvarint(b, uint64(len(m.Collective)))
			b = append(b, m.Collective...)
			b = binary.AppendUvarint(b, uint64(m.Root))
		}
		b = binary.AppendUvarint(b, uint64(r))
		b = binary.AppendUvarint(b, uint64(m.Size))
		b = binary.AppendUvarint(b, uint64(len(m.Rows)))
		h.Write(append(b, m.Rows...))
	}
	return callKind(h.Sum(nil))
}

// plain reports whether a call leaves everything to the planner, so that what is planned for it may serve again.
func plain(ready *message) bool {
	return (ready.Collective == plan.Allgather || ready.Collective == plan.Alltoall || ready.Collective == Broadcast) &&
		ready.Algorithm == "" && ready.Plan == "" && ready.Options == (Options{})
}

// number names the plan of parts and columns for what all ranks ask for; 0 if it cannot be kept.
func (g *Groups) number(all callKind, parts, columns [][]byte) uint64 {
	h := sha256.New()
	h.Write(all[:])
	for i, part := range parts {
		unstamped, err := g.cfg.Restamp(part, ID{}, 0)
		size := len(part)
		if columns != nil {
			size += len(columns[i])
		}
		if err != nil || size > maxKeptPart {
			return 0
		}
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write(unstamped)
	}
	for _, c := range columns {
		h.Write(c) // their lengths follow from what they say
	}
	return max(1, binary.BigEndian.Uint64(h.Sum(nil)))
}

// A kept plan is a host's share of one, as the coordinator sent it.
type kept struct {
	kind   callKind          // of the host's ranks
	names  [sha256.Size]byte // of the roster: a digest
	number uint64
	from   string  // the coordinator's host
	start  message // without what was of one operation
	borne  time.Time
	took   time.Duration // at this host, when it was last borne out
}

func (k *kept) bytes() int {
	n := len(k.start.Part) + len(k.start.Rows) + 8*len(k.start.Sizes)
	for _, row := range k.start.Given {
		n += len(row)
	}
	return n
}

// A known plan is one that all hosts have kept, as far as its coordinator knows.
type known struct {
	kind   callKind // of all ranks
	number uint64
	info   Planned
}

// A mood is how far calls of one collective by the ranks of a roster are trusted to be as before.
type mood struct {
	of       callKind // of no rank
	habits   []habit  // the latest last
	mistrust int      // how often hosts have begun in vain, less how often they were right to begin by a plan for the first time
	unused   int      // plans made to be offered since hosts were right to begin by any
}

// A habit is what all ranks have asked for before.
type habit struct {
	kind    callKind
	planned int  // how often it was, since hosts began by it in vain
	right   bool // since then hosts were right to

	// Of what is small, see offers.go.
	small, large times         // without a plan, and by one
	least        time.Duration // what it takes without, by a forecast
	rest         time.Time     // no plan is offered before it
}

// A shelf holds the plans that stand, newest last. Few are in use at a time: they are searched one by one.
type shelf struct {
	mu    sync.Mutex // guards the fields below; nothing blocks while it is held
	kept  []kept
	bytes int // of kept
	known []known
	moods []mood
}

// renew moves the element that is wanted to the end of list and returns it.
func renew[T any](list []T, wanted func(*T) bool) *T {
	for i := range list {
		if wanted(&list[i]) {
			v := list[i]
			copy(list[i:], list[i+1:])
			list[len(list)-1] = v
			return &list[len(list)-1]
		}
	}
	return nil
}

// take returns what is kept for a host's calls.
func (s *shelf) take(kind callKind, now time.Time) (kept, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := renew(s.kept, func(k *kept) bool { return k.kind == kind })
	if k == nil || now.Sub(k.borne) > standingTime {
		return kept{}, false
	}
	return *k, true
}

// put keeps k in place of what was kept for the same.
func (s *shelf) put(k kept) {
	if k.bytes() > maxKeptPart {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(func(o *kept) bool { return o.kind == k.kind })
	s.kept = append(s.kept, k)
	s.bytes += k.bytes()
	for len(s.kept) > maxKept || s.bytes > maxKeptBytes {
		oldest := s.kept[0].kind
		s.removeLocked(func(o *kept) bool { return o.kind == oldest })
	}
}

func (s *shelf) removeLocked(which func(*kept) bool) {
	s.kept = slices.DeleteFunc(s.kept, func(k kept) bool {
		gone := which(&k)
		if gone {
			s.bytes -= k.bytes()
		}
		return gone
	})
}

// drop forgets what is kept for a host's calls.
func (s *shelf) drop(kind callKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(func(k *kept) bool { return k.kind == kind })
}

// recall forgets a plan that the coordinator on host from takes back.
func (s *shelf) recall(from string, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(func(k *kept) bool { return k.from == from && k.number == number })
}

// bear notes that a plan was good once more, and how long the operation took.
func (s *shelf) bear(number uint64, took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.kept {
		if s.kept[i].number == number {
			s.kept[i].borne, s.kept[i].took = now, took
		}
	}
}

// lookup returns the plan that stands for what all ranks ask for.
func (s *shelf) lookup(kind callKind) (known, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := renew(s.known, func(k *known) bool { return k.kind == kind })
	if k == nil {
		return known{}, false
	}
	return *k, true
}

// know notes that all hosts have kept a plan.
func (s *shelf) know(k known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = slices.DeleteFunc(s.known, func(o known) bool { return o.kind == k.kind })
	s.known = append(s.known, k)
	s.known = s.known[max(0, len(s.known)-maxKept):]
}

// standing returns the number of the plan that stands for what all ranks ask for, 0 if there is none.
func (s *shelf) standing(kind callKind) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.known {
		if s.known[i].kind == kind {
			return s.known[i].number
		}
	}
	return 0
}

// withdraw forgets a plan as a coordinator.
func (s *shelf) withdraw(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = slices.DeleteFunc(s.known, func(k known) bool { return k.number == number })
}

// moodOf returns the mood of calls, a new one if need be. The caller holds the lock.
func (s *shelf) moodOf(of callKind) *mood {
	if m := renew(s.moods, func(m *mood) bool { return m.of == of }); m != nil {
		return m
	}
	s.moods = append(s.moods, mood{of: of})
	s.moods = s.moods[max(0, len(s.moods)-maxKept):]
	return &s.moods[len(s.moods)-1]
}

// habitOf returns what is known of calls of a kind, a new habit if need be.
func (m *mood) habitOf(kind callKind) *habit {
	if h := renew(m.habits, func(h *habit) bool { return h.kind == kind }); h != nil {
		return h
	}
	m.habits = append(m.habits, habit{kind: kind})
	m.habits = m.habits[max(0, len(m.habits)-maxKept):]
	return &m.habits[len(m.habits)-1]
}

// planned notes that calls were planned, of which some hosts had thought that they were as before, with the plans of such numbers. It reports whether
// the plan is to be kept: each time that hosts begin in vain, calls must have been the same twice as often before, but for those by which hosts were right
// to begin. Which of those plans were for something else it returns as wrong.
func (s *shelf) planned(of, kind callKind, thought []uint64) (keep bool, wrong []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.moodOf(of)
	wrong = slices.Clone(thought)
	for _, k := range s.known {
		switch i := slices.Index(wrong, k.number); {
		case i < 0:
		case k.kind == kind:
			wrong = slices.Delete(wrong, i, i+1)
		default:
			h := m.habitOf(k.kind)
			h.planned, h.right = 0, false
		}
	}
	if len(wrong) > 0 {
		m.mistrust = min(m.mistrust+1, maxMistrust)
	}
	h := m.habitOf(kind)
	h.planned++
	return h.right || h.planned >= 1<<m.mistrust, wrong
}

// right notes that hosts were right to begin.
func (s *shelf) right(of, kind callKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.moodOf(of)
	m.unused = 0
	if h := m.habitOf(kind); !h.right { // what goes on and on says nothing of others
		h.right = true
		m.mistrust = max(m.mistrust-1, 0)
	}
}
