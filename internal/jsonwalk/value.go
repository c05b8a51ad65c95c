package jsonwalk

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"unicode"
)

// MaxText bounds a string in bytes. The strings of our formats are names, and no name is
// longer than one of the DNS.
const MaxText = 255

// Null consumes a null if the next value is one.
func (c *Cursor) Null() bool {
	if c.Peek() != 'n' {
		return false
	}
	c.Skip()
	return true
}

// Bool reads true or false.
func (c *Cursor) Bool() (bool, error) {
	b := c.Peek()
	if b != 't' && b != 'f' {
		return false, c.Fail(c.pos, "want true or false, found %s", c.Snippet())
	}
	c.Skip()
	return b == 't', nil
}

// Text reads a string, which must pass [CheckText].
func (c *Cursor) Text() (string, error) {
	c.Peek()
	at := c.pos
	raw, err := c.unquoted()
	if err != nil {
		return "", err
	}
	return c.checked(at, raw)
}

// checked returns raw, a key or a string at offset at, as a text.
func (c *Cursor) checked(at int, raw []byte) (string, error) {
	s := string(raw)
	if err := CheckText(s); err != nil {
		return "", c.Fail(at, "%v", err)
	}
	return s, nil
}

// Key returns the text of a key that [Cursor.Entries] found at offset at, which must pass
// [CheckText]: some keys are the names of hosts.
func (c *Cursor) Key(key []byte, at int) (string, error) { return c.checked(at, key) }

// unquoted reads a string; where it is plain the result is a part of c.data.
func (c *Cursor) unquoted() ([]byte, error) {
	if c.Peek() != '"' {
		return nil, c.Fail(c.pos, "want a string, found %s", c.Snippet())
	}
	start := c.pos
	c.Skip()
	raw := c.data[start:c.pos]
	plain := raw[1 : len(raw)-1]
	if !bytes.ContainsFunc(plain, func(r rune) bool { return r == '\\' || r >= 0x80 }) {
		return plain, nil
	}
	var s string // escapes, and bytes that may not be UTF-8
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, c.Fail(start, "%v", err)
	}
	return []byte(s), nil
}

// Digits reads a number and returns its text, which is a part of the file.
func (c *Cursor) Digits() (text []byte, at int, err error) {
	if b := c.Peek(); b != '-' && (b < '0' || b > '9') {
		return nil, c.pos, c.Fail(c.pos, "want a number, found %s", c.Snippet())
	}
	at = c.pos
	c.Skip()
	return c.data[at:c.pos], at, nil
}

// Integer reads a whole number in [lo, hi].
func (c *Cursor) Integer(lo, hi int64) (int64, error) {
	s, at, err := c.Digits()
	if err != nil {
		return 0, err
	}
	v, short := smallInteger(s)
	if !short {
		v, err = strconv.ParseInt(string(s), 10, 64)
	}
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, c.Fail(at, "%s is not a whole number", Clip(string(s), maxQuote))
	}
	if err != nil || v < lo || v > hi {
		return 0, c.Fail(at, "%s is not in %d…%d", Clip(string(s), maxQuote), lo, hi)
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

// Number reads a finite number.
func (c *Cursor) Number() (float64, error) {
	s, at, err := c.Digits()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(string(s), 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, c.Fail(at, "%s is too large", Clip(string(s), maxQuote))
	}
	return v, nil
}

// CheckText says why s is no text of our files: it is longer than [MaxText] bytes, or it
// holds a control character, which a terminal would obey when the name is printed.
func CheckText(s string) error {
	if len(s) > MaxText {
		return &textError{s, "is longer than " + strconv.Itoa(MaxText) + " bytes"}
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return &textError{s, "holds the control character " + strconv.QuoteRune(r)}
		}
	}
	return nil
}

type textError struct{ text, reason string }

func (e *textError) Error() string { return Quote(e.text) + " " + e.reason }
