package lane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// protoTCP is the ALPN protocol of TCP lanes.
const protoTCP = "gridagent-tcp/1"

const (
	// handshakeTime bounds the handshake of a TCP lane.
	handshakeTime = 10 * time.Second
	// restTime is how long a connection without a stream is kept by the end that dialed it,
	// and patience by the other: longer, so that nobody opens a stream on one that is just
	// being closed.
	restTime = 2 * time.Minute
	patience = 5 * time.Minute
	// maxResting bounds the connections without a stream: to one member, and to all.
	maxResting    = 16
	maxRestingAll = 1024
	// acceptPause is how long accepting rests where the system lacks something (descriptors).
	acceptPause = 50 * time.Millisecond
)

// errNotTaken means that the peer has closed the connection just after its handshake: it has
// too many, or does not accept this host's certificate.
var errNotTaken = errors.New("the peer has closed the connection after the handshake")

// tcpLanes are an endpoint's TCP connections. Its zero value is ready to use.
type tcpLanes struct {
	handlers map[StreamKind]func(context.Context, *TCPStream) // written before Run

	mu       sync.Mutex // guards the fields below
	conns    map[string]map[*tcpConn]struct{}
	accepted map[string]int        // of conns, those that the member has dialed
	resting  map[string][]*tcpConn // dialed ones without a stream, by member; the last used is last
	rest     int                   // how many those are
	gone     map[string]TCPTraffic // of connections that have ended
}

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
// UDP port. congestion names the congestion control of the connection; empty means the system's.
//
// ctx bounds the call, not the stream; its cause is the error when it ends. Other errors wrap
// ErrWrongCluster, an *IdentityError, ErrSelf, net.ErrClosed, or what the system says.
func (e *Endpoint) OpenTCP(ctx context.Context, name, congestion string, k StreamKind) (*TCPStream, error) {
	for {
		s := e.tcp.take(name, congestion)
		if s == nil {
			break
		}
		if _, err := s.Write([]byte{byte(k)}); err == nil {
			return s, nil
		}
		s.Abort() // it has broken just now; try the next one
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
	if _, err := s.Write([]byte{byte(k)}); err != nil {
		s.Abort()
		return nil, fmt.Errorf("open stream to %s: %w", name, err)
	}
	return s, nil
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
	e.tcp.add(c)
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

// serveDialed keeps c, whose first stream is s, for as long as it is of use.
func (e *Endpoint) serveDialed(c *tcpConn, s *TCPStream) {
	defer e.tcp.remove(c)
	defer c.close()
	for s != nil && c.finish(s) {
		s = e.tcp.wait(c)
	}
}

// take returns a new stream to name on a connection that rests, or nil.
func (t *tcpLanes) take(name, congestion string) *TCPStream {
	for {
		t.mu.Lock()
		rs := t.resting[name]
		i := -1
		for j, c := range rs { // the last: it is the least likely to be too old
			if c.kind == congestion {
				i = j
			}
		}
		if i < 0 {
			t.mu.Unlock()
			return nil
		}
		c := rs[i]
		t.unrest(c)
		c.raw.SetReadDeadline(time.Unix(1, 0)) // ends its read in wait, which sets another after that
		t.mu.Unlock()
		if s := <-c.ready; s != nil {
			return s
		}
	}
}

// wait keeps c in the pool until it is taken, and returns its next stream. It returns nil if
// the connection has ended, has been idle for too long, or has no place there.
func (t *tcpLanes) wait(c *tcpConn) *TCPStream {
	name := c.peer.Name
	t.mu.Lock()
	if len(t.resting[name]) >= maxResting || t.rest >= maxRestingAll {
		t.mu.Unlock()
		return nil
	}
	c.raw.SetReadDeadline(time.Now().Add(restTime))
	if t.resting == nil {
		t.resting = make(map[string][]*tcpConn)
	}
	t.resting[name] = append(t.resting[name], c)
	t.rest++
	t.mu.Unlock()
	var b [1]byte
	_, err := c.rw.Read(b[:]) // the peer has nothing to say now
	t.mu.Lock()
	taken := !t.unrest(c)
	t.mu.Unlock()
	if !taken {
		return nil
	}
	var s *TCPStream
	if timedOut(err) && c.raw.SetDeadline(time.Time{}) == nil && c.ctx.Err() == nil {
		s = c.stream()
	}
	c.ready <- s
	return s
}

// unrest takes c out of the pool. It needs t.mu.
func (t *tcpLanes) unrest(c *tcpConn) bool {
	rs := t.resting[c.peer.Name]
	i := slices.Index(rs, c)
	if i < 0 {
		return false
	}
	t.rest--
	if rs = slices.Delete(rs, i, i+1); len(rs) == 0 {
		delete(t.resting, c.peer.Name)
	} else {
		t.resting[c.peer.Name] = rs
	}
	return true
}

// add counts c. It returns false if the member has made too many connections.
func (t *tcpLanes) add(c *tcpConn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := c.peer.Name
	if !c.dialed && t.accepted[name] >= maxAccepted {
		return false
	}
	if t.conns == nil {
		t.conns, t.accepted = make(map[string]map[*tcpConn]struct{}), make(map[string]int)
		t.gone = make(map[string]TCPTraffic)
	}
	if t.conns[name] == nil {
		t.conns[name] = make(map[*tcpConn]struct{})
	}
	t.conns[name][c] = struct{}{}
	if !c.dialed {
		t.accepted[name]++
	}
	return true
}

func (t *tcpLanes) remove(c *tcpConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := c.peer.Name
	sum := t.gone[name]
	sum.Sent, sum.Received = sum.Sent+c.sent.Load(), sum.Received+c.received.Load()
	t.gone[name] = sum // as many as there are members: their certificates name them
	if delete(t.conns[name], c); len(t.conns[name]) == 0 {
		delete(t.conns, name)
	}
	if !c.dialed {
		if t.accepted[name]--; t.accepted[name] == 0 {
			delete(t.accepted, name)
		}
	}
}

// listenTCP serves incoming TCP lanes until the endpoint ends or the listener fails.
func (e *Endpoint) listenTCP(l net.Listener) {
	conf := tcpServerTLS(e.cfg.Credentials, e.cfg.Refused)
	for {
		raw, err := l.Accept()
		switch {
		case e.ctx.Err() != nil:
			if err == nil {
				raw.Close()
			}
			return
		case errors.Is(err, net.ErrClosed):
			e.log.Warn("TCP listener was closed by somebody else", "addr", l.Addr())
			return
		case err != nil:
			e.log.Warn("TCP lanes are not accepted", "addr", l.Addr(), "err", err)
			select {
			case <-time.After(acceptPause):
			case <-e.ctx.Done():
			}
			continue
		}
		v, err := e.door.knock(raw.RemoteAddr())
		if err != nil || !e.start(func() { e.serveTCP(raw, conf, v) }) {
			raw.Close()
			if err == nil {
				e.door.gone(v)
			}
		}
	}
}

// tcpServerTLS is the configuration for incoming TCP lanes, with the checks of QUIC's member
// connections.
func tcpServerTLS(c Credentials, refused func(net.Addr, error)) *tls.Config {
	top := baseTLS(c)
	top.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		from := hello.Conn.RemoteAddr()
		conf := baseTLS(c)
		conf.NextProtos, conf.DynamicRecordSizingDisabled = []string{protoTCP}, true
		conf.ClientAuth = tls.RequestClientCert // as in serverTLS
		conf.VerifyConnection = func(cs tls.ConnectionState) error {
			_, err := verifyMember(cs, c.Roots, x509.ExtKeyUsageClientAuth)
			if err == nil && cs.NegotiatedProtocol != protoTCP {
				err = fmt.Errorf("application protocol %q, want %q", cs.NegotiatedProtocol, protoTCP)
			}
			if err != nil {
				refused(from, err)
			}
			return err
		}
		return conf, nil
	}
	return top
}

// serveTCP serves one incoming connection, a stream at a time.
func (e *Endpoint) serveTCP(raw net.Conn, conf *tls.Config, v *visitor) {
	c := e.newTCPConn(raw, conf, false)
	defer c.close()
	err := c.handshake(e.ctx)
	e.door.gone(v)
	// That our own check has refused the peer, tcpServerTLS says; that the peer has refused
	// us, only its alert. crypto/tls exports no type for alerts over TCP.
	var alert *net.OpError
	if errors.As(err, &alert) && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate") {
		e.cfg.Refused(v.from, fmt.Errorf("%w: %w", errDialerRefused, err))
	}
	if err != nil || c.peer.Name == e.self {
		return
	}
	if !e.tcp.add(c) {
		e.log.Debug("TCP connection refused", "peer", c.peer.Name, "addr", c.peer.Addr, "err", errTooMany)
		return
	}
	defer e.tcp.remove(c)
	if c.mark(markEnd) != nil {
		return
	}
	for {
		if c.raw.SetDeadline(time.Now().Add(patience)) != nil {
			return
		}
		var kind [1]byte
		if _, err := c.read(kind[:]); err != nil {
			return
		}
		c.raw.SetDeadline(time.Time{})
		h := e.tcp.handlers[StreamKind(kind[0])]
		s := c.stream()
		if h == nil || !e.start(func() { h(c.ctx, s) }) {
			return
		}
		if !c.finish(s) {
			return
		}
	}
}
