package group

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// The short form of a header, of the words that hosts say in each operation: a byte for the kind, a uvarint with a bit for each field that is not zero, and these fields, in
// order, each a uvarint (a text: its length and bytes; of a flag the bit says all). JSON begins with a brace, which is no kind's byte, and whoever reads takes both. A call and its
// end were 90 bytes each of JSON and are 10 to 20: of an allgather of 4 KiB from three hosts over one link of 1.9 Mbit/s such words were a fifteenth of all bytes.
//
// A member says them where the directory knows that all hosts do ([Tree.Brief]), and a coordinator says them to members that do.

// shortKinds are the kinds that have a short form, and their bytes are their places, from 1.
var shortKinds = []kind{kindReady, kindDone, kindGo, kindBeat, kindItems, kindRelay, kindRecall, kindLeft}

// shortCollectives likewise.
var shortCollectives = []plan.Collective{plan.Allgather, plan.Alltoall, Broadcast, Barrier}

// errShort means that a header in the short form is not right.
var errShort = errors.New("header in the short form is not right")

// A shorter goes through the fields of a message: to find those that are not zero, to write them or to read them.
type shorter struct {
	does   shortPass
	fields uint64 // a bit for each, 1 where it is not zero
	at     int    // the next field
	b      []byte // what was written; what is to be read
	bad    bool   // a field has no short form, or is not as it is written
}

type shortPass int

const (
	shortFind shortPass = iota
	shortWrite
	shortRead
)

// flag goes through a field that is a bit.
func (s *shorter) flag(f *bool) {
	n := uint64(1) << s.at
	s.at++
	switch {
	case s.does == shortRead:
		*f = s.fields&n != 0
	case s.does == shortFind && *f:
		s.fields |= n
	}
}

// whole goes through a field that is a number, and returns it.
func (s *shorter) whole(n uint64) uint64 {
	set := n != 0
	if s.does != shortFind {
		set = s.fields>>s.at&1 != 0
	}
	f := set
	s.flag(&f)
	switch {
	case !set || s.bad:
		return 0
	case s.does == shortWrite:
		s.b = binary.AppendUvarint(s.b, n)
	case s.does == shortRead:
		var k int
		if n, k = binary.Uvarint(s.b); k <= 0 || n == 0 {
			s.bad = true
			return 0
		}
		s.b = s.b[k:]
	}
	return n
}

// signed is whole for fields that may not be below zero, nor above most.
func (s *shorter) signed(n int64, most uint64) int64 {
	if n < 0 {
		s.bad = true
	}
	if got := s.whole(uint64(n)); got <= most {
		return int64(got)
	}
	s.bad = true
	return 0
}

// count, number, length and duration are whole for the types of fields.
func (s *shorter) count(f *uint64)           { *f = s.whole(*f) }
func (s *shorter) number(f *int)             { *f = int(s.signed(int64(*f), math.MaxInt32)) }
func (s *shorter) length(f *int64)           { *f = s.signed(*f, math.MaxInt64) }
func (s *shorter) duration(f *time.Duration) { *f = time.Duration(s.signed(int64(*f), math.MaxInt64)) }

// one goes through a field that is one of several words, or empty.
func one[T ~string](s *shorter, f *T, of []T) {
	i := slices.Index(of, *f) + 1
	if i == 0 && *f != "" {
		s.bad = true
	}
	if i = int(s.signed(int64(i), uint64(len(of)))); i > 0 {
		*f = of[i-1]
	}
}

// text goes through a field that is a text.
func (s *shorter) text(f *string) {
	n := s.whole(uint64(len(*f)))
	switch {
	case n == 0:
	case s.does == shortWrite:
		s.b = append(s.b, *f...)
	case s.does == shortRead && n > uint64(len(s.b)):
		s.bad = true
	case s.does == shortRead:
		*f, s.b = string(s.b[:n]), s.b[n:]
	}
}

// short goes through the fields of m that the short form has: those of most words in the first byte. What comes later comes behind them.
func (m *message) short(s *shorter) {
	s.count(&m.Seq)
	s.number(&m.Rank)
	one(s, &m.Collective, shortCollectives)
	s.duration(&m.Ago)
	s.count(&m.Got)
	s.flag(&m.Keep)
	s.flag(&m.Eager)

	s.length(&m.Size)
	s.count(&m.Begun)
	s.duration(&m.Hold)
	s.count(&m.Past)
	s.flag(&m.Even)
	s.number(&m.Hop)
	s.number(&m.Root)

	s.flag(&m.Deaf)
	s.flag(&m.Options.Together)
	s.text(&m.Algorithm)
	s.text(&m.Host)
}

// appendShort appends the header of m to b, in the short form. It reports false, and b as it was, where m has something that this form has not.
func (m *message) appendShort(b []byte) ([]byte, bool) {
	code := slices.Index(shortKinds, m.Kind) + 1
	if code == 0 || m.long() {
		return b, false
	}
	same := *m // others may have m
	s := shorter{does: shortFind}
	if same.short(&s); s.bad {
		return b, false
	}
	s = shorter{does: shortWrite, fields: s.fields, b: binary.AppendUvarint(append(b, byte(code)), s.fields)}
	same.short(&s)
	return s.b, true
}

// long reports whether m has something in its header that the short form has not.
func (m *message) long() bool {
	o := m.Options
	o.Together = false
	return m.Group != ID{} || m.Job != "" || m.Ranks != 0 || m.Hosts != nil || m.Missing != "" || m.Limit != 0 || m.Waited != 0 || m.Token != 0 ||
		m.Sizes != nil || m.Tree != nil || m.Small != 0 || m.Offers || o != Options{} || m.Plan != "" || m.Info != nil || m.Failure != nil || m.Cause != "" ||
		m.Standing != 0 || m.Given != nil || m.Shown
}

// readShort reads a header in the short form into m, which is empty.
func (m *message) readShort(header []byte) error {
	code := int(header[0])
	fields, k := binary.Uvarint(header[1:])
	if code == 0 || code > len(shortKinds) || k <= 0 {
		return errShort
	}
	m.Kind, m.brief = shortKinds[code-1], true
	s := shorter{does: shortRead, fields: fields, b: header[1+k:]}
	if m.short(&s); s.bad || len(s.b) > 0 || fields>>s.at != 0 {
		return errShort
	}
	return nil
}
