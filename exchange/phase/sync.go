package phase

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Sync is a kind of synchronisation between messages of different phases (§5).
type Sync uint8

// The kinds. What an edge of each means is in the package documentation.
const (
	None     Sync = iota // no order but that of the list
	Order                // a machine sends one message after the other: the paper's no-sync
	Dummy                // idle machines exchange dummies to keep pace
	Sender               // a sends, then the source of b does
	Receiver             // a is received, then the source of b sends
	Barrier              // all machines wait for all
	Auto                 // what [Tuned] says; in no plan
)

var syncNames = [...]string{"none", "order", "dummy", "sender", "receiver", "barrier", "auto"}

// String returns the value of the flag --sync.
func (s Sync) String() string {
	if int(s) < len(syncNames) {
		return syncNames[s]
	}
	return fmt.Sprintf("Sync(%d)", uint8(s))
}

// ParseSync reads what [Sync.String] writes.
func ParseSync(name string) (Sync, error) {
	if i := slices.Index(syncNames[:], name); i >= 0 {
		return Sync(i), nil
	}
	return None, fmt.Errorf("unknown synchronisation %q: want one of %s", name, strings.Join(syncNames[:], ", "))
}

// Options choose one of the schemes of table 5. Its no-sync is [Order], and [None] has not even that.
type Options struct {
	Sync Sync

	// Block is the number of phases in a block, the paper's bs. With Sender and Receiver,
	// messages of one block are not ordered (partial); with Barrier, there is one
	// barrier between blocks. 0 is the paper's "all": every phase is separated from the next.
	Block int

	// Within is the synchronisation inside a block where Sync is Barrier and Block is
	// set: None, Order, Sender or Receiver. Where Sync is Sender it can be Order. The paper's "barrier
	// partial & none" and "sender partial" are Order.
	Within Sync

	// Strict makes partial Sender and Receiver order every two messages of different blocks
	// that contend. The paper's way, which drops from the reduced edges those inside a block,
	// only limits contention: m1 and m3 may contend, with m2 between them, m1 and m2
	// in one block and m3 in the next; then m1→m3 is redundant as long as m1→m2 is there, and
	// m1→m2 is dropped. Strict drops first and reduces then, which takes more edges: on two
	// switches of 16 machines, in blocks of 4 phases, the paper's way is simulated 12 % over the bound
	// and the strict one at it (TestPartialIsNotStrict).
	Strict bool

	// Lead, in bytes, with Receiver or Barrier and without blocks, hides the way of the news: see [plan.Claim]. The
	// paper has none. Too little leaves links idle between two messages; with too much, more messages
	// are on a link at a time. [Lead] says what fits.
	Lead int64
}

// claim says what the plan's edges promise, nil if they promise nothing.
func (o *Options) claim() *plan.Claim {
	if o.Sync == None {
		return nil
	}
	c := &plan.Claim{Kind: o.Sync.String(), Block: min(o.Block, 1<<24), Strict: o.Strict, Lead: o.Lead}
	if o.Within != None {
		c.Within = o.Within.String()
	}
	return c
}

// Check returns an error for options that make no sense.
func (o *Options) Check() error {
	if int(o.Sync) >= len(syncNames) {
		return fmt.Errorf("unknown synchronisation %v: want one of %s", o.Sync, strings.Join(syncNames[:], ", "))
	}
	if o.Block < 0 {
		return fmt.Errorf("a block of %d phases: want 1 or more, or 0 for no blocks", o.Block)
	}
	if o.Sync == Auto && *o != (Options{Sync: Auto}) {
		return fmt.Errorf("synchronisation %v finds all else by itself: leave blocks, within, strict and lead out, or name the synchronisation", o.Sync)
	}
	if o.Block > 0 && (o.Sync == None || o.Sync == Order || o.Sync == Dummy) {
		return fmt.Errorf("a block of %d phases has no meaning with synchronisation %v: leave it out", o.Block, o.Sync)
	}
	if o.Strict && (o.Block == 0 || o.Sync != Sender && o.Sync != Receiver) {
		return fmt.Errorf("strict has a meaning with sender or receiver in blocks of phases only, not with synchronisation %v and blocks of %d", o.Sync, o.Block)
	}
	if o.Lead < 0 || o.Lead > plan.MaxLead || o.Lead > 0 && (o.Sync != Receiver && o.Sync != Barrier || o.Block > 0) {
		return fmt.Errorf("a lead of %d bytes with synchronisation %v and blocks of %d phases: want 0 to %d, and only with receiver or barrier, without blocks", o.Lead, o.Sync, o.Block, plan.MaxLead)
	}
	switch {
	case o.Within == Order && o.Sync == Sender && o.Block > 0:
		return nil
	case o.Within == None || o.Sync == Barrier && o.Block > 0 && (o.Within == Order || o.Within == Sender || o.Within == Receiver):
		return nil
	case o.Sync != Barrier || o.Block == 0:
		return fmt.Errorf("synchronisation %v within blocks needs barriers between blocks, or for order sender: set one of these and a block size", o.Within)
	}
	return fmt.Errorf("synchronisation %v within blocks: want none, order, sender or receiver", o.Within)
}

// Edges are the After lists of all messages, one behind the other, each ascending.
type edges struct {
	list []int32
	end  []int  // by message, the end of its list
	kind []Sync // by message, where its list is not empty
}

// maxEdges bounds them. It allows barriers between all phases of 320 machines on one
// switch, where they are most expensive; pairwise needs about two edges for a message.
const maxEdges = 1 << 25

func tooMany(messages []message) error {
	return fmt.Errorf("more than %d synchronisations among %d messages: take fewer machines, smaller blocks, or sender or receiver without blocks",
		maxEdges, len(messages))
}

// bounds returns where the list of message i, which may be one without, starts and ends.
func (e *edges) bounds(i int) (from, to int) {
	switch {
	case i >= len(e.end):
		return 0, 0
	case i == 0:
		return 0, e.end[0]
	}
	return e.end[i-1], e.end[i]
}

func (e *edges) of(i int) []int32 {
	from, to := e.bounds(i)
	return e.list[from:to]
}

// close ends the list of the next message.
func (e *edges) close(kind Sync) {
	e.end = append(e.end, len(e.list))
	e.kind = append(e.kind, kind)
}

// keep returns the edges a→b with want(a, b).
func (e *edges) keep(want func(a, b int32) bool) edges {
	var out edges
	for i := range e.end {
		for _, a := range e.of(i) {
			if want(a, int32(i)) {
				out.list = append(out.list, a)
			}
		}
		out.close(e.kind[i])
	}
	return out
}

// synchronise returns the edges of the scheme that opt names.
func synchronise(t *plan.Topology, messages []message, phases int, opt Options) (edges, error) {
	size := int32(max(1, min(opt.Block, phases)))
	block := func(i int32) int32 { return messages[i].phase / size }
	switch opt.Sync {
	case Order:
		return turns(messages, func(a, b int32) bool { return true }), nil
	case Dummy:
		return dummies(t, messages)
	case Sender, Receiver:
		apart, err := blocks(t, messages, size, opt)
		if err == nil && opt.Within == Order && size > 1 {
			apart = join(apart, turns(messages, func(a, b int32) bool { return true }))
		}
		return apart, err
	case Barrier:
		if opt.Within == Order {
			return barriers(messages, size, turns(messages, func(a, b int32) bool { return block(a) == block(b) }), Sender)
		}
		var within edges
		if opt.Within != None && size > 1 {
			all, err := pairwise(t, messages, 1, opt.Within)
			if err != nil {
				return all, err
			}
			within = all.keep(func(a, b int32) bool { return block(a) == block(b) })
		}
		return barriers(messages, size, within, opt.Within)
	}
	return edges{}, nil
}

// blocks returns the edges of Sender and Receiver between blocks of size phases.
func blocks(t *plan.Topology, messages []message, size int32, opt Options) (edges, error) {
	if opt.Strict {
		return pairwise(t, messages, size, opt.Sync)
	}
	all, err := pairwise(t, messages, 1, opt.Sync)
	if err != nil || size == 1 {
		return all, err
	}
	return all.keep(func(a, b int32) bool { return messages[a].phase/size != messages[b].phase/size }), nil
}

// join returns the edges of both, of the kind that b has.
func join(a, b edges) edges {
	var out edges
	for i := range b.end {
		from := len(out.list)
		out.list = append(append(out.list, a.of(i)...), b.of(i)...)
		slices.Sort(out.list[from:])
		out.list = out.list[:from+len(slices.Compact(out.list[from:]))]
		out.close(b.kind[i])
	}
	return out
}

// turns makes a machine send one message after the other, in the order of the phases, and orders nothing else: each comes
// after the one before of its source, if want allows. That has left when the next one starts, as with Sender.
func turns(messages []message, want func(a, b int32) bool) edges {
	last := make(map[int32]int32) // by machine
	var out edges
	for i, m := range messages {
		if a, ok := last[m.src]; ok && want(a, int32(i)) {
			out.list = append(out.list, a)
		}
		out.close(Sender)
		last[m.src] = int32(i)
	}
	return out
}

// barriers puts a barrier between blocks of size phases and keeps the edges of within
// inside them. A barrier is an edge from every message of the block before; the
// blocks before that are behind it. Of its own block only the messages that wait for
// nothing inside it wait for the barrier: the others come after those anyway.
//
// A message whose arrival another one of its block waits for (receiver) cannot be the
// last to arrive and is not listed. With sender it is: the next one may arrive first.
func barriers(messages []message, size int32, within edges, kind Sync) (edges, error) {
	last := make([]bool, len(messages))
	for i := range messages {
		last[i] = true
		if kind == Receiver {
			for _, a := range within.of(i) {
				last[a] = false
			}
		}
	}
	var out edges
	n := countBarriers(messages, size, within, last)
	if n > maxEdges {
		return out, tooMany(messages)
	}
	out.list = make([]int32, 0, n)
	var before, now []int32 // what this block's messages wait for, and what those of the next will
	block := int32(0)
	for i, m := range messages {
		if b := m.phase / size; b != block {
			block = b
			before, now = now, before[:0]
		}
		if last[i] {
			now = append(now, int32(i))
		}
		if list := within.of(i); len(list) > 0 {
			out.list = append(out.list, list...)
			out.close(kind)
			continue
		}
		out.list = append(out.list, before...)
		out.close(Barrier)
	}
	return out, nil
}

// countBarriers returns how many edges [barriers] makes. They can be too many to make.
func countBarriers(messages []message, size int32, within edges, last []bool) int {
	n := len(within.list)
	before, now := 0, 0
	block := int32(0)
	for i, m := range messages {
		if b := m.phase / size; b != block {
			block = b
			before, now = now, 0
		}
		if last[i] {
			now++
		}
		if len(within.of(i)) == 0 {
			n += before
		}
	}
	return n
}
