package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/gridagent/gridagent/agent/api/ends"
	"github.com/gridagent/gridagent/agent/api/line"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

const (
	// lineLimit is how long an agent may take to make a line of a connection.
	lineLimit = 5 * time.Second
	// lineBuffer is how much is read ahead: all of a small result.
	lineBuffer = 16 << 10
)

// A caller is a rank's line to its agent, see package line: its operations go over it, and all else over Connect.
type caller struct {
	conn  *line.Conn
	ended chan struct{} // closed when nothing is received any more

	mu    sync.Mutex // guards the fields below
	next  uint64
	waits map[uint64]chan<- answered
	err   error // why nothing is received any more
}

type answered struct {
	msg  *apiv1.LineAnswer
	data []byte
}

// errNoLine means that the agent has no lines, as those of before they were.
var errNoLine = errors.New("the agent has no lines")

// openLine has the agent make a line of a new connection.
func (c *Client) openLine(ctx context.Context) (*caller, error) {
	ctx, cancel := context.WithTimeout(ctx, lineLimit)
	defer cancel()
	nc, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	r := bufio.NewReaderSize(nc, lineBuffer)
	req, err := http.NewRequest(http.MethodGet, "http://gridagent"+line.Path, nil)
	if err == nil {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", line.Protocol)
		err = req.Write(nc)
	}
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(r, req)
	}
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body.Close()
		err = errNoLine
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	l := &caller{conn: line.New(nc, r, line.MaxResult), ended: make(chan struct{}), waits: make(map[uint64]chan<- answered)}
	go l.receive()
	return l, nil
}

// receive hands out answers until the line ends.
func (l *caller) receive() {
	defer close(l.ended)
	for {
		m := new(apiv1.LineAnswer)
		data, err := l.conn.Receive(m)
		l.mu.Lock()
		if err != nil {
			l.err = err
			l.mu.Unlock()
			return
		}
		wait := l.waits[m.Id]
		delete(l.waits, m.Id)
		l.mu.Unlock()
		if wait != nil {
			wait <- answered{m, data}
		}
	}
}

// close ends the line, and returns when nothing more is handed out.
func (l *caller) close() {
	l.conn.Close()
	<-l.ended
}

// call asks for one operation, and returns what the agent answers. Its errors are as those of Connect.
func (l *caller) call(ctx context.Context, req *apiv1.LineRequest, data []byte) (*response, error) {
	answer := make(chan answered, 1)
	l.mu.Lock()
	l.next++
	id := l.next
	l.waits[id] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.waits, id)
		l.mu.Unlock()
	}()
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	req.Id = id
	if err := l.send(ctx, req, data); err != nil {
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	var a answered
	select {
	case a = <-answer:
	case <-l.ended:
		select {
		case a = <-answer: // it was the last
		default:
			return nil, connect.NewError(connect.CodeUnavailable, l.err)
		}
	case <-ctx.Done():
		select {
		case a = <-answer: // it is over: which of the two came first nobody knows
			return answerOf(a)
		default:
		}
		late := errors.Is(ctx.Err(), context.DeadlineExceeded)
		_ = l.send(ctx, &apiv1.LineRequest{Id: id, Call: &apiv1.LineRequest_Cancel{Cancel: &apiv1.LineCancel{Deadline: late}}}, nil)
		return nil, ended(ctx)
	}
	return answerOf(a)
}

// answerOf is what the agent says of an operation.
func answerOf(a answered) (*response, error) {
	m := a.msg
	if e := m.Error; e != nil {
		return nil, wireError(e)
	}
	return &response{a.data, m.Spool, m.Sizes, m.Report}, nil
}

// sendGrace is how long a frame may go on being written when the time of its operation is over.
const sendGrace = time.Second

// send writes a frame. An agent that does not read, as it is stopped, does not hold it for longer than ctx and sendGrace: the line is given up then, with all who wait
// to write to it, for a part of a frame is of no use.
func (l *caller) send(ctx context.Context, m *apiv1.LineRequest, data []byte) error {
	sent := make(chan struct{})
	defer close(sent)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-sent:
		case <-time.After(sendGrace):
			l.conn.Close()
		}
	})()
	return l.conn.Send(m, data)
}

// ended is how a call ends with its context.
func ended(ctx context.Context) error {
	code := connect.CodeCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = connect.CodeDeadlineExceeded
	}
	return connect.NewError(code, ctx.Err())
}

// wireError is the error that Connect would have made of e.
func wireError(e *apiv1.LineError) error {
	err := connect.NewWireError(connect.Code(e.Code), errors.New(e.Message))
	if e.Failure != nil {
		if d, detailErr := connect.NewErrorDetail(e.Failure); detailErr == nil {
			err.AddDetail(d)
		}
	}
	if err.Code() == connect.CodeUnavailable { // of operations only the end of the agent has it
		ends.Mark(err)
	}
	return err
}

// call asks the agent for one operation: over the rank's line, or over Connect if the agent has none.
func (r *Rank) call(ctx context.Context, req *apiv1.LineRequest, in payload) (*response, error) {
	if l := r.line(ctx); l != nil {
		return l.call(ctx, req, in.data)
	}
	switch c := req.Call.(type) {
	case *apiv1.LineRequest_Allgather:
		if m := c.Allgather; in.spool == "" {
			m.Input = &apiv1.AllgatherRequest_Data{Data: in.data}
		}
		resp, err := r.c.api.Allgather(ctx, connect.NewRequest(c.Allgather))
		if err != nil {
			return nil, err
		}
		return &response{resp.Msg.Data, resp.Msg.Spool, resp.Msg.Sizes, resp.Msg.Report}, nil
	case *apiv1.LineRequest_Alltoall:
		if m := c.Alltoall; in.spool == "" {
			m.Input = &apiv1.AlltoallRequest_Data{Data: in.data}
		}
		resp, err := r.c.api.Alltoall(ctx, connect.NewRequest(c.Alltoall))
		if err != nil {
			return nil, err
		}
		return &response{resp.Msg.Data, resp.Msg.Spool, resp.Msg.Sizes, resp.Msg.Report}, nil
	case *apiv1.LineRequest_Broadcast:
		if m := c.Broadcast; in.spool == "" {
			m.Input = &apiv1.BroadcastRequest_Data{Data: in.data}
		}
		resp, err := r.c.api.Broadcast(ctx, connect.NewRequest(c.Broadcast))
		if err != nil {
			return nil, err
		}
		sizes := make([]uint64, len(r.hosts))
		sizes[c.Broadcast.Root] = resp.Msg.Size
		return &response{resp.Msg.Data, resp.Msg.Spool, sizes, resp.Msg.Report}, nil
	case *apiv1.LineRequest_Barrier:
		resp, err := r.c.api.Barrier(ctx, connect.NewRequest(c.Barrier))
		if err != nil {
			return nil, err
		}
		return &response{report: resp.Msg.Report}, nil
	}
	panic(fmt.Sprintf("no collective %T", req.Call))
}

// lines is a rank's line. It is opened for the rank's first operation, and for later ones again where that has failed.
type lines struct {
	mu      sync.Mutex // guards the fields below
	opening *opening   // the one under way, or that has the line; nil: neither
	failed  bool       // one has: nobody waits for those after it, as there may be no end of them
	none    bool       // there are no more: the agent has no lines, or the rank is closed
}

// An opening is one attempt to have a line.
type opening struct {
	done chan struct{} // closed when it is over, and l is set
	l    *caller       // nil: it failed
}

// line returns the rank's line, nil where there is none, or it is not there when ctx ends: then Connect says what is the matter. The
// opening is nobody's own: it goes on when the operation that it was begun for has ended.
func (r *Rank) line(ctx context.Context) *caller {
	ls := &r.lines
	ls.mu.Lock()
	o, waits := ls.opening, !ls.failed
	if o == nil && !ls.none {
		o = &opening{done: make(chan struct{})}
		ls.opening = o
		go r.open(o)
	}
	ls.mu.Unlock()
	switch {
	case o == nil:
		return nil
	case waits:
		select {
		case <-o.done:
		case <-ctx.Done():
			return nil
		}
	default:
		select {
		case <-o.done:
		default:
			return nil
		}
	}
	return o.l
}

// open carries out o, which ends with the rank.
func (r *Rank) open(o *opening) {
	defer close(o.done)
	l, err := r.c.openLine(r.numbers.ctx)
	ls := &r.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err != nil {
		ls.opening, ls.failed = nil, true
		ls.none = ls.none || errors.Is(err, errNoLine)
		return
	}
	o.l = l
}

// closeLine ends the rank's line, if there is one. There is none from then on.
func (r *Rank) closeLine() {
	r.lines.mu.Lock()
	r.lines.none = true
	o := r.lines.opening
	r.lines.mu.Unlock()
	if o == nil {
		return
	}
	if <-o.done; o.l != nil {
		o.l.close()
	}
}
