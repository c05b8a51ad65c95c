package logp

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// What a model may hold. More is a broken clock, a wrong unit or malice.
const (
	MaxPoints = 16
	MaxSize   = 1 << 40   // bytes
	MaxTime   = time.Hour // of one message at one of the points
)

// minPoints gives a slope: with one point alone, every message would cost the same.
const minPoints = 2

// forever is what extrapolation answers at most: half of the largest Duration, so that
// a start time can be added to it.
const forever = time.Duration(math.MaxInt64 / 2)

// ErrInvalid is wrapped by every error about points that no model can have.
var ErrInvalid = errors.New("invalid LogP model")

// A Point is parametrised LogP at one message size.
type Point struct {
	Size    int64         // of the message, bytes
	Send    time.Duration // os(m): the sender is busy with it
	Receive time.Duration // or(m): the receiver is busy with it, once it has arrived
	Gap     time.Duration // g(m): least time between the starts of two messages
}

// A Model is parametrised LogP of one ordered pair of hosts, or of a class of pairs.
// Sizes rise strictly from 0 or 1, the three times never fall. The zero value is no model.
// Who shares one must not modify Points.
type Model struct {
	Points []Point
}

// curves are the three functions of a model. Every rule about one holds for each.
var curves = [...]struct {
	name string
	of   func(*Point) *time.Duration
}{
	{"send overhead", func(p *Point) *time.Duration { return &p.Send }},
	{"receive overhead", func(p *Point) *time.Duration { return &p.Receive }},
	{"gap", func(p *Point) *time.Duration { return &p.Gap }},
}

// New returns the model through points, which may come in any order and stay the
// caller's: 2 to 16 of different sizes, the least 0 or 1. Readings are noisy; where a time
// falls as the size grows, it is replaced by the isotonic regression, the rising values
// of the least sum of squared differences. The error, which wraps [ErrInvalid], quotes
// the value that no model can have.
func New(points []Point) (Model, error) {
	m := Model{Points: slices.Clone(points)}
	slices.SortStableFunc(m.Points, func(a, b Point) int {
		switch {
		case a.Size < b.Size:
			return -1
		case a.Size > b.Size:
			return 1
		}
		return 0
	})
	if err := m.inRange(); err != nil {
		return Model{}, err
	}
	for _, c := range curves {
		values := make([]time.Duration, len(m.Points))
		for i := range m.Points {
			values[i] = *c.of(&m.Points[i])
		}
		for i, v := range isotonic(values) {
			*c.of(&m.Points[i]) = v
		}
	}
	return m, nil
}

// Check reports the first thing in m that no model can have, wrapping [ErrInvalid].
func (m Model) Check() error {
	if err := m.inRange(); err != nil {
		return err
	}
	for i := 1; i < len(m.Points); i++ {
		for _, c := range curves {
			if before, now := *c.of(&m.Points[i-1]), *c.of(&m.Points[i]); now < before {
				return fmt.Errorf("%s of %d bytes is %v, less than the %v of %d bytes: %w",
					c.name, m.Points[i].Size, now, before, m.Points[i-1].Size, ErrInvalid)
			}
		}
	}
	return nil
}

// inRange is Check without the rule that times never fall.
func (m Model) inRange() error {
	if n := len(m.Points); n < minPoints || n > MaxPoints {
		return fmt.Errorf("%d points, want %d to %d: %w", n, minPoints, MaxPoints, ErrInvalid)
	}
	for i := range m.Points {
		p := &m.Points[i]
		switch {
		case i == 0 && p.Size != 0 && p.Size != 1:
			return fmt.Errorf("the least size is %d bytes, want 0 or 1: %w", p.Size, ErrInvalid)
		case i > 0 && p.Size <= m.Points[i-1].Size:
			return fmt.Errorf("size %d after %d, want sizes that rise: %w", p.Size, m.Points[i-1].Size, ErrInvalid)
		case p.Size > MaxSize:
			return fmt.Errorf("size %d, want at most %d: %w", p.Size, int64(MaxSize), ErrInvalid)
		}
		for _, c := range curves {
			if d := *c.of(p); d < 0 || d > MaxTime {
				return fmt.Errorf("%s of %d bytes is %v, want 0 to %v: %w", c.name, p.Size, d, MaxTime, ErrInvalid)
			}
		}
	}
	return nil
}

// At returns the times of a message of size bytes: linear between two points, along the
// last two beyond the last, and those of the first point below it. No time falls as size
// grows. The zero model answers with times of 0.
func (m Model) At(size int64) Point {
	size = max(size, 0)
	out := Point{Size: size}
	if len(m.Points) == 0 {
		return out
	}
	a := m.Points[0]
	b := a
	for i, p := range m.Points {
		if i > 0 {
			a, b = m.Points[i-1], p
		}
		if p.Size >= size {
			break
		}
	}
	for _, c := range curves {
		*c.of(&out) = line(a.Size, b.Size, *c.of(&a), *c.of(&b), size)
	}
	return out
}

// line returns the value at size of the line through (s0, v0) and (s1, v1), rounded down
// and at most forever, with v0 ≤ v1; v0 left of s0. The arithmetic is exact: two
// processors must not come to different plans.
func line(s0, s1 int64, v0, v1 time.Duration, size int64) time.Duration {
	if size <= s0 || s1 <= s0 || v1 <= v0 {
		return v0
	}
	hi, lo := bits.Mul64(uint64(v1-v0), uint64(size-s0))
	width := uint64(s1 - s0)
	if hi >= width { // the quotient does not fit 64 bits
		return forever
	}
	rise, _ := bits.Div64(hi, lo, width)
	if rise > uint64(forever-v0) {
		return forever
	}
	return v0 + time.Duration(rise)
}
