package exchange

import (
	"context"
	"errors"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// The third host of a detour, which pipes a stream of others, and the far one, which takes it for the first one's.
//
// Why the far one believes the third: both are members of the cluster, by their certificates, and the header holds the
// exchange's id, which only its hosts know. Whoever knows it can send wrong data for blocks in any case, as every host
// of an exchange may deliver any block (relieving.go). Control streams of groups have no such secret, and so TLS inside: lane's via.go.

// maxPipes bounds the streams that an engine carries for others.
const maxPipes = 256

// carry pipes s, which comes from a host and is for another one, until both directions have ended.
func (e *Engine) carry(ctx context.Context, from string, h header, r frameReader, s Stream) {
	to, err := e.onward(ctx, from, h)
	if err != nil {
		e.cfg.Log.Debug("detour refused", "from", from, "to", h.host, "exchange", h.id, "error", err)
		s.Abort()
		return
	}
	defer e.endPipe()
	lane.Splice(ctx, s, r.br, to)
}

// onward opens the second half of a detour. The caller ends the pipe if there is no error.
func (e *Engine) onward(ctx context.Context, from string, h header) (Stream, error) {
	if h.host == e.cfg.Self || h.host == from {
		return nil, errors.New("it leads back")
	}
	if !e.beginPipe() {
		return nil, errors.New("too many detours")
	}
	open, cancel := context.WithTimeout(ctx, detourTimeout)
	defer cancel()
	to, err := e.cfg.Open(open, h.host, 0)
	if err == nil {
		if _, err = to.Write(header{id: h.id, lane: fromLane, host: from}.appendTo(nil)); err == nil {
			return to, nil
		}
		to.Abort()
	}
	e.endPipe()
	return nil, err
}

func (e *Engine) beginPipe() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pipes >= maxPipes {
		return false
	}
	e.pipes++
	return true
}

func (e *Engine) endPipe() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pipes--
}

// unwrap reads what stands between the header of a stream that another host has carried and that of its opener,
// whose name it returns.
func unwrap(h header, r frameReader, s Stream) (inner header, from string, err error) {
	s.SetWriteDeadline(time.Now().Add(headerTimeout))
	if _, err := s.Write([]byte{frameHere}); err != nil {
		return inner, "", err
	}
	s.SetWriteDeadline(time.Time{})
	if inner, err = r.header(); err != nil {
		return inner, "", err
	}
	if inner.lane > newsLane || inner.id != h.id {
		return inner, "", errNested
	}
	return inner, h.host, nil
}

var errNested = errors.New("a detour in a detour")
