package exchange

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Limits of a part. They bound the memory that a part can claim before its first byte arrives.
const (
	maxHosts     = 1 << 14
	maxName      = 255
	maxPieces    = 1 << 12 // of one block
	maxTransfers = 1 << 22
	maxBytes     = 1 << 50 // all blocks of a part together
	maxEntries   = 1 << 24 // chunks and checksums of a part together: 2 MiB per bitmap
	maxChunk     = 1 << 30
)

// A Role says what a host has to do with a block.
type Role uint8

// The roles.
const (
	Origin  Role = iota // the block starts here
	Want                // it ends here, and may be forwarded
	Forward             // no rank here wants it
)

func (r Role) String() string {
	switch r {
	case Origin:
		return "origin"
	case Want:
		return "want"
	case Forward:
		return "forward"
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// A Block is one block that a host handles, or a piece of one.
type Block struct {
	plan.Block
	Size int64 // bytes
	Role Role
	// Cut says that this is not all of the block, but Size bytes from Offset on.
	Cut    bool
	Offset int64
}

// A Wait is a synchronisation: transfer Transfer must be complete, or with Left its data
// must have left, before the transfer that waits may start.
type Wait struct {
	Transfer int
	Host     int  // index in Part.Hosts: the host that tells, where Transfer ends, or starts with Left
	Left     bool // the data have been handed to the network at their source
}

func (w Wait) milestone() milestone { return milestone{w.Transfer, w.Left} }

// A milestone of a transfer is that it is complete, or that its data have left.
type milestone struct {
	transfer int
	left     bool
}

// A Send is a transfer from this host.
type Send struct {
	ID     int   // Transfer.ID in the plan
	Dst    int   // index in Part.Hosts
	Blocks []int // indexes in Part.Blocks
	Waits  []Wait
	// Notify lists the hosts (indexes in Part.Hosts) that are told by a token when the
	// data of this transfer have left, ascending.
	Notify []int
}

// A Recv is a transfer to this host.
type Recv struct {
	ID     int   // Transfer.ID in the plan
	Src    int   // index in Part.Hosts
	Blocks []int // indexes in Part.Blocks
	// Notify lists the hosts (indexes in Part.Hosts) that are told by a token when
	// this transfer is complete, ascending. Src is not among them: it is always told.
	Notify []int
}

// A Part is one host's share of a plan. It is inert data.
type Part struct {
	ID         ID
	Collective plan.Collective
	Hosts      []string   // all hosts of the plan, in its order
	Self       int        // index in Hosts
	Chunk      int        // bytes of every chunk but a block's last
	Lead       int64      // bytes that may be missing of a transfer when others are told that it is complete
	Crossings  []Crossing // links to other sites of which this site's hosts send unequal shares
	Blocks     []Block    // blocks that this host sends or receives, by (Piece, Origin, Dest) ascending
	Sends      []Send     // in plan order: the order in which a destination's transfers are served
	Recvs      []Recv     // by ID ascending
}

// Number returns the number of b on the wire: its origin for an allgather block,
// origin·n + dest for an all-to-all block over n hosts. For piece k of a block add k·n, or k·n²:
// whole blocks have the numbers that they had before there were pieces.
func (p *Part) Number(b plan.Block) int {
	number := b.Origin
	if p.Collective == plan.Alltoall {
		number = b.Origin*len(p.Hosts) + b.Dest
	}
	return b.Piece*p.stride() + number
}

// stride is the number of blocks of the collective.
func (p *Part) stride() int {
	if p.Collective == plan.Alltoall {
		return len(p.Hosts) * len(p.Hosts)
	}
	return len(p.Hosts)
}

// block is the inverse of Number.
func (p *Part) block(number int) plan.Block {
	piece, number := number/p.stride(), number%p.stride()
	if p.Collective == plan.Alltoall {
		return plan.Block{Origin: number / len(p.Hosts), Dest: number % len(p.Hosts), Piece: piece}
	}
	return plan.Block{Origin: number, Dest: plan.All, Piece: piece}
}

// chunks returns the number of chunks of a block of size bytes.
func (p *Part) chunks(size int64) int64 {
	return (size + int64(p.Chunk) - 1) / int64(p.Chunk)
}

// Transit returns the bytes that the host holds only to forward them.
func (p *Part) Transit() int64 {
	var n int64
	for _, b := range p.Blocks {
		if b.Role == Forward {
			n += b.Size
		}
	}
	return n
}

// Incoming returns the bytes that the host receives.
func (p *Part) Incoming() int64 {
	var n int64
	for _, r := range p.Recvs {
		n += p.carries(r.Blocks)
	}
	return n
}

// Validate reports the first thing that is wrong with p, whoever made it. A valid
// part can be run: every index is in range, every block that is sent is held or
// received exactly once, and memory and totals are bounded.
func (p *Part) Validate() error { return p.validate(true) }

// validate is Validate, and without names for a part whose hosts are those of one that has passed.
func (p *Part) validate(names bool) error {
	for _, check := range []func() error{p.checkHead, p.checkCrossings, p.checkBlocks, p.checkRecvs, p.checkSends, p.checkWaits} {
		if err := check(); err != nil {
			return fmt.Errorf("part of exchange %v: %w", p.ID, err)
		}
	}
	if names {
		if err := p.checkNames(); err != nil {
			return fmt.Errorf("part of exchange %v: %w", p.ID, err)
		}
	}
	return nil
}

func (p *Part) checkHead() error {
	if p.Collective != plan.Allgather && p.Collective != plan.Alltoall {
		return fmt.Errorf("unknown collective %q", p.Collective)
	}
	if n := len(p.Hosts); n < 1 || n > maxHosts {
		return fmt.Errorf("%d hosts, want 1 to %d", n, maxHosts)
	}
	if p.Self < 0 || p.Self >= len(p.Hosts) {
		return fmt.Errorf("host %d of %d", p.Self, len(p.Hosts))
	}
	if p.Lead < 0 || p.Lead > plan.MaxLead {
		return fmt.Errorf("a lead of %d bytes, want 0 to %d", p.Lead, plan.MaxLead)
	}
	if p.Chunk < 1 || p.Chunk > maxChunk {
		return fmt.Errorf("chunks of %d bytes, want 1 to %d", p.Chunk, maxChunk)
	}
	if n := len(p.Sends) + len(p.Recvs); n > maxTransfers {
		return fmt.Errorf("%d transfers, want at most %d", n, maxTransfers)
	}
	return nil
}

func (p *Part) checkNames() error {
	names := make(map[string]bool, len(p.Hosts))
	for i, h := range p.Hosts {
		if h == "" || len(h) > maxName {
			return fmt.Errorf("host %d has a name of %d bytes, want 1 to %d", i, len(h), maxName)
		}
		if names[h] {
			return fmt.Errorf("host %q twice", h)
		}
		names[h] = true
	}
	return nil
}

func (p *Part) checkBlocks() error {
	n := len(p.Hosts)
	var total, entries int64
	last := -1
	for i, b := range p.Blocks {
		if b.Origin < 0 || b.Origin >= n {
			return fmt.Errorf("block %d has origin %d of %d hosts", i, b.Origin, n)
		}
		if p.Collective == plan.Allgather && b.Dest != plan.All ||
			p.Collective == plan.Alltoall && (b.Dest < 0 || b.Dest >= n || b.Dest == b.Origin) {
			return fmt.Errorf("block %d of an %s has origin %d and dest %d", i, p.Collective, b.Origin, b.Dest)
		}
		if b.Piece < 0 || b.Piece >= maxPieces || b.Offset < 0 || b.Offset > maxBytes || !b.Cut && (b.Piece > 0 || b.Offset > 0) {
			return fmt.Errorf("block %d of host %d is piece %d at byte %d (cut: %t)", i, b.Origin, b.Piece, b.Offset, b.Cut)
		}
		number := p.Number(b.Block)
		if number <= last {
			return fmt.Errorf("block %d (number %d) is not after number %d", i, number, last)
		}
		last = number
		if b.Role > Forward || (b.Role == Origin) != (b.Origin == p.Self) {
			return fmt.Errorf("block %d of host %d has role %v at host %d", i, b.Origin, b.Role, p.Self)
		}
		if b.Size < 0 || b.Size > maxBytes {
			return fmt.Errorf("block %d has %d bytes", i, b.Size)
		}
		total += b.Size
		entries += p.chunks(b.Size) + 1
		if total > maxBytes || entries > maxEntries {
			return fmt.Errorf("over %d bytes in over %d chunks", total, entries)
		}
	}
	return nil
}

// checkTransferBlocks checks the blocks of transfer id, and that none of its (block,
// host) pairs is in seen yet, if that is not nil.
func (p *Part) checkTransferBlocks(id int, blocks []int, host int, seen map[int]bool) error {
	if id < 0 || id >= maxTransfers {
		return fmt.Errorf("transfer %d, want ids from 0 to %d", id, maxTransfers-1)
	}
	if host < 0 || host >= len(p.Hosts) || host == p.Self {
		return fmt.Errorf("transfer %d between host %d and host %d", id, p.Self, host)
	}
	if len(blocks) == 0 {
		return fmt.Errorf("transfer %d carries no block", id)
	}
	for _, b := range blocks {
		if b < 0 || b >= len(p.Blocks) {
			return fmt.Errorf("transfer %d carries block %d of %d", id, b, len(p.Blocks))
		}
		if seen == nil {
			continue
		}
		k := b*len(p.Hosts) + host
		if seen[k] {
			return fmt.Errorf("transfer %d carries block %d between hosts %d and %d a second time", id, b, p.Self, host)
		}
		seen[k] = true
	}
	return nil
}

func (p *Part) checkRecvs() error {
	from := make([]bool, len(p.Blocks)) // so that no block comes a second time, from whomever
	last := -1
	for _, r := range p.Recvs {
		if err := p.checkTransferBlocks(r.ID, r.Blocks, r.Src, nil); err != nil {
			return err
		}
		if r.ID <= last {
			return fmt.Errorf("received transfer %d is not after %d", r.ID, last)
		}
		last = r.ID
		for _, b := range r.Blocks {
			if from[b] || p.Blocks[b].Role == Origin {
				return fmt.Errorf("transfer %d delivers block %d, which host %d has already", r.ID, b, p.Self)
			}
			from[b] = true
		}
		if err := p.checkNotify(r.ID, r.Notify, r.Src); err != nil {
			return err
		}
	}
	for i, b := range p.Blocks {
		if b.Role != Origin && !from[i] {
			return fmt.Errorf("nothing delivers block %d", i)
		}
	}
	return nil
}

func (p *Part) checkSends() error {
	seen := make(map[int]bool, len(p.Sends))
	ids := make(map[int]bool, len(p.Sends)+len(p.Recvs))
	for _, r := range p.Recvs {
		ids[r.ID] = true
	}
	for _, s := range p.Sends {
		if err := p.checkTransferBlocks(s.ID, s.Blocks, s.Dst, seen); err != nil {
			return err
		}
		if ids[s.ID] {
			return fmt.Errorf("transfer %d twice", s.ID)
		}
		ids[s.ID] = true
		if err := p.checkNotify(s.ID, s.Notify, p.Self); err != nil {
			return err
		}
		for _, b := range s.Blocks {
			if p.Blocks[b].Origin == s.Dst {
				return fmt.Errorf("transfer %d takes a block back to its origin %d", s.ID, s.Dst)
			}
		}
	}
	return nil
}

// checkNotify checks the hosts that are told of transfer id; neither this host nor
// knows needs to be.
func (p *Part) checkNotify(id int, hosts []int, knows int) error {
	prev := -1
	for _, h := range hosts {
		if h <= prev || h >= len(p.Hosts) || h == p.Self || h == knows {
			return fmt.Errorf("transfer %d notifies host %d", id, h)
		}
		prev = h
	}
	return nil
}

func (p *Part) checkWaits() error {
	if !slices.ContainsFunc(p.Sends, func(s Send) bool { return len(s.Waits) > 0 }) {
		return nil
	}
	// A milestone in a word: maps of words are far quicker than those of structs.
	word := func(transfer int, left bool) uint64 {
		w := uint64(transfer) << 1
		if left {
			w |= 1
		}
		return w
	}
	// tellers says which host knows of a milestone first, as far as this part tells.
	tellers := make(map[uint64]int, 2*(len(p.Sends)+len(p.Recvs)))
	for _, r := range p.Recvs {
		tellers[word(r.ID, false)] = p.Self
		tellers[word(r.ID, true)] = r.Src
	}
	for _, s := range p.Sends {
		tellers[word(s.ID, false)] = s.Dst
		tellers[word(s.ID, true)] = p.Self
	}
	var seen []uint64
	for _, s := range p.Sends {
		seen = seen[:0]
		for _, w := range s.Waits {
			if w.Transfer < 0 || w.Transfer >= maxTransfers || w.Transfer == s.ID {
				return fmt.Errorf("transfer %d waits for transfer %d", s.ID, w.Transfer)
			}
			m := word(w.Transfer, w.Left)
			seen = append(seen, m)
			if w.Host < 0 || w.Host >= len(p.Hosts) {
				return fmt.Errorf("transfer %d waits for host %d of %d", s.ID, w.Host, len(p.Hosts))
			}
			teller, known := tellers[m]
			if !known {
				if w.Host == p.Self {
					return fmt.Errorf("transfer %d waits for transfer %d, which this host has no part in", s.ID, w.Transfer)
				}
				tellers[m] = w.Host
			} else if teller != w.Host {
				return fmt.Errorf("transfer %d waits for host %d to tell of transfer %d, which host %d does", s.ID, w.Host, w.Transfer, teller)
			}
		}
		slices.Sort(seen)
		for k := 1; k < len(seen); k++ {
			if seen[k] == seen[k-1] {
				return fmt.Errorf("transfer %d waits for transfer %d twice", s.ID, seen[k]>>1)
			}
		}
	}
	return nil
}
