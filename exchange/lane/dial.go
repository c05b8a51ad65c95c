package lane

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/quic-go/quic-go"
)

// Open opens a stream of kind k to the member called name on the given lane,
// dialing it first if there is no connection yet. Concurrent calls share one dial,
// which goes on when they give up, for 10 s after the last sign of life.
//
// That Open returns says that the peer was there, not that it is: a peer that has just
// died is noticed by the stream's reads and writes.
//
// ctx bounds the call, not the stream; its cause is the error when it ends. Other errors
// wrap ErrWrongCluster, an *IdentityError, ErrSelf, net.ErrClosed (of a closed
// endpoint, but quic-go's errors wrap it, too) or what quic-go says.
func (e *Endpoint) Open(ctx context.Context, name string, lane int, k StreamKind) (*Stream, error) {
	if name == "" || lane < 0 {
		return nil, fmt.Errorf("open lane %d to %q: want a name, and a lane from 0", lane, name)
	}
	return e.openAt(ctx, target{name: name, lane: lane}, k)
}

// OpenAddr is [Endpoint.Open] on lane 0 where only the address is known; the member
// that answers is in the stream's Peer. Over a connection that exists, that is the one
// last met there, be it that it died less than the idle timeout ago.
func (e *Endpoint) OpenAddr(ctx context.Context, addr net.Addr, k StreamKind) (*Stream, error) {
	if addr == nil {
		return nil, errors.New("open stream: no address")
	}
	return e.openAt(ctx, target{addr: addr}, k)
}

// Connect makes sure that there is a connection to the member called name on the given lane, as [Endpoint.Open] does, and opens no stream.
func (e *Endpoint) Connect(ctx context.Context, name string, lane int) error {
	_, err := e.connect(ctx, target{name: name, lane: lane})
	return err
}

// Keep reports whether there is such a connection, and has it stay as if a stream had just been open.
func (e *Endpoint) Keep(name string, lane int) bool {
	e.mu.Lock()
	l := e.links.find(target{name: name, lane: lane})
	e.mu.Unlock()
	return l != nil && e.reserve(l)
}

func (t target) String() string {
	if t.name != "" {
		return t.name
	}
	return t.addr.String()
}

func (e *Endpoint) openAt(ctx context.Context, t target, k StreamKind) (*Stream, error) {
	for retried := false; ; {
		l, err := e.connect(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("connect to %v: %w", t, err)
		}
		if !e.reserve(l) {
			continue // it is being closed since, and would not be found again
		}
		s, err := open(ctx, l.conn, l.peer, k)
		if err == nil {
			e.opened(l, s.Context())
			s.own = e
			if s.copies = l.copies; l.lane == 0 && !l.inside {
				s.copies = &e.copies
			}
			return s, nil
		}
		// The connection has ended between the two. Once may be coincidence.
		if retried || ctx.Err() != nil || !errors.Is(err, net.ErrClosed) {
			return nil, fmt.Errorf("open stream to %s: %w", l.peer.Name, err)
		}
		retried = true
		<-l.up.Done() // its streams end a moment earlier; until then it would be found again
	}
}

// open opens a stream to peer on conn and says of which kind it is. It waits while the
// peer has all the streams that it allows.
func open(ctx context.Context, conn *quic.Conn, peer Peer, k StreamKind) (*Stream, error) {
	qs, err := conn.OpenStreamSync(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	s := &Stream{Stream: qs, Peer: peer, Local: conn.LocalAddr(), conn: conn, kind: k}
	s.silent.Store(true)
	if k == StreamData || k == StreamGroup {
		return s, nil // who opens it writes first: a packet of one byte less, and nothing is stuck when that is lost
	}
	// Does not block: quic-go keeps a write of less than a packet for the next packet.
	if _, err := s.Write(nil); err != nil {
		s.Abort()
		return nil, err
	}
	return s, nil
}

// connect returns a link to t, dialing t.addr (or what Resolve says) if there is none.
func (e *Endpoint) connect(ctx context.Context, t target) (*link, error) {
	e.mu.Lock()
	l := e.links.find(t)
	e.mu.Unlock()
	if l != nil {
		return l, nil
	}
	if t.name == e.self {
		return nil, ErrSelf
	}
	if t.addr == nil {
		var ok bool
		if t.addr, ok = e.cfg.Resolve(t.name); !ok || t.addr == nil {
			return nil, fmt.Errorf("%s is not a known member", t.name)
		}
	}
	a, err := e.attempt(t)
	if err != nil {
		return nil, err
	}
	select {
	case <-a.settled:
		return a.link, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// attempt returns the dial to t, which it begins if there is none.
func (e *Endpoint) attempt(t target) (*attempt, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, net.ErrClosed
	}
	if l := e.links.find(t); l != nil { // it came while Resolve was asked
		a := &attempt{settled: make(chan struct{}), link: l}
		close(a.settled)
		return a, nil
	}
	a, begun := e.links.attempt(t)
	if begun {
		a.ctx, a.cancel = context.WithCancel(e.ctx)
		e.tasks.Go(func() { e.dial(a) })
	}
	return a, nil
}

// dial makes the connection of a and serves it. It is bound to no caller's context:
// others wait for the same dial.
func (e *Endpoint) dial(a *attempt) {
	defer a.cancel()
	t := a.target
	r, done, err := e.dialLane(a.ctx, t)
	defer done()
	if err != nil {
		if a.ctx.Err() != nil {
			err = net.ErrClosed
		}
		e.fail(a, err)
		return
	}
	l := newLink(r.conn, t.lane, true)
	l.inside, l.copies = r.inside, r.copies
	switch {
	case l.peer.Name == e.self:
		err = ErrSelf
	case t.name != "" && t.name != l.peer.Name:
		err = &IdentityError{Want: t.name, Got: l.peer.Name}
		e.fail(a, err)
		if t.lane == 0 {
			err = nil // a lane like any other, on which the other end may open streams by now
		}
	}
	if err == nil {
		err = e.adopt(a.ctx, l)
	}
	if err != nil {
		e.fail(a, err)
		l.conn.CloseWithError(codeClosed, "not who was called")
		return
	}
	e.serve(l)
	e.linger(l)
}

// dialLane makes a connection for t. done is to be called when that has ended, or was not made.
func (e *Endpoint) dialLane(ctx context.Context, t target) (r reached, done func(), err error) {
	done = func() {}
	if t.lane == 0 {
		r, err = e.reach(ctx, t.addr)
		return r, done, err
	}
	if e.instead(t.addr) != nil {
		return r, done, ErrUDPBlocked
	}
	tr, copies, closeSocket, err := e.socketFor(t.lane)
	if err != nil {
		return r, done, err
	}
	r.copies = copies
	r.conn, err = tr.Dial(ctx, t.addr, memberTLS(e.cfg.Credentials, t.lane), e.quicConf)
	return r, closeSocket, err
}

// fail settles a with err, unless it is settled.
func (e *Endpoint) fail(a *attempt, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.links.settle(a, nil, err)
}
