package lane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

// Streams by way of a third member, for two that cannot reach each other. The opener asks the third one, on a stream of kind
// StreamVia, for a member by name (one byte for the length, then the name). The third one opens a stream of kind StreamCarried there and
// splices the two. Inside, the two ends speak TLS 1.3 with the certificates and the checks of member connections and a protocol
// name of its own: each knows the other, and the third can read nothing, change nothing and cut nothing off unseen. It can be
// slow, or end the stream.
//
// What is carried is never carried on: the far end takes it in or refuses it.

// protoVia is the application protocol (ALPN) of the session inside.
const protoVia = "gridagent-via/1"

const (
	// maxCarried bounds the streams that a host carries for others, and maxCarriedFor those for one member.
	maxCarried    = 256
	maxCarriedFor = 64
	// carryTime bounds the opening of the second half.
	carryTime = 5 * time.Second
	// maxViaName bounds the name of a host, in bytes.
	maxViaName = 255
)

var errTooManyCarried = errors.New("too many streams are carried already")

// A ViaStream is a stream to or from a peer by way of a third host. It is read and written, and ends, as a [Stream]. An error of a write
// deadline is final, since TLS cannot go on inside a record.
type ViaStream struct {
	Peer Peer   // Addr is that of the third host
	Via  string // the third host
	tls  *tls.Conn
	s    *Stream // to the third host
}

// Read reads what the peer has written. An end that the peer has not put there is [io.ErrUnexpectedEOF].
func (v *ViaStream) Read(p []byte) (int, error) {
	n, err := v.tls.Read(p)
	if err == io.EOF {
		v.s.CancelRead(0) // nothing of the peer's follows
	}
	return n, err
}

// Write writes p.
func (v *ViaStream) Write(p []byte) (int, error) { return v.tls.Write(p) }

// Close ends the writing side; what was written is still delivered. As Write, it is for one goroutine at a time.
func (v *ViaStream) Close() error {
	if err := v.tls.CloseWrite(); err != nil {
		v.s.CancelWrite(abortCode)
		return err
	}
	return v.s.Close()
}

// CancelRead ends the reading side.
func (v *ViaStream) CancelRead(code quic.StreamErrorCode) { v.s.CancelRead(code) }

// Abort ends both directions at once; the peer's reads and writes fail.
func (v *ViaStream) Abort() { v.s.Abort() }

// SetReadDeadline bounds the reads. One that has passed does no harm to the stream.
func (v *ViaStream) SetReadDeadline(t time.Time) error { return v.s.SetReadDeadline(t) }

// viaConn is the stream to a third host as the connection that TLS wants.
type viaConn struct{ *Stream }

func (c viaConn) LocalAddr() net.Addr  { return c.Local }
func (c viaConn) RemoteAddr() net.Addr { return c.Peer.Addr }
func (c viaConn) Close() error         { c.Abort(); return nil }

// HandleViaStreams registers h for streams of kind k that come by way of others, as [Endpoint.HandleStreams] does. Kinds without a handler
// are refused.
func (e *Endpoint) HandleViaStreams(k StreamKind, h func(ctx context.Context, s *ViaStream)) {
	if e.carried.handlers == nil {
		e.carried.handlers = make(map[StreamKind]func(context.Context, *ViaStream))
	}
	e.carried.handlers[k] = h
}

// OpenVia opens a stream of kind k to the member called to by way of the one called via. When it returns, the peer has proven who it
// is. ctx bounds the call, not the stream.
func (e *Endpoint) OpenVia(ctx context.Context, via, to string, k StreamKind) (*ViaStream, error) {
	switch {
	case to == "" || len(to) > maxViaName:
		return nil, fmt.Errorf("stream to %.64q by way of %s: want a name of 1 to %d bytes", to, via, maxViaName)
	case to == e.self || to == via:
		return nil, fmt.Errorf("stream to %s by way of %s: want three hosts", to, via)
	}
	s, err := e.Open(ctx, via, 0, StreamVia)
	if err != nil {
		return nil, err
	}
	v, err := e.callVia(ctx, s, to, k)
	if err != nil {
		s.Abort()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("stream to %s by way of %s: %w", to, via, err)
	}
	return v, nil
}

func (e *Endpoint) callVia(ctx context.Context, s *Stream, to string, k StreamKind) (*ViaStream, error) {
	stop := context.AfterFunc(ctx, s.Abort)
	defer stop()
	if _, err := s.Write(append([]byte{byte(len(to))}, to...)); err != nil {
		return nil, err
	}
	conf := memberTLS(e.cfg.Credentials, 0)
	conf.NextProtos = []string{protoVia}
	c := tls.Client(viaConn{s}, conf)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	v := &ViaStream{Peer: Peer{Name: memberName(c.ConnectionState()), Addr: s.Peer.Addr}, Via: s.Peer.Name, tls: c, s: s}
	if v.Peer.Name != to {
		return nil, &IdentityError{Want: to, Got: v.Peer.Name}
	}
	if _, err := c.Write([]byte{byte(k)}); err != nil {
		return nil, err
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return v, nil
}

// carried counts what this host carries for others, and holds who takes what others carry to it.
type carried struct {
	handlers map[StreamKind]func(context.Context, *ViaStream)

	mu    sync.Mutex // guards the fields below
	all   int
	owing map[string]int // streams by the member for which they are carried
}

func (c *carried) begin(member string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxCarried || c.owing[member] >= maxCarriedFor {
		return false
	}
	if c.owing == nil {
		c.owing = make(map[string]int)
	}
	c.all++
	c.owing[member]++
	return true
}

func (c *carried) end(member string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.owing[member]--; c.owing[member] == 0 {
		delete(c.owing, member)
	}
}

// carry is the third host's share: it splices s to a stream to the member that s asks for.
func (e *Endpoint) carry(ctx context.Context, s *Stream) {
	from := s.Peer.Name
	to, err := readViaName(s)
	if err == nil && (to == e.self || to == from) {
		err = errors.New("it leads back")
	}
	if err == nil && !e.carried.begin(from) {
		err = errTooManyCarried
	}
	if err != nil {
		e.log.Debug("stream is not carried", "from", from, "to", to, "err", err)
		s.Abort()
		return
	}
	defer e.carried.end(from)
	open, cancel := context.WithTimeout(ctx, carryTime)
	far, err := e.Open(open, to, 0, StreamCarried)
	cancel()
	if err != nil {
		e.log.Debug("stream is not carried", "from", from, "to", to, "err", err)
		s.Abort()
		return
	}
	Splice(ctx, s, s, far)
}

// readViaName reads which member a stream is to be carried to.
func readViaName(s interface {
	io.Reader
	SetReadDeadline(time.Time) error
}) (string, error) {
	if err := s.SetReadDeadline(time.Now().Add(kindTimeout)); err != nil {
		return "", err
	}
	var n [1]byte
	if _, err := io.ReadFull(s, n[:]); err != nil {
		return "", err
	}
	if n[0] == 0 {
		return "", errors.New("it names no member")
	}
	name := make([]byte, n[0])
	if _, err := io.ReadFull(s, name); err != nil {
		return "", err
	}
	return string(name), s.SetReadDeadline(time.Time{})
}

// serveCarried is the far end: it takes in a stream that another member carries, when its opener has proven who it is.
func (e *Endpoint) serveCarried(ctx context.Context, s *Stream) {
	v, h, err := e.answerVia(ctx, s)
	if err != nil {
		e.log.Debug("carried stream refused", "by", s.Peer.Name, "err", err)
		s.Abort()
		return
	}
	h(ctx, v)
}

func (e *Endpoint) answerVia(ctx context.Context, s *Stream) (*ViaStream, func(context.Context, *ViaStream), error) {
	visit, err := e.door.knock(s.Peer.Addr)
	if err != nil {
		return nil, nil, err
	}
	defer e.door.gone(visit)
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	c := tls.Server(viaConn{s}, viaServerTLS(e.cfg.Credentials))
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	v := &ViaStream{Peer: Peer{Name: memberName(c.ConnectionState()), Addr: s.Peer.Addr}, Via: s.Peer.Name, tls: c, s: s}
	if v.Peer.Name == e.self {
		return nil, nil, ErrSelf
	}
	kind, err := readKind(c)
	if err != nil {
		return nil, nil, err
	}
	h := e.carried.handlers[kind]
	if h == nil {
		return nil, nil, fmt.Errorf("kind %#02x is not taken by way of others", byte(kind))
	}
	return v, h, nil
}

// viaServerTLS is the far end's configuration: the checks of member connections.
func viaServerTLS(c Credentials) *tls.Config {
	conf := baseTLS(c)
	conf.NextProtos = []string{protoVia}
	conf.ClientAuth = tls.RequestClientCert // required by VerifyConnection, as in serverTLS
	conf.VerifyConnection = func(cs tls.ConnectionState) error {
		_, err := verifyMember(cs, c.Roots, x509.ExtKeyUsageClientAuth)
		if err == nil && cs.NegotiatedProtocol != protoVia {
			err = fmt.Errorf("application protocol %q, want %q", cs.NegotiatedProtocol, protoVia)
		}
		return err
	}
	return conf
}
