package phase

import (
	"fmt"
	"slices"
)

// A reducer removes redundant synchronisations: a→c where a→b→…→c is there as well.
// Messages are added by phase, each with what it must come after.
//
// What a message comes after, directly or not, is kept as a vector clock with one entry for
// each machine. That is enough because any two messages of one source and different blocks
// contend on its link: they are ordered, so if one of them comes before c, all
// of that source's earlier blocks do. An entry is the last such block and, as messages of
// one block have no order, which of its messages.
//
// Only the clocks of messages that can still be named in a list are kept: with blocks
// of one phase the last users of some link.
type reducer struct {
	messages []message
	size     int32 // phases per block
	kind     Sync
	machines int
	words    int     // of a bit set over the messages of one source in one block; 0 if none sends twice
	place    []int32 // by message: its bit; nil if words is 0

	clocks []*clock // by message: nil before it is added and after its last release
	free   []*clock
	room   int // bytes that clocks may still take

	out edges
}

// maxClocks bounds the memory of the clocks. Strict synchronisation of large blocks
// is what comes near it.
const maxClocks = 1 << 30

// A clock says what is before a message, itself included.
type clock struct {
	last []int32  // by source: 1 + the last block, 0 if there is nothing
	bits []uint64 // by source, words each: messages of that block
	refs int
}

func newReducer(machines int, messages []message, size int32, kind Sync) *reducer {
	r := &reducer{messages: messages, size: size, kind: kind, machines: machines, clocks: make([]*clock, len(messages)), room: maxClocks}
	r.out.end = make([]int, 0, len(messages))
	r.out.kind = make([]Sync, 0, len(messages))
	if size > 1 {
		r.number()
	}
	return r
}

// number gives each message its place among those of its source and block.
func (r *reducer) number() {
	r.place = make([]int32, len(r.messages))
	block := make([]int32, r.machines)
	sent := make([]int32, r.machines)
	most := int32(0)
	for i, m := range r.messages {
		if b := m.phase / r.size; b != block[m.src] {
			block[m.src], sent[m.src] = b, 0
		}
		r.place[i] = sent[m.src]
		sent[m.src]++
		most = max(most, sent[m.src])
	}
	r.words = int(most+63) / 64
}

// add gives message i its list: those of candidates, all earlier blocks' and retained, that
// are not before another one. The order of candidates does not matter, and it is changed.
func (r *reducer) add(i int32, candidates []int32) error {
	// What is before a candidate has a smaller index: seen in falling order, all that a
	// candidate could be before are in the clock already.
	slices.Sort(candidates)
	c, err := r.acquire()
	if err != nil {
		return err
	}
	from := len(r.out.list)
	for _, a := range slices.Backward(candidates) {
		switch {
		case len(r.out.list) == from:
			r.set(c, r.clocks[a])
		case r.before(a, c):
			continue
		default:
			r.merge(c, r.clocks[a])
		}
		r.out.list = append(r.out.list, a)
	}
	if len(r.out.list) == from {
		clear(c.last)
	}
	if len(r.out.list) > maxEdges {
		return tooMany(r.messages)
	}
	slices.Reverse(r.out.list[from:])
	r.out.close(r.kind)
	r.enter(i, c)
	r.clocks[i] = c
	return nil
}

// before reports whether message a is in c.
func (r *reducer) before(a int32, c *clock) bool {
	m := r.messages[a]
	block := m.phase/r.size + 1
	if c.last[m.src] != block || r.words == 0 {
		return c.last[m.src] >= block
	}
	p := r.place[a]
	return c.bits[int(m.src)*r.words+int(p/64)]&(1<<(p%64)) != 0
}

// enter puts message i, of a later block than all of its source in c, into c.
func (r *reducer) enter(i int32, c *clock) {
	m := r.messages[i]
	c.last[m.src] = m.phase/r.size + 1
	if r.words > 0 {
		set := c.bits[int(m.src)*r.words:][:r.words]
		clear(set)
		set[r.place[i]/64] = 1 << (r.place[i] % 64)
	}
}

func (r *reducer) set(c, from *clock) {
	copy(c.last, from.last)
	copy(c.bits, from.bits)
}

func (r *reducer) merge(c, from *clock) {
	if r.words == 0 {
		last := from.last[:len(c.last)]
		for h, b := range c.last {
			c.last[h] = max(b, last[h])
		}
		return
	}
	for h, b := range from.last {
		if b == 0 || b < c.last[h] {
			continue
		}
		lo, hi := h*r.words, (h+1)*r.words
		if b > c.last[h] {
			c.last[h] = b
			copy(c.bits[lo:hi], from.bits[lo:hi])
			continue
		}
		for w := lo; w < hi; w++ {
			c.bits[w] |= from.bits[w]
		}
	}
}

// acquire returns a clock with anything in it.
func (r *reducer) acquire() (*clock, error) {
	if n := len(r.free); n > 0 {
		c := r.free[n-1]
		r.free = r.free[:n-1]
		return c, nil
	}
	if r.room -= r.machines * (4 + 8*r.words); r.room < 0 {
		return nil, fmt.Errorf("synchronisations between blocks of %d phases of %d machines take more than %d MiB to find: choose smaller blocks, or none",
			r.size, r.machines, maxClocks>>20)
	}
	c := &clock{last: make([]int32, r.machines)}
	if r.words > 0 {
		c.bits = make([]uint64, r.machines*r.words)
	}
	return c, nil
}

// retain says that message i may become a candidate once more.
func (r *reducer) retain(i int32) { r.clocks[i].refs++ }

// release takes one retain back.
func (r *reducer) release(i int32) {
	c := r.clocks[i]
	if c.refs--; c.refs == 0 {
		r.clocks[i] = nil
		r.free = append(r.free, c)
	}
}
