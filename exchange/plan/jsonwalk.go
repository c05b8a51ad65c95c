package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A ParseError says where a plan or topology file is wrong, and why.
type ParseError struct {
	File   string // as given to [Read] or [ReadTopology]; may be empty
	Line   int    // from 1
	Reason string
}

// Error returns "file:line: reason", or "line N: reason" where the file has no name.
func (e *ParseError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// A cursor walks once over JSON text whose syntax was checked before. encoding/json
// alone cannot serve here: it keeps no place for a value, fills absent fields with
// zero (a transfer without "src" would come from host 0), takes the last of two
// equal keys, and forgets the order of an object's keys, which is the rank order
// in a topology.
type cursor struct {
	file string
	data []byte
	pos  int
}

// newCursor checks the syntax of data, which must be one JSON object.
func newCursor(file string, data []byte) (*cursor, error) {
	c := &cursor{file: file, data: data}
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		at := len(data)
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = int(s.Offset)
		}
		return nil, c.fail(at, "not JSON: %v", err)
	}
	if c.peek() != '{' {
		return nil, c.fail(c.pos, "want an object, found %s", c.snippet())
	}
	return c, nil
}

// fail returns a ParseError at byte offset at.
func (c *cursor) fail(at int, format string, args ...any) error {
	at = min(max(at, 0), len(c.data))
	return &ParseError{File: c.file, Line: 1 + bytes.Count(c.data[:at], []byte{'\n'}), Reason: fmt.Sprintf(format, args...)}
}

// within puts the name of the element that holds the wrong value before the reason:
// "src", then "[3]", then "transfers" give "transfers[3]: src: …".
func within(err error, name string) error {
	if p, ok := errors.AsType[*ParseError](err); ok {
		if !strings.HasPrefix(p.Reason, "[") {
			name += ": "
		}
		p.Reason = name + p.Reason
	}
	return err
}

// element names element i for [within].
func element(i int) string { return "[" + strconv.Itoa(i) + "]" }

// peek moves to the next byte that is not white space and returns it.
func (c *cursor) peek() byte {
	for c.pos < len(c.data) {
		switch c.data[c.pos] {
		case ' ', '\t', '\r', '\n':
			c.pos++
		default:
			return c.data[c.pos]
		}
	}
	return 0
}

// snippet quotes the value under the cursor for an error.
func (c *cursor) snippet() string {
	switch c.peek() {
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	start := c.pos
	end := &cursor{data: c.data, pos: c.pos}
	end.skip()
	if end.pos-start > 40 {
		return string(bytes.ToValidUTF8(c.data[start:start+40], nil)) + "…"
	}
	return string(c.data[start:end.pos])
}

// skip passes over one value of any kind, without recursion: depth is the sender's choice.
func (c *cursor) skip() {
	depth := 0
	for {
		switch c.peek() {
		case '"':
			c.pos++
			for c.data[c.pos] != '"' {
				if c.data[c.pos] == '\\' {
					c.pos++
				}
				c.pos++
			}
			c.pos++
		case '{', '[':
			depth++
			c.pos++
		case '}', ']':
			depth--
			c.pos++
		case ',', ':':
			c.pos++
		default:
			for c.pos < len(c.data) && !endsScalar(c.data[c.pos]) {
				c.pos++
			}
		}
		if depth == 0 {
			return
		}
	}
}

// endsScalar reports whether b cannot be part of a number, true, false or null.
func endsScalar(b byte) bool {
	return b == ',' || b == ']' || b == '}' || b == ':' || b <= ' '
}

// null consumes a null if the next value is one.
func (c *cursor) null() bool {
	if c.peek() != 'n' {
		return false
	}
	c.skip()
	return true
}

// entries calls each for every key of an object, in order; each must consume the value.
// The key is valid until each returns.
func (c *cursor) entries(each func(key []byte, at int) error) error {
	if c.peek() != '{' {
		return c.fail(c.pos, "want an object, found %s", c.snippet())
	}
	c.pos++
	for c.peek() != '}' {
		if c.data[c.pos] == ',' {
			c.pos++
			continue
		}
		at := c.pos
		key, err := c.unquoted()
		if err != nil {
			return err
		}
		c.peek()
		c.pos++ // the colon
		if err := each(key, at); err != nil {
			return err
		}
	}
	c.pos++
	return nil
}

// fields reads an object whose keys are names: it calls each with a key's index in
// names and refuses a key that comes twice. Unknown keys are passed over: fields may
// be added to the formats. The set of keys found is returned as bits.
func (c *cursor) fields(names []string, each func(i int) error) (found uint64, err error) {
	err = c.entries(func(key []byte, at int) error {
		for i, name := range names {
			if name != string(key) {
				continue
			}
			if found&(1<<i) != 0 {
				return c.fail(at, "%q is given twice", key)
			}
			found |= 1 << i
			if err := each(i); err != nil {
				return within(err, name)
			}
			return nil
		}
		c.skip()
		return nil
	})
	return found, err
}

// list calls each for every element of an array; each must consume the element.
func (c *cursor) list(each func(i int) error) error {
	if c.peek() != '[' {
		return c.fail(c.pos, "want a list, found %s", c.snippet())
	}
	c.pos++
	for i := 0; c.peek() != ']'; {
		if c.data[c.pos] == ',' {
			c.pos++
			continue
		}
		if err := each(i); err != nil {
			return err
		}
		i++
	}
	c.pos++
	return nil
}

// text reads a string.
func (c *cursor) text() (string, error) {
	raw, err := c.unquoted()
	return string(raw), err
}

// unquoted reads a string; where it is plain the result is a part of c.data.
func (c *cursor) unquoted() ([]byte, error) {
	if c.peek() != '"' {
		return nil, c.fail(c.pos, "want a string, found %s", c.snippet())
	}
	start := c.pos
	c.skip()
	raw := c.data[start:c.pos]
	plain := raw[1 : len(raw)-1]
	if !bytes.ContainsFunc(plain, func(r rune) bool { return r == '\\' || r >= 0x80 }) {
		return plain, nil
	}
	var s string // escapes, and bytes that may not be UTF-8
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, c.fail(start, "%v", err)
	}
	return []byte(s), nil
}

// digits reads the text of a number, which is a part of c.data.
func (c *cursor) digits() ([]byte, int, error) {
	if b := c.peek(); b != '-' && (b < '0' || b > '9') {
		return nil, c.pos, c.fail(c.pos, "want a number, found %s", c.snippet())
	}
	start := c.pos
	c.skip()
	return c.data[start:c.pos], start, nil
}

// integer reads a whole number in [lo, hi].
func (c *cursor) integer(lo, hi int64) (int64, error) {
	s, at, err := c.digits()
	if err != nil {
		return 0, err
	}
	v, short := smallInteger(s)
	if !short {
		v, err = strconv.ParseInt(string(s), 10, 64)
	}
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, c.fail(at, "%s is not a whole number", s)
	}
	if err != nil || v < lo || v > hi {
		return 0, c.fail(at, "%s is not in %d…%d", s, lo, hi)
	}
	return v, nil
}

// smallInteger reads up to 18 digits without a copy: a plan is mostly such numbers.
func smallInteger(s []byte) (v int64, ok bool) {
	for _, b := range s {
		if b < '0' || b > '9' {
			return 0, false
		}
		v = v*10 + int64(b-'0')
	}
	return v, len(s) <= 18
}

// number reads a finite number.
func (c *cursor) number() (float64, error) {
	s, at, err := c.digits()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(string(s), 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, c.fail(at, "%s is too large", s)
	}
	return v, nil
}
