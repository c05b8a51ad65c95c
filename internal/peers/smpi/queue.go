package smpi

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Queued returns p with After edges that let the transfers of every pair of hosts follow one after
// another, in the order of [plan.Plan.Order]: what gridagent's engine and plan.Simulate
// do with a queue, and MPI, which is free to send them together, does not. A transfer then
// waits for the one before to arrive. It returns an error if p has a cycle.
func Queued(p *plan.Plan) (*plan.Plan, error) {
	order, err := p.Order()
	if err != nil {
		return nil, err
	}
	q := clone(p)
	last := make(map[[2]int]int) // by source and destination
	for _, i := range order {
		t := &q.Transfers[i]
		pair := [2]int{t.Src, t.Dst}
		if before, ok := last[pair]; ok {
			follow(t, before) // who sends both needs no news
		}
		last[pair] = i
	}
	return q, nil
}

// InStep returns p, a loop in which every host sends once an iteration, with After edges
// that let a transfer wait until its destination is in the same iteration too. That is what a
// blocking send-receive of long messages is: the library asks the receiver first. Plans from package
// baseline wait for their source only, as the engine's receivers are always ready.
//
// The edges say when, not how the source learns of it: p is to be simulated, not run. It returns an
// error if hosts do not send the same number of times.
func InStep(p *plan.Plan) (*plan.Plan, error) {
	sends := make([][]int, len(p.Hosts)) // by host, its transfers
	turn := make([]int, len(p.Transfers))
	for i := range p.Transfers {
		src := p.Transfers[i].Src
		turn[i] = len(sends[src])
		sends[src] = append(sends[src], i)
	}
	q := clone(p)
	for i := range q.Transfers {
		t := &q.Transfers[i]
		if len(sends[t.Dst]) != len(sends[t.Src]) {
			return nil, fmt.Errorf("smpi: plan %s is no loop: %s sends %d times, %s %d times",
				p.Algorithm, p.Hosts[t.Src], len(sends[t.Src]), p.Hosts[t.Dst], len(sends[t.Dst]))
		}
		follow(t, p.Transfers[sends[t.Dst][turn[i]]].After...)
	}
	return q, nil
}

// clone returns a copy of p whose transfers can be changed, but not their slices in place.
func clone(p *plan.Plan) *plan.Plan {
	q := *p
	q.Transfers = slices.Clone(p.Transfers)
	return &q
}

// follow adds edges to t.
func follow(t *plan.Transfer, earlier ...int) {
	after := slices.Concat(t.After, earlier)
	slices.Sort(after)
	after = slices.Compact(after)
	if len(after) > len(t.After) && t.Sync == "" {
		t.Sync = plan.SyncSender
	}
	t.After = after
}
