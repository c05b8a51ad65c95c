package exchange

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// A Segment is a piece of a buffer, in bytes.
type Segment struct{ Offset, Len int64 }

// Data is where the blocks of a part live. The engine keeps no reference to the
// buffers after [Engine.Run] has returned.
type Data struct {
	// Result takes the blocks that arrive. It also holds this host's own blocks where
	// Send is nil.
	Result []byte
	// Results stands in for Result where it is not one piece, such as one for every rank
	// here: offsets count as if the buffers stood one behind the other. No segment
	// reaches from one into the next.
	Results [][]byte
	// Send holds this host's own blocks. Nil means that they are in Result.
	Send []byte
	// Layout says where a block lies, in order: in Send for a block that starts here,
	// in Result for one that a rank here wants. Ranks of one host need not be adjacent,
	// hence several segments. Of a block that travels in pieces it is asked for the whole, with
	// Piece, Offset and Size 0, once for each piece. It is not called for blocks that are
	// only forwarded.
	Layout func(b Block) []Segment
	// Sure, if not nil, is closed when it is known that all hosts have begun, or are about to: see sure.go. Until then
	// only a bounded part is sent to each. Nil means that it is known.
	Sure <-chan struct{}
	// Shown says that this host wants bytes of every other one, so that when it has all of them it knows that all have begun, Sure or not.
	Shown bool
	// Landed, if not nil, is called once, by Run, when all blocks have arrived and are verified and all that this host sends is with
	// its transports: the result may be read and passed on. Run goes on until the others have confirmed, and reads the
	// buffers. It is not called where that is the same moment.
	Landed func(Stats)
	// Progress, if not nil, is updated while the part runs.
	Progress *Progress
}

// segments returns where block b lies. Of a piece it is the piece's share of its block.
func (d *Data) segments(b Block) ([]Segment, error) {
	if !b.Cut {
		return d.Layout(b), nil
	}
	whole := Block{Block: b.Block, Role: b.Role, Cut: true}
	whole.Piece = 0
	var piece []Segment
	from, rest := b.Offset, b.Size
	for _, s := range d.Layout(whole) {
		if s.Len <= from {
			from -= max(s.Len, 0)
			continue
		}
		n := min(s.Len-from, rest)
		if n > 0 {
			piece = append(piece, Segment{Offset: s.Offset + from, Len: n})
		}
		from, rest = 0, rest-n
	}
	if rest > 0 {
		return nil, fmt.Errorf("block %v: its layout ends %d bytes before its piece of %d bytes at %d does", b.Block, rest, b.Size, b.Offset)
	}
	return piece, nil
}

// buffers are addressed as if they stood one behind the other.
type buffers struct {
	bufs   [][]byte
	starts []int64 // starts[i] is the offset of bufs[i][0]
}

func newBuffers(bufs ...[]byte) buffers {
	s := buffers{bufs, make([]int64, len(bufs))}
	for i := 1; i < len(bufs); i++ {
		s.starts[i] = s.starts[i-1] + int64(len(bufs[i-1]))
	}
	return s
}

// piece returns the memory of s, if it lies in one buffer.
func (b *buffers) piece(s Segment) ([]byte, bool) {
	if s.Offset < 0 || s.Len < 0 {
		return nil, false
	}
	i, exact := slices.BinarySearch(b.starts, s.Offset)
	if !exact {
		i--
	}
	for ; exact && i+1 < len(b.starts) && b.starts[i+1] == s.Offset; i++ { // behind empty ones
	}
	if i < 0 {
		return nil, false
	}
	from, size := s.Offset-b.starts[i], int64(len(b.bufs[i]))
	if from > size || s.Len > size-from {
		return nil, false
	}
	return b.bufs[i][from : from+s.Len : from+s.Len], true
}

// A memory is where one block's bytes are, in order.
type memory struct {
	pieces [][]byte
	starts []int64 // starts[i] is the block's offset at which pieces[i] begins
}

// newMemory checks the layout of block b in bufs.
func newMemory(b Block, bufs buffers, segs []Segment) (memory, error) {
	m := memory{pieces: make([][]byte, len(segs)), starts: make([]int64, len(segs))}
	var n int64
	for i, s := range segs {
		piece, ok := bufs.piece(s)
		if !ok {
			return m, fmt.Errorf("block %v: segment of %d bytes at %d is in none of %d buffers", b.Block, s.Len, s.Offset, len(bufs.bufs))
		}
		m.pieces[i], m.starts[i] = piece, n
		n += s.Len // no overflow: each segment lies in a buffer, and a lie about the total is found below
		if n > b.Size {
			break
		}
	}
	if n != b.Size {
		return m, fmt.Errorf("block %v: segments of at least %d bytes for a block of %d", b.Block, n, b.Size)
	}
	return m, nil
}

// at returns the longest piece of memory, at most n bytes, that begins at the block's
// offset off.
func (m *memory) at(off int64, n int) []byte {
	i := 0
	if len(m.starts) > 1 {
		var exact bool
		if i, exact = slices.BinarySearch(m.starts, off); !exact {
			i--
		}
		for m.starts[i]+int64(len(m.pieces[i])) <= off { // empty pieces share a start
			i++
		}
	}
	rest := m.pieces[i][off-m.starts[i]:]
	return rest[:min(len(rest), n)]
}

// checkDisjoint refuses segments that overlap: two blocks would be received into the
// same bytes at the same time.
func checkDisjoint(segs []Segment) error {
	slices.SortFunc(segs, func(a, b Segment) int { return cmp.Compare(a.Offset, b.Offset) })
	var end int64
	for _, s := range segs {
		if s.Len == 0 {
			continue
		}
		if s.Offset < end {
			return fmt.Errorf("two blocks are to be received at byte %d of the result", s.Offset)
		}
		end = s.Offset + s.Len
	}
	return nil
}

// A bitmap is a set of entries of a block.
type bitmap []uint64

func newBitmap(n int) bitmap    { return make(bitmap, (n+63)/64) }
func (m bitmap) has(i int) bool { return m[i>>6]&(1<<(i&63)) != 0 }
func (m bitmap) set(i int)      { m[i>>6] |= 1 << (i & 63) }
func (m bitmap) clear(i int)    { m[i>>6] &^= 1 << (i & 63) }
func (m bitmap) setAll(n int)   { m.setRange(0, n) }
func (m bitmap) setRange(i, n int) { // [i, n)
	for ; i < n; i++ {
		m.set(i)
	}
}

// count returns how many entries before n are in m.
func (m bitmap) count(n int) (c int) {
	for w := range n >> 6 {
		c += bits.OnesCount64(m[w])
	}
	if n&63 != 0 {
		c += bits.OnesCount64(m[n>>6] & (1<<(n&63) - 1))
	}
	return c
}

// nextAndNot returns the first entry, in the words from word on, that is in m and not
// in not, or -1. It also returns the first word from word on in which not is not full:
// where the next search may begin.
func (m bitmap) nextAndNot(not bitmap, word int) (entry, from int) {
	from = -1
	for w := word; w < len(m); w++ {
		if from < 0 && ^not[w] != 0 {
			from = w
		}
		if x := m[w] &^ not[w]; x != 0 {
			return w<<6 + bits.TrailingZeros64(x), from
		}
	}
	if from < 0 {
		from = len(m)
	}
	return -1, from
}

// run returns the first run of entries, at or after i and before n, that are in m.
func (m bitmap) run(i, n int) (first, count int) {
	for i < n && !m.has(i) {
		if m[i>>6] == 0 {
			i = (i>>6 + 1) << 6
			continue
		}
		i++
	}
	if i >= n {
		return n, 0
	}
	first = i
	for i < n && m.has(i) {
		i++
	}
	return first, i - first
}
