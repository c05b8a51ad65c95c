package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Limits of an alltoall. The table of its sizes has ranks × ranks entries, which are looked
// at one by one: 8,192 ranks take half a second.
const (
	maxAlltoall = 1 << 13
	maxTable    = 64 << 20 // bytes of all rows as they are sent
	maxBytes    = 1 << 50  // of all blocks of one operation
)

// A row of sizes travels as runs of equal ones, each a uvarint count and a uvarint size: a
// rank all of whose blocks are equal says so in a few bytes.

// A runWriter appends sizes one by one; close ends the row.
type runWriter struct {
	b     []byte
	count uint64
	size  int64
}

func (w *runWriter) add(size int64) {
	if w.count > 0 && size != w.size {
		w.close()
	}
	w.count, w.size = w.count+1, size
}

func (w *runWriter) close() {
	if w.count > 0 {
		w.b = binary.AppendUvarint(w.b, w.count)
		w.b = binary.AppendUvarint(w.b, uint64(w.size))
		w.count = 0
	}
}

func appendRow(b []byte, sizes []int64) []byte {
	w := runWriter{b: b}
	for _, n := range sizes {
		w.add(n)
	}
	w.close()
	return w.b
}

var errRow = errors.New("sizes of blocks are malformed")

// A runReader reads what a runWriter wrote.
type runReader struct {
	b    []byte
	left uint64 // of the run at hand
	size int64
}

// run reads the next run.
func (r *runReader) run() error {
	count, n := binary.Uvarint(r.b)
	if n <= 0 || count == 0 {
		return errRow
	}
	size, k := binary.Uvarint(r.b[n:])
	if k <= 0 || size > maxBytes {
		return errRow
	}
	r.b, r.left, r.size = r.b[n+k:], count, int64(size)
	return nil
}

// next returns the next size.
func (r *runReader) next() (int64, error) {
	if r.left == 0 {
		if err := r.run(); err != nil {
			return 0, err
		}
	}
	r.left--
	return r.size, nil
}

// checkRow returns the sum of a row, which must have n sizes and end there.
func checkRow(b []byte, n int) (total int64, err error) {
	r := runReader{b: b}
	left := uint64(n)
	for left > 0 {
		if err := r.run(); err != nil {
			return 0, err
		}
		over, bytes := bits.Mul64(r.left, uint64(r.size))
		if r.left > left || over > 0 || bytes > maxBytes || total+int64(bytes) > maxBytes {
			return 0, errRow
		}
		left -= r.left
		total += int64(bytes)
	}
	if len(r.b) > 0 {
		return 0, errRow
	}
	return total, nil
}

// readRows reads rows of n sizes, one behind the other, at most maxBytes together.
func readRows(b []byte, rows, n int) ([][]int64, error) {
	r := runReader{b: b}
	out := make([][]int64, rows)
	var total int64
	for i := range out {
		out[i] = make([]int64, n)
		for j := range out[i] {
			size, err := r.next()
			if err != nil {
				return nil, err
			}
			out[i][j] = size
			if total += size; total > maxBytes {
				return nil, errRow
			}
		}
		if r.left > 0 { // a run does not reach from one row into the next
			return nil, errRow
		}
	}
	if len(r.b) > 0 {
		return nil, errRow
	}
	return out, nil
}

// cross turns the rows of all ranks, what each sends to each, into what the hosts need. The
// columns of a host tell what each of its ranks gets from each rank, one behind the other in
// rank order; matrix says how many bytes each host has for each other. hosts[r] is the host
// of rank r, of count. The rows have passed checkRow.
func cross(rows [][]byte, hosts []int, count int) (columns [][]byte, matrix [][]int64, err error) {
	readers := make([]runReader, len(rows))
	for s, b := range rows {
		readers[s].b = b
	}
	columns, matrix = make([][]byte, count), make([][]int64, count)
	for h := range matrix {
		matrix[h] = make([]int64, count)
	}
	for d, to := range hosts {
		w := runWriter{b: columns[to]}
		for s := range readers {
			size, err := readers[s].next()
			if err != nil {
				return nil, nil, err
			}
			w.add(size)
			if hosts[s] != to {
				matrix[hosts[s]][to] += size
			}
		}
		w.close()
		columns[to] = w.b
		if len(w.b) > maxBlob {
			return nil, nil, fmt.Errorf("the sizes of the blocks for ranks up to %d on one host take more than %d bytes", d, maxBlob)
		}
	}
	return columns, matrix, nil
}
