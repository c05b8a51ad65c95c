package jsonwalk

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestNew(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "f:1: not JSON: unexpected end of JSON input",
		"\n[]":                     "f:2: want an object, found a list",
		"\n\n\"a\\u001b\"":         `f:3: want an object, found "a\x1b"`,
		"\"a\u009b\"":              `f:1: want an object, found "a\u009b"`,
		"12":                       "f:1: want an object, found 12",
		"{\n\"a\":NaN}":            "f:2: not JSON: NaN is not a number; a value that was not measured is null",
		"{\"a\":[1,\n-Infinity]}":  "f:2: not JSON: Infinity is not a number; a value that was not measured is null",
		"{\"a\":1,\n}":             "f:2: not JSON: invalid character '}' looking for beginning of object key string",
		strings.Repeat("1", 1<<20): "f:1: want an object, found " + strings.Repeat("1", 40) + "…",
	} {
		if _, err := New("f", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%.40q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestValues(t *testing.T) {
	text := func(c *Cursor) error { _, err := c.Text(); return err }
	number := func(c *Cursor) error { _, err := c.Number(); return err }
	integer := func(c *Cursor) error { _, err := c.Integer(-1, 9); return err }
	list := func(c *Cursor) error {
		return c.List(func(i int) error { return Within(integer(c), Element(i)) })
	}
	for _, tt := range []struct {
		value string
		read  func(*Cursor) error
		want  string
	}{
		{`"é\u00e9"`, text, ""},
		{`"` + strings.Repeat("x", MaxText) + `"`, text, ""},
		{`"` + strings.Repeat("x", MaxText+1) + `"`, text, `v: "` + strings.Repeat("x", 40) + `…" is longer than 255 bytes`},
		{`"a\n"`, text, `v: "a\n" holds the control character '\n'`},
		{"\"\x7f\"", text, `v: "\x7f" holds the control character '\x7f'`},
		{`7`, text, "v: want a string, found 7"},
		{`-7.5e3`, number, ""},
		{`1e400`, number, "v: 1e400 is too large"},
		{`"7"`, number, `v: want a number, found "7"`},
		{`-1`, integer, ""},
		{`10`, integer, "v: 10 is not in -1…9"},
		{`1.5`, integer, "v: 1.5 is not a whole number"},
		{strings.Repeat("8", 5000), integer, "v: " + strings.Repeat("8", 40) + "… is not in -1…9"},
		{`[1, 2 ,3]`, list, ""},
		{`[1,[2]]`, list, "v[1]: want a number, found a list"},
		{`{"a":1}`, list, "v: want a list, found an object"},
	} {
		c, err := New("", []byte("{\n\"skipped\":{\"v\":[{\"]}\\\\\\\"\":1}]},\n\"v\":"+tt.value+"}"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Fields([]string{"v"}, func(int) error { return tt.read(c) })
		if want := "line 3: " + tt.want; (err == nil) != (tt.want == "") || err != nil && err.Error() != want {
			t.Errorf("%.40s:\n got %v\nwant %s", tt.value, err, want)
		}
	}
}

// A value as deep as encoding/json lets pass has a short error all the same.
func TestLongReasons(t *testing.T) {
	c, err := New("f", []byte(`{"a":`+strings.Repeat("[", 9000)+`"x"`+strings.Repeat("]", 9000)+"}"))
	if err != nil {
		t.Fatal(err)
	}
	var down func(int) error
	down = func(i int) error {
		if c.Peek() == '[' {
			return Within(c.List(down), Element(i))
		}
		_, err := c.Number()
		return err
	}
	_, err = c.Fields([]string{"a"}, func(int) error { return down(0) })
	if err == nil || len(err.Error()) > maxReason+100 || !strings.HasSuffix(err.Error(), `[0]: want a number, found "x"`) {
		t.Errorf("got %v", err)
	}
	if err := c.Fail(0, "%s", strings.Repeat("y", 9000)); len(err.Error()) > maxReason+100 {
		t.Errorf("got %v", err)
	}
	if err := Within(errors.New("other"), "a"); err.Error() != "other" || Within(nil, "a") != nil {
		t.Errorf("got %v", err)
	}
}

// FuzzWalk: a walk over any text ends, at its end, and by [Cursor.Skip] at the same place.
func FuzzWalk(f *testing.F) {
	f.Add([]byte(`{"a":[1,-2.5e3,null,true,{"b":"c\"d"}],"e":{}}`))
	f.Add([]byte("{\"\u009b\":\"\xff\\u001b\"\n}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := New("f", in)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Line < 1 || e.Line > 1+bytes.Count(in, []byte("\n")) {
				t.Fatalf("%v names no line of the file", err)
			}
			return
		}
		skipped := *c
		skipped.Skip()
		var walk func() error
		walk = func() error {
			if strings.ContainsFunc(c.Snippet(), func(r rune) bool { return r < ' ' }) {
				t.Fatalf("%q", c.Snippet())
			}
			switch c.Peek() {
			case '{':
				return c.Entries(func([]byte, int) error { return walk() })
			case '[':
				return c.List(func(int) error { return walk() })
			case '"':
				_, err := c.unquoted()
				return err
			case 't', 'f':
				c.Skip()
				return nil
			}
			if c.Null() {
				return nil
			}
			_, _, err := c.Digits()
			return err
		}
		if err := walk(); err != nil || c.Pos() != skipped.Pos() || len(bytes.TrimSpace(in[c.Pos():])) > 0 {
			t.Fatalf("walked to %d, skipped to %d of %d: %v", c.Pos(), skipped.Pos(), len(in), err)
		}
	})
}
