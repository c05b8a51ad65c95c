package plan

import (
	"errors"

	"github.com/gridagent/gridagent/internal/jsonwalk"
)

// A ParseError says where a plan or topology file is wrong, and why.
type ParseError = jsonwalk.Error

// The keys of a plan and of a transfer, in the order of docs/formats.md.
var (
	planKeys = []string{"collective", "algorithm", "hosts", "message_bytes", "sizes",
		"cuts", "phases", "synchronisation", "makespan_s", "bound_s", "transfers"}
	transferKeys = []string{"id", "src", "dst", "blocks", "phase", "after", "sync", "start", "end"}
	claimKeys    = []string{"kind", "block", "within", "strict", "lead_bytes"}
	blockKeys    = []string{"origin", "dest", "piece"}
	cutKeys      = []string{"origin", "dest", "at"}
)

// Parse reads a plan from its JSON form (docs/formats.md, "Plan"). See [Read].
func Parse(data []byte) (*Plan, error) { return Read("", data) }

// Read reads a plan from its JSON form. Errors are [*ParseError] with name, line and
// reason. Texts hold no control characters. Absent "after" means none, absent "phase" is -1, absent times are 0, and
// unknown keys are passed over; what identifies a transfer (id, src, dst, blocks)
// must be there. The plan returned passes [Plan.Check]; memory used is in
// proportion to len(data).
func Read(name string, data []byte) (*Plan, error) {
	c, err := jsonwalk.New(name, data)
	if err != nil {
		return nil, err
	}
	r := planReader{Cursor: c, plan: &Plan{}, at: make(map[string]int), elements: make(map[string][]int)}
	found, err := c.Fields(planKeys, r.field)
	if err != nil {
		return nil, err
	}
	for i, key := range planKeys {
		switch key {
		case "collective", "hosts", "transfers":
			if found&(1<<i) == 0 {
				return nil, c.Fail(0, "%q is missing", key)
			}
		}
	}
	if _, sized := r.at["message_bytes"]; !sized && r.plan.Sizes == nil && r.plan.Matrix == nil {
		return nil, c.Fail(0, `neither "message_bytes" nor "sizes" says how large blocks are`)
	}
	if err := r.plan.Check(); err != nil {
		return nil, locate(c, err, r.at, r.elements)
	}
	return r.plan, nil
}

// UnmarshalJSON reads p as [Parse] does.
func (p *Plan) UnmarshalJSON(data []byte) error {
	q, err := Parse(data)
	if err != nil {
		return err
	}
	*p = *q
	return nil
}

// locate turns a flaw into a ParseError at the line of the value that it names.
func locate(c *jsonwalk.Cursor, err error, at map[string]int, elements map[string][]int) error {
	f, ok := errors.AsType[*flaw](err)
	if !ok {
		return err
	}
	pos := at[f.field]
	if e := elements[f.field]; f.index >= 0 && f.index < len(e) {
		pos = e[f.index]
	}
	return c.Fail(pos, "%v", f)
}

// A planReader fills a plan and remembers where each value stood.
type planReader struct {
	*jsonwalk.Cursor
	plan     *Plan
	at       map[string]int   // byte offset of each top-level value
	elements map[string][]int // byte offsets of the elements of hosts, sizes, cuts and transfers
}

func (r *planReader) field(i int) (err error) {
	p, key := r.plan, planKeys[i]
	r.Peek()
	r.at[key] = r.Pos()
	switch key {
	case "collective":
		var s string
		s, err = r.Text()
		p.Collective = Collective(s)
	case "algorithm":
		p.Algorithm, err = r.Text()
	case "hosts":
		err = r.each(key, func(i int) error {
			h, err := r.Text()
			p.Hosts = append(p.Hosts, h)
			return jsonwalk.Within(err, jsonwalk.Element(i))
		})
	case "message_bytes":
		p.MessageBytes, err = r.Integer(0, maxBytes)
	case "sizes":
		err = r.sizes()
	case "cuts":
		err = r.each(key, func(i int) error {
			c, err := r.cut()
			p.Cuts = append(p.Cuts, c)
			return jsonwalk.Within(err, jsonwalk.Element(i))
		})
	case "phases":
		var v int64
		v, err = r.Integer(0, maxPhases)
		p.Phases = int(v)
	case "synchronisation":
		p.Sync = new(Claim)
		_, err = r.Fields(claimKeys, r.claim)
	case "makespan_s":
		p.Makespan, err = r.Number()
	case "bound_s":
		p.Bound, err = r.Number()
	case "transfers":
		err = r.each(key, func(i int) error {
			p.Transfers = append(p.Transfers, Transfer{Phase: -1})
			return jsonwalk.Within(r.transfer(&p.Transfers[i]), jsonwalk.Element(i))
		})
	}
	return err
}

// claim reads field i of a synchronisation.
func (r *planReader) claim(i int) (err error) {
	c := r.plan.Sync
	switch claimKeys[i] {
	case "kind":
		c.Kind, err = r.Text()
	case "block":
		var v int64
		v, err = r.Integer(0, maxPhases)
		c.Block = int(v)
	case "within":
		c.Within, err = r.Text()
	case "strict":
		c.Strict, err = r.Bool()
	case "lead_bytes":
		c.Lead, err = r.Integer(0, MaxLead)
	}
	return jsonwalk.Within(err, claimKeys[i])
}

// each reads a list and remembers where its elements stand.
func (r *planReader) each(key string, read func(i int) error) error {
	return r.List(func(i int) error {
		r.elements[key] = append(r.elements[key], r.Pos())
		return read(i)
	})
}

// sizes reads a list of sizes per rank, or a matrix of them.
func (r *planReader) sizes() error {
	r.plan.Sizes = []int64{}
	return r.each("sizes", func(i int) error {
		if r.Peek() != '[' {
			if r.plan.Matrix != nil {
				return r.Fail(r.Pos(), "%s stands among rows", r.Snippet())
			}
			v, err := r.Integer(0, maxBytes)
			r.plan.Sizes = append(r.plan.Sizes, v)
			return err
		}
		if len(r.plan.Sizes) > 0 {
			return r.Fail(r.Pos(), "a row stands among numbers")
		}
		r.plan.Sizes = nil
		row, err := r.integers(0, maxBytes)
		r.plan.Matrix = append(r.plan.Matrix, row)
		return jsonwalk.Within(err, jsonwalk.Element(i))
	})
}

func (r *planReader) integers(lo, hi int64) ([]int64, error) {
	row := []int64{}
	err := r.List(func(int) error {
		v, err := r.Integer(lo, hi)
		row = append(row, v)
		return err
	})
	return row, err
}

func (r *planReader) transfer(t *Transfer) error {
	start := r.Pos()
	found, err := r.Fields(transferKeys, func(i int) (err error) {
		switch transferKeys[i] {
		case "id":
			t.ID, err = r.index()
		case "src":
			t.Src, err = r.index()
		case "dst":
			t.Dst, err = r.index()
		case "blocks":
			err = r.List(func(int) error {
				b, err := r.block()
				t.Blocks = append(t.Blocks, b)
				return err
			})
		case "phase":
			t.Phase, err = r.index()
		case "after":
			if r.Null() { // what Go writes for a slice that was never made
				return nil
			}
			err = r.List(func(int) error {
				a, err := r.index()
				t.After = append(t.After, a)
				return err
			})
		case "sync":
			t.Sync, err = r.Text()
		case "start":
			t.Start, err = r.Number()
		case "end":
			t.End, err = r.Number()
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.required(start, transferKeys[:4], found)
}

func (r *planReader) block() (Block, error) {
	b, start := Block{}, r.Pos()
	found, err := r.Fields(blockKeys, func(i int) (err error) {
		switch blockKeys[i] {
		case "origin":
			b.Origin, err = r.index()
		case "dest":
			b.Dest, err = r.dest()
		case "piece":
			b.Piece, err = r.index()
		}
		return err
	})
	if err != nil {
		return b, err
	}
	return b, r.required(start, blockKeys[:2], found)
}

func (r *planReader) cut() (Cut, error) {
	c, start := Cut{}, r.Pos()
	found, err := r.Fields(cutKeys, func(i int) (err error) {
		switch cutKeys[i] {
		case "origin":
			c.Origin, err = r.index()
		case "dest":
			c.Dest, err = r.dest()
		case "at":
			c.At, err = r.integers(0, maxBytes)
		}
		return err
	})
	if err != nil {
		return c, err
	}
	return c, r.required(start, cutKeys, found)
}

// dest reads what is an index or [All].
func (r *planReader) dest() (int, error) {
	v, err := r.Integer(All, maxTransferID)
	return int(v), err
}

// maxTransferID keeps what is read in 32 bits, on every platform.
const maxTransferID = 1<<31 - 1

func (r *planReader) index() (int, error) {
	v, err := r.Integer(0, maxTransferID)
	return int(v), err
}

func (r *planReader) required(at int, keys []string, found uint64) error {
	for i, key := range keys {
		if found&(1<<i) == 0 {
			return r.Fail(at, "%q is missing", key)
		}
	}
	return nil
}
