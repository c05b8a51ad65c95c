package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// The first byte of an encoded part. One without pieces and lead, or without crossings, is written as before there were any,
// so that agents of that time can run it.
const (
	partVersion     = 2
	piecesVersion   = 3
	crossingVersion = 4
)

// AppendTo appends the encoding of p to dst. p must be valid.
//
// A part crosses links of 1 Mbit/s while nothing else moves, so names share their
// front with the previous one, and numbers are varints of differences: version, id,
// collective, hosts, self, chunk, from the second version on the lead, in the third crossings (host, bytes), blocks (number gap, size difference, role,
// and from the second version on 0 or 1 + the offset of a piece), sends (id difference, host, block differences, waits, hosts to tell), recvs likewise.
func (p *Part) AppendTo(dst []byte) []byte {
	version := byte(partVersion)
	if p.Lead > 0 || slices.ContainsFunc(p.Blocks, func(b Block) bool { return b.Cut }) {
		version = piecesVersion
	}
	if len(p.Crossings) > 0 {
		version = crossingVersion
	}
	dst = append(dst, version)
	dst = append(dst, p.ID[:]...)
	if p.Collective == plan.Alltoall {
		dst = append(dst, 1)
	} else {
		dst = append(dst, 0)
	}
	u := func(v int) { dst = binary.AppendUvarint(dst, uint64(v)) }
	d := func(v, prev int) { dst = binary.AppendVarint(dst, int64(v)-int64(prev)) }
	u(len(p.Hosts))
	prev := ""
	for _, h := range p.Hosts {
		shared := commonPrefix(prev, h)
		u(shared)
		u(len(h) - shared)
		dst = append(dst, h[shared:]...)
		prev = h
	}
	u(p.Self)
	u(p.Chunk)
	if version >= piecesVersion {
		u(int(p.Lead))
	}
	if version >= crossingVersion {
		u(len(p.Crossings))
		for _, c := range p.Crossings {
			u(c.Host)
			u(int(c.Bytes))
		}
	}
	u(len(p.Blocks))
	number, size := -1, 0
	for _, b := range p.Blocks {
		d(p.Number(b.Block), number+1)
		number = p.Number(b.Block)
		// The role rides on the size's difference: one byte for a block like its predecessor.
		dst = binary.AppendVarint(dst, (b.Size-int64(size))*3+int64(b.Role))
		size = int(b.Size)
		if version >= piecesVersion {
			after := int64(0)
			if b.Cut {
				after = 1 + b.Offset
			}
			dst = binary.AppendVarint(dst, after)
		}
	}
	list := func(vs []int) {
		u(len(vs))
		last := 0
		for _, v := range vs {
			d(v, last)
			last = v + 1
		}
	}
	u(len(p.Sends))
	id := 0
	for _, s := range p.Sends {
		d(s.ID, id)
		id = s.ID + 1
		u(s.Dst)
		list(s.Blocks)
		u(len(s.Waits))
		last := s.ID
		for _, w := range s.Waits {
			d(w.Transfer, last)
			last = w.Transfer
			if w.Left {
				u(2*w.Host + 1)
			} else {
				u(2 * w.Host)
			}
		}
		list(s.Notify)
	}
	u(len(p.Recvs))
	id = 0
	for _, r := range p.Recvs {
		d(r.ID, id)
		id = r.ID + 1
		u(r.Src)
		list(r.Blocks)
		list(r.Notify)
	}
	return dst
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

var errShort = errors.New("ends too early")

// ParsePart parses what AppendTo wrote and validates it. Whatever b claims, it
// allocates a small multiple of len(b), and at most maxName bytes for each host name.
func ParsePart(b []byte) (*Part, error) {
	r := partReader{rest: b}
	p := r.part()
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.rest))
	}
	if r.err != nil {
		return nil, fmt.Errorf("parse part of %d bytes: at byte %d: %w", len(b), len(b)-len(r.rest), r.err)
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("parse part of %d bytes: %w", len(b), err)
	}
	return p, nil
}

// A partReader reads varints; after the first error it returns zeros.
type partReader struct {
	rest []byte
	err  error
}

func (r *partReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *partReader) bytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.rest) {
		r.fail(errShort)
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *partReader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// num reads an unsigned number of at most limit.
func (r *partReader) num(limit int) int {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.rest = r.rest[n:]
	if v > uint64(limit) {
		r.fail(fmt.Errorf("%d is over %d", v, limit))
		return 0
	}
	return int(v)
}

// signed reads a number between -limit and limit.
func (r *partReader) signed(limit int64) int64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.rest = r.rest[n:]
	if v > limit || v < -limit {
		r.fail(fmt.Errorf("%d is beyond ±%d", v, limit))
		return 0
	}
	return v
}

// diff reads a number from 0 to limit as its difference to prev.
func (r *partReader) diff(prev, limit int) int {
	v := int64(prev) + r.signed(1<<40)
	if r.err == nil && (v < 0 || v > int64(limit)) {
		r.fail(fmt.Errorf("%d is not between 0 and %d", v, limit))
	}
	if r.err != nil {
		return 0
	}
	return int(v)
}

// count reads the length of a list whose elements take at least size bytes each, so
// that a lie about it is found out before anything is allocated.
func (r *partReader) count(size int) int {
	return r.num(len(r.rest) / size)
}

func (r *partReader) list(limit int) []int {
	n := r.count(1)
	if n == 0 {
		return nil
	}
	vs := make([]int, n)
	last := 0
	for i := range vs {
		vs[i] = r.diff(last, limit)
		last = vs[i] + 1
	}
	return vs
}

func (r *partReader) part() *Part {
	p := &Part{Collective: plan.Allgather}
	version := r.byte()
	if r.err == nil && (version < partVersion || version > crossingVersion) {
		r.fail(fmt.Errorf("version %d, want %d to %d", version, partVersion, crossingVersion))
	}
	copy(p.ID[:], r.bytes(len(p.ID)))
	switch v := r.byte(); {
	case v == 1:
		p.Collective = plan.Alltoall
	case v > 1:
		r.fail(fmt.Errorf("unknown collective %d", v))
	}
	r.hosts(p)
	p.Self = r.num(maxHosts)
	p.Chunk = r.num(maxChunk)
	if version >= piecesVersion {
		p.Lead = int64(r.num(plan.MaxLead))
	}
	if version >= crossingVersion {
		r.crossings(p)
	}
	if r.err != nil {
		return p
	}
	r.blocks(p, version >= piecesVersion)
	r.sends(p)
	r.recvs(p)
	return p
}

func (r *partReader) hosts(p *Part) {
	n := r.count(2)
	if n > maxHosts {
		r.fail(fmt.Errorf("%d hosts, want at most %d", n, maxHosts))
		return
	}
	p.Hosts = make([]string, n)
	prev := ""
	for i := range p.Hosts {
		// A shared front makes names longer than their bytes here: at most maxName each.
		shared := r.num(len(prev))
		rest := r.bytes(r.num(maxName - min(shared, maxName)))
		if r.err != nil {
			return
		}
		p.Hosts[i] = prev[:shared] + string(rest)
		prev = p.Hosts[i]
	}
	if n == 0 && r.err == nil {
		r.fail(errors.New("no hosts"))
	}
}

func (r *partReader) crossings(p *Part) {
	n := r.count(2)
	if n == 0 {
		return
	}
	p.Crossings = make([]Crossing, n)
	for i := range p.Crossings {
		p.Crossings[i] = Crossing{Host: r.num(maxHosts), Bytes: int64(r.num(maxBytes))}
	}
}

func (r *partReader) blocks(p *Part, pieces bool) {
	p.Blocks = make([]Block, r.count(2))
	last := p.stride()
	if pieces {
		last *= maxPieces
	}
	number, size := -1, int64(0)
	for i := range p.Blocks {
		number = r.diff(number+1, last)
		v := r.signed(4 * maxBytes)
		role := (v%3 + 3) % 3
		size += (v - role) / 3
		if r.err == nil && (size < 0 || size > maxBytes) {
			r.fail(fmt.Errorf("block of %d bytes", size))
		}
		if r.err != nil {
			return
		}
		p.Blocks[i] = Block{Block: p.block(number), Size: size, Role: Role(role)}
		if !pieces {
			continue
		}
		switch after := r.signed(1 + maxBytes); {
		case after < 0:
			r.fail(fmt.Errorf("piece at byte %d", after-1))
		case after > 0:
			p.Blocks[i].Cut, p.Blocks[i].Offset = true, after-1
		}
	}
}

func (r *partReader) sends(p *Part) {
	p.Sends = make([]Send, r.count(5))
	id := 0
	for i := range p.Sends {
		s := &p.Sends[i]
		s.ID = r.diff(id, maxTransfers)
		id = s.ID + 1
		s.Dst = r.num(maxHosts)
		s.Blocks = r.list(len(p.Blocks))
		if n := r.count(2); n > 0 {
			s.Waits = make([]Wait, n)
		}
		last := s.ID
		for k := range s.Waits {
			s.Waits[k] = Wait{Transfer: r.diff(last, maxTransfers)}
			last = s.Waits[k].Transfer
			host := r.num(2 * maxHosts)
			s.Waits[k].Host, s.Waits[k].Left = host/2, host%2 == 1
		}
		s.Notify = r.list(maxHosts)
		if r.err != nil {
			return
		}
	}
}

func (r *partReader) recvs(p *Part) {
	p.Recvs = make([]Recv, r.count(4))
	id := 0
	for i := range p.Recvs {
		v := &p.Recvs[i]
		v.ID = r.diff(id, maxTransfers)
		id = v.ID + 1
		v.Src = r.num(maxHosts)
		v.Blocks = r.list(len(p.Blocks))
		v.Notify = r.list(maxHosts)
		if r.err != nil {
			return
		}
	}
}
