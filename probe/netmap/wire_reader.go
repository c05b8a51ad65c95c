package netmap

import (
	"encoding/binary"
	"fmt"
)

// A wireReader takes numbers off the front of b. After the first fault it keeps the error
// and answers zero, so that callers check once for each entry.
type wireReader struct {
	b   []byte
	at  int
	err error
}

func (r *wireReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("byte %d: %s: %w", r.at, fmt.Sprintf(format, args...), ErrMalformed)
	}
}

func (r *wireReader) uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 {
		r.fail("a number is cut off or too long")
		return 0
	}
	r.at += n
	return v
}

func (r *wireReader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// number reads an unsigned number of at most most.
func (r *wireReader) number(most uint64) uint64 {
	v := r.uvarint()
	if v > most {
		r.fail("%d is more than %d", v, most)
		return 0
	}
	return v
}

// count reads how many things of at least size bytes follow, and refuses a claim that the
// rest of the bytes cannot hold.
func (r *wireReader) count(what string, size int) int {
	v := r.uvarint()
	if rest := len(r.b) - r.at; v > uint64(rest/size) {
		r.fail("%d %s in %d bytes", v, what, rest)
		return 0
	}
	return int(v)
}

// bytes reads a length of at most most and as many bytes. They share the memory of r.
func (r *wireReader) bytes(most int) []byte {
	n := int(r.number(uint64(max(most, 0))))
	return r.fixed(n)
}

// fixed reads n bytes.
func (r *wireReader) fixed(n int) []byte {
	if r.err == nil && n > len(r.b)-r.at {
		r.fail("%d bytes, of which %d are here", n, len(r.b)-r.at)
	}
	if r.err != nil {
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at : r.at]
}

// text is bytes as a string.
func (r *wireReader) text(most int) string { return string(r.bytes(most)) }

func (r *wireReader) form(want byte) {
	switch {
	case len(r.b) == 0:
		r.fail("empty")
	case r.b[0] != want:
		r.fail("form %d, not %d", r.b[0], want)
	default:
		r.at = 1
	}
}

func (r *wireReader) end() error {
	if r.err == nil && r.at < len(r.b) {
		r.fail("%d more bytes after the end", len(r.b)-r.at)
	}
	return r.err
}
