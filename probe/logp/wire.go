package logp

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// version is the first byte of the binary form.
const version = 1

// AppendBinary appends the binary form of m to b: a byte for the version, one for the
// number of points, and for each point four unsigned varints, by how much its size, os,
// or and g (nanoseconds) exceed those of the point before. A model of 16 points takes 100
// to 180 bytes, a simplified one a few dozen. The error is that of [Model.Check].
func (m Model) AppendBinary(b []byte) ([]byte, error) {
	if err := m.Check(); err != nil {
		return b, err
	}
	b = append(b, version, byte(len(m.Points)))
	var last Point
	for _, p := range m.Points {
		b = binary.AppendUvarint(b, uint64(p.Size-last.Size))
		for _, c := range curves {
			b = binary.AppendUvarint(b, uint64(*c.of(&p)-*c.of(&last)))
		}
		last = p
	}
	return b, nil
}

// Parse returns the model whose binary form is all of b. It allocates no more than
// [MaxPoints] points, whatever b claims. Errors wrap [ErrInvalid].
func Parse(b []byte) (Model, error) {
	if len(b) < 2 || b[0] != version {
		return Model{}, fmt.Errorf("%d bytes that are no model of version %d: %w", len(b), version, ErrInvalid)
	}
	n := int(b[1])
	if n < minPoints || n > MaxPoints {
		return Model{}, fmt.Errorf("%d points, want %d to %d: %w", n, minPoints, MaxPoints, ErrInvalid)
	}
	b = b[2:]
	next := func(at, most int64) (int64, error) {
		v, k := binary.Uvarint(b)
		if k <= 0 || v > uint64(most) {
			return 0, fmt.Errorf("a step that is cut short or beyond %d: %w", most, ErrInvalid)
		}
		b = b[k:]
		return at + int64(v), nil // at ≤ most, and twice most fits
	}
	m := Model{Points: make([]Point, n)}
	var last Point
	for i := range m.Points {
		var err error
		if last.Size, err = next(last.Size, MaxSize); err != nil {
			return Model{}, err
		}
		for _, c := range curves {
			v, err := next(int64(*c.of(&last)), int64(MaxTime))
			if err != nil {
				return Model{}, err
			}
			*c.of(&last) = time.Duration(v)
		}
		// At once, or the sums could wrap round.
		if last.Size > MaxSize || max(last.Send, last.Receive, last.Gap) > MaxTime {
			return Model{}, fmt.Errorf("point %d is beyond %d bytes or %v: %w", i, int64(MaxSize), MaxTime, ErrInvalid)
		}
		m.Points[i] = last
	}
	if len(b) > 0 {
		return Model{}, fmt.Errorf("%d bytes after the last point: %w", len(b), ErrInvalid)
	}
	if err := m.Check(); err != nil {
		return Model{}, err
	}
	return m, nil
}

// A jsonPoint is a point in a file. Pointers tell what is missing from what is 0.
type jsonPoint struct {
	Size    *int64   `json:"size_bytes"`
	Send    *float64 `json:"send_overhead_s"`
	Receive *float64 `json:"receive_overhead_s"`
	Gap     *float64 `json:"gap_s"`
}

// MarshalJSON returns the form that files hold: a list of objects with size_bytes,
// send_overhead_s, receive_overhead_s and gap_s.
func (m Model) MarshalJSON() ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	list := make([]jsonPoint, len(m.Points))
	for i, p := range m.Points {
		send, receive, gap := p.Send.Seconds(), p.Receive.Seconds(), p.Gap.Seconds()
		list[i] = jsonPoint{&p.Size, &send, &receive, &gap}
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads what [Model.MarshalJSON] wrote, or a person. An overhead that is
// not given is 0; size and gap must be. Times that fall as the size grows are an error
// here, not smoothed: somebody has declared them.
func (m *Model) UnmarshalJSON(b []byte) error {
	var list []jsonPoint
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(list) > MaxPoints {
		return fmt.Errorf("%d points, want %d to %d: %w", len(list), minPoints, MaxPoints, ErrInvalid)
	}
	out := Model{Points: make([]Point, len(list))}
	for i, j := range list {
		if j.Size == nil || j.Gap == nil {
			return fmt.Errorf("point %d has no size_bytes or no gap_s: %w", i, ErrInvalid)
		}
		p := &out.Points[i]
		p.Size = *j.Size
		for k, v := range []*float64{j.Send, j.Receive, j.Gap} {
			if v == nil {
				continue
			}
			if !(*v >= 0 && *v <= MaxTime.Seconds()) { // a NaN fails, too
				return fmt.Errorf("%s of %d bytes is %g s, want 0 to %g: %w", curves[k].name, p.Size, *v, MaxTime.Seconds(), ErrInvalid)
			}
			*curves[k].of(p) = time.Duration(math.Round(*v * float64(time.Second)))
		}
	}
	if err := out.Check(); err != nil {
		return err
	}
	*m = out
	return nil
}
