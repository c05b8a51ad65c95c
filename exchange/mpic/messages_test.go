package mpic

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A machine runs a schedule as the ranks do, with messages that end in any order.
type machine struct {
	plan     *plan.Plan
	s        *schedule
	transfer []int // by message, -1: a notice, or a transfer that the plan leaves out
	of       []int // by transfer, its message
	needs    []int
	started  []bool
	left     []bool // complete at its source
	arrived  []bool
	holds    map[int]map[plan.Block]bool
}

func newMachine(p *plan.Plan, s *schedule) *machine {
	n := len(s.messages)
	m := &machine{
		plan: p, s: s, transfer: make([]int, n), of: make([]int, len(p.Transfers)), needs: make([]int, n),
		started: make([]bool, n), left: make([]bool, n), arrived: make([]bool, n), holds: make(map[int]map[plan.Block]bool),
	}
	type key struct {
		host  int
		block plan.Block
	}
	index := make(map[key]int)
	for i := range p.Transfers {
		index[key{p.Transfers[i].Dst, p.Transfers[i].Blocks[0]}] = i
	}
	for i := range s.messages {
		m.needs[i], m.transfer[i] = s.messages[i].needs, -1
		if len(s.messages[i].blocks) == 0 {
			continue
		}
		if t, ok := index[key{s.messages[i].to, s.messages[i].blocks[0]}]; ok {
			m.transfer[i], m.of[t] = t, i
		}
	}
	for h := range p.Hosts {
		m.holds[h] = make(map[plan.Block]bool)
	}
	return m
}

// start checks that message i may start.
func (m *machine) start(i int) error {
	m.started[i] = true
	x := &m.s.messages[i]
	for _, b := range x.blocks {
		if b.Origin != x.from && !m.holds[x.from][b] {
			return fmt.Errorf("message %d sends block %v, which %d does not hold yet", i, b, x.from)
		}
	}
	if m.transfer[i] < 0 {
		return nil
	}
	t := &m.plan.Transfers[m.transfer[i]]
	for _, a := range t.After {
		before := &m.plan.Transfers[a]
		data := false
		for _, b := range before.Blocks {
			for _, c := range t.Blocks {
				data = data || b == c && before.Dst == t.Src
			}
		}
		_, left := t.Teller(before)
		if done := m.of[a]; !m.arrived[done] && (data || !left || !m.left[done]) {
			return fmt.Errorf("transfer %d starts before transfer %d (sync %q)", t.ID, a, t.Sync)
		}
	}
	return nil
}

// release lets start at host what message i releases there.
func (m *machine) release(i, host int) {
	for _, r := range m.s.messages[i].releases {
		if m.s.messages[r].from == host {
			m.needs[r]--
		}
	}
}

// run carries the schedule out, or says why it cannot.
func (m *machine) run(rng *rand.Rand) error {
	for round := range len(m.s.rounds) - 1 {
		from, to := m.s.rounds[round], m.s.rounds[round+1]
		if from == to && to > 0 {
			return fmt.Errorf("round %d is empty", round)
		}
		for open := 3 * (to - from); open > 0; open-- {
			var events []func() error
			for i := from; i < to; i++ {
				x := &m.s.messages[i]
				switch {
				case !m.started[i] && m.needs[i] == 0:
					events = append(events, func() error { return m.start(i) })
				case m.started[i] && !m.left[i]:
					events = append(events, func() error { m.left[i] = true; m.release(i, x.from); return nil })
				}
				if m.started[i] && !m.arrived[i] {
					events = append(events, func() error {
						m.arrived[i] = true
						for _, b := range x.blocks {
							m.holds[x.to][b] = true
						}
						m.release(i, x.to)
						return nil
					})
				}
			}
			if len(events) == 0 {
				return fmt.Errorf("round %d stalls", round)
			}
			if err := events[rng.IntN(len(events))](); err != nil {
				return err
			}
		}
	}
	for i := range m.started {
		if !m.left[i] || !m.arrived[i] || m.needs[i] != 0 {
			return fmt.Errorf("message %d is not complete", i)
		}
	}
	return nil
}

// complete checks that every host has what it wants, of whatever size.
func (m *machine) complete() error {
	for h := range m.plan.Hosts {
		for o := range m.plan.Hosts {
			b := plan.Block{Origin: o, Dest: plan.All}
			if m.plan.Collective == plan.Alltoall {
				b.Dest = h
			}
			if o != h && !m.holds[h][b] {
				return fmt.Errorf("block %v is not at %d", b, h)
			}
		}
	}
	return nil
}

func checkSchedule(rng *rand.Rand, p *plan.Plan) error {
	s, err := newSchedule(p)
	if err != nil {
		return err
	}
	type channel struct{ from, to, tag int }
	seen := make(map[channel]bool)
	for i := range s.messages {
		x := &s.messages[i]
		c := channel{x.from, x.to, x.tag}
		if seen[c] || x.tag < 0 || x.tag > maxTag || x.from == x.to {
			return fmt.Errorf("message %d from %d to %d has tag %d", i, x.from, x.to, x.tag)
		}
		seen[c] = true
		for _, r := range x.releases {
			if next := s.messages[r].from; r <= i || next != x.from && next != x.to {
				return fmt.Errorf("message %d releases message %d, which starts at %d", i, r, next)
			}
		}
	}
	m := newMachine(p, s)
	if err := m.run(rng); err != nil {
		return err
	}
	return m.complete()
}

// TestScheduleRuns: whatever ends first, no rank waits for ever, sends what it does not
// have, or goes ahead of an entry of After.
func TestScheduleRuns(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := randomPlan(rng, 1+rng.IntN(7), []plan.Collective{plan.Allgather, plan.Alltoall}[seed%2])
		if err := plan.Verify(p, plan.Rules{}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := checkSchedule(rng, p); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for _, tt := range samples(t) {
		if err := checkSchedule(rand.New(rand.NewPCG(0, 0)), tt.plan); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestNotices: who tells whom, for one transfer after one other.
func TestNotices(t *testing.T) {
	block := func(o, d int) []plan.Block { return []plan.Block{{Origin: o, Dest: d}} }
	for _, tt := range []struct {
		sync           string
		src            int // of the later transfer; the earlier one is 0→1
		from, to       int // of the notice; 0 and 0: there is none
		notices, round int
	}{
		{plan.SyncSender, 0, 0, 0, 0, 1},
		{plan.SyncSender, 1, 0, 0, 0, 1},
		{plan.SyncSender, 2, 0, 2, 1, 1},
		{plan.SyncReceiver, 0, 1, 0, 1, 1},
		{plan.SyncReceiver, 1, 0, 0, 0, 1},
		{plan.SyncReceiver, 2, 1, 2, 1, 1},
		{plan.SyncDummy, 0, 0, 0, 0, 1},
		{plan.SyncDummy, 2, 0, 2, 1, 1},
		{"", 2, 1, 2, 1, 1},
		{plan.SyncBarrier, 2, 0, 0, 0, 2},
	} {
		p, err := plan.NewAlltoall("two", hosts(4), plan.AlltoallSizes{})
		if err != nil {
			t.Fatal(err)
		}
		p.Transfers = []plan.Transfer{
			{ID: 0, Src: 0, Dst: 1, Blocks: block(0, 1), Phase: -1},
			{ID: 1, Src: tt.src, Dst: 3, Blocks: block(tt.src, 3), Phase: -1, After: []int{0}, Sync: tt.sync},
		}
		s, err := newSchedule(p)
		if err != nil {
			t.Fatal(err)
		}
		if s.notices != tt.notices || len(s.rounds)-1 != tt.round {
			t.Errorf("%q from %d: %d notices, %d rounds, want %d and %d", tt.sync, tt.src, s.notices, len(s.rounds)-1, tt.notices, tt.round)
		}
		if m := s.messages[1]; tt.notices == 1 && (m.from != tt.from || m.to != tt.to || len(m.blocks) > 0) {
			t.Errorf("%q from %d: message from %d to %d, want a notice from %d to %d", tt.sync, tt.src, m.from, m.to, tt.from, tt.to)
		}
		if s.added != 10 {
			t.Errorf("%q: %d blocks of no bytes are sent, the plan leaves out 10", tt.sync, s.added)
		}
	}
}

// TestDataBehindNews: that data have left is news too weak to forward them on. Transfer 2
// forwards what 0 brings, and knows of 0 only by 1, which knows that 0 has left.
func TestDataBehindNews(t *testing.T) {
	p, err := plan.NewAlltoall("relay", hosts(4), plan.AlltoallSizes{})
	if err != nil {
		t.Fatal(err)
	}
	p.Transfers = []plan.Transfer{
		{ID: 0, Src: 0, Dst: 1, Blocks: []plan.Block{{Origin: 0, Dest: 3}}, Phase: -1},
		{ID: 1, Src: 2, Dst: 3, Blocks: []plan.Block{{Origin: 2, Dest: 3}}, Phase: -1, After: []int{0}, Sync: plan.SyncSender},
		{ID: 2, Src: 1, Dst: 3, Blocks: []plan.Block{{Origin: 0, Dest: 3}}, Phase: -1, After: []int{1}, Sync: plan.SyncSender},
	}
	if err := plan.Verify(p, plan.Rules{}); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(2000) { // it takes seven events in a row to show
		if err := checkSchedule(rand.New(rand.NewPCG(seed, 0)), p); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
