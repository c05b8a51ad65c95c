// Package openshop schedules alltoalls whose blocks differ in size among hosts of one non-blocking switch.
//
// Phases and shuffles give each pair of hosts its turn, which is as long as its largest message: where blocks are of 0, 4 or 64 KiB drawn at random, 24
// hosts take 1.1 to 1.4 times the bound. Here a message begins as soon as its source has sent what it was sending, and its destination has received
// what it was receiving: an open shop, with sources and destinations as the machines and messages as operations that need one of each. What is
// scheduled greedily so, the messages of the busiest hosts or the longest first, ends at the bound for most sizes drawn at random, and never later than at twice that: when the last message
// begins, its source or its destination has been busy until then.
//
// The plan holds no times. It says, for each message, after which others it begins; see [Alltoall].
//
// Place in the flow: beside phase and shuffle; the planner compares the plans, the engine runs them. The package is pure: the same arguments give the same
// plan.
//
// Source: none of the papers, which know blocks of one size. The problem is that of Gonzalez & Sahni, "Open Shop Scheduling to Minimize Finish Time", J. ACM 23 (1976); the
// factor of two is Rácsmány's, by Bárány & Fiala (1982).
package openshop

import (
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Name is that of the algorithm.
const Name = "open-shop"

const (
	// slack is how many bytes may be about to leave for a host when one more message for it begins: of small messages several, while the news of those before them
	// travel. With 16 KiB, 24 hosts with blocks of 4 KiB filled a port of 48 packets and lost 54 of them, none with this.
	slack = 2 << 10
	// tiny is how much the small messages of all hosts may be that wait for nobody at their destination: the news would be as large as they are, and a port of
	// 48 packets holds them four times.
	tiny = 16 << 10
	// long is the size from which a message must have arrived, but for the last lead bytes, before the next one for the host begins. That it has left is not enough: some of it is
	// in the ports, and of a host that is never idle the queue grows with each message.
	long = 2 * lead
	lead = 16 << 10
)

// Alltoall returns the plan over hosts. seconds is how long src sends to dst alone, for a pair whose block is not empty: positive, and finite. Blocks of no bytes
// are not sent.
//
// A message begins when the last one of its source has left, and when of those that are before it at its destination no more than 2 KiB are to leave; their
// sources tell. Very small ones do not wait at their destination. Errors are those of [plan.NewAlltoall].
func Alltoall(hosts []string, sizes plan.AlltoallSizes, seconds func(src, dst int, bytes int64) float64) (*plan.Plan, error) {
	p, err := plan.NewAlltoall(Name, hosts, sizes)
	if err != nil {
		return nil, err
	}
	p.Sync = &plan.Claim{Kind: plan.SyncReceiver, Lead: lead}
	order := schedule(len(hosts), sizes, seconds)
	last := make([]int, len(hosts)) // per source
	for h := range last {
		last[h] = -1
	}
	into := make([]queue, len(hosts)) // per destination
	for id, m := range order {
		t := plan.Transfer{
			ID: id, Src: m.src, Dst: m.dst, Phase: -1, After: []int{},
			Blocks: []plan.Block{{Origin: m.src, Dest: m.dst}},
		}
		if before := last[m.src]; before >= 0 {
			t.After = append(t.After, before)
		}
		if before := into[m.dst].add(id, m.bytes); before >= 0 && m.bytes > tiny/int64(len(hosts)) {
			t.After = append(t.After, before)
		}
		if len(t.After) > 0 {
			t.Sync = plan.SyncSender
			if a := t.After[len(t.After)-1]; p.Transfers[a].Src != m.src && order[a].bytes >= long {
				t.Sync = plan.SyncReceiver
			}
		}
		slices.Sort(t.After)
		last[m.src] = id
		p.Transfers = append(p.Transfers, t)
	}
	return p, nil
}

// A queue is what has been planned for one destination, in that order.
type queue struct {
	ids   []int
	bytes []int64
}

// add adds a message and returns the one before it that must have left when it begins, -1 where there is none.
func (q *queue) add(id int, bytes int64) int {
	wait, ahead := -1, int64(0)
	for i, n := range slices.Backward(q.bytes) {
		if ahead += n; ahead > slack {
			wait = q.ids[i]
			break
		}
	}
	q.ids, q.bytes = append(q.ids, id), append(q.bytes, bytes)
	return wait
}
