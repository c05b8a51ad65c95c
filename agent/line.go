package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/gridagent/gridagent/agent/api/line"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/group"
)

const (
	// spare is how many workers stay for the next requests when theirs are done.
	spare = 2
	// lastAnswers is how long after the agent's end clients can read what they are told of it: that is known after group.LastWords at the latest.
	lastAnswers = group.LastWords + time.Second
)

// A lineServer carries out the operations that a client asks for over one line.
//
// Whoever has read a request carries it out itself, and the next goroutine reads on: so from the moment in which the kernel says that something
// has come, until the operation waits for others, one goroutine runs.
type lineServer struct {
	s      *service
	conn   *line.Conn
	ctx    context.Context // ends with the line
	cancel context.CancelCauseFunc

	workers sync.WaitGroup
	waiting atomic.Int32 // workers that are to read

	reading chan struct{} // holds a token while a request is read: no mutex, which would stop a bubble's clock (testing/synctest)

	mu    sync.Mutex // guards under
	under map[uint64]context.CancelCauseFunc
}

// line makes a line of the connection of r, and serves it until the client ends it or the agent stops.
func (s *service) line(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), line.Protocol) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", line.Protocol)
		http.Error(w, "ask for an upgrade to "+line.Protocol, http.StatusUpgradeRequired)
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "a line needs HTTP/1.1: "+err.Error(), http.StatusBadRequest)
		return
	}
	defer c.Close()
	if err := c.SetDeadline(time.Time{}); err != nil {
		return
	}
	if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+line.Protocol+"\r\n\r\n"); err != nil {
		return
	}
	l := &lineServer{
		s: s, conn: line.New(c, rw.Reader, line.MaxInput),
		reading: make(chan struct{}, 1), under: make(map[uint64]context.CancelCauseFunc),
	}
	l.ctx, l.cancel = context.WithCancelCause(s.ctx)
	defer l.cancel(nil)
	// Operations end with the agent, and their ends are still told.
	defer context.AfterFunc(s.ctx, func() {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		_ = c.SetWriteDeadline(time.Now().Add(lastAnswers))
	})()
	l.work()
	l.workers.Wait()
}

// work carries out requests until nothing more can be read.
func (l *lineServer) work() {
	for {
		l.waiting.Add(1)
		l.reading <- struct{}{}
		l.waiting.Add(-1)
		ctx, req, payload, err := l.read()
		<-l.reading
		if err != nil {
			l.end(err)
			return
		}
		if ctx == nil {
			continue
		}
		if l.waiting.Load() == 0 {
			l.workers.Go(l.work)
		}
		l.carryOut(ctx, req, payload)
		if l.waiting.Load() > spare {
			return
		}
	}
}

// read reads a request. With no error and no context it was one that nothing is to be done for. It needs the token of reading.
func (l *lineServer) read() (context.Context, *apiv1.LineRequest, []byte, error) {
	if err := context.Cause(l.ctx); err != nil {
		return nil, nil, nil, err
	}
	req := new(apiv1.LineRequest)
	payload, err := l.conn.Receive(req)
	if err != nil {
		l.cancel(hungUp(err))
		return nil, nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	stop := l.under[req.Id]
	if c := req.GetCancel(); c != nil {
		switch {
		case stop == nil: // it is over
		case c.Deadline:
			stop(errDeadline)
		default:
			stop(errHungUp)
		}
		return nil, nil, nil, nil
	}
	switch {
	case stop != nil:
		err = fmt.Errorf("two operations %d at once", req.Id)
	case len(l.under) >= line.MaxAsked:
		err = fmt.Errorf("more than %d operations at once", line.MaxAsked)
	}
	if err != nil {
		l.cancel(&lineFault{err})
		return nil, nil, nil, err
	}
	ctx, stop := context.WithCancelCause(l.ctx)
	l.under[req.Id] = stop
	return ctx, req, payload, nil
}

// A lineFault is what a client did that ends its line.
type lineFault struct{ err error }

func (f *lineFault) Error() string { return "its client broke its line: " + f.err.Error() }
func (f *lineFault) Unwrap() error { return f.err }

// hungUp says why a line of which err was read is over: its client is gone, or did not send a frame.
func hungUp(err error) error {
	var broken net.Error
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &broken) {
		return errHungUp
	}
	return &lineFault{err}
}

// end notes why nothing more can be read, where the client is to blame.
func (l *lineServer) end(err error) {
	var noted *lineFault // by who read it
	if errors.As(err, &noted) {
		return
	}
	if l.s.ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, errHungUp) || errors.Is(err, net.ErrClosed) {
		return
	}
	l.s.a.log.Warn("line of a local client ended", "err", err)
}

func (l *lineServer) carryOut(ctx context.Context, req *apiv1.LineRequest, payload []byte) {
	defer func() {
		l.mu.Lock()
		stop := l.under[req.Id]
		delete(l.under, req.Id)
		l.mu.Unlock()
		stop(nil)
	}()
	c := lineCall(req, payload)
	var err error
	if c == nil {
		err = connect.NewError(connect.CodeUnimplemented, errors.New("no such operation"))
	} else {
		err = l.s.carryOut(ctx, c, func(res *group.Result) error {
			a, err := reply(res, c)
			if err != nil {
				return err
			}
			l.answer(&apiv1.LineAnswer{Id: req.Id, Spool: a.spool, Sizes: a.sizes, Report: a.report}, a.data)
			return nil
		})
	}
	if err != nil {
		l.answer(&apiv1.LineAnswer{Id: req.Id, Error: lineError(err)}, nil)
	}
}

// answer sends a. Where that fails the client is gone, or a cannot be written, as texts that are not UTF-8; it would wait for ever for its answer, so the line ends.
func (l *lineServer) answer(a *apiv1.LineAnswer, data []byte) {
	if err := l.conn.Send(a, data); err != nil {
		l.cancel(fmt.Errorf("answer: %w", err))
		l.conn.Close()
	}
}

// lineCall returns what req asks for, nil where this agent does not know it.
func lineCall(req *apiv1.LineRequest, payload []byte) *call {
	var c *call
	switch m := req.Call.(type) {
	case *apiv1.LineRequest_Allgather:
		c = allgatherCall(m.Allgather)
	case *apiv1.LineRequest_Alltoall:
		c = alltoallCall(m.Alltoall)
	case *apiv1.LineRequest_Broadcast:
		c = broadcastCall(m.Broadcast)
	case *apiv1.LineRequest_Barrier:
		c = barrierCall(m.Barrier)
	default:
		return nil
	}
	c.data = payload
	return c
}

// lineError is err as a client hears it, as Connect would tell it.
func lineError(err error) *apiv1.LineError {
	var ce *connect.Error
	if !errors.As(err, &ce) {
		ce = connect.NewError(connect.CodeUnknown, err)
	}
	e := &apiv1.LineError{Code: uint32(ce.Code()), Message: strings.ToValidUTF8(ce.Message(), "�")}
	for _, d := range ce.Details() {
		if v, valueErr := d.Value(); valueErr == nil {
			e.Failure, _ = proto.Message(v).(*apiv1.Failure)
		}
	}
	return e
}
