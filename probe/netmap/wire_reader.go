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

func (r *wireReader) names() []string {
	n := r.count("names", 2)
	if n > MaxHosts {
		r.fail("%d names, more than %d", n, MaxHosts)
		return nil
	}
	names := make([]string, 0, n)
	for range n {
		size := int(r.number(maxName))
		if r.err != nil || size == 0 || size > len(r.b)-r.at {
			r.fail("a name of %d bytes", size)
			return nil
		}
		name := string(r.b[r.at : r.at+size])
		if i := len(names); i > 0 && name <= names[i-1] {
			r.fail("name %q after %q is not in order", name, names[i-1])
			return nil
		}
		r.at += size
		names = append(names, name)
	}
	return names
}

func (r *wireReader) name(names []string, i uint64) string {
	if i >= uint64(len(names)) {
		r.fail("name %d of %d", i, len(names))
		return ""
	}
	return names[i]
}

func (r *wireReader) end() error {
	if r.err == nil && r.at < len(r.b) {
		r.fail("%d more bytes after the end", len(r.b)-r.at)
	}
	return r.err
}
