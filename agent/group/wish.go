package group

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
)

// MaxPlan bounds a plan that a rank brings along, in bytes of its JSON form: some 100,000
// transfers.
const MaxPlan = 16 << 20

// A Wish says how an operation is to be done. All ranks have the same, but that a plan need
// not be given by all.
type Wish struct {
	Algorithm string // empty for the default
	Options   Options
	// Plan is a plan made elsewhere, in its JSON form, at most [MaxPlan] bytes; nil for
	// none. It is run instead of any algorithm's.
	Plan []byte
}

// Options are choices that some algorithms leave to the user. The package hands them on.
type Options struct {
	Sync       string `json:"sync,omitempty"`
	SyncBlock  int    `json:"block,omitempty"`
	Within     string `json:"within,omitempty"`
	SyncStrict bool   `json:"strict,omitempty"`
	Fanout     int    `json:"fanout,omitempty"`
	Together   bool   `json:"together,omitempty"` // of a barrier: all ranks return at the same moment
}

// digest names a plan in a message; empty for none.
func digest(plan []byte) string {
	if plan == nil {
		return ""
	}
	sum := sha256.Sum256(plan)
	return hex.EncodeToString(sum[:])
}

// wish is an algorithm as users ask for it.
func wish(algorithm string) string {
	if algorithm == "" {
		return "auto"
	}
	return algorithm
}

// who names the rank of m for people.
func (c *coordinator) who(m message) string {
	return fmt.Sprintf("rank %d on %s", m.Rank, c.roster[m.Rank])
}

// disagreement says in what the ready message m differs from that of a rank before it;
// empty where it does not.
func (c *coordinator) disagreement(op *pending, m message) string {
	for r := range c.roster {
		o, ok := op.ready[r]
		if !ok {
			continue
		}
		switch {
		case o.Collective != m.Collective:
			return fmt.Sprintf("%s asks for %s, %s for %s", c.who(m), named(m.Collective), c.who(o), named(o.Collective))
		case o.Root != m.Root:
			return fmt.Sprintf("%s asks for a broadcast from rank %d, %s from rank %d", c.who(m), m.Root, c.who(o), o.Root)
		case o.Algorithm != m.Algorithm:
			return fmt.Sprintf("%s asks for algorithm %q, %s for %q", c.who(m), wish(m.Algorithm), c.who(o), wish(o.Algorithm))
		case o.Options != m.Options:
			return fmt.Sprintf("%s asks for options %s, %s for %s", c.who(m), m.Options, c.who(o), o.Options)
		}
		break // they agree among themselves: one comparison is enough
	}
	if o, ok := op.ready[op.given]; ok && m.Plan != "" && o.Plan != m.Plan {
		return fmt.Sprintf("%s brings the plan with SHA-256 %.12s…, %s that with %.12s…", c.who(m), m.Plan, c.who(o), o.Plan)
	}
	if o, ok := op.ready[op.even]; ok && m.Even && o.Size != m.Size {
		return fmt.Sprintf("%s has %d bytes for %d ranks, %s has %d, and neither says how large its blocks are",
			c.who(m), m.Size, len(c.roster), c.who(o), o.Size)
	}
	return ""
}

// String lists the options that are set, as the command line has them.
func (o Options) String() string {
	s := ""
	add := func(set bool, format string, args ...any) {
		if set {
			s += fmt.Sprintf(" "+format, args...)
		}
	}
	add(o.Sync != "", "sync=%.16s", o.Sync)
	add(o.SyncBlock != 0, "sync-block=%d", o.SyncBlock)
	add(o.Within != "", "within=%.16s", o.Within)
	add(o.SyncStrict, "sync-strict")
	add(o.Fanout != 0, "fanout=%d", o.Fanout)
	add(o.Together, "together")
	return "(" + s[min(1, len(s)):] + ")"
}

// enough reports whether sizes, what a rank sends to each of n ranks, fit an input of size
// bytes, and returns them; without any, all are equal.
func enough(sizes []int64, size int64, n int) ([]int64, error) {
	if n > maxAlltoall {
		return nil, fmt.Errorf("an %s of %d ranks: at most %d", plan.Alltoall, n, maxAlltoall)
	}
	if len(sizes) == 0 {
		if size%int64(n) != 0 {
			return nil, fmt.Errorf("its input of %d bytes is not %d blocks of one size: give the size of each", size, n)
		}
		sizes = make([]int64, n)
		for i := range sizes {
			sizes[i] = size / int64(n)
		}
		return sizes, nil
	}
	if len(sizes) != n {
		return nil, fmt.Errorf("it gives %d sizes of blocks for %d ranks", len(sizes), n)
	}
	var total int64
	for d, v := range sizes {
		if v < 0 || v > maxBytes {
			return nil, fmt.Errorf("its block for rank %d has %d bytes", d, v)
		}
		total += v // at most maxAlltoall · maxBytes
	}
	if total != size {
		return nil, fmt.Errorf("its input has %d bytes, and the sizes of its blocks make %d", size, total)
	}
	return sizes, nil
}
