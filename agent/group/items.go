package group

import (
	"encoding/binary"
	"errors"
)

// An item is what one rank contributes to a small operation.
type item struct {
	rank int
	even bool   // alltoall: the rank gave no sizes
	rows []byte // alltoall: its sizes, as in a ready message
	data []byte // of an alltoall that goes straight: at other hosts only what is for their ranks
	// straight says that its host sends it to each other host, see straight.go.
	straight bool
}

// evenFlag and straightFlag stand for item.even and item.straight in an encoded item.
const evenFlag, straightFlag = 1, 2

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
	for i := range items {
		b = appendItem(b, &items[i])
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
		rows, ok3 := bytes()
		data, ok4 := bytes()
		if !ok1 || !ok2 || !ok3 || !ok4 || len(items) >= ranks {
			return nil, errItems
		}
		items = append(items, item{rank, flags&evenFlag != 0, rows, data, flags&straightFlag != 0})
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
