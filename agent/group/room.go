package group

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A contribution is what one local rank brings to an operation.
type contribution struct {
	in   Input
	row  []int64 // alltoall: bytes for each rank
	plan []byte
	// eager is what in holds, where it is few enough to travel with the call; else nil.
	eager []byte
	call  message // its ready message
}

// A view is what one rank gets of an operation's results.
type view struct {
	buf   Buffer
	sizes []int64 // by source, in rank order
}

// A room is the memory of one operation at this host. Its offsets count as if the results
// stood one behind the other.
type room struct {
	views   map[int]view // by local rank
	results []Buffer     // each once
	sending Buffer       // this host's own blocks, where they are not in a result
	layout  func(b plan.Block) []Segment
}

// memory is what the engine reads and writes.
func (r *room) memory() (send []byte, results [][]byte) {
	for _, b := range r.results {
		results = append(results, b.Bytes())
	}
	if r.sending == nil {
		return nil, results
	}
	if send = r.sending.Bytes(); send == nil {
		send = []byte{} // nil would say that the blocks are in the results
	}
	return send, results
}

// sent gives back what only the exchange needed.
func (r *room) sent() {
	if r.sending != nil {
		r.sending.Release()
		r.sending = nil
	}
}

func (r *room) release() {
	r.sent()
	free(r.results)
}

// alloc makes a buffer of the operation.
func (m *member) alloc(seq uint64, bytes int64) (Buffer, error) {
	buf, err := m.g.cfg.Alloc(m.id, seq, bytes)
	if err != nil {
		return nil, fmt.Errorf("room for %d bytes: %w", bytes, err)
	}
	return buf, nil
}

// scratch is alloc for what no client sees.
func (m *member) scratch(seq uint64, bytes int64) (Buffer, error) {
	if m.g.cfg.Scratch == nil {
		return m.alloc(seq, bytes)
	}
	buf, err := m.g.cfg.Scratch(bytes)
	if err != nil {
		return nil, fmt.Errorf("room for %d bytes: %w", bytes, err)
	}
	return buf, nil
}

// copyIn fills dst, which must be as long as the input of a rank.
func (c *contribution) copyIn(rank int, dst []byte) error {
	if n := c.in.Size(); n != int64(len(dst)) {
		return &inputError{rank, fmt.Errorf("input has %d bytes, and had %d", n, len(dst))}
	}
	if err := c.in.CopyTo(dst); err != nil {
		return &inputError{rank, err}
	}
	return nil
}

// bytes returns the input, of size bytes.
func (c *contribution) bytes(rank int, size int64) ([]byte, error) {
	if b, ok := c.in.(Bytes); ok && b != nil && int64(len(b)) == size {
		return b, nil
	}
	b := make([]byte, size)
	return b, c.copyIn(rank, b)
}

// prefix returns where blocks of the given sizes begin that stand one behind the other from
// first on, and where the last one ends.
func prefix(first int64, sizes []int64) ([]int64, error) {
	offsets := make([]int64, len(sizes)+1)
	offsets[0] = first
	for i, n := range sizes {
		if offsets[i+1] = offsets[i] + n; n < 0 || offsets[i+1] < offsets[i] {
			return nil, errors.New("sizes of the ranks overflow")
		}
	}
	return offsets, nil
}

// add appends a segment, to the one before it where they touch. One of no bytes is left out.
func add(segs []Segment, offset, n int64) []Segment {
	if n == 0 {
		return segs
	}
	if last := len(segs) - 1; last >= 0 && segs[last].Offset+segs[last].Len == offset {
		segs[last].Len += n
		return segs
	}
	return append(segs, Segment{offset, n})
}

// allgatherRoom makes the one result of all local ranks, with their own blocks in place.
func (m *member) allgatherRoom(seq uint64, sizes []int64, from map[int]contribution) (*room, error) {
	if len(sizes) != len(m.roster) {
		return nil, errMisfit
	}
	offsets, err := prefix(0, sizes)
	if err != nil {
		return nil, err
	}
	buf, err := m.alloc(seq, offsets[len(sizes)])
	if err != nil {
		return nil, err
	}
	r := &room{views: make(map[int]view), results: []Buffer{buf}}
	r.layout = func(b plan.Block) (segs []Segment) {
		for rank, h := range m.roster {
			if h == m.hosts[b.Origin] {
				segs = add(segs, offsets[rank], sizes[rank])
			}
		}
		return segs
	}
	for rank, c := range from {
		r.views[rank] = view{buf, sizes}
		if err := c.copyIn(rank, buf.Bytes()[offsets[rank]:offsets[rank+1]]); err != nil {
			r.release()
			return nil, err
		}
	}
	return r, nil
}

var errMisfit = errors.New("start message does not fit the group")

// A crossing is this host's share in the table of an alltoall: what its ranks send, and what
// they get. Rows, columns and offsets are by place in local.
type crossing struct {
	local   []int     // ranks on this host
	ranks   [][]int   // by host
	self    int       // among the hosts
	rows    [][]int64 // to each rank
	columns [][]int64 // from each rank
	out, in [][]int64 // where each block begins, and at the end where the last ends
}

// crossing reads the columns that the coordinator has made of all ranks' rows.
func (m *member) crossing(columns []byte, from map[int]contribution) (*crossing, error) {
	x := &crossing{ranks: make([][]int, len(m.hosts)), self: slices.Index(m.hosts, m.g.cfg.Self)}
	for rank, h := range places(m.roster, m.hosts) {
		x.ranks[h] = append(x.ranks[h], rank)
	}
	x.local = x.ranks[x.self]
	n := len(m.roster)
	if len(from) != len(x.local) || n > maxAlltoall {
		return nil, errMisfit
	}
	var err error
	if x.columns, err = readRows(columns, len(x.local), n); err != nil {
		return nil, err
	}
	x.out, x.in = make([][]int64, len(x.local)), make([][]int64, len(x.local))
	var out, in int64
	for i, rank := range x.local {
		row := from[rank].row
		if len(row) != n {
			return nil, errMisfit
		}
		x.rows = append(x.rows, row)
		if x.out[i], err = prefix(out, row); err != nil {
			return nil, err
		}
		if x.in[i], err = prefix(in, x.columns[i]); err != nil {
			return nil, err
		}
		out, in = x.out[i][n], x.in[i][n]
	}
	for i, s := range x.local {
		for j, d := range x.local {
			if x.rows[i][d] != x.columns[j][s] {
				return nil, fmt.Errorf("the coordinator has %d bytes from rank %d to rank %d, which are %d", x.columns[j][s], s, d, x.rows[i][d])
			}
		}
	}
	return x, nil
}

// segments says where the block of one host for another lies: the blocks of each of its
// ranks, in rank order, for each rank of the other, in rank order.
func (x *crossing) segments(b plan.Block) (segs []Segment) {
	if b.Origin == x.self {
		for i := range x.local {
			for _, d := range x.ranks[b.Dest] {
				segs = add(segs, x.out[i][d], x.rows[i][d])
			}
		}
		return segs
	}
	for _, s := range x.ranks[b.Origin] {
		for i := range x.local {
			switch n := x.columns[i][s]; {
			case len(x.local) == 1:
				segs = add(segs, x.in[i][s], n)
			case n > 0: // not joined to the one before, which lies in another rank's result
				segs = append(segs, Segment{x.in[i][s], n})
			}
		}
	}
	return segs
}

// alltoallRoom makes a result for every local rank and one buffer for what they send. Blocks
// between local ranks are put in place.
func (m *member) alltoallRoom(seq uint64, columns []byte, from map[int]contribution) (*room, error) {
	x, err := m.crossing(columns, from)
	if err != nil {
		return nil, err
	}
	r := &room{views: make(map[int]view), layout: x.segments}
	if err := m.fill(seq, r, x, from); err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// gives returns what this host's ranks give: the only one's bytes, or a copy of all.
func (m *member) gives(seq uint64, x *crossing, from map[int]contribution) (Buffer, error) {
	n, last := len(m.roster), len(x.local)-1
	if b, ok := from[x.local[0]].in.(Bytes); ok && last == 0 && int64(len(b)) == x.out[0][n] {
		return given(b), nil
	}
	buf, err := m.scratch(seq, x.out[last][n])
	if err != nil {
		return nil, err
	}
	for i, rank := range x.local {
		c := from[rank]
		if err := c.copyIn(rank, buf.Bytes()[x.out[i][0]:x.out[i][n]]); err != nil {
			buf.Release()
			return nil, err
		}
	}
	return buf, nil
}

// given is what a rank gives, sent from where it is.
type given []byte

func (g given) Bytes() []byte       { return g }
func (given) Path() (string, error) { return "", nil }
func (given) Release()              {}

func (m *member) fill(seq uint64, r *room, x *crossing, from map[int]contribution) error {
	n := len(m.roster)
	var err error
	if r.sending, err = m.gives(seq, x, from); err != nil {
		return err
	}
	sending := r.sending.Bytes()
	for j, d := range x.local {
		buf, err := m.alloc(seq, x.in[j][n]-x.in[j][0])
		if err != nil {
			return err
		}
		r.results = append(r.results, buf)
		r.views[d] = view{buf, x.columns[j]}
		for i, s := range x.local {
			copy(buf.Bytes()[x.in[j][s]-x.in[j][0]:], sending[x.out[i][d]:x.out[i][d+1]])
		}
	}
	return nil
}
