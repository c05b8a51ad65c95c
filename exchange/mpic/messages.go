package mpic

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// maxTag is the largest tag that every MPI library allows (MPI 3.1, §8.1.2).
const maxTag = 32767

// A message is one MPI message of the routine: a transfer, or a notice.
type message struct {
	from, to int
	tag      int          // unique among the messages with the same from and to
	needs    int          // how many messages release it
	phase    int          // of the transfer, -1: none
	blocks   []plan.Block // empty: a notice
	// releases are indices of later messages that wait for this one, ascending. Each
	// of them starts where this one ends or starts, and waits for that side of it.
	releases []int
}

// A schedule is all messages of a routine. Each stands behind those that release it.
type schedule struct {
	messages []message
	rounds   []int // where each round begins in messages, and where the last one ends
	notices  int
	added    int // transfers of blocks that the plan leaves out
}

// newSchedule proves p and makes its messages. A plan that cuts blocks is refused: the routine
// knows whole blocks only, each an element of the caller's buffers.
func newSchedule(p *plan.Plan) (*schedule, error) {
	if len(p.Cuts) > 0 {
		return nil, fmt.Errorf("the plan cuts %d blocks into pieces, which the routine cannot: choose an algorithm that moves whole blocks, such as min3", len(p.Cuts))
	}
	untimed := *p // predicted times may come from any model of the network: only the order counts
	untimed.Transfers = slices.Clone(p.Transfers)
	for i := range untimed.Transfers {
		untimed.Transfers[i].Start, untimed.Transfers[i].End = 0, 0
	}
	if err := plan.Verify(&untimed, plan.Rules{}); err != nil {
		return nil, err
	}
	order, err := untimed.Order()
	if err != nil {
		return nil, err
	}
	b := newBuilder(&untimed, order)
	b.cutRounds()
	b.connect()
	s := b.lay()
	if err := s.number(); err != nil {
		return nil, err
	}
	return s, nil
}

// A cause is a transfer that another one comes after.
type cause struct {
	transfer int
	data     bool // it brings one of the blocks
}

// A notice is news of one transfer from one of its two hosts to a third.
type notice struct {
	from, to int
	releases []int // transfers
}

type builder struct {
	plan    *plan.Plan
	order   []int     // topological, later also by round
	causes  [][]cause // by transfer, ascending
	round   []int     // by transfer
	rounds  int
	added   int
	local   [][]int    // by transfer: transfers that wait for it where it ends or starts
	notices [][]notice // by transfer, of which they tell
}

func newBuilder(p *plan.Plan, order []int) *builder {
	b := &builder{plan: p, order: order}
	type holding struct {
		host  int
		block plan.Block
	}
	brought := make(map[holding]int)
	for i := range p.Transfers {
		t := &p.Transfers[i]
		for _, block := range t.Blocks {
			brought[holding{t.Dst, block}] = i
		}
	}
	b.causes = make([][]cause, len(p.Transfers))
	for i := range p.Transfers {
		t := &p.Transfers[i]
		for _, block := range t.Blocks {
			if a, ok := brought[holding{t.Src, block}]; ok {
				b.causes[i] = append(b.causes[i], cause{a, true})
			}
		}
		for _, a := range t.After {
			b.causes[i] = append(b.causes[i], cause{a, false})
		}
		// Stable: of two that are the same, data stays, which needs no news.
		slices.SortStableFunc(b.causes[i], func(x, y cause) int { return cmp.Compare(x.transfer, y.transfer) })
		b.causes[i] = slices.CompactFunc(b.causes[i], func(x, y cause) bool { return x.transfer == y.transfer })
	}
	for origin := range p.Hosts {
		for host := range p.Hosts {
			block := plan.Block{Origin: origin, Dest: plan.All}
			if p.Collective == plan.Alltoall {
				block.Dest = host
			}
			if _, ok := brought[holding{host, block}]; !ok && host != origin {
				b.addDirect(host, block)
			}
		}
	}
	return b
}

// addDirect sends block, which has no bytes, to host at the end.
func (b *builder) addDirect(host int, block plan.Block) {
	id := len(b.plan.Transfers)
	t := plan.Transfer{ID: id, Src: block.Origin, Dst: host, Blocks: []plan.Block{block}, Phase: -1}
	b.plan.Transfers = append(b.plan.Transfers, t)
	b.order = append(b.order, id)
	b.causes = append(b.causes, nil)
	b.added++
}

// cutRounds gives each transfer its round: after a barrier the one behind what is on the
// other side of it, else the round of the last of its causes.
func (b *builder) cutRounds() {
	b.round = make([]int, len(b.plan.Transfers))
	last := 0
	for _, i := range b.order[:len(b.order)-b.added] {
		for _, c := range b.causes[i] {
			r := b.round[c.transfer]
			if !c.data && b.plan.Transfers[i].Sync == plan.SyncBarrier {
				r++
			}
			b.round[i] = max(b.round[i], r)
		}
		last = max(last, b.round[i])
	}
	for _, i := range b.order[len(b.order)-b.added:] {
		b.round[i] = last
	}
	b.rounds = last + 1
	slices.SortStableFunc(b.order, func(x, y int) int { return cmp.Compare(b.round[x], b.round[y]) })
}

// connect decides for every cause how it becomes known. Causes in earlier rounds are
// behind a barrier.
func (b *builder) connect() {
	b.local = make([][]int, len(b.causes))
	b.notices = make([][]notice, len(b.causes))
	for _, i := range b.order {
		t := &b.plan.Transfers[i]
		for _, c := range b.causes[i] {
			if b.round[c.transfer] < b.round[i] {
				continue
			}
			teller := t.Src
			if !c.data {
				teller, _ = t.Teller(&b.plan.Transfers[c.transfer])
			}
			if teller == t.Src {
				b.local[c.transfer] = append(b.local[c.transfer], i)
				continue
			}
			b.tell(c.transfer, teller, t.Src, i)
		}
	}
}

// tell makes transfer i wait for news of transfer a. One notice serves all transfers of a host.
func (b *builder) tell(a, from, to, i int) {
	at := slices.IndexFunc(b.notices[a], func(n notice) bool { return n.from == from && n.to == to })
	if at < 0 {
		at = len(b.notices[a])
		b.notices[a] = append(b.notices[a], notice{from: from, to: to})
	}
	b.notices[a][at].releases = append(b.notices[a][at].releases, i)
}

// lay makes the list of messages: by round, each transfer with its notices behind it.
func (b *builder) lay() *schedule {
	index := make([]int, len(b.causes))
	n, round := 0, 0
	s := &schedule{added: b.added, rounds: []int{0}}
	for _, i := range b.order {
		if b.round[i] > round {
			round = b.round[i]
			s.rounds = append(s.rounds, n)
		}
		index[i] = n
		n += 1 + len(b.notices[i])
	}
	s.rounds = append(s.rounds, n)
	s.messages = make([]message, 0, n)
	indices := func(transfers []int) []int {
		out := make([]int, len(transfers))
		for k, i := range transfers {
			out[k] = index[i]
		}
		slices.Sort(out)
		return out
	}
	for _, i := range b.order {
		t := &b.plan.Transfers[i]
		releases := make([]int, 0, len(b.notices[i])+len(b.local[i]))
		for k := range b.notices[i] {
			releases = append(releases, index[i]+1+k)
		}
		s.messages = append(s.messages, message{
			from: t.Src, to: t.Dst, phase: t.Phase, blocks: t.Blocks,
			releases: append(releases, indices(b.local[i])...),
		})
		for _, news := range b.notices[i] {
			s.messages = append(s.messages, message{from: news.from, to: news.to, phase: t.Phase, releases: indices(news.releases)})
			s.notices++
		}
	}
	return s
}

// number sets needs and tags.
func (s *schedule) number() error {
	used := make(map[[2]int]int)
	for i := range s.messages {
		m := &s.messages[i]
		pair := [2]int{m.from, m.to}
		m.tag = used[pair]
		if used[pair]++; m.tag > maxTag {
			return fmt.Errorf("more than %d messages from host %d to host %d: MPI promises no more tags", maxTag+1, m.from, m.to)
		}
		for _, r := range m.releases {
			s.messages[r].needs++
		}
	}
	return nil
}

// busiest returns the largest number of messages that any one rank sends and receives, largest the
// largest number of blocks in a message. Both are 1 or more: they are sizes of C arrays.
func (s *schedule) busiest(ranks int) (messages, largest int) {
	count := make([]int, ranks)
	messages, largest = 1, 1
	for i := range s.messages {
		m := &s.messages[i]
		count[m.from]++
		count[m.to]++
		messages = max(messages, count[m.from], count[m.to])
		largest = max(largest, len(m.blocks))
	}
	return messages, largest
}

// relays reports whether a host receives a block that is not for it.
func (s *schedule) relays() bool {
	return slices.ContainsFunc(s.messages, func(m message) bool {
		return slices.ContainsFunc(m.blocks, func(b plan.Block) bool { return b.Dest != plan.All && b.Dest != m.to })
	})
}
