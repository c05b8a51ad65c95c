package netmap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// open reads the token that begins what, which must be the delimiter d.
func (p *matrixParser) open(d json.Delim, what, want string) error {
	t, err := p.token()
	if err != nil {
		return err
	}
	if t != d {
		return p.errorf("%s is %s, not %s", what, describe(t), want)
	}
	return nil
}

func (p *matrixParser) token() (json.Token, error) {
	t, err := p.dec.Token()
	p.advance()
	return t, err
}

// advance brings line up to where the decoder stands.
func (p *matrixParser) advance() {
	end := min(int(p.dec.InputOffset()), len(p.data))
	p.line += bytes.Count(p.data[p.offset:end], []byte{'\n'})
	p.offset = end
}

func (p *matrixParser) errorf(format string, args ...any) error {
	return &FormatError{p.line, fmt.Sprintf(format, args...)}
}

// jsonError gives an error of the JSON decoder the line of the text that it could not read.
func (p *matrixParser) jsonError(err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		p.line += bytes.Count(p.data[p.offset:], []byte{'\n'})
		return p.errorf("the text ends in the middle of the object")
	}
	// The decoder stops before the white space that precedes the fault.
	rest := p.data[p.offset:]
	fault := bytes.TrimLeft(rest, " \t\r\n,:")
	p.line += bytes.Count(rest[:len(rest)-len(fault)], []byte{'\n'})
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(fault, []byte(word)) {
			return p.errorf("%s is not a number of JSON; write null for a pair that was not measured", word)
		}
	}
	return p.errorf("not JSON: %v", err)
}

// describe names a token for an error message.
func describe(t json.Token) string {
	switch t := t.(type) {
	case nil:
		return "null"
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "a list"
	case string:
		if len(t) > 40 {
			t = t[:40] + "…"
		}
		return "the text " + strconv.Quote(t)
	default:
		return fmt.Sprint(t)
	}
}
