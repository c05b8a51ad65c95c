package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// An operator wants a pair measured now, from any host: the agent that is asked locally
// hands the question to the host that the pair begins at, which measures and answers.
// The stream begins with an ask message; what follows is in frames of their own,
// since an answer does not fit into a message.

// opAsk says that a question follows in a frame.
const opAsk op = "ask"

const (
	// MaxAskTime bounds what a question may claim of a host's time.
	MaxAskTime = 10 * time.Minute
	// defaultAskTime is that of a question that does not say.
	defaultAskTime = 2 * time.Minute
	// askPace is the least pause between two words of progress.
	askPace = 200 * time.Millisecond
)

// AskKinds are what can be asked for, in the order in which a person reads them.
var AskKinds = []string{"rtt", "bandwidth", "capacity", "logp"}

// A Question asks for one measurement of an ordered pair of hosts.
type Question struct {
	From    string        `json:"-"` // the host that measures; empty: this one
	To      string        `json:"to"`
	Kind    string        `json:"kind"`       // one of [AskKinds]; empty: rtt
	Timeout time.Duration `json:"timeout_ns"` // for the measurement; 0: 2 min; at most [MaxAskTime]
}

// complete fills in defaults and checks the rest.
func (q *Question) complete() error {
	if q.Kind == "" {
		q.Kind = AskKinds[0]
	}
	if q.Timeout == 0 {
		q.Timeout = defaultAskTime
	}
	switch {
	case q.To == "" || len(q.To) > 255:
		return fmt.Errorf("probe of host %.40q: want a name of at most 255 bytes: %w", q.To, errInvalid)
	case !slices.Contains(AskKinds, q.Kind):
		return fmt.Errorf("probe of kind %.40q, want %s: %w", q.Kind, strings.Join(AskKinds, ", "), errInvalid)
	case q.Timeout < 0 || q.Timeout > MaxAskTime:
		return fmt.Errorf("probe for %v, want at most %v: %w", q.Timeout, MaxAskTime, errInvalid)
	}
	return nil
}

// parseQuestion decodes and checks what an asker sent.
func parseQuestion(b []byte) (Question, error) {
	var q Question
	if err := json.Unmarshal(b, &q); err != nil {
		return Question{}, fmt.Errorf("%w: %w", errInvalid, err)
	}
	if err := q.complete(); err != nil {
		return Question{}, err
	}
	return q, nil
}

// Progress says what a measurement is at.
type Progress struct {
	Step  string `json:"step"`  // for a person
	Bytes int64  `json:"bytes"` // sent so far
}

func (p Progress) check() error {
	if p.Bytes < 0 {
		return fmt.Errorf("%d bytes sent: %w", p.Bytes, errInvalid)
	}
	return nil
}

// A measurer answers questions about pairs that begin at this host. It ends with ctx. tell
// may be called from any goroutine and does not block.
type measurer func(ctx context.Context, q Question, tell func(Progress)) (Answer, error)

// A desk takes questions, one at a time. The zero value is ready; its methods may be called
// concurrently.
type desk struct{ taken atomic.Bool }

// ask has q answered here or by the host that it begins at. It calls progress from the
// caller's goroutine; the measurement does not wait for it, and ends if it fails. When ask
// returns because ctx ended, the measurement has ended here, and is told to elsewhere.
// The error wraps a [BusyError] where the host may answer later.
func (d *desk) ask(ctx context.Context, e Endpoint, self string, q Question, measure measurer, progress func(Progress) error) (Answer, error) {
	if err := q.complete(); err != nil {
		return Answer{}, err
	}
	if q.From == "" || q.From == self {
		return d.answer(ctx, q, measure, progress)
	}
	dial, cancel := context.WithTimeout(ctx, 2*askTime)
	defer cancel()
	s, err := e.Open(dial, q.From, 0, lane.StreamProbe)
	if err != nil {
		if ctx.Err() != nil {
			return Answer{}, context.Cause(ctx)
		}
		return Answer{}, fmt.Errorf("ask host %s to measure: %w", q.From, err)
	}
	a, err := askOver(ctx, s, q, progress)
	if err != nil {
		s.Abort()
	}
	return a, err
}

// askOver asks the host at the other end of s.
func askOver(ctx context.Context, s control, q Question, progress func(Progress) error) (Answer, error) {
	s.SetDeadline(time.Now().Add(q.Timeout + 2*askTime))
	stop := context.AfterFunc(ctx, s.Abort)
	defer stop()
	failed := func(err error) (Answer, error) {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return Answer{}, &LateError{Host: q.From, Limit: q.Timeout}
		}
		return Answer{}, fmt.Errorf("ask host %s to measure: %w", q.From, err)
	}
	if err := writeMessage(s, message{Op: opAsk}); err != nil {
		return failed(err)
	}
	if err := writeFrame(s, q); err != nil {
		return failed(err)
	}
	for {
		b, err := readFrame(s)
		if err != nil {
			return failed(err)
		}
		f, err := parseFrame(b)
		if err != nil {
			return failed(err)
		}
		switch {
		case f.Refusal != nil:
			finish(s) // an error tells only that the other side has finished too
			return Answer{}, f.Refusal.err(q)
		case f.Answer != nil:
			finish(s)
			return *f.Answer, nil
		}
		if err := progress(*f.Progress); err != nil {
			return failed(err)
		}
	}
}

// serve answers the question that follows on s. It ends the measurement when the asker
// goes away. An error means that the asker broke the protocol or is gone.
func (d *desk) serve(ctx context.Context, s control, measure measurer) error {
	b, err := readFrame(s)
	if err != nil {
		return err
	}
	q, err := parseQuestion(b)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.SetDeadline(time.Now().Add(q.Timeout + askTime))
	// The asker says nothing more. The end of its stream, or anything else that a read
	// returns, ends the measurement.
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer cancel()
		s.Read(make([]byte, 1))
	}()
	defer func() {
		s.SetDeadline(time.Now()) // what was written has left; this ends the read
		<-gone
		s.CancelRead(0)
	}()
	a, err := d.answer(ctx, q, measure, func(p Progress) error { return writeFrame(s, frame{Progress: &p}) })
	if err != nil {
		return writeFrame(s, frame{Refusal: refusalOf(err)})
	}
	return writeFrame(s, frame{Answer: &a})
}

// answer measures, and tells of the progress at a pace that suits people. What progress
// has no time for is left out. When it returns, measure has.
func (d *desk) answer(ctx context.Context, q Question, measure measurer, progress func(Progress) error) (a Answer, err error) {
	if !d.taken.CompareAndSwap(false, true) {
		return Answer{}, &BusyError{Retry: time.Second, Why: "another measurement on request runs there"}
	}
	defer d.taken.Store(false)
	ctx, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	news := make(chan Progress, 1) // the latest
	tell := func(p Progress) {
		select {
		case <-news:
		default:
		}
		select {
		case news <- p:
		default: // another goroutine has told
		}
	}
	done := make(chan struct{})
	begin := time.Now()
	go func() {
		defer close(done)
		a, err = measure(ctx, q, tell)
	}()
	defer func() { cancel(); <-done }() // also where progress panics
	ready, pace := news, time.NewTimer(askPace)
	defer pace.Stop()
	for {
		select {
		case <-done:
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == context.DeadlineExceeded {
				err = &LateError{Limit: q.Timeout}
			}
			if err == nil {
				a.Took = time.Since(begin)
			}
			return a, err
		case p := <-ready:
			if err := progress(p); err != nil {
				cancel()
				<-done
				return Answer{}, err
			}
			ready = nil
			pace.Reset(askPace)
		case <-pace.C:
			ready = news
		}
	}
}
