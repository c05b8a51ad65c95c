package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Property is one thing that a valid plan has.
type Property string

// The properties, in the order in which [Verify] examines them. Each presumes those before it.
const (
	WellFormed     Property = "well-formed"     // indices, sizes and times make sense, see [Plan.Check]
	Acyclic        Property = "acyclic"         // After has no cycle
	NoDuplicate    Property = "no-duplicate"    // no block reaches a host twice, or one that had it from the start
	Causal         Property = "causal"          // a host sends only what it holds by then
	Complete       Property = "complete"        // every block ends where the collective wants it
	HostPort       Property = "host-port"       // transfers keep the rules of the host model
	ContentionFree Property = "contention-free" // no directed link carries two transfers of one phase
	Synchronised   Property = "synchronised"    // After keeps apart what the plan claims, see [Claim]
	OncePerPool    Property = "once-per-pool"   // no block enters a pool twice, or the pool it comes from
	Makespan       Property = "makespan"        // of a plan with times, it is when the last transfer ends
)

// A Violation is the first property that a plan lacks and the transfers that show it.
type Violation struct {
	Property  Property
	Transfers []int // indices in Plan.Transfers; empty where something is absent
	Detail    string
}

// Error returns property, transfers and detail in one line.
func (v *Violation) Error() string {
	switch len(v.Transfers) {
	case 0:
		return fmt.Sprintf("%s: %s", v.Property, v.Detail)
	case 1:
		return fmt.Sprintf("%s: transfer %d: %s", v.Property, v.Transfers[0], v.Detail)
	}
	list := v.Transfers
	more := ""
	if len(list) > 12 {
		list, more = list[:12], " …"
	}
	return fmt.Sprintf("%s: transfers %v%s: %s", v.Property, list, more, v.Detail)
}

func violated(p Property, transfers []int, format string, args ...any) error {
	return &Violation{Property: p, Transfers: transfers, Detail: fmt.Sprintf(format, args...)}
}

// Duplex is the host model of Gupta & Vadhiyar, HPDC 2007, §4.
type Duplex uint8

// The host models.
const (
	DuplexUnchecked Duplex = iota // the plan does not claim one
	HalfDuplex                    // a host sends or receives: equation 2
	FullDuplex                    // a host sends and receives: equation 3
)

// String returns "half" or "full", as the flag --duplex has it.
func (d Duplex) String() string {
	switch d {
	case HalfDuplex:
		return "half"
	case FullDuplex:
		return "full"
	}
	return "unchecked"
}

// Rules say against what a plan is verified besides the meaning of its collective.
// The zero value asks for the first five properties only.
type Rules struct {
	// Topology, where given, asks for [ContentionFree] of a plan with phases, and for
	// [Synchronised] of one that claims it. Hosts are matched by name.
	Topology *Topology
	// Pools, where given, asks for [OncePerPool]: sets of hosts (indices in Plan.Hosts),
	// nested or not: every pool of a pool tree but the root.
	Pools [][]int
	// Duplex, where not DuplexUnchecked, asks for [HostPort], judged from the predicted times.
	Duplex Duplex
	// Snapshot gives [HostPort] gaps, send overheads and the least duration of a
	// transfer. Nil judges ports only, with gap and overhead 0. Hosts are matched by name.
	Snapshot *netmap.Snapshot
	// Chunked says that the predicted times are of chunks that stream through (as
	// [Simulate] with a chunk size gives them): a host may begin to forward a block
	// before it is whole, but neither begin nor end before its own copy does; and where
	// [SyncSender] says that the sender tells, what comes after a transfer need only start
	// no earlier than that.
	Chunked bool
	// Tolerance is how far predicted times may be off before a rule is broken.
	// Zero means 5 ns: algorithms that count in nanoseconds round each term by half of one.
	Tolerance time.Duration
}

func (r *Rules) tolerance() float64 {
	if r.Tolerance == 0 {
		return 5e-9
	}
	return r.Tolerance.Seconds()
}

// Verify proves p, or returns a [*Violation] of the first property that p lacks. Any
// other error means that the rules do not fit the plan (a host that the snapshot does
// not know, a pair that is not measured) and nothing was proved.
//
// It takes O(T log T) for T transfers of one block whose deliverers are in After
// directly; deliverers further back cost a sweep over part of the plan for every 64.
func Verify(p *Plan, rules Rules) error {
	if err := p.Check(); err != nil {
		v := &Violation{Property: WellFormed, Detail: err.Error()}
		if f, ok := err.(*flaw); ok && f.field == "transfers" {
			v.Transfers, v.Detail = []int{f.index}, f.reason
		}
		return v
	}
	order, err := p.Order()
	if err != nil {
		return err
	}
	held, err := deliver(p)
	if err != nil {
		return err
	}
	if err := checkCausal(p, held, order); err != nil {
		return err
	}
	if p.timed() {
		if err := checkTimes(p, held, &rules); err != nil {
			return err
		}
	}
	if err := checkComplete(p, held); err != nil {
		return err
	}
	if rules.Duplex != DuplexUnchecked {
		if err := checkPorts(p, &rules); err != nil {
			return err
		}
	}
	if rules.Topology != nil {
		if err := checkContention(p, rules.Topology); err != nil {
			return err
		}
		if err := checkSynchronised(p, rules.Topology, order); err != nil {
			return err
		}
	}
	if err := checkPools(p, rules.Pools); err != nil {
		return err
	}
	return checkMakespan(p, rules.tolerance())
}

// Phased reports whether every transfer of p has a phase, and there is one.
func (p *Plan) Phased() bool {
	for i := range p.Transfers {
		if p.Transfers[i].Phase < 0 {
			return false
		}
	}
	return len(p.Transfers) > 0
}

// checkMakespan: where a makespan is given, it is when the last transfer ends.
func checkMakespan(p *Plan, tol float64) error {
	if p.Makespan == 0 || !p.timed() {
		return nil
	}
	last := 0
	for i := range p.Transfers {
		if p.Transfers[i].End > p.Transfers[last].End {
			last = i
		}
	}
	if end := p.Transfers[last].End; math.Abs(end-p.Makespan) > tol+1e-9*end {
		return violated(Makespan, []int{last}, "makespan_s is %s, but the last transfer ends at %s", us(p.Makespan), us(end))
	}
	return nil
}

// timed reports whether p carries predicted times: an algorithm without a cost model leaves them all 0.
func (p *Plan) timed() bool {
	for i := range p.Transfers {
		if p.Transfers[i].End > 0 {
			return true
		}
	}
	return false
}

func us(seconds float64) string {
	return time.Duration(math.Round(seconds * 1e9)).String()
}
