package lane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// protoTCP is the ALPN protocol of TCP lanes.
const protoTCP = "gridagent-tcp/1"

const (
	// handshakeTime bounds the handshake of a TCP lane.
	handshakeTime = 10 * time.Second
	// restTime is how long a connection without a stream is kept by the end that dialed it, as QUIC's lanes are: the steps of a workflow find them.
	// patience is how long by the other end: longer, so that nobody opens a stream on one that is just
	// being closed.
	restTime = 15 * time.Minute
	patience = 20 * time.Minute
	// maxResting bounds the connections without a stream: to one member, and to all.
	maxResting    = 16
	maxRestingAll = 1024
	// acceptPause is how long accepting rests where the system lacks something (descriptors).
	acceptPause = 50 * time.Millisecond
)

// errNotTaken means that the peer has closed the connection just after its handshake: it has
// too many, or does not accept this host's certificate.
var errNotTaken = errors.New("the peer has closed the connection after the handshake")

// TCPTraffic counts what TCP lanes to and from one member have carried of streams, in bytes, and
// how many connections are open.
type TCPTraffic struct {
	Sent, Received uint64
	Conns          int
}

// HandleTCPStreams registers h for streams of kind k that come on TCP lanes, as
// [Endpoint.HandleStreams] does. ctx ends with the connection.
func (e *Endpoint) HandleTCPStreams(k StreamKind, h func(ctx context.Context, s *TCPStream)) {
	if e.tcp.handlers == nil {
		e.tcp.handlers = make(map[StreamKind]func(context.Context, *TCPStream))
	}
	e.tcp.handlers[k] = h
}

// TCPTraffic returns what TCP lanes to and from the member called name have carried since the
// endpoint began.
func (e *Endpoint) TCPTraffic(name string) TCPTraffic {
	e.tcp.mu.Lock()
	defer e.tcp.mu.Unlock()
	t := e.tcp.gone[name]
	for c := range e.tcp.conns[name] {
		t.Sent, t.Received, t.Conns = t.Sent+c.sent.Load(), t.Received+c.received.Load(), t.Conns+1
	}
	return t
}

// OpenTCP opens a stream of kind k to the member called name on a TCP connection of its
// own: one that rests, or a new one, to the port that has the number of the member's
// UDP port. congestion names the congestion control of the connection; empty means the system's. The caller speaks
// first: until it does the peer does not know of the stream.
//
// ctx bounds the call, not the stream; its cause is the error when it ends. Other errors wrap
// ErrWrongCluster, an *IdentityError, ErrSelf, net.ErrClosed, or what the system says.
func (e *Endpoint) OpenTCP(ctx context.Context, name, congestion string, k StreamKind) (*TCPStream, error) {
	if s := e.TakeTCP(name, congestion, k); s != nil {
		return s, nil
	}
	c, err := e.dialTCP(ctx, name, congestion)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("connect to %s over TCP: %w", name, err)
	}
	s := c.stream()
	if !e.start(func() { e.serveDialed(c, s) }) {
		c.close()
		return nil, net.ErrClosed
	}
	if err := s.begin(k); err != nil {
		s.Abort()
		return nil, fmt.Errorf("open stream to %s: %w", name, err)
	}
	return s, nil
}

// TakeTCP is OpenTCP on a connection that rests, nil if none does. It makes no connection, and does not block.
func (e *Endpoint) TakeTCP(name, congestion string, k StreamKind) *TCPStream {
	for {
		s := e.tcp.take(name, congestion)
		if s == nil || s.begin(k) == nil {
			return s
		}
		s.Abort() // it has broken just now; try the next one
	}
}

// RestsTCP reports whether a connection rests on which OpenTCP would open a stream at once.
func (e *Endpoint) RestsTCP(name, congestion string) bool { return e.tcp.rests(name, congestion) }

// ReadyTCP makes sure that there is one.
func (e *Endpoint) ReadyTCP(ctx context.Context, name, congestion string) error {
	if e.RestsTCP(name, congestion) {
		return nil
	}
	c, err := e.dialTCP(ctx, name, congestion)
	if err != nil {
		return fmt.Errorf("connect to %s over TCP: %w", name, err)
	}
	if !e.start(func() { e.serveDialed(c, e.tcp.wait(c)) }) {
		c.close()
		return net.ErrClosed
	}
	return nil
}

func (e *Endpoint) dialTCP(ctx context.Context, name, congestion string) (*tcpConn, error) {
	switch {
	case e.cfg.DialTCP == nil:
		return nil, errors.New("this host dials no TCP lanes")
	case name == e.self:
		return nil, ErrSelf
	}
	addr, ok := e.cfg.Resolve(name)
	if !ok || addr == nil {
		return nil, fmt.Errorf("%s is not a known member", name)
	}
	if u, ok := addr.(*net.UDPAddr); ok {
		addr = &net.TCPAddr{IP: u.IP, Port: u.Port, Zone: u.Zone}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTime, fmt.Errorf("no connection within %v", handshakeTime))
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	connect := func(ctx context.Context) (*tcpConn, error) { return e.connectTCP(ctx, addr, name, congestion) }
	c, err := raceTCP(ctx, connect, e.dialAgain(name, congestion))
	if err != nil {
		return nil, err
	}
	e.tcp.add(c)
	return c, nil
}

// connectTCP makes one connection.
func (e *Endpoint) connectTCP(ctx context.Context, addr net.Addr, name, congestion string) (*tcpConn, error) {
	raw, err := e.cfg.DialTCP(ctx, addr, congestion)
	if err != nil {
		return nil, err
	}
	conf := memberTLS(e.cfg.Credentials, 0)
	conf.NextProtos, conf.DynamicRecordSizingDisabled = []string{protoTCP}, true
	c := e.newTCPConn(raw, conf, true)
	c.kind = congestion
	if err = c.handshake(ctx); err == nil {
		err = c.welcomed(ctx, name)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	if f, ok := c.raw.(*rawTCP); ok {
		f.nears()
	}
	return c, nil
}

// welcomed checks that the peer is the one that was called and waits until it has taken the
// connection: TLS 1.3 tells the dialing end of a refused certificate after its handshake only.
func (c *tcpConn) welcomed(ctx context.Context, name string) error {
	switch c.peer.Name {
	case name:
	case c.e.self:
		return ErrSelf
	default:
		return &IdentityError{Want: name, Got: c.peer.Name}
	}
	defer context.AfterFunc(ctx, c.close)()
	var mark [unitHead]byte
	n := 0
	for n < unitHead {
		k, err := c.rw.Read(mark[n:])
		if n += k; n < unitHead && err != nil {
			return fmt.Errorf("%w: %w", errNotTaken, noEnd(err))
		}
	}
	if mark != [unitHead]byte{} {
		return fmt.Errorf("%w: it begins with %x", errUnit, mark)
	}
	return c.raw.SetDeadline(time.Time{})
}
