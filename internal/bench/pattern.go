package bench

import (
	"encoding/binary"
	"fmt"
)

// The content of a block is the sequence of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)
// from a seed that operation, source and destination make. It costs about a nanosecond for 8
// bytes, and each word can be led back to its place in the sequence: a wrong block can be told
// by what it holds.
const (
	gamma = 0x9e3779b97f4a7c15
	mul1  = 0xbf58476d1ce4e5b9
	mul2  = 0x94d049bb133111eb
)

// A blockID names a block of a benchmark. to is toAll in an allgather.
type blockID struct {
	op       uint64 // number of the operation, from 0, those to warm up included
	from, to int
}

const toAll = -1

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * mul1
	z = (z ^ z>>27) * mul2
	return z ^ z>>31
}

// unmix undoes mix.
func unmix(z uint64) uint64 {
	z ^= z>>31 ^ z>>62
	z *= inverse(mul2)
	z ^= z>>27 ^ z>>54
	z *= inverse(mul1)
	return z ^ z>>30 ^ z>>60
}

// inverse returns y with x·y = 1 modulo 2^64, for an odd x, by Newton's iteration.
func inverse(x uint64) uint64 {
	y := x // right in the last 3 bits; each round doubles them
	for range 5 {
		y *= 2 - x*y
	}
	return y
}

func (b blockID) seed() uint64 {
	return mix(mix(mix(b.op+gamma)^uint64(b.from)) ^ uint64(int64(b.to)))
}

// word returns the 8 bytes at offset 8k.
func word(seed, k uint64) uint64 { return mix(seed + (k+1)*gamma) }

// fill writes the block into dst.
func fill(dst []byte, b blockID) {
	seed, k := b.seed(), uint64(0)
	for ; len(dst) >= 8; dst = dst[8:] {
		binary.LittleEndian.PutUint64(dst, word(seed, k))
		k++
	}
	if len(dst) > 0 {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], word(seed, k))
		copy(dst, last[:])
	}
}

// differs returns the first byte of got that is not the block's, -1 if there is none.
func differs(got []byte, b blockID) int {
	seed, k := b.seed(), uint64(0)
	rest := got
	for ; len(rest) >= 8; rest = rest[8:] {
		if binary.LittleEndian.Uint64(rest) != word(seed, k) {
			break
		}
		k++
	}
	var want [8]byte
	binary.LittleEndian.PutUint64(want[:], word(seed, k))
	for i := range min(8, len(rest)) {
		if rest[i] != want[i] {
			return int(8*k) + i
		}
	}
	return -1
}

// stale is how many operations back a wrong block is looked for.
const stale = 3

// trace says what stands in got, which is not block b, from byte at on: bytes of which other
// block of a benchmark of n ranks.
func trace(got []byte, at int, b blockID, n int) string {
	// The word that is cut by the border, or that lies between two blocks, is of none.
	for i := at; i < at+8 && i+8 <= len(got); i++ {
		from, place, ok := origin(binary.LittleEndian.Uint64(got[i:]), uint64(len(got)), b, n)
		if !ok {
			continue
		}
		text := fmt.Sprintf("it holds the block from rank %d", from.from)
		switch {
		case from.from == b.from && from.to == b.to && from.op == b.op:
			text = "it holds bytes of its own"
		case from.to != b.to:
			text += fmt.Sprintf(" for rank %d", from.to)
		}
		if place != uint64(i) {
			text += fmt.Sprintf(", which belong at %d bytes from there", int64(place)-int64(i))
		}
		if back := b.op - from.op; back > 0 {
			text += fmt.Sprintf(", of the operation %d before", back)
		}
		return text
	}
	for _, c := range got[at:min(at+8, len(got))] {
		if c != 0 {
			return "it holds what no rank has sent"
		}
	}
	return "it holds zeros"
}

// origin finds the block of which w is a word, and where in it w stands.
func origin(w, size uint64, b blockID, n int) (id blockID, at uint64, ok bool) {
	z := unmix(w)
	back := inverse(gamma)
	for op := b.op; b.op-op < stale; op-- {
		for from := range n {
			to, last := toAll, toAll
			if b.to != toAll {
				to, last = 0, n-1
			}
			for ; to <= last; to++ {
				id := blockID{op, from, to}
				if k := (z-id.seed())*back - 1; k < size/8 {
					return id, 8 * k, true
				}
			}
		}
		if op == 0 {
			break
		}
	}
	return blockID{}, 0, false
}
