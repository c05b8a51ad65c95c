package jsonwalk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// A Cursor walks once over JSON text whose syntax was checked before. Each of its methods
// but [Cursor.Fail] and [Cursor.Pos] reads one value and moves behind it.
type Cursor struct {
	file string
	data []byte
	pos  int
}

// New checks the syntax of data, which must be one JSON object, and returns a cursor before
// it. file stands in the errors, all of which are [*Error]; it may be empty.
func New(file string, data []byte) (*Cursor, error) {
	c := &Cursor{file: file, data: data}
	if err := json.Unmarshal(data, new(syntaxOnly)); err != nil {
		at := len(data)
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = int(s.Offset)
		}
		// What numerical programs write, and JSON has no word for.
		for _, word := range []string{"NaN", "Infinity"} {
			if at > 0 && bytes.HasPrefix(data[at-1:], []byte(word)) {
				return nil, c.Fail(at, "not JSON: %s is not a number; a value that was not measured is null", word)
			}
		}
		return nil, c.Fail(at, "not JSON: %v", err)
	}
	if c.Peek() != '{' {
		return nil, c.Fail(c.pos, "want an object, found %s", c.Snippet())
	}
	return c, nil
}

// syntaxOnly makes [json.Unmarshal] check the syntax and keep nothing.
type syntaxOnly struct{}

func (*syntaxOnly) UnmarshalJSON([]byte) error { return nil }

// Pos is the byte offset of the cursor: after [Cursor.Peek], of the next value.
func (c *Cursor) Pos() int { return c.pos }

// Line returns the line, from 1, of byte offset at.
func (c *Cursor) Line(at int) int {
	return 1 + bytes.Count(c.data[:min(max(at, 0), len(c.data))], []byte{'\n'})
}

// Fail returns an [*Error] at byte offset at. It shortens the reason to maxReason.
func (c *Cursor) Fail(at int, format string, args ...any) error {
	return &Error{File: c.file, Line: c.Line(at), Reason: Clip(fmt.Sprintf(format, args...), maxReason)}
}

// Peek moves to the next byte that is not white space and returns it.
func (c *Cursor) Peek() byte {
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

// Snippet quotes the value under the cursor for an error, and stays before it.
func (c *Cursor) Snippet() string {
	switch c.Peek() {
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	look := *c
	if c.data[c.pos] == '"' {
		s, err := look.unquoted()
		if err != nil {
			return "a string"
		}
		return Quote(string(s))
	}
	look.Skip()
	return Clip(string(c.data[c.pos:look.pos]), maxQuote)
}

// Skip passes over one value of any kind, without recursion: depth is the sender's choice.
func (c *Cursor) Skip() {
	depth := 0
	for {
		switch c.Peek() {
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

// Entries calls each for every key of an object, in order, with the key's offset; each must
// consume the value. The key is valid until each returns.
func (c *Cursor) Entries(each func(key []byte, at int) error) error {
	if c.Peek() != '{' {
		return c.Fail(c.pos, "want an object, found %s", c.Snippet())
	}
	c.pos++
	for c.Peek() != '}' {
		if c.data[c.pos] == ',' {
			c.pos++
			continue
		}
		at := c.pos
		key, err := c.unquoted()
		if err != nil {
			return err
		}
		c.Peek()
		c.pos++ // the colon
		if err := each(key, at); err != nil {
			return err
		}
	}
	c.pos++
	return nil
}

// Fields reads an object whose keys are names, at most 64: it calls each with a key's index
// in names, and each must consume the value. A key that comes twice is refused. Unknown keys
// are passed over: fields may be added to the formats. The keys found are returned as bits.
func (c *Cursor) Fields(names []string, each func(i int) error) (found uint64, err error) {
	err = c.Entries(func(key []byte, at int) error {
		for i, name := range names {
			if name != string(key) {
				continue
			}
			if found&(1<<i) != 0 {
				return c.Fail(at, "%s is given twice", Quote(string(key)))
			}
			found |= 1 << i
			if err := each(i); err != nil {
				return Within(err, name)
			}
			return nil
		}
		c.Skip()
		return nil
	})
	return found, err
}

// List calls each for every element of an array; each must consume the element.
func (c *Cursor) List(each func(i int) error) error {
	if c.Peek() != '[' {
		return c.Fail(c.pos, "want a list, found %s", c.Snippet())
	}
	c.pos++
	for i := 0; c.Peek() != ']'; {
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
