package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
)

// A tuneOp is one operation of a run.
type tuneOp struct {
	Collective plan.Collective `json:"collective"`
	Algorithm  string          `json:"algorithm"`
	Bytes      int64           `json:"bytes"` // of a block
}

// A tuneOrder asks an agent to run a rank.
type tuneOrder struct {
	Job   string   `json:"job"`
	Rank  int      `json:"rank"`
	Ranks int      `json:"ranks"`
	Ops   []tuneOp `json:"ops"`
}

// check refuses what no run asks for.
func (o *tuneOrder) check() error {
	if o.Job == "" || len(o.Job) > 64 || o.Ranks < 2 || o.Ranks > maxTuneHosts || o.Rank < 0 || o.Rank >= o.Ranks {
		return fmt.Errorf("rank %d of %d of job %.64q: want up to %d ranks", o.Rank, o.Ranks, o.Job, maxTuneHosts)
	}
	if len(o.Ops) == 0 || len(o.Ops) > maxTuneOps {
		return fmt.Errorf("%d operations: want 1 to %d", len(o.Ops), maxTuneOps)
	}
	for i, op := range o.Ops {
		if op.Bytes < 0 || op.Bytes > maxTuneBytes/int64(o.Ranks) {
			return fmt.Errorf("operation %d: blocks of %d bytes: each of %d ranks may get %d in all", i, op.Bytes, o.Ranks, maxTuneBytes)
		}
		if op.Collective != plan.Allgather && op.Collective != plan.Alltoall {
			return fmt.Errorf("operation %d: no collective %.16q", i, op.Collective)
		}
		if _, err := planner.Named(op.Collective, op.Algorithm); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return nil
}

// parseTuneOrder reads an order.
func parseTuneOrder(data []byte) (*tuneOrder, error) {
	var o tuneOrder
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	return &o, o.check()
}

// errTuning is that a host takes part in one run at a time.
var errTuning = errors.New("another tuning run is under way on this host")

// serveTune runs a rank for the agent that asks for it, until it is done or the stream ends.
func (a *Agent) serveTune(ctx context.Context, s *lane.Stream) {
	defer s.Abort()
	say := func(err error) {
		text := ""
		if err != nil {
			text = err.Error()
			text = text[:min(len(text), 512)]
		}
		if json.NewEncoder(s).Encode(tuneWord{Err: text}) == nil {
			s.Close()
			s.SetReadDeadline(time.Now().Add(tuneNews))
			io.Copy(io.Discard, io.LimitReader(s, 1)) // until the other side has it
		}
	}
	if err := s.SetReadDeadline(time.Now().Add(tuneNews)); err != nil {
		return
	}
	line, err := readLine(s, maxTuneOrder)
	if err != nil {
		return
	}
	order, err := parseTuneOrder(line)
	if err != nil {
		say(err)
		return
	}
	if !a.plans.slot.TryLock() {
		say(errTuning)
		return
	}
	defer a.plans.slot.Unlock()
	s.SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gone := inBackground(func() error { // nothing more is said: what comes is the end
		io.Copy(io.Discard, io.LimitReader(s, 1))
		cancel(fmt.Errorf("%s has ended the tuning run", s.Peer.Name))
		return nil
	})
	err = a.tuneRank(ctx, order, nil)
	select {
	case <-gone.done:
	default:
		say(err)
		s.Abort()
		<-gone.done
	}
}

// A tuneWord is what a rank says at its end.
type tuneWord struct {
	Err string `json:"err,omitempty"`
}

// readLine reads up to a newline, byte by byte at most limit.
func readLine(r io.Reader, limit int) ([]byte, error) {
	var line []byte
	buf := make([]byte, 1)
	for len(line) < limit {
		if _, err := io.ReadFull(r, buf); err != nil {
			return nil, err
		}
		if buf[0] == '\n' {
			return line, nil
		}
		line = append(line, buf[0])
	}
	return nil, fmt.Errorf("an order of more than %d bytes", limit)
}

// tuneRank joins and runs the operations of order. after, if not nil, is told of each that is over, and
// what its coordinator, this host, has heard of its end.
func (a *Agent) tuneRank(ctx context.Context, order *tuneOrder, after func(i int, res *group.Result, o outcome) error) error {
	rank, err := a.groups.Join(ctx, order.Job, order.Rank, order.Ranks, group.JoinOptions{Limit: tuneForming})
	if err != nil {
		return err
	}
	defer rank.Leave("the tuning run has ended")
	outcomes := make(chan outcome, 1)
	if after != nil {
		defer a.plans.watch(rank.Group(), outcomes)()
	}
	for i, op := range order.Ops {
		var res *group.Result
		wish := group.Wish{Algorithm: op.Algorithm}
		if op.Collective == plan.Alltoall {
			res, err = rank.Alltoall(ctx, zeros(op.Bytes*int64(order.Ranks)), nil, wish)
		} else {
			res, err = rank.Allgather(ctx, zeros(op.Bytes), wish)
		}
		if err != nil {
			return err
		}
		if after != nil {
			var o outcome
			select {
			case o = <-outcomes:
				err = after(i, res, o)
			case <-time.After(tuneNews):
				err = errors.New("the other hosts do not tell of the end of an operation")
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		res.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// zeros is so many bytes to contribute. Nobody compresses, so they are as good as any.
type zeros int64

func (z zeros) Size() int64 { return int64(z) }

func (z zeros) CopyTo(dst []byte) error {
	clear(dst)
	return nil
}

// orderRank has the agent on host run a rank, and waits for its end.
func (a *Agent) orderRank(ctx context.Context, host string, order tuneOrder, rank int) error {
	order.Rank = rank
	line, err := json.Marshal(order)
	if err != nil {
		return err
	}
	open, cancel := context.WithTimeout(ctx, tuneForming)
	defer cancel()
	s, err := a.endpoint.Open(open, host, 0, lane.StreamTune)
	if err != nil {
		return err
	}
	defer s.Abort()
	defer context.AfterFunc(ctx, s.Abort)()
	if _, err := s.Write(append(line, '\n')); err != nil {
		return err
	}
	var word tuneWord
	if err := json.NewDecoder(io.LimitReader(s, 4096)).Decode(&word); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("its agent has ended the run, or does not know of tuning: %w", err)
	}
	if word.Err != "" {
		return errors.New(word.Err)
	}
	return nil
}
