package lane

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

// joinTimeout bounds a join connection from its handshake to its end.
const joinTimeout = 30 * time.Second

// errTooMany means that a member has made more connections than it may.
var errTooMany = errors.New("too many connections of this member")

// acceptConns serves incoming connections until the endpoint ends, or the socket fails,
// which is its error. inside says that they come in tunnels.
func (e *Endpoint) acceptConns(l *quic.Listener, inside bool) error {
	for {
		conn, err := l.Accept(e.ctx)
		if e.ctx.Err() != nil {
			if err == nil {
				conn.CloseWithError(codeClosed, "closing")
			}
			return nil
		}
		if err != nil {
			return err
		}
		e.door.pass(conn)
		if !e.start(func() { e.serveIncoming(conn, inside) }) {
			conn.CloseWithError(codeClosed, "closing")
			return nil
		}
	}
}

func (e *Endpoint) serveIncoming(conn *quic.Conn, inside bool) {
	proto := conn.ConnectionState().TLS.NegotiatedProtocol
	if proto == protoJoin {
		e.serveJoin(conn)
		return
	}
	lane := 0
	if proto == protoLane {
		lane = 1
	}
	l := newLink(conn, lane, false) // its name was verified during the handshake
	l.inside = inside
	if l.peer.Name == e.self {
		conn.CloseWithError(codeClosed, "that is this host's own name") // the dialing end knows as well
		return
	}
	if err := e.adopt(e.ctx, l); err != nil {
		code := codeClosed
		if errors.Is(err, errTooMany) {
			code = codeBusy
			e.log.Debug("connection refused", "peer", l.peer.Name, "addr", l.peer.Addr, "err", err)
		}
		conn.CloseWithError(code, err.Error())
		return
	}
	e.serve(l)
}

// adopt takes a new link in, unless ctx has ended: streams are opened on it from now on.
func (e *Endpoint) adopt(ctx context.Context, l *link) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || ctx.Err() != nil {
		return net.ErrClosed
	}
	if !e.links.add(l) {
		return errTooMany
	}
	e.windows.admit(l.conn)
	return nil
}

// serve accepts the streams of an adopted link until it or the endpoint ends.
func (e *Endpoint) serve(l *link) {
	e.log.Debug("connected", "peer", l.peer.Name, "addr", l.peer.Addr, "lane", l.lane, "dialed", l.dialed)
	defer l.grow()()
	for {
		qs, err := l.conn.AcceptStream(e.ctx)
		if err != nil {
			break
		}
		s := &Stream{Stream: qs, Peer: l.peer, Local: l.conn.LocalAddr(), conn: l.conn}
		if !e.start(func() { e.dispatch(l, s) }) {
			break
		}
	}
	e.mu.Lock()
	e.links.remove(l)
	e.mu.Unlock()
	l.conn.CloseWithError(codeClosed, "closing") // returns when the connection has ended
	e.windows.release(l.conn)
	e.log.Debug("disconnected", "peer", l.peer.Name, "addr", l.peer.Addr, "lane", l.lane, "cause", l.cause())
}

// dispatch hands a member's stream to who handles its kind.
func (e *Endpoint) dispatch(l *link, s *Stream) {
	kind, err := readKind(s)
	if err == nil && kind == StreamIdle {
		e.answerIdle(l, s)
		return
	}
	h := e.streams[kind]
	if err != nil || h == nil || kind == StreamJoin {
		s.Abort()
		return
	}
	e.opened(l, s.Context())
	h(s.conn.Context(), s)
}

// serveJoin serves one stream of kind join and nothing else.
func (e *Endpoint) serveJoin(conn *quic.Conn) {
	from := conn.RemoteAddr()
	if !e.door.enter(from) {
		conn.CloseWithError(codeBusy, "too many hosts are joining at once, try again")
		return
	}
	defer e.door.leave(from)
	ctx, cancel := context.WithTimeout(e.ctx, joinTimeout)
	defer cancel()
	defer context.AfterFunc(conn.Context(), cancel)()
	// A read does not see ctx; the end of the connection it does see.
	defer context.AfterFunc(ctx, func() { conn.CloseWithError(codeClosed, "done") })()
	defer conn.CloseWithError(codeClosed, "done")
	qs, err := conn.AcceptStream(ctx)
	if err != nil {
		return
	}
	s := &Stream{Stream: qs, Peer: Peer{Addr: from}, Local: conn.LocalAddr(), conn: conn}
	kind, err := readKind(s)
	h := e.streams[StreamJoin]
	if err != nil || kind != StreamJoin || h == nil {
		s.Abort()
		return
	}
	h(ctx, s)
	// The answer is complete when the client has closed; do not cut it off.
	<-ctx.Done()
}
