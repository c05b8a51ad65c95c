package shuffle

import (
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Shift returns the shift exchange: in round i = 1 … p−1 host h sends its message to
// h+i and receives that of h−i, modulo p (Tam & Wang, algorithm 1). A host begins a
// round when what it sent and received in the round before is complete. The plan
// shares hosts and the matrix of sizes. The error says what is wrong with them.
func Shift(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) {
	s := shuffle{slots: len(hosts) - 1, fanout: 1, to: rotation(len(hosts))}
	return s.plan("shift", hosts, sizes)
}

// Pairwise returns the pairwise exchange: in each round hosts send to and receive from
// one partner, by an edge colouring of the complete graph (Tam & Wang, §3.2 and
// figure 1). That takes p−1 rounds for even p; for odd p it takes p, and one host idles
// in each. A host begins a round as in [Shift]; one that idled, when its last round
// is complete. Arguments and errors are those of Shift.
func Pairwise(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) {
	s := shuffle{slots: colours(len(hosts)), fanout: 1, to: colouring(len(hosts))}
	return s.plan("pairwise", hosts, sizes)
}

// Synchronous returns the synchronous shuffle exchange: one round, in which every host
// sends all of its p−1 messages side by side; slot i is for the host at distance i (Tam &
// Wang, algorithm 2). Nothing waits for anything. Arguments and errors are those of [Shift].
func Synchronous(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) {
	s := shuffle{slots: len(hosts) - 1, fanout: max(1, len(hosts)-1), to: rotation(len(hosts))}
	return s.plan("sync-shuffle", hosts, sizes)
}

// Group returns the group shuffle exchange: the pairings of [Pairwise], fanout of them
// in a round side by side (Tam & Wang, algorithm 3, mended as doc.go says). A host
// begins a round when all it sent and received in the round before is complete. With
// fanout 1 it is Pairwise; with χ′ or more it is one round. The paper measures
// fanout 5 for 16 hosts. A fanout below 1 is an error; the others are those of [Shift].
//
// After of a transfer has up to 2·fanout entries. In memory a host's transfers share
// them; written out they are 2·fanout·p² numbers.
func Group(hosts []string, sizes plan.AlltoallSizes, fanout int) (*plan.Plan, error) {
	if fanout < 1 {
		return nil, fmt.Errorf("group-shuffle: fan-out %d, want 1 or more partners in a round", fanout)
	}
	s := shuffle{slots: colours(len(hosts)), fanout: fanout, to: colouring(len(hosts))}
	return s.plan("group-shuffle", hosts, sizes)
}

func rotation(p int) func(slot, id int) int {
	return func(slot, id int) int { return (id + slot) % p }
}

func colouring(p int) func(slot, id int) int {
	return func(slot, id int) int { return partner(slot, id, p) }
}
