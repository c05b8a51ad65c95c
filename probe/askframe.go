package probe

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gridagent/gridagent/probe/logp"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// maxFrame holds an answer with its longest curve and model twice over.
	maxFrame = 8 << 10
	maxCurve = 32
	maxNotes = 4
	maxText  = 400 // bytes of a reason or a note
)

// An Answer is what was measured. What the question did not ask for is zero.
type Answer struct {
	RTT       time.Duration      `json:"rtt_ns,omitempty"`
	Variation time.Duration      `json:"variation_ns,omitempty"` // of the round trip
	Bandwidth netmap.BytesPerSec `json:"bandwidth,omitempty"`    // what one flow gets
	Spread    float64            `json:"spread,omitempty"`       // of Bandwidth, relative
	Capacity  netmap.BytesPerSec `json:"capacity,omitempty"`     // what several lanes get together
	Lanes     int                `json:"lanes,omitempty"`        // that reach Capacity
	Curve     []LaneRate         `json:"curve,omitempty"`        // what was measured on the way to it
	Loss      *float64           `json:"loss,omitempty"`         // share of the probe's own packets; nil: not measured
	LogP      []logp.Point       `json:"logp,omitempty"`
	Notes     []string           `json:"notes,omitempty"` // what limits the values above, for a person
	Bytes     int64              `json:"bytes,omitempty"` // sent for it, UDP payload
	Took      time.Duration      `json:"took_ns,omitempty"`
}

// A LaneRate is what so many lanes got together.
type LaneRate struct {
	Lanes int                `json:"lanes"`
	Rate  netmap.BytesPerSec `json:"rate"`
}

// check refuses values that no honest peer sends.
func (a Answer) check() error {
	rate := func(r netmap.BytesPerSec) bool { return r >= 0 && r <= netmap.MaxRate } // false for NaN
	within := func(d, limit time.Duration) bool { return d >= 0 && d <= limit }
	switch {
	case !within(a.RTT, maxRTT) || !within(a.Variation, maxRTT):
		return fmt.Errorf("round trip of %v ± %v: %w", a.RTT, a.Variation, errInvalid)
	case !rate(a.Bandwidth) || !rate(a.Capacity):
		return fmt.Errorf("bandwidth %g, capacity %g B/s: %w", float64(a.Bandwidth), float64(a.Capacity), errInvalid)
	case !(a.Spread >= 0 && a.Spread <= maxSpread):
		return fmt.Errorf("spread %g: %w", a.Spread, errInvalid)
	case a.Lanes < 0 || a.Lanes > netmap.MaxLanes:
		return fmt.Errorf("%d lanes: %w", a.Lanes, errInvalid)
	case a.Loss != nil && !(*a.Loss >= 0 && *a.Loss <= 1):
		return fmt.Errorf("loss %g: %w", *a.Loss, errInvalid)
	case len(a.Notes) > maxNotes:
		return fmt.Errorf("%d notes, want at most %d: %w", len(a.Notes), maxNotes, errInvalid)
	case a.Bytes < 0 || !within(a.Took, MaxAskTime+time.Minute):
		return fmt.Errorf("%d bytes in %v: %w", a.Bytes, a.Took, errInvalid)
	case len(a.Curve) > maxCurve || len(a.LogP) > logp.MaxPoints:
		return fmt.Errorf("%d rates and %d LogP points: %w", len(a.Curve), len(a.LogP), errInvalid)
	}
	for _, c := range a.Curve {
		if c.Lanes < 1 || c.Lanes > netmap.MaxLanes || !rate(c.Rate) {
			return fmt.Errorf("%g B/s over %d lanes: %w", float64(c.Rate), c.Lanes, errInvalid)
		}
	}
	for _, p := range a.LogP {
		if p.Size < 0 || p.Size > logp.MaxSize || !within(p.Send, logp.MaxTime) || !within(p.Receive, logp.MaxTime) || !within(p.Gap, logp.MaxTime) {
			return fmt.Errorf("LogP point %+v: %w", p, errInvalid)
		}
	}
	return nil
}

// A RefusedError is why the host that was asked could not answer, in its own words.
type RefusedError struct{ Host, Reason string }

func (e *RefusedError) Error() string { return fmt.Sprintf("host %s: %s", e.Host, e.Reason) }

// A LateError says that the time of a question was up. It is a [context.DeadlineExceeded].
type LateError struct {
	Host  string // that measured; empty: this one
	Limit time.Duration
}

func (e *LateError) Error() string {
	where := ""
	if e.Host != "" {
		where = " from host " + e.Host
	}
	return fmt.Sprintf("no result%s within %v", where, e.Limit.Round(time.Millisecond))
}

func (e *LateError) Is(target error) bool { return target == context.DeadlineExceeded }

// A frame is one JSON object after its length in two bytes, big endian. From the asked
// host it holds exactly one of the three.
type frame struct {
	Progress *Progress `json:"progress,omitempty"`
	Answer   *Answer   `json:"answer,omitempty"`
	Refusal  *refusal  `json:"refusal,omitempty"`
}

type refusal struct {
	Reason  string `json:"reason"`
	Late    bool   `json:"late,omitempty"` // the time of the question was up
	Busy    bool   `json:"busy,omitempty"`
	RetryMS int64  `json:"retry_ms,omitempty"`
}

// err is what the asker of q is told.
func (r refusal) err(q Question) error {
	reason := printable(r.Reason)
	switch {
	case r.Busy:
		return fmt.Errorf("host %s: %w", q.From, &BusyError{Retry: time.Duration(r.RetryMS) * time.Millisecond, Why: reason})
	case r.Late:
		return &LateError{Host: q.From, Limit: q.Timeout}
	}
	return &RefusedError{Host: q.From, Reason: reason}
}

// refusalOf is the inverse of [refusal.err].
func refusalOf(err error) *refusal {
	var busy *BusyError
	if errors.As(err, &busy) {
		return &refusal{Reason: printable(busy.Why), Busy: true, RetryMS: min(max(busy.Retry, 0), time.Hour).Milliseconds()}
	}
	return &refusal{Reason: printable(err.Error()), Late: errors.Is(err, context.DeadlineExceeded)}
}

// parseFrame decodes and checks what an asked host sent.
func parseFrame(b []byte) (frame, error) {
	var f frame
	if err := json.Unmarshal(b, &f); err != nil {
		return frame{}, fmt.Errorf("%w: %w", errInvalid, err)
	}
	var err error
	parts := 0
	if f.Progress != nil {
		parts++
		f.Progress.Step = printable(f.Progress.Step)
		err = f.Progress.check()
	}
	if f.Answer != nil {
		parts++
		err = errors.Join(err, f.Answer.check())
		for i, n := range f.Answer.Notes {
			f.Answer.Notes[i] = printable(n)
		}
	}
	if f.Refusal != nil {
		parts++
		if f.Refusal.RetryMS < 0 || f.Refusal.RetryMS > time.Hour.Milliseconds() {
			err = fmt.Errorf("retry after %d ms: %w", f.Refusal.RetryMS, errInvalid)
		}
	}
	if err == nil && parts != 1 {
		err = fmt.Errorf("%d parts in a frame, want one: %w", parts, errInvalid)
	}
	if err != nil {
		return frame{}, err
	}
	return f, nil
}

// printable makes what a peer wrote fit for a terminal and a log: no control characters,
// which could move the cursor or break the line, and not too long.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s[:min(len(s), 2*maxText)])
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint16(head[:])
	if n == 0 || n > maxFrame {
		return nil, fmt.Errorf("frame of %d bytes, want 1 to %d: %w", n, maxFrame, errInvalid)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
}

func writeFrame(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > maxFrame {
		return fmt.Errorf("frame of %d bytes, at most %d fit", len(body), maxFrame)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...))
	return err
}
