package group

import (
	"encoding/binary"
	"errors"
	"slices"
)

// An item is what one rank contributes to a small operation.
type item struct {
	rank int
	even bool   // alltoall: the rank gave no sizes
	rows []byte // alltoall: its sizes, as in a ready message
	data []byte // of an alltoall that goes straight: at other hosts only what is for their ranks
	// straight says that its host sends it to each other host, see straight.go.
	straight bool
	hops     bool // its blocks go in hops, see hops.go: only of this host's ranks
}

// evenFlag and straightFlag stand for item.even and item.straight in an encoded item, runFlag for several items.
const evenFlag, straightFlag, runFlag = 1, 2, 4

// appendItem appends the encoded item: uvarints of rank, flags, length of rows and length of data,
// the first two followed by nothing and the others by what they count.
func appendItem(b []byte, it *item) []byte {
	b = binary.AppendUvarint(b, uint64(it.rank))
	flags := uint64(0)
	if it.even {
		flags = evenFlag
	}
	if it.straight {
		flags |= straightFlag
	}
	b = binary.AppendUvarint(b, flags)
	b = binary.AppendUvarint(b, uint64(len(it.rows)))
	b = append(b, it.rows...)
	b = binary.AppendUvarint(b, uint64(len(it.data)))
	return append(b, it.data...)
}

func appendItems(b []byte, items []item) []byte {
	b = slices.Grow(b, encodedSize(items))
	for i := range items {
		b = appendItem(b, &items[i])
	}
	return b
}

// encodedSize is how many bytes items take at most, encoded.
func encodedSize(items []item) (n int) {
	for i := range items {
		n += 4*binary.MaxVarintLen32 + len(items[i].rows) + len(items[i].data)
	}
	return n
}

// appendRuns is appendItems for who knows runs: what ranks that follow one another contribute, if it is as much and nothing but data. A run is uvarints of
// the first rank, runFlag, the number of ranks, and the length of each one's data, followed by the data of all.
func appendRuns(b []byte, items []item) []byte {
	b = slices.Grow(b, encodedSize(items))
	plain := func(it *item) bool { return len(it.rows) == 0 && !it.even && !it.straight }
	for len(items) > 0 {
		n := 1
		for n < len(items) && items[n].rank == items[0].rank+n && plain(&items[n]) && len(items[n].data) == len(items[0].data) {
			n++
		}
		if n == 1 || !plain(&items[0]) {
			b, items = appendItem(b, &items[0]), items[1:]
			continue
		}
		b = binary.AppendUvarint(b, uint64(items[0].rank))
		b = binary.AppendUvarint(b, runFlag)
		b = binary.AppendUvarint(b, uint64(n))
		b = binary.AppendUvarint(b, uint64(len(items[0].data)))
		for _, it := range items[:n] {
			b = append(b, it.data...)
		}
		items = items[n:]
	}
	return b
}

var errItems = errors.New("contributions are malformed")

// readItems reads the items of a group of so many ranks. They point into b.
func readItems(b []byte, ranks int) ([]item, error) {
	var items []item
	number := func(below int) (int, bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 || v >= uint64(below) {
			return 0, false
		}
		b = b[n:]
		return int(v), true
	}
	bytes := func() ([]byte, bool) {
		n, ok := number(len(b) + 1)
		if !ok || n > len(b) {
			return nil, false
		}
		out := b[:n:n]
		b = b[n:]
		return out, true
	}
	for len(b) > 0 {
		rank, ok1 := number(ranks)
		flags, ok2 := number(2 * straightFlag)
		if !ok2 { // number has not moved on
			if run, ok := number(runFlag + 1); !ok || run != runFlag || !ok1 {
				return nil, errItems
			}
			n, ok1 := number(ranks - rank + 1)
			size, ok2 := number(len(b) + 1)
			if !ok1 || !ok2 || n == 0 || size > len(b)/n || len(items)+n > ranks {
				return nil, errItems
			}
			for i := range n {
				items = append(items, item{rank: rank + i, data: b[:size:size]})
				b = b[size:]
			}
			continue
		}
		rows, ok3 := bytes()
		data, ok4 := bytes()
		if !ok1 || !ok2 || !ok3 || !ok4 || len(items) >= ranks {
			return nil, errItems
		}
		items = append(items, item{rank: rank, even: flags&evenFlag != 0, rows: rows, data: data, straight: flags&straightFlag != 0})
	}
	return items, nil
}

// payload counts the bytes that ranks contribute by items.
func payload(items []item) (n int64) {
	for i := range items {
		n += int64(len(items[i].data))
	}
	return n
}
