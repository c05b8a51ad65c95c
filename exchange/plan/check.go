package plan

import (
	"fmt"
	"math"
	"slices"
)

// Sanity limits. They are far above any real plan and low enough that a small file
// cannot make its reader allocate or overflow: indices of blocks, pieces and hosts fit 50
// bits together, times fit a [time.Duration], and byte sums fit an int64.
const (
	maxHosts   = 4096
	maxPieces  = 4096 // of one block
	maxPhases  = 1 << 24
	maxBytes   = 1 << 50 // one block: 1 PiB
	maxTotal   = 1 << 60 // all transfers together
	maxSeconds = 1e9     // 31 years
)

// MaxLead is the largest lead of a plan's synchronisations, in bytes.
const MaxLead = 1 << 30

var synchronisationKinds = []string{SyncSender, SyncReceiver, SyncDummy, SyncBarrier}

// A flaw is a value that breaks the shape of a plan or topology, with its place:
// a top-level field and, where it is a list, the element (else -1).
type flaw struct {
	field  string
	index  int
	reason string
}

func (f *flaw) Error() string {
	if f.index < 0 {
		return fmt.Sprintf("%s: %s", f.field, f.reason)
	}
	return fmt.Sprintf("%s[%d]: %s", f.field, f.index, f.reason)
}

func flawed(field string, index int, format string, args ...any) error {
	return &flaw{field: field, index: index, reason: fmt.Sprintf(format, args...)}
}

// Check reports the first value that breaks the shape of p: an index outside
// p.Hosts, a transfer from a host to itself, sizes of the wrong length, a time that
// is not finite. A plan that passes can be handed to anything in this package, and
// p.Size and p.Bytes cannot panic or overflow. Whether the plan is right is [Verify]'s question.
func (p *Plan) Check() error {
	if p.Collective != Allgather && p.Collective != Alltoall {
		return flawed("collective", -1, "%q is neither allgather nor alltoall", p.Collective)
	}
	if err := p.checkHosts(); err != nil {
		return err
	}
	if err := p.checkSizes(); err != nil {
		return err
	}
	if err := p.checkCuts(); err != nil {
		return err
	}
	if p.Phases < 0 || p.Phases > maxPhases {
		return flawed("phases", -1, "%d is not in 0…%d", p.Phases, maxPhases)
	}
	if c := p.Sync; c != nil {
		if c.Kind != ClaimOrder && !slices.Contains(synchronisationKinds, c.Kind) {
			return flawed("synchronisation", -1, "kind %q is none of sender, receiver, dummy, barrier, order", c.Kind)
		}
		if c.Block < 0 || c.Block > maxPhases || c.Within != "" && !slices.Contains([]string{SyncSender, SyncReceiver, ClaimOrder}, c.Within) {
			return flawed("synchronisation", -1, "blocks of %d phases with %q within: want 0 or more, and sender, receiver, order or nothing", c.Block, c.Within)
		}
		if c.Lead < 0 || c.Lead > MaxLead || c.Lead > 0 && (c.Kind != SyncReceiver && c.Kind != SyncBarrier || c.Block > 0) {
			return flawed("synchronisation", -1, "a lead of %d bytes with %s and blocks of %d phases: want 0 to %d, and only with receiver or barrier, without blocks", c.Lead, c.Kind, c.Block, MaxLead)
		}
	}
	if err := seconds(p.Makespan); err != nil {
		return flawed("makespan_s", -1, "%v", err)
	}
	if err := seconds(p.Bound); err != nil {
		return flawed("bound_s", -1, "%v", err)
	}
	var total int64
	for i := range p.Transfers {
		if err := p.checkTransfer(i); err != nil {
			return err
		}
		for _, b := range p.Transfers[i].Blocks {
			if total += p.Size(b); total > maxTotal {
				return flawed("transfers", i, "the transfers up to here carry more than %d bytes", int64(maxTotal))
			}
		}
	}
	return nil
}

func (p *Plan) checkHosts() error {
	if len(p.Hosts) == 0 || len(p.Hosts) > maxHosts {
		return flawed("hosts", -1, "%d hosts, want 1…%d", len(p.Hosts), maxHosts)
	}
	seen := make(map[string]int, len(p.Hosts))
	for i, h := range p.Hosts {
		if h == "" {
			return flawed("hosts", i, "the name is empty")
		}
		if j, ok := seen[h]; ok {
			return flawed("hosts", i, "%q is already host %d", h, j)
		}
		seen[h] = i
	}
	return nil
}

func (p *Plan) checkSizes() error {
	n := len(p.Hosts)
	if p.MessageBytes < 0 || p.MessageBytes > maxBytes {
		return flawed("message_bytes", -1, "%d is not in 0…%d", p.MessageBytes, int64(maxBytes))
	}
	if (p.Sizes != nil || p.Matrix != nil) && p.MessageBytes != 0 {
		return flawed("sizes", -1, "given beside message_bytes %d; one of the two says how large blocks are", p.MessageBytes)
	}
	if p.Sizes != nil && p.Matrix != nil {
		return flawed("sizes", -1, "is both a list and a matrix")
	}
	if p.Matrix != nil {
		if p.Collective == Allgather {
			return flawed("sizes", -1, "a matrix has no meaning for allgather, want a list of %d", n)
		}
		if len(p.Matrix) != n {
			return flawed("sizes", -1, "%d rows for %d hosts", len(p.Matrix), n)
		}
		for i, row := range p.Matrix {
			if err := checkSizeList(row, n); err != nil {
				return flawed("sizes", i, "%v", err)
			}
		}
	}
	if p.Sizes != nil {
		if err := checkSizeList(p.Sizes, n); err != nil {
			return flawed("sizes", -1, "%v", err)
		}
	}
	return nil
}

func checkSizeList(sizes []int64, n int) error {
	if len(sizes) != n {
		return fmt.Errorf("%d sizes for %d hosts", len(sizes), n)
	}
	for j, v := range sizes {
		if v < 0 || v > maxBytes {
			return fmt.Errorf("size %d of rank %d is not in 0…%d", v, j, int64(maxBytes))
		}
	}
	return nil
}

func (p *Plan) checkTransfer(i int) error {
	t, n := &p.Transfers[i], len(p.Hosts)
	switch {
	case t.ID != i:
		return flawed("transfers", i, "id: %d, want the index %d", t.ID, i)
	case t.Src < 0 || t.Src >= n:
		return flawed("transfers", i, "src: %d is none of the %d hosts", t.Src, n)
	case t.Dst < 0 || t.Dst >= n:
		return flawed("transfers", i, "dst: %d is none of the %d hosts", t.Dst, n)
	case t.Src == t.Dst:
		return flawed("transfers", i, "host %d (%s) sends to itself", t.Src, p.Hosts[t.Src])
	case len(t.Blocks) == 0:
		return flawed("transfers", i, "blocks: the transfer carries none")
	case t.Phase < -1 || t.Phase >= maxPhases:
		return flawed("transfers", i, "phase: %d is not in 0…%d", t.Phase, maxPhases-1)
	case t.Sync != "" && !slices.Contains(synchronisationKinds, t.Sync):
		return flawed("transfers", i, "sync: %q is none of sender, receiver, dummy, barrier", t.Sync)
	case p.Phases > 0 && t.Phase >= p.Phases:
		return flawed("transfers", i, "phase: %d, but the plan has %d phases", t.Phase, p.Phases)
	}
	for _, b := range t.Blocks {
		if err := p.checkBlock(b); err != nil {
			return flawed("transfers", i, "blocks: %v", err)
		}
	}
	for _, a := range t.After {
		if a < 0 || a >= len(p.Transfers) {
			return flawed("transfers", i, "after: %d is none of the %d transfers", a, len(p.Transfers))
		}
	}
	if err := seconds(t.Start); err != nil {
		return flawed("transfers", i, "start: %v", err)
	}
	if err := seconds(t.End); err != nil {
		return flawed("transfers", i, "end: %v", err)
	}
	if t.End < t.Start {
		return flawed("transfers", i, "end %v s comes before start %v s", t.End, t.Start)
	}
	return nil
}

func seconds(s float64) error {
	if math.IsNaN(s) || s < 0 || s > maxSeconds {
		return fmt.Errorf("%v s is not in 0…%g", s, float64(maxSeconds))
	}
	return nil
}
