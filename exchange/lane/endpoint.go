package lane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

// StreamKind is the first byte of a stream: who handles it.
type StreamKind byte

// The kinds of streams.
const (
	StreamGossip StreamKind = 'g' // memberlist push/pull
	StreamGroup  StreamKind = 'r' // forming groups of ranks, and their coordination
	StreamMap    StreamKind = 'm' // rows of the network map
	StreamSign   StreamKind = 's' // a join request on its way to the authority
	StreamData   StreamKind = 'd' // chunks of an exchange
	StreamProbe  StreamKind = 'p' // control of a probe
	StreamJoin   StreamKind = 'j' // the only kind accepted on a join connection
)

// PacketKind is the first byte of a datagram that is not QUIC. Its two highest
// bits are 0: that is what quic-go tells them by.
type PacketKind byte

// The kinds of datagrams.
const (
	PacketGossip PacketKind = 0x01
	PacketProbe  PacketKind = 0x02
)

// closeCode is the QUIC application error of a connection that ends in good order.
const closeCode quic.ApplicationErrorCode = 0

// A Peer is the other end: its host name as certified, and where it is reached.
type Peer struct {
	Name string
	Addr net.Addr
}

// A Stream is one stream to or from a peer.
type Stream struct {
	*quic.Stream
	Peer  Peer
	Local net.Addr
	conn  *quic.Conn
}

// Stats returns the statistics of the lane that carries the stream.
func (s *Stream) Stats() quic.ConnectionStats { return s.conn.ConnectionStats() }

// Abort ends both directions at once; the peer's reads and writes fail.
func (s *Stream) Abort() {
	s.CancelRead(1)
	s.CancelWrite(1)
}

// Config is what an [Endpoint] needs.
type Config struct {
	// Conn is the agent's socket. The endpoint owns it and closes it. In production
	// it is the bare *net.UDPConn: a wrapped one costs twice the CPU (no GSO).
	Conn        net.PacketConn
	Credentials Credentials
	// StatelessReset keys the resets by which a restarted agent ends its peers' old
	// connections at once. All zero disables them.
	StatelessReset [32]byte
	// IdleTimeout ends a connection on which nothing has arrived. Zero means 6 s:
	// the loss of a host must reach every rank within 10 s.
	IdleTimeout time.Duration
	// KeepAlive is the pause after which an idle connection is pinged. Zero means a third of IdleTimeout.
	KeepAlive time.Duration
	// Resolve returns the current address of a member. It must not block.
	Resolve func(name string) (net.Addr, bool)
	// Refused is told of every connection refused for its certificate. It must not block.
	Refused func(from net.Addr, err error)
	// Log receives state changes. Nil discards.
	Log *slog.Logger
}

// An Endpoint is an agent's place in the network. Its methods may be called
// concurrently; handlers are registered before [Endpoint.Run].
type Endpoint struct {
	cfg       Config
	log       *slog.Logger
	transport *quic.Transport
	quicConf  *quic.Config
	streams   map[StreamKind]func(context.Context, *Stream)
	packets   map[PacketKind]func(p []byte, from net.Addr, at time.Time)

	ctx    context.Context // ends when Run's does; bounds every connection
	cancel context.CancelFunc
	tasks  sync.WaitGroup // every goroutine the endpoint started

	mu     sync.Mutex // guards the fields below; never held over I/O
	closed bool
	conns  map[connKey]*connEntry
	byAddr map[string]string // remote address → name of the member last met there
}

type connKey struct {
	name string
	lane int
}

// A connEntry is a connection or the attempt to make one: ready is closed once conn or err is set.
type connEntry struct {
	ready chan struct{}
	conn  *quic.Conn
	err   error
}

// New returns an endpoint on cfg.Conn. Nothing is read before [Endpoint.Run].
func New(cfg Config) (*Endpoint, error) {
	if cfg.Conn == nil || cfg.Credentials.Roots == nil || len(cfg.Credentials.Certificate.Certificate) == 0 {
		return nil, errors.New("lane: socket, certificate and roots are required")
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = 6 * time.Second
	}
	if cfg.KeepAlive == 0 {
		cfg.KeepAlive = cfg.IdleTimeout / 3
	}
	if cfg.Resolve == nil {
		cfg.Resolve = func(string) (net.Addr, bool) { return nil, false }
	}
	if cfg.Refused == nil {
		cfg.Refused = func(net.Addr, error) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	t := &quic.Transport{Conn: cfg.Conn}
	if cfg.StatelessReset != [32]byte{} {
		key := quic.StatelessResetKey(cfg.StatelessReset)
		t.StatelessResetKey = &key
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Endpoint{
		cfg:       cfg,
		log:       cfg.Log,
		transport: t,
		quicConf: &quic.Config{
			HandshakeIdleTimeout:       10 * time.Second,
			MaxIdleTimeout:             cfg.IdleTimeout,
			KeepAlivePeriod:            cfg.KeepAlive,
			MaxIncomingStreams:         1024,
			MaxIncomingUniStreams:      -1,
			InitialStreamReceiveWindow: 1 << 20,
			// InitialPacketSize stays 0: larger values make the pacer spin in virtual time.
		},
		streams: make(map[StreamKind]func(context.Context, *Stream)),
		packets: make(map[PacketKind]func([]byte, net.Addr, time.Time)),
		ctx:     ctx,
		cancel:  cancel,
		conns:   make(map[connKey]*connEntry),
		byAddr:  make(map[string]string),
	}, nil
}

// Addr is the address of the socket.
func (e *Endpoint) Addr() net.Addr { return e.cfg.Conn.LocalAddr() }

// HandleStreams registers h for incoming streams of one kind. h runs in a goroutine
// of its own; ctx ends with the connection. h owns the stream and must end it.
func (e *Endpoint) HandleStreams(k StreamKind, h func(ctx context.Context, s *Stream)) {
	e.streams[k] = h
}

// HandlePackets registers h for datagrams of one kind. p excludes the kind byte and
// is valid only during the call; h must not block: it runs on the reading goroutine.
// from is as the packet claims.
func (e *Endpoint) HandlePackets(k PacketKind, h func(p []byte, from net.Addr, at time.Time)) {
	e.packets[k] = h
}

// SendPacket sends one datagram of kind k; b excludes the kind byte and is at most
// 1,400 bytes. It may be lost.
func (e *Endpoint) SendPacket(k PacketKind, b []byte, to net.Addr) error {
	p := make([]byte, 1+len(b))
	p[0] = byte(k)
	copy(p[1:], b)
	_, err := e.transport.WriteTo(p, to)
	return err
}

// Run serves until ctx ends, then closes every connection and the socket. When it
// returns, every goroutine of the endpoint has ended.
func (e *Endpoint) Run(ctx context.Context) error {
	listener, err := e.transport.Listen(serverTLS(e.cfg.Credentials, e.cfg.Refused), e.quicConf)
	if err != nil {
		e.shutdown(nil)
		return fmt.Errorf("listen on %v: %w", e.Addr(), err)
	}
	stop := context.AfterFunc(ctx, e.cancel)
	defer stop()
	e.start(e.readPackets)
	e.start(func() { e.acceptConns(listener) })
	<-e.ctx.Done()
	e.shutdown(listener)
	return nil
}

// Close ends Run, or releases the socket of an endpoint that never ran.
func (e *Endpoint) Close() { e.cancel() }

// shutdown closes connections before the socket, so that peers are told.
func (e *Endpoint) shutdown(l *quic.Listener) {
	e.cancel()
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.tasks.Wait() // each connection's goroutine closes it when e.ctx ends
	if l != nil {
		l.Close()
	}
	e.transport.Close()
	e.cfg.Conn.Close()
}

// start runs f as a goroutine of the endpoint, unless it is closed.
func (e *Endpoint) start(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.tasks.Go(f)
	return true
}

func (e *Endpoint) readPackets() {
	buf := make([]byte, 2048)
	for {
		n, from, err := e.transport.ReadNonQUICPacket(e.ctx, buf)
		if err != nil {
			return
		}
		if n == 0 {
			continue
		}
		if h := e.packets[PacketKind(buf[0])]; h != nil {
			h(buf[1:n], from, time.Now())
		}
	}
}

func (e *Endpoint) acceptConns(l *quic.Listener) {
	for {
		conn, err := l.Accept(e.ctx)
		if err != nil {
			return
		}
		if !e.start(func() { e.serveIncoming(conn) }) {
			conn.CloseWithError(closeCode, "closing")
			return
		}
	}
}

func (e *Endpoint) serveIncoming(conn *quic.Conn) {
	cs := conn.ConnectionState().TLS
	if cs.NegotiatedProtocol == protoJoin {
		e.serveJoin(conn)
		return
	}
	name := cs.PeerCertificates[0].Subject.CommonName // verified during the handshake
	if cs.NegotiatedProtocol == protoLane {
		e.serve(connKey{name, 1}, nil, conn) // the dialer's to open streams on, not ours
		return
	}
	key := connKey{name, 0}
	entry := &connEntry{ready: make(chan struct{}), conn: conn}
	close(entry.ready)
	e.mu.Lock()
	// The newest connection serves new streams: after a restart the older one is dead.
	e.conns[key] = entry
	e.byAddr[conn.RemoteAddr().String()] = name
	e.mu.Unlock()
	e.serve(key, entry, conn)
}

// serveJoin accepts one stream of kind join and nothing else.
func (e *Endpoint) serveJoin(conn *quic.Conn) {
	defer conn.CloseWithError(closeCode, "done")
	ctx, cancel := context.WithTimeout(e.ctx, 30*time.Second)
	defer cancel()
	qs, err := conn.AcceptStream(ctx)
	if err != nil {
		return
	}
	s := &Stream{Stream: qs, Peer: Peer{Addr: conn.RemoteAddr()}, Local: conn.LocalAddr(), conn: conn}
	kind, err := readKind(s)
	h := e.streams[StreamJoin]
	if err != nil || kind != StreamJoin || h == nil {
		s.Abort()
		return
	}
	h(ctx, s)
	// The answer is complete when the client has closed; do not cut it off.
	select {
	case <-conn.Context().Done():
	case <-ctx.Done():
	}
}

// serve accepts the streams of a member connection until it or the endpoint ends.
func (e *Endpoint) serve(key connKey, entry *connEntry, conn *quic.Conn) {
	peer := Peer{Name: key.name, Addr: conn.RemoteAddr()}
	e.log.Debug("connected", "peer", peer.Name, "addr", peer.Addr, "lane", key.lane)
	for {
		qs, err := conn.AcceptStream(e.ctx)
		if err != nil {
			break
		}
		s := &Stream{Stream: qs, Peer: peer, Local: conn.LocalAddr(), conn: conn}
		if !e.start(func() { e.dispatch(s) }) {
			break
		}
	}
	e.forget(key, entry)
	conn.CloseWithError(closeCode, "closing")
	<-conn.Context().Done()
	e.log.Debug("disconnected", "peer", peer.Name, "lane", key.lane, "cause", context.Cause(conn.Context()))
}

func (e *Endpoint) forget(key connKey, entry *connEntry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if entry != nil && e.conns[key] == entry {
		delete(e.conns, key)
		if entry.conn != nil {
			delete(e.byAddr, entry.conn.RemoteAddr().String())
		}
	}
}

func (e *Endpoint) dispatch(s *Stream) {
	kind, err := readKind(s)
	h := e.streams[kind]
	if err != nil || h == nil || kind == StreamJoin {
		s.Abort()
		return
	}
	h(s.conn.Context(), s)
}

// readKind reads a stream's first byte, which a peer owes at once.
func readKind(s *Stream) (StreamKind, error) {
	var b [1]byte
	s.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := s.Read(b[:]); err != nil {
		return 0, err
	}
	s.SetReadDeadline(time.Time{})
	return StreamKind(b[0]), nil
}

// Open opens a stream of kind k to the member called name on the given lane,
// dialing it first if there is no connection yet. Concurrent calls share one dial.
func (e *Endpoint) Open(ctx context.Context, name string, lane int, k StreamKind) (*Stream, error) {
	conn, err := e.connect(ctx, connKey{name, lane}, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", name, err)
	}
	return e.open(ctx, conn, name, k)
}

// OpenAddr is [Endpoint.Open] on lane 0 where only the address is known; the member
// that answers is in the stream's Peer.
func (e *Endpoint) OpenAddr(ctx context.Context, addr net.Addr, k StreamKind) (*Stream, error) {
	e.mu.Lock()
	name, ok := e.byAddr[addr.String()]
	e.mu.Unlock()
	if !ok {
		name = "@" + addr.String() // no host name begins with @; renamed once it has answered
	}
	conn, err := e.connect(ctx, connKey{name, 0}, addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", addr, err)
	}
	return e.open(ctx, conn, memberName(conn), k)
}

func memberName(c *quic.Conn) string {
	return c.ConnectionState().TLS.PeerCertificates[0].Subject.CommonName
}

func (e *Endpoint) open(ctx context.Context, conn *quic.Conn, name string, k StreamKind) (*Stream, error) {
	qs, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, fmt.Errorf("open stream to %s: %w", name, err)
	}
	s := &Stream{Stream: qs, Peer: Peer{Name: name, Addr: conn.RemoteAddr()}, Local: conn.LocalAddr(), conn: conn}
	if _, err := s.Write([]byte{byte(k)}); err != nil {
		s.Abort()
		return nil, fmt.Errorf("open stream to %s: %w", name, err)
	}
	return s, nil
}

// connect returns the connection for key, dialing addr (or what Resolve says) if there is none.
func (e *Endpoint) connect(ctx context.Context, key connKey, addr net.Addr) (*quic.Conn, error) {
	e.mu.Lock()
	entry := e.conns[key]
	if entry == nil {
		if e.closed {
			e.mu.Unlock()
			return nil, net.ErrClosed
		}
		entry = &connEntry{ready: make(chan struct{})}
		e.conns[key] = entry
		e.tasks.Go(func() { e.dial(key, entry, addr) })
	}
	e.mu.Unlock()
	select {
	case <-entry.ready:
		return entry.conn, entry.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// dial makes the connection of entry and serves it. It is not bound to the context
// of the caller that happened to come first: others wait for the same dial.
func (e *Endpoint) dial(key connKey, entry *connEntry, addr net.Addr) {
	want := key.name
	if want[0] == '@' {
		want = ""
	}
	conn, err := e.dialQUIC(addr, want, key.lane)
	if err != nil {
		entry.err = err
		e.forget(key, entry)
		close(entry.ready)
		return
	}
	entry.conn = conn
	name := memberName(conn)
	e.mu.Lock()
	e.byAddr[conn.RemoteAddr().String()] = name
	if want == "" { // now the name is known
		if e.conns[key] == entry {
			delete(e.conns, key)
		}
		key = connKey{name, key.lane}
		if e.conns[key] == nil {
			e.conns[key] = entry
		}
	}
	e.mu.Unlock()
	close(entry.ready)
	e.serve(key, entry, conn)
}

func (e *Endpoint) dialQUIC(addr net.Addr, want string, lane int) (*quic.Conn, error) {
	if addr == nil {
		var ok bool
		if addr, ok = e.cfg.Resolve(want); !ok {
			return nil, fmt.Errorf("%s is not a known member", want)
		}
	}
	conn, err := e.transport.Dial(e.ctx, addr, memberTLS(e.cfg.Credentials, want, lane), e.quicConf)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// Stats returns the statistics of the member's lane 0, if it is connected.
func (e *Endpoint) Stats(name string) (quic.ConnectionStats, bool) {
	e.mu.Lock()
	entry := e.conns[connKey{name, 0}]
	e.mu.Unlock()
	if entry == nil {
		return quic.ConnectionStats{}, false
	}
	select {
	case <-entry.ready:
	default:
		return quic.ConnectionStats{}, false
	}
	if entry.conn == nil {
		return quic.ConnectionStats{}, false
	}
	return entry.conn.ConnectionStats(), true
}

// Join dials addr as a host without a certificate and opens the join stream. The
// returned function closes the connection.
func Join(ctx context.Context, t *quic.Transport, addr net.Addr, conf *tls.Config) (*Stream, func(), error) {
	conn, err := t.Dial(ctx, addr, conf, &quic.Config{HandshakeIdleTimeout: 5 * time.Second, MaxIdleTimeout: 10 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	closeConn := func() { conn.CloseWithError(closeCode, "done") }
	qs, err := conn.OpenStreamSync(ctx)
	if err == nil {
		_, err = qs.Write([]byte{byte(StreamJoin)})
	}
	if err != nil {
		closeConn()
		return nil, nil, err
	}
	s := &Stream{Stream: qs, Peer: Peer{Addr: addr}, Local: conn.LocalAddr(), conn: conn}
	return s, closeConn, nil
}
